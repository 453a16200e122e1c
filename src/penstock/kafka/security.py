"""Java's security settings, for librdkafka and kafka-python.

    security.protocol, sasl.*, ssl.* (Java's or librdkafka's names)
        ──► `security_settings`   librdkafka's names: fetch, produce, restore, global tables, admin
        ──► `member_security`     kafka-python's names: the group's member and the group's administration

Settings that neither library supports (Java plug-in classes, JKS and PKCS#12 stores) are refused with an alternative. No
protecting setting is ignored silently. No message contains a secret. For tokens see `kafka/oauth.py`.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.kafka.oauth import OAUTHBEARER, PROVIDER, is_done_here, oauth_settings, token_source

_RENAMED = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}

# Settings that load Java classes. Ignoring them would weaken authentication.
_PLUG_INS = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "ssl.engine.factory.class",
    "security.providers",
)

# Settings of Java's own TLS and login code without a counterpart in OpenSSL.
_WITHOUT_MEANING = frozenset(
    {
        "sasl.jaas.config", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.location", "ssl.keystore.type",
        "ssl.keystore.location", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols", "ssl.provider",
        "ssl.trustmanager.algorithm", "ssl.keymanager.algorithm", "ssl.secure.random.implementation",
        "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
    }
)  # fmt: skip

_WIRE_LOGGERS = (
    "kafka.admin.client",
    "kafka.net.connection",
    "kafka.net.transport",
    "kafka.net.sasl.oauth",
    "kafka.net.sasl.plain",
    "kafka.net.sasl.scram",
    "kafka.protocol.parser",
)
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", OAUTHBEARER)
_JAAS_OPTION = re.compile(r'([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


def is_security(key: str) -> bool:
    return key.startswith(("sasl.", "ssl.", "https.", "enable.ssl.")) or key in ("security.protocol", "security.providers")


def security_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the security settings with librdkafka's names. Raises ConfigError for unsupported settings."""
    mechanism = str(given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "").upper()
    if mechanism == "AWS_MSK_IAM":
        raise ConfigError(
            f"sasl.mechanism = {mechanism} is a Java library's. Set sasl.mechanism = {OAUTHBEARER} and {PROVIDER} to a function "
            "that signs tokens with aws-msk-iam-sasl-signer-python"
        )
    for key in _PLUG_INS:
        if given.get(key) and not (mechanism == OAUTHBEARER and is_done_here(key, given[key])):
            instead = f"remove it, or set {PROVIDER}" if mechanism == OAUTHBEARER else "remove it"
            raise ConfigError(
                f"{key} names a Java class, which neither librdkafka nor kafka-python can load. {instead.capitalize()}"
            )
    found = {
        _RENAMED.get(key, key): value
        for key, value in given.items()
        if is_security(key)
        and not key.startswith(("sasl.oauthbearer.", "https."))  # tokens are handled below
        and key not in (*_PLUG_INS, *_WITHOUT_MEANING)
    }
    if "security.protocol" in found:
        found["security.protocol"] = str(found["security.protocol"]).upper()
    found |= _stores(given)
    jaas = _jaas_options(str(given.get("sasl.jaas.config") or ""))
    with_login = str(found.get("security.protocol", "")).startswith("SASL_")
    if mechanism == OAUTHBEARER:
        found |= oauth_settings(given, jaas) if with_login else {}
    elif "sasl.jaas.config" in given:
        found |= _from_jaas(jaas)
    if found.get("ssl.endpoint.identification.algorithm") in ("", None):
        found.pop("ssl.endpoint.identification.algorithm", None)
        if "ssl.endpoint.identification.algorithm" in given:
            found["ssl.endpoint.identification.algorithm"] = "none"  # Java's value for "none"
    if with_login:
        _check_sasl(found)
    return found


