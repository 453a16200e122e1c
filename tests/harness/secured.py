"""Brokers that do not let everybody in: SASL/PLAIN with rights, tokens of an issuer, and TLS with certificates on both sides."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock import DevBroker

ADMIN_PASSWORD, APP_PASSWORD, KEY_PASSWORD = "adm1n-s3cret", "app-s3cret", "key-s3cret"

_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="{ADMIN_PASSWORD}" user_admin="{ADMIN_PASSWORD}" user_app="{APP_PASSWORD}";'
)

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def _listeners(protocol: str) -> dict[str, str]:
    return {
        "listeners": f"{protocol}://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}}",
        "advertised.listeners": f"{protocol}://127.0.0.1:{{port}}",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocol}:{protocol}",
        "inter.broker.listener.name": protocol,
    }


def sasl_broker() -> DevBroker:
    """Users `admin` and `app` of PLAIN; users of SCRAM can be added. Rights are granted unless an ACL says otherwise."""
    return DevBroker(
        overrides={
            **_listeners("SASL_PLAINTEXT"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }
    )


def oauth_broker(keys_url: str) -> DevBroker:
    """Takes tokens that are signed with the issuer's key, until they expire; user `admin` of PLAIN.

    Its Java must be allowed to ask the issuer: see `oauth_options`.
    """
    oauth = "listener.name.sasl_plaintext.oauthbearer"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return DevBroker(
        overrides={
            **_listeners("SASL_PLAINTEXT"),
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
            f"{oauth}.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            f"{oauth}.sasl.server.callback.handler.class": handler,
            f"{oauth}.connections.max.reauth.ms": "3600000",
            "sasl.oauthbearer.jwks.endpoint.url": keys_url,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "penstock-tests",
            "sasl.oauthbearer.clock.skew.seconds": "1",  # 30 would let tokens in that have expired
        }
    )


def oauth_options(keys_url: str) -> str:
    """The options of a broker's Java (KAFKA_OPTS) that let it ask the issuer for its keys."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys_url}"


def tls_broker(certificates: Certificates) -> DevBroker:
    """Talks TLS, and wants a certificate from its clients."""
    return DevBroker(
        overrides={
            **_listeners("SSL"),
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
        }
    )


class Certificates:
    """An authority of our own, with certificates for a broker and a client; made with the openssl command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = folder / "ca.pem"
        self._run(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=penstock tests", "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",  # Python 3.13 wants it
        )  # fmt: skip
        self.broker = self.issue("broker", None)
        self.client = self.issue("client", KEY_PASSWORD)
        self.client_certificate, self.client_key = folder / "client.crt", folder / "client.key"

    def issue(self, name: str, password: str | None, names: str = "IP:127.0.0.1,DNS:localhost", days: int = 2) -> Path:
        """A key and its certificate, in two files and together in `<name>.pem`; expired where the days are negative."""
        self._run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.raw", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (self._folder / "names.cnf").write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        self._run(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{name}.crt", "-days", str(days), "-extfile", "names.cnf",
        )  # fmt: skip
        secret = ["-nocrypt"] if password is None else ["-v2", "aes-256-cbc", "-passout", f"pass:{password}"]
        self._run("pkcs8", "-topk8", "-in", f"{name}.raw", "-out", f"{name}.key", *secret)
        store = self._folder / f"{name}.pem"
        store.write_text((self._folder / f"{name}.key").read_text() + (self._folder / f"{name}.crt").read_text())
        return store

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)
