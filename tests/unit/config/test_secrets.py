from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer

from penstock.config.clients import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from penstock.config.keys import KEYS
from penstock.config.secrets import MASK, is_secret, shown, without_secrets
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError
from penstock.kafka.clients import open_client


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "consumer.sasl.jaas.config",
        "ssl.key.password",
        "consumer.ssl.keystore.key",
        "admin.ssl.key.pem",
        "application.server.token",
        "application.server.ssl.key.password",
        "basic.auth.user.info",
        "schema.registry.basic.auth.credentials",
        "spark.authenticate.secret",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.config",
        # names that only the user knows
        "payment.api.key",
        "PAYMENT_APIKEY",
        "signingKey",
        "my.encryption.keys",
        "my.secrets",
        "refreshToken",
        "client.assertion",
        "db.pwd",
        "db.pass",
        "http.authorization",
        "session.cookie",
        "client.tag.key",
    ],
)
def test_should_take_a_name_that_speaks_of_a_secret_for_one(key: str) -> None:
    assert is_secret(key)
    assert "s3cret" not in repr(StreamsConfig.partial({key: "s3cret"}))


KNOWN_SECRETS = {"application.server.token", "application.server.ssl.key.password"}


@pytest.mark.parametrize("key", sorted(KNOWN_SECRETS))
def test_should_hide_what_is_known_and_secret(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        *sorted((set(KEYS) | CONSUMER_KEYS | PRODUCER_KEYS | ADMIN_KEYS) - KNOWN_SECRETS),
        "producer.key.serializer",
        "consumer.key.deserializer",
        "producer.partitioner.ignore.keys",
        "ssl.key.location",
        "main.consumer.ssl.keystore.location",
        "sasl.kerberos.keytab",
        "sasl.username",
        "sasl.oauthbearer.token.endpoint.url",
        "config.providers.secrets.class",
        "topic.cleanup.policy",
        "spark.master",
    ],
)
def test_should_show_what_is_known_and_harmless(key: str) -> None:
    assert not is_secret(key)


def test_should_hide_secrets_inside_of_values() -> None:
    assert shown("schema.registry.url", ["https://me:s3cret@one:8081", "https://two"]) == [
        "https://[hidden]@one:8081",
        "https://two",
    ]
    assert shown("proxy", "http://host:80/a@b") == "http://host:80/a@b"
    assert shown("services", {"mail": {"password": "s3cret", "port": 25}, 1: 2}) == {"mail": {"password": MASK, "port": 25}, 1: 2}


def test_should_take_the_values_of_secrets_out_of_what_others_say() -> None:
    said = 'Invalid value "s3cret-and-more" or "s3cret" for a, ab'
    assert without_secrets(said, {"my.key": "s3cret", "your.key": "s3cret-and-more", "short.key": "a", "poll.ms": "for"}) == (
        f'Invalid value "{MASK}" or "{MASK}" for a, ab'
    )


def test_should_not_tell_a_secret_where_a_client_cannot_be_opened() -> None:
    with pytest.raises(ConfigError) as caught:
        open_client("consumer", Consumer, {"group.id": "g", "security.protocol": "ssl", "ssl.key.pem": "s3cret-pem"})
    assert "cannot be opened" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_should_not_tell_what_stands_around_a_reference_that_leads_nowhere() -> None:
    providers = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: \$\{env:NO_SUCH\} stands for no value") as caught:
        StreamsConfig.partial({**providers, "sasl.jaas.config": 'password="s3cret" username="${env:NO_SUCH}"'})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.oauthbearer.token.endpoint.url", "https://idp.example/token?api_key=SECRET&tenant=shop"),
        ("schema.registry.url", "https://SECRET@registry.example"),
        ("schema.registry.url", ["https://SECRET@registry.example"]),
        ("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:mysql://db/meta?user=u&password=SECRET"),
        ("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:sqlserver://db;user=u;password=SECRET;encrypt=true"),
        ("spark.driver.extraJavaOptions", "-Xmx1g -Djavax.net.ssl.keyStorePassword=SECRET -Da=b"),
        ("spark.executor.extraJavaOptions", '"-Djavax.net.ssl.trustStorePassword=SECRET"'),
        ("spark.driver.extraJavaOptions", "-Dtoken='SECRET more'"),
        ("blob.url", "https://shop.example/c?sv=2024&sig=SECRET"),
    ],
)
def test_should_hide_secrets_within_a_value(key: str, value: Any) -> None:
    assert "SECRET" not in str(shown(key, value))
    assert MASK in str(shown(key, value))
    config = StreamsConfig.partial({key: value})
    assert "SECRET" not in repr(config)


@pytest.mark.parametrize(
    "value",
    [
        "-Xmx1g -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile=file:/x",
        "https://host/?user=me&page=2",
        "a=b",
        "x" * 100_000,
        "=" * 100,
    ],
)
def test_should_leave_other_values_as_they_are(value: str) -> None:
    assert shown("spark.driver.extraJavaOptions", value) == value
