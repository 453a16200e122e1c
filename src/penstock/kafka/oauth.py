"""SASL/OAUTHBEARER: the source of tokens, from Java's or librdkafka's settings.

sasl.oauthbearer.token.provider                 a user function: a `TokenSource` for librdkafka and kafka-python
sasl.oauthbearer.token.endpoint.url = https:…   an issuer: librdkafka's own OIDC, and a `TokenSource` for the group's member,
                                                which is also used before a librdkafka client is opened
                                    = file:…    a file with a token: a `TokenSource`
"""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import BrokerAccessError, ConfigError
from penstock.import_paths import imported_for, instance_for
from penstock.kafka.oidc import check_endpoint, https_context, issuer_of, source_of
from penstock.kafka.tokens import EXPECTED, Provider, TokenSource, checked_extensions

OAUTHBEARER = "OAUTHBEARER"
PROVIDER = "sasl.oauthbearer.token.provider"
CALLBACK = "oauth_cb"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_ALLOWED = (
    f"expected a function without arguments that returns {EXPECTED}, its import path, or a class whose objects are called so"
)

_RENAMED = {
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_OF_THE_ISSUER = (
    _ENDPOINT, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions", "sasl.oauthbearer.sub.claim.name", "https.ca.location", "https.ca.pem",
)  # fmt: skip
_FROM_JAAS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
    "ssl.truststore.location": "https.ca.location",
    "ssl.truststore.certificates": "https.ca.pem",
}
# Java classes whose function is built in. Only the last part of the name counts: their packages have changed.
_KNOWN_CLASSES = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"),
    "sasl.oauthbearer.jwt.validator.class": ("DefaultJwtValidator", "ClientJwtValidator"),
}
# Other ways to get a token, which only librdkafka supports, and their values for "not used".
_OTHER_WAYS = {
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.metadata.authentication.type": "none",
    "sasl.oauthbearer.config": "",
}
_ASSERTION_PREFIX = "sasl.oauthbearer.assertion."


def is_done_here(key: str, value: Any) -> bool:
    """Return True if a setting names a Java class whose function is built in."""
    return str(value).rpartition(".")[2] in _KNOWN_CLASSES.get(key, ())


def oauth_settings(given: Mapping[str, Any], jaas: Mapping[str, str]) -> dict[str, Any]:
    """Return OAUTHBEARER's settings with librdkafka's names, and a `TokenSource` as `oauth_cb` if one is needed.

    A client's settings take precedence over JAAS options, as in Java.
    """
    settings = {**_from_jaas(jaas), **{_RENAMED.get(key, key): value for key, value in given.items() if value is not None}}
    provider, endpoint = settings.get(PROVIDER), str(settings.get(_ENDPOINT) or "")
    if provider and endpoint:
        raise ConfigError(f"{PROVIDER} and {_ENDPOINT} are both set. Remove one of them")
    if provider:
        return {CALLBACK: TokenSource(*_resolved(provider))}
    _refuse_other_ways(given, jaas)
    if not endpoint:
        raise ConfigError(
            f"sasl.mechanism = {OAUTHBEARER} needs {_ENDPOINT}, with the client's id and secret, or {PROVIDER}: {_ALLOWED}"
        )
    if endpoint.lower().startswith("file:"):
        path = urllib.request.url2pathname(urllib.parse.urlsplit(endpoint).path)
        return {CALLBACK: TokenSource(f"the file {path}", _from_file(path))}
    return _of_the_issuer(settings, endpoint)


def token_source(settings: Mapping[str, Any]) -> TokenSource | None:
    """Return the token source for librdkafka settings, or None if the client needs no token."""
    source = settings.get(CALLBACK)
    if isinstance(source, TokenSource):
        return source
    return source_of(issuer_of(settings)) if settings.get("sasl.oauthbearer.method") == "oidc" else None


def _of_the_issuer(settings: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
    check_endpoint(endpoint)
    found = {key: settings[key] for key in _OF_THE_ISSUER if settings.get(key)}
    names = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigError(
            f"{' and '.join(missing)} must be set for {_ENDPOINT}. Set them, or clientId and clientSecret in sasl.jaas.config"
        )
    if str(settings.get("sasl.oauthbearer.header.urlencode", "false")).lower() == "true":
        found |= {name: urllib.parse.quote_plus(str(found[name])) for name in names}
    issuer = issuer_of(found)
    try:
        checked_extensions(dict(issuer.extensions))
    except ValueError as exc:
        raise ConfigError(f"sasl.oauthbearer.extensions is not allowed: {exc}; expected name=value,name=value") from None
    if issuer.ca_location and issuer.ca_pem:
        raise ConfigError("https.ca.location and https.ca.pem are both set. Remove one of them")
    https_context(issuer.ca_location, issuer.ca_pem)
    return {**found, "sasl.oauthbearer.method": "oidc"}


def _refuse_other_ways(given: Mapping[str, Any], jaas: Mapping[str, str]) -> None:
    for key, value in given.items():
        if not value or not key.startswith("sasl.oauthbearer."):
            continue
        if key in _KNOWN_CLASSES and not is_done_here(key, value):
            raise ConfigError(f"{key} = {value!r} is a Java class, which penstock cannot load. Remove it, or set {PROVIDER}")
        if key.startswith(_ASSERTION_PREFIX) or (key in _OTHER_WAYS and str(value).lower() != _OTHER_WAYS[key]):
            raise ConfigError(
                f"{key} is not supported: penstock gets tokens by client credentials. For another way set {PROVIDER}"
            )
    if any(name.startswith("unsecured") for name in jaas):
        raise ConfigError(f"sasl.jaas.config has unsecured tokens, which prove nothing. Set {_ENDPOINT} or {PROVIDER}")
    if any(name.startswith("ssl.keystore.") for name in jaas):
        raise ConfigError(f"sasl.jaas.config: a client certificate for the token endpoint is not supported. Set {PROVIDER}")


def _from_jaas(options: Mapping[str, str]) -> dict[str, str]:
    found = {_FROM_JAAS[name]: value for name, value in options.items() if name in _FROM_JAAS and value}
    extensions = {name[len("extension_") :]: value for name, value in options.items() if name.startswith("extension_")}
    for name, value in extensions.items():
        if "," in value:
            raise ConfigError(
                f"sasl.jaas.config: extension_{name} contains a comma, which librdkafka reads as a separator. Remove it"
            )
    if extensions:
        found["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    location = found.get("https.ca.location")
    if location and re.search(r"\.(jks|p12|pfx|pkcs12)$", location):
        raise ConfigError(f"sasl.jaas.config: ssl.truststore.location = {location!r} is not a PEM file. Set https.ca.location")
    return found


def _resolved(given: Any) -> tuple[str, Provider]:
    """Return the provider, and its name for errors."""
    provider = imported_for(PROVIDER, given, _ALLOWED) if isinstance(given, str) else given
    described = given if isinstance(given, str) else _name_of(provider)
    provider = instance_for(PROVIDER, provider, _ALLOWED)
    if not callable(provider):
        raise ConfigError(f"{PROVIDER}: {described} cannot be called; {_ALLOWED}")
    return f"the token provider {described}", provider


def _name_of(provider: Any) -> str:
    named = provider if hasattr(provider, "__qualname__") else type(provider)
    return f"{named.__module__}.{named.__qualname__}"


def _from_file(path: str) -> Callable[[], str]:
    def read() -> str:
        try:
            with Path(path).open("rb") as file:
                return file.read(1 << 20).decode("ascii").strip()
        except (OSError, ValueError) as exc:
            raise BrokerAccessError(f"Reading the token file {path} failed: {exc}") from None

    return read