def member_security(translated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the security settings with kafka-python's names."""
    names = {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    }
    found = {name: translated[key] for key, name in names.items() if key in translated}
    tokens = token_source(translated)
    if tokens is not None:
        from penstock.kafka.member_tokens import MemberTokens  # threads translate settings too, but need no kafka-python

        found["sasl_oauth_token_provider"] = MemberTokens(tokens)
    if tokens is not None or "sasl_plain_password" in found:
        _keep_logins_out_of_the_log()
    if str(found.get("security_protocol", "")) in ("SSL", "SASL_SSL"):
        found["ssl_context"] = _ssl_context(translated)
    return found


def _keep_logins_out_of_the_log() -> None:
    """Hide kafka-python's DEBUG messages, which contain its settings and requests with passwords."""
    for name in _WIRE_LOGGERS:
        logger = logging.getLogger(name)
        if _above_debug not in logger.filters:
            logger.addFilter(_above_debug)


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _check_sasl(found: dict[str, Any]) -> None:
    mechanism = str(found.get("sasl.mechanism", "")).upper()
    if mechanism not in _MECHANISMS:
        given = f"sasl.mechanism = {mechanism!r} is not supported" if mechanism else "sasl.mechanism is not set"
        raise ConfigError(
            f"{given}: security.protocol = {found['security.protocol']} needs one of {', '.join(_MECHANISMS)}, which both "
            "librdkafka and kafka-python support"
        )
    found["sasl.mechanism"] = mechanism
    missing = [key for key in ("sasl.username", "sasl.password") if not found.get(key)]
    if mechanism not in ("GSSAPI", OAUTHBEARER) and missing:
        raise ConfigError(f"{' and '.join(missing)} must be set for sasl.mechanism = {mechanism}, or both in sasl.jaas.config")


def _jaas_options(text: str) -> dict[str, str]:
    return {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _JAAS_OPTION.findall(text)}


def _from_jaas(options: Mapping[str, str]) -> dict[str, str]:
    if not {"username", "password"} <= options.keys():
        raise ConfigError(
            "sasl.jaas.config needs a username and a password (PLAIN and SCRAM), or a clientId and a "
            "clientSecret (OAUTHBEARER). For Kerberos set sasl.kerberos.service.name, sasl.kerberos.principal and "
            "sasl.kerberos.keytab"
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


# -- certificates ------------------------------------------------------------------------------------------------------


def _stores(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for Java's PEM trust store and key store. The key store file has the key and its certificates."""
    found: dict[str, Any] = {}
    if given.get("ssl.truststore.location"):
        found["ssl.ca.location"] = _pem_file(given, "ssl.truststore", "ssl.ca.location")
    if given.get("ssl.keystore.location"):
        location = _pem_file(given, "ssl.keystore", "ssl.certificate.location and ssl.key.location")
        found |= {"ssl.certificate.location": location, "ssl.key.location": location}
        if given.get("ssl.keystore.password") and not given.get("ssl.key.password"):
            found["ssl.key.password"] = given["ssl.keystore.password"]
    return found


def _pem_file(given: Mapping[str, Any], store: str, instead: str) -> str:
    location = os.fspath(given[f"{store}.location"])
    kind = _kind_of(location, given.get(f"{store}.type"))
    if kind == "PEM":
        return str(location)
    to_pem = f"openssl pkcs12 -in store.p12 -out store.pem {'-nokeys' if store == 'ssl.truststore' else ''}".rstrip()
    first = (
        "keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 -deststoretype PKCS12, then "
        if kind == "JKS"
        else ""
    )
    raise ConfigError(
        f"{store}.location = {location!r} is a {kind} store, but the clients read PEM files. Convert it ({first}{to_pem}) and "
        f"set {instead}, or {store}.location with {store}.type = PEM"
    )


def _kind_of(location: str, told: Any) -> str:
    """Return the kind of a store, by the file's first bytes, its ending, or the configured type."""
    try:
        with Path(location).open("rb") as file:
            begin = file.read(4096)
    except OSError:
        begin = b""
    if b"-----BEGIN " in begin:
        return "PEM"
    if begin.startswith(b"\xfe\xed\xfe\xed") or location.endswith(".jks"):
        return "JKS"
    if begin.startswith(b"\x30") or location.endswith((".p12", ".pfx", ".pkcs12")):
        return "PKCS12"
    return str(told).upper() if told else "PEM"


def _ssl_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context that librdkafka would use for these settings."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    doing = "ssl.ca.location"
    try:
        if settings.get("ssl.ca.location") or settings.get("ssl.ca.pem"):
            location = str(settings.get("ssl.ca.location") or "")
            folder = bool(location) and Path(location).is_dir()
            context.load_verify_locations(
                None if folder else location or None, location if folder else None, settings.get("ssl.ca.pem") or None
            )
        else:
            context.load_default_certs()
        doing = "ssl.certificate.location and ssl.key.location"
        _load_certificate(context, settings)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise ConfigError(f"{doing}: the certificates cannot be loaded ({exc}). Check the files and ssl.key.password") from exc
    return context


def _load_certificate(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    password = settings.get("ssl.key.password") or ""  # an empty password, so that no terminal prompt appears
    if settings.get("ssl.certificate.location"):
        context.load_cert_chain(settings["ssl.certificate.location"], settings.get("ssl.key.location"), password)
    elif settings.get("ssl.certificate.pem"):
        # Python loads a key only from a file. This one is readable by this user alone and deleted at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{settings.get('ssl.key.pem', '')}\n{settings['ssl.certificate.pem']}\n")
            file.flush()
            context.load_cert_chain(file.name, None, password)
