"""OAUTHBEARER's settings, Java's and librdkafka's, on their way to both libraries."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark import cloudpickle

from penstock import BrokerAccessError, ConfigError, StreamsConfig
from penstock.kafka.clients import admin_config, check_client_settings, group_admin_config, member_config, open_client
from penstock.kafka.member_tokens import MemberTokens
from penstock.kafka.oauth import token_source
from penstock.kafka.security import member_security, security_settings
from penstock.kafka.tokens import TokenSource
from tests.unit.kafka.test_tokens import jwt

BASE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
URL = "https://login.example/token"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.oauthbearer.client.id": "app",
    "sasl.oauthbearer.client.secret": "s3cret",
}


def config(**given: Any) -> StreamsConfig:
    return StreamsConfig({"application.id": "a", "bootstrap.servers": "127.0.0.1:1", **given})


def a_token() -> tuple[str, float]:
    return "one", time.time() + 60


class Tokens:
    def __call__(self) -> tuple[str, float]:
        return a_token()


class NeedsMore:
    def __init__(self, region: str) -> None:
        self.region = region


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (OIDC, {}),
        ({"sasl.jaas.config": f'{MODULE} clientId="app" clientSecret="s3cret";'}, {}),
        (
            {
                "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
                "OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.scope.claim.name": "scp",
                "sasl.oauthbearer.jwks.endpoint.url": "https://login.example/keys",
                "sasl.oauthbearer.expected.audience": "kafka",
                "sasl.login.connect.timeout.ms": 1000,
                "sasl.jaas.config": f'{MODULE} clientId="app" clientSecret="s3cret" scope="orders payments" '
                'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";',
            },
            {
                "sasl.oauthbearer.scope": "orders payments",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
            },
        ),
        (
            {
                "sasl.oauthbearer.client.credentials.client.id": "app",
                "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
                "sasl.oauthbearer.scope": "orders",
                "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer."
                "ClientCredentialsJwtRetriever",
                "sasl.oauthbearer.sub.claim.name": "azp",
                "sasl.jaas.config": f'{MODULE} clientId="other" clientSecret="other" scope="other";',
            },
            {"sasl.oauthbearer.scope": "orders", "sasl.oauthbearer.sub.claim.name": "azp"},
        ),
    ],
)
def test_should_translate_an_issuer(given: dict[str, Any], more: dict[str, Any]) -> None:
    found = security_settings({**BASE, "sasl.oauthbearer.token.endpoint.url": URL, **given})
    assert found == {**OIDC, **more}


def test_should_encode_what_java_encodes() -> None:
    given = {**OIDC, "sasl.oauthbearer.client.secret": "a b:c+", "sasl.oauthbearer.header.urlencode": "true"}
    assert security_settings(given)["sasl.oauthbearer.client.secret"] == "a+b%3Ac%2B"


@pytest.mark.parametrize("make", [member_config, group_admin_config])
def test_should_reach_the_group(make: Any) -> None:
    for given in (OIDC, {**BASE, "sasl.oauthbearer.token.provider": a_token}):
        found = make(config(**given), "client")
        assert found["sasl_mechanism"] == "OAUTHBEARER"
        assert isinstance(found["sasl_oauth_token_provider"], MemberTokens)
        assert "s3cret" not in repr({key: value for key, value in found.items() if key != "ssl_context"})


@pytest.mark.parametrize("given", [a_token, Tokens(), Tokens, "time:localtime", lambda: a_token()])
def test_should_take_a_provider_as_it_comes(given: Any) -> None:
    found = security_settings({**BASE, "sasl.oauthbearer.token.provider": given})
    assert found.keys() == {*BASE, "oauth_cb"}
    assert token_source(found) is found["oauth_cb"]
    assert isinstance(member_security(found)["sasl_oauth_token_provider"], MemberTokens)


def test_should_send_a_provider_to_the_threads() -> None:
    life = 60
    again = cloudpickle.loads(
        cloudpickle.dumps(config(**BASE, **{"sasl.oauthbearer.token.provider": lambda: ("one", time.time() + life)}))
    )
    assert admin_config(again, "client")["oauth_cb"].current().value == "one"


def test_should_read_a_token_from_a_file(tmp_path: Path) -> None:
    held = jwt(exp=time.time() + 60)
    (tmp_path / "token").write_text(held + "\n")
    given = {**BASE, "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri()}
    assert security_settings(given)["oauth_cb"].current().value == held
    (tmp_path / "token").unlink()
    with pytest.raises(BrokerAccessError, match=f"Reading the token file {tmp_path}/token failed"):
        security_settings(given)["oauth_cb"].current()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"needs sasl\.oauthbearer\.token\.endpoint\.url.*or sasl\.oauthbearer\.token\.provider"),
        ({"sasl.oauthbearer.token.endpoint.url": URL}, r"client\.id and sasl\.oauthbearer\.client\.secret must be set.*clientId"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, r"sasl\.oauthbearer\.client\.secret must be set"),
        ({**OIDC, "sasl.oauthbearer.token.endpoint.url": "login"}, "expected https://host/path"),
        ({**OIDC, "sasl.oauthbearer.token.provider": a_token}, "both set"),
        ({**OIDC, "sasl.oauthbearer.extensions": "a-b=c"}, r"sasl\.oauthbearer\.extensions.*letters"),
        ({**OIDC, "https.ca.location": "/nowhere.pem"}, r"https\.ca\.location"),
        ({**OIDC, "https.ca.location": "/a", "https.ca.pem": "b"}, "both set"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, r"grant\.type.*provider"),
        ({**OIDC, "sasl.oauthbearer.assertion.file": "/a"}, r"assertion\.file.*provider"),
        ({**OIDC, "sasl.oauthbearer.metadata.authentication.type": "azure_imds"}, r"authentication\.type.*provider"),
        ({**OIDC, "sasl.oauthbearer.jwt.retriever.class": "org.acme.Tokens"}, r"org\.acme\.Tokens.*Java class"),
        ({**OIDC, "sasl.login.callback.handler.class": "org.acme.Tokens"}, "Java class.*provider"),
        ({"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="me";'}, "unsecured tokens, which prove nothing"),
        ({**OIDC, "sasl.jaas.config": f'{MODULE} ssl.keystore.location="/k.pem";'}, "certificate for the token endpoint"),
        ({**OIDC, "sasl.jaas.config": f'{MODULE} ssl.truststore.location="/t.jks";'}, r"not a PEM file. Set https\.ca"),
        ({**OIDC, "sasl.jaas.config": f'{MODULE} extension_a="b,c";'}, "comma"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, r"OAUTHBEARER and sasl\.oauthbearer\.token\.provider.*aws-msk-iam-sasl-signer"),
        ({"sasl.oauthbearer.token.provider": "nowhere.tokens:token"}, r"cannot import 'nowhere\.tokens:token'.*function"),
        ({"sasl.oauthbearer.token.provider": "tokens"}, r"cannot import 'tokens'"),
        ({"sasl.oauthbearer.token.provider": NeedsMore}, "cannot be made without arguments"),
        ({"sasl.oauthbearer.token.provider": {"a": 1}}, "dict cannot be called"),
    ],
)
def test_should_refuse_what_cannot_work_before_anything_starts(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_client_settings(config(**{**BASE, **given}))
    assert "s3cret" not in str(caught.value)


def test_should_need_no_token_without_a_login() -> None:
    given = {**OIDC, "security.protocol": "SSL"}
    assert token_source(security_settings(given)) is None


def test_should_name_the_provider_that_gives_no_token() -> None:
    def sealed() -> str:
        raise RuntimeError("the vault is sealed")

    settings = admin_config(config(**BASE, **{"sasl.oauthbearer.token.provider": sealed}), "client")
    with pytest.raises(
        BrokerAccessError, match=r"Getting a token from the token provider tests\.unit\.kafka\.test_oauth\..*sealed failed.*vault"
    ):
        open_client("admin client", AdminClient, settings)


def test_should_hand_its_tokens_to_librdkafka() -> None:
    asked: list[float] = []

    def counted() -> tuple[str, float]:
        asked.append(time.time())
        return a_token()

    settings = admin_config(config(**BASE, **{"sasl.oauthbearer.token.provider": counted}), "client")
    assert isinstance(settings["oauth_cb"], TokenSource)
    open_client("admin client", AdminClient, {**settings, "log_level": 0})
    assert len(asked) == 1  # the client got the one that was asked for before


def test_should_hide_where_tokens_come_from_in_a_configuration() -> None:
    shown = repr(config(**OIDC, **{"sasl.jaas.config": f'{MODULE} clientSecret="s3cret";'}))
    assert "s3cret" not in shown
