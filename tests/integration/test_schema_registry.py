"""The registry's serdes on a real server, where one is named: PENSTOCK_SCHEMA_REGISTRY=http://host:port[/path].

Apicurio 2.6 from Maven Central serves (`/apis/ccompat/v7`), and so should any that speaks Confluent's API.
"""

from __future__ import annotations

import os
import uuid

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from penstock.schema_registry import AvroSerde, JsonSchemaSerde, ProtobufSerde
from tests.harness.protobuf_messages import MESSAGES

URL = os.environ.get("PENSTOCK_SCHEMA_REGISTRY")
pytestmark = [pytest.mark.integration, pytest.mark.skipif(not URL, reason="PENSTOCK_SCHEMA_REGISTRY names no registry")]
REGISTRY = {"schema.registry.url": URL}


@pytest.fixture
def topic() -> str:
    return f"penstock-{uuid.uuid4().hex[:12]}"


def _user(name: str, *more: dict) -> dict:
    return {"type": "record", "name": name, "fields": [{"name": "name", "type": "string"}, *more]}


def test_should_read_what_versions_before_and_after_wrote(topic):
    old = AvroSerde(_user("User"), REGISTRY)
    new = AvroSerde(_user("User", {"name": "country", "type": "string", "default": "de"}), REGISTRY)
    first, second = old.serializer(topic, {"name": "ann"}), new.serializer(topic, {"name": "bob", "country": "fr"})
    assert first[5:] == b"\x06ann"
    assert first[:5] != second[:5]
    assert new.deserializer(topic, first) == {"name": "ann", "country": "de"}
    assert old.deserializer(topic, second) == {"name": "bob"}
    assert AvroSerde(None, REGISTRY).serializer(topic, {"name": "bob", "country": "fr"}) == second


def test_should_write_equal_keys_as_equal_bytes_to_all_topics(topic):
    keys = AvroSerde('"string"', REGISTRY, is_key=True)
    assert keys.serializer(topic, "k") == keys.serializer(f"{topic}-other", "k")


def test_should_follow_references(topic):
    name = f"User{uuid.uuid4().hex[:8]}"
    AvroSerde(_user(name), REGISTRY, "record").serializer(topic, {"name": "ann"})
    order = f'{{"type":"record","name":"Order{name}","fields":[{{"name":"by","type":"{name}"}}]}}'
    serde = AvroSerde(Schema(order, "AVRO", [SchemaReference(name, name, 1)]), REGISTRY)
    data = serde.serializer(topic, {"by": {"name": "ann"}})
    assert AvroSerde(None, REGISTRY).deserializer(topic, data) == {"by": {"name": "ann"}}


def test_should_keep_json_and_protobuf(topic):
    person = JsonSchemaSerde({"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}}, REGISTRY)
    data = person.serializer(topic, {"name": "ann"})
    assert data[5:] == b'{"name":"ann"}'
    assert person.deserializer(topic, data) == {"name": "ann"}
    for name, fields in (("Order", {"sku": "tea"}), ("Other", {"id": 1}), ("Line", {"text": "x"})):
        messages, message = ProtobufSerde(MESSAGES[name], REGISTRY), MESSAGES[name](**fields)
        assert messages.deserializer(f"{topic}-{name}", messages.serializer(f"{topic}-{name}", message)) == message
