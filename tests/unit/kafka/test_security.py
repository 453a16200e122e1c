"""Java's security settings, as librdkafka and kafka-python take them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, StreamsConfig
from penstock.kafka.clients import (
    admin_config,
    check_client_settings,
    consumer_config,
    global_consumer_config,
    group_admin_config,
    member_config,
    producer_config,
    restore_consumer_config,
)
from penstock.kafka.security import member_security, security_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}


def config(**given: Any) -> StreamsConfig:
    return StreamsConfig({"application.id": "a", "bootstrap.servers": "b:1", **given})


@pytest.mark.parametrize(
    "make", [consumer_config, restore_consumer_config, global_consumer_config, producer_config, admin_config]
)
def test_should_reach_every_client_of_librdkafka(make: Any) -> None:
    found = make(config(**SASL, **{"ssl.ca.location": "/ca.pem"}), "client")
    assert found["security.protocol"] == "SASL_SSL"
    assert (found["sasl.mechanism"], found["sasl.username"], found["sasl.password"]) == ("PLAIN", "u", "p")
    assert found["ssl.ca.location"] == "/ca.pem"


@pytest.mark.parametrize("make", [member_config, group_admin_config])
def test_should_reach_the_group(make: Any) -> None:
    found = make(config(**SASL), "client")
    assert found["security_protocol"] == "SASL_SSL"
    assert (found["sasl_mechanism"], found["sasl_plain_username"], found["sasl_plain_password"]) == ("PLAIN", "u", "p")
    assert isinstance(found["ssl_context"], ssl.SSLContext)


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        (f'{PLAIN} username="me" password="secret";', "me", "secret"),
        (f'{PLAIN} password="a\\"b;c=d" username = "me" ;', "me", 'a"b;c=d'),
        (f"{PLAIN} username=me password=secret;", "me", "secret"),
        (f'{PLAIN} username="me"\n  password="two words" user_x="y";', "me", "two words"),
    ],
)
def test_should_read_user_and_password_out_of_jaas(jaas: str, user: str, password: str) -> None:
    found = security_settings({"sasl.jaas.config": jaas, "sasl.mechanism": "SCRAM-SHA-512", "security.protocol": "SASL_SSL"})
    assert (found["sasl.username"], found["sasl.password"]) == (user, password)
    assert "sasl.jaas.config" not in found


def test_should_refuse_what_cannot_be_translated() -> None:
    kerberos = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"
    for given, message in (
        ({"sasl.jaas.config": kerberos}, r"sasl\.kerberos\.keytab"),
        ({"security.protocol": "SASL_SSL"}, r"sasl\.mechanism is not set"),
        ({**SASL, "sasl.mechanism": "DIGEST-MD5"}, r"'DIGEST-MD5' is not supported.*PLAIN, SCRAM"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, r"sasl\.password must be set"),
        ({"ssl.engine.factory.class": "org.acme.Engine"}, r"ssl\.engine\.factory\.class.*Java class"),
        ({"sasl.login.callback.handler.class": "org.acme.Login"}, "Java class"),
        ({"ssl.truststore.location": "/etc/trust.jks"}, r"JKS store.*keytool.*openssl pkcs12.*ssl\.ca\.location"),
        ({"ssl.keystore.location": "/etc/key.p12"}, r"PKCS12 store.*openssl pkcs12.*ssl\.key\.location"),
        ({"ssl.keystore.location": "/etc/key", "ssl.keystore.type": "jks"}, "JKS store"),
    ):
        with pytest.raises(ConfigError, match=message):
            security_settings(given)


def test_should_know_a_store_by_what_it_begins_with(tmp_path: Path) -> None:
    for begin, kind in ((b"\xfe\xed\xfe\xed\0\0\0\2", "JKS"), (b"\x30\x82\x09\x00", "PKCS12")):
        store = tmp_path / kind
        store.write_bytes(begin)
        with pytest.raises(ConfigError, match=f"{kind} store"):
            security_settings({"ssl.truststore.location": str(store)})
    pem = tmp_path / "store"
    pem.write_text("Bag Attributes\n-----BEGIN CERTIFICATE-----\n")
    found = security_settings({"ssl.truststore.location": pem, "ssl.keystore.location": pem, "ssl.keystore.password": "x"})
    assert found == {
        "ssl.ca.location": str(pem),
        "ssl.certificate.location": str(pem),
        "ssl.key.location": str(pem),
        "ssl.key.password": "x",
    }


def test_should_not_tell_a_secret_in_an_error() -> None:
    for given in (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": "s3cret"},
        {"sasl.jaas.config": 'Krb5LoginModule required password="s3cret";'},
        {"ssl.keystore.location": "/k.jks", "ssl.keystore.password": "s3cret"},
    ):
        with pytest.raises(ConfigError) as caught:
            security_settings(given)
        assert "s3cret" not in str(caught.value)


def test_should_turn_off_the_check_of_names_as_java_does() -> None:
    given = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    found = security_settings(given)
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    context = member_security(found)["ssl_context"]
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    trusting = member_security({**found, "enable.ssl.certificate.verification": "false"})["ssl_context"]
    assert trusting.verify_mode == ssl.CERT_NONE
    assert member_security(security_settings({"security.protocol": "SSL"}))["ssl_context"].check_hostname


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with the openssl command")
def test_should_take_certificates_as_text(tmp_path: Path) -> None:
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "1"]
    subprocess.run([*new, "-keyout", "k.pem", "-out", "c.pem"], cwd=tmp_path, check=True, capture_output=True)
    certificate, key = (tmp_path / "c.pem").read_text(), (tmp_path / "k.pem").read_text()
    as_in_java = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificate,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }
    found = security_settings(as_in_java)
    assert found == {
        "security.protocol": "SSL",
        "ssl.ca.pem": certificate,
        "ssl.certificate.pem": certificate,
        "ssl.key.pem": key,
    }
    assert len(member_security(found)["ssl_context"].get_ca_certs()) == 1


def test_should_say_which_certificate_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for given, message in (
        ({"ssl.ca.location": str(tmp_path / "ca.pem")}, r"ssl\.ca\.location"),
        ({"ssl.certificate.location": str(tmp_path / "missing.pem")}, r"ssl\.certificate\.location"),
    ):
        with pytest.raises(ConfigError, match=message):
            member_security({"security.protocol": "SSL", **given})


def test_should_check_all_clients_before_anything_starts() -> None:
    check_client_settings(config(**SASL))
    for prefix in ("consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.", "admin."):
        with pytest.raises(ConfigError, match="JKS"):
            check_client_settings(config(**{f"{prefix}ssl.truststore.location": "/t.jks"}))
