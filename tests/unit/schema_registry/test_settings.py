"""The registry's settings: Java's names, whoever gives them."""

from __future__ import annotations

import warnings

import pytest

from penstock import ConfigError, StreamsConfig
from penstock.config.secrets import is_secret
from penstock.schema_registry.settings import of_application, parse

URL = {"schema.registry.url": "https://registry:8081"}


def test_should_take_the_prefixed_and_the_plain_names():
    found = parse({**URL, "schema.registry.basic.auth.user.info": "me:x", "ssl.ca.location": "/ca.pem", "timeout": "5"}, False)
    assert found.client == {
        "url": "https://registry:8081",
        "basic.auth.user.info": "me:x",
        "ssl.ca.location": "/ca.pem",
        "timeout": 5.0,
    }


@pytest.mark.parametrize(
    ("given", "login"),
    [
        ({"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "me:x"}, "me:x"),
        ({"basic.auth.credentials.source": "SASL_INHERIT", "sasl.username": "me", "sasl.password": "x"}, "me:x"),
        (
            {
                "basic.auth.credentials.source": "SASL_INHERIT",
                "sasl.jaas.config": "org.apache.kafka…PlainLoginModule required username=\"me\" password='x';",
            },
            "me:x",
        ),
        ({"basic.auth.credentials.source": "URL"}, None),
    ],
)
def test_should_find_the_login(given, login):
    client = parse({**URL, **given}, False).client
    assert client.get("basic.auth.user.info") == login
    assert not [key for key in client if key.startswith("sasl")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"no Schema Registry"),
        ({**URL, "basic.auth.credentials.source": "USER_INFO"}, r"needs basic\.auth\.user\.info"),
        ({**URL, "basic.auth.credentials.source": "SASL_INHERIT"}, r"needs sasl\.username"),
        ({**URL, "basic.auth.credentials.source": "MAGIC"}, "expected URL, USER_INFO or SASL_INHERIT"),
        ({**URL, "ssl.truststore.location": "/t.jks"}, r"export it as PEM .* or schema\.registry\.ssl\.ca\.location"),
        ({**URL, "auto.register.schemas": "maybe"}, "expected true or false"),
        ({**URL, "schema.id.serializer": "tail"}, "expected prefix or header"),
        ({**URL, "timeout": "soon"}, "expected a number"),
    ],
)
def test_should_say_what_is_wrong(given, said):
    with pytest.raises(ConfigError, match=said):
        parse(given, False)


def test_should_take_javas_stores_in_pem():
    tls = {"ssl.truststore.location": "/t.pem", "ssl.truststore.type": "PEM", "ssl.keystore.location": "/k.pem"}
    tls |= {"ssl.keystore.type": "PEM", "ssl.key.password": "x"}
    client = parse({**URL, **{f"schema.registry.{key}": value for key, value in tls.items()}}, False).client
    assert client["ssl.ca.location"] == "/t.pem"
    assert client["ssl.certificate.location"] == client["ssl.key.location"] == "/k.pem"


def test_should_leave_the_brokers_settings_alone():
    application = {
        **URL,
        "application.id": "a",
        "ssl.ca.location": "/brokers.pem",
        "sasl.password": "x",
        "schema.registry.ssl.ca.location": "/registry.pem",
        "basic.auth.user.info": "me:x",
    }
    assert of_application(application) == {
        **URL,
        "schema.registry.ssl.ca.location": "/registry.pem",
        "basic.auth.user.info": "me:x",
    }


def test_should_know_the_registrys_settings_in_an_application():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = StreamsConfig(
            {
                **URL,
                "application.id": "a",
                "bootstrap.servers": "localhost:9092",
                "basic.auth.user.info": "me:letmein",
                "basic.auth.credentials.source": "USER_INFO",
                "auto.register.schemas": "false",
            }
        )
    assert "letmein" not in repr(config)
    assert "USER_INFO" in repr(config)
    assert is_secret("schema.registry.ssl.key.password")
