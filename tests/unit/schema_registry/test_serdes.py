"""Serdes with a Schema Registry: Confluent's wire format byte by byte, subjects, evolution, references, and how they travel."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf import timestamp_pb2

from penstock import (
    ConfigError,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SerializationError,
    StreamsBuilder,
    StreamsConfig,
    TopologyTestDriver,
)
from penstock.schema_registry import AvroSerde, JsonSchemaSerde, ProtobufSerde
from penstock.schema_registry.clients import client_for, drop_mock
from penstock.serdes.contract import as_deserializer, as_serializer, wants_headers
from tests.harness.protobuf_messages import MESSAGES

MOCK = {"schema.registry.url": "mock://tests"}
USER = {
    "type": "record",
    "name": "User",
    "namespace": "shop",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
    ],
}
PEOPLE = {**USER, "name": "Person"}
PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


@dataclass
class User:
    name: str
    age: int | None = None


@pytest.fixture(autouse=True)
def registry() -> Any:
    drop_mock("tests")
    return client_for({"url": "mock://tests"})


# Bytes, derived by hand from the specifications: 0, the schema's id as 4 bytes, and the payload


def test_should_write_avro_as_confluents_serializer_does():
    serde = AvroSerde(USER, MOCK)
    # string: its length zig-zag, UTF-8; union: the index of the branch zig-zag; int: zig-zag.
    assert serde.serializer("users", {"name": "ann", "age": 7}) == bytes.fromhex("00 00000001 06616e6e 02 0e")
    assert serde.serializer("users", {"name": "ann", "age": None}) == bytes.fromhex("00 00000001 06616e6e 00")
    assert serde.deserializer("users", bytes.fromhex("00 00000001 06616e6e 02 0e")) == {"name": "ann", "age": 7}


def test_should_write_json_as_confluents_serializer_does():
    serde = JsonSchemaSerde(PERSON, MOCK)
    assert serde.serializer("people", {"name": "ánn", "age": 7}) == b"\x00\x00\x00\x00\x01" + '{"name":"ánn","age":7}'.encode()
    assert serde.deserializer("people", b'\x00\x00\x00\x00\x01{"name":"x"}') == {"name": "x"}


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        # The first message of a file is one 0; others are the number of indexes and the indexes, all zig-zag.
        ("Order", {"sku": "tea", "count": 3}, "00 00000001 00 0a03746561 1003"),
        ("Other", {"id": 1}, "00 00000001 02 02 0801"),
        ("Line", {"text": "x"}, "00 00000001 04 00 00 0a0178"),
    ],
)
def test_should_write_protobuf_as_confluents_serializer_does(name, fields, expected):
    serde = ProtobufSerde(MESSAGES[name], MOCK)
    message = MESSAGES[name](**fields)
    assert serde.serializer("orders", message) == bytes.fromhex(expected)
    assert serde.deserializer("orders", bytes.fromhex(expected)) == message


# Subjects, versions, references


@pytest.mark.parametrize(
    ("strategy", "is_key", "subject"),
    [
        ("topic", False, "users-value"),
        ("topic", True, "users-key"),
        ("record", False, "shop.User"),
        ("topic_record", False, "users-shop.User"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", False, "shop.User"),
        (lambda context, record: f"mine-{context.topic}", False, "mine-users"),
    ],
)
def test_should_name_subjects_by_the_strategy(registry, strategy, is_key, subject):
    serde = AvroSerde(USER, MOCK, strategy, is_key=is_key)
    data = serde.serializer("users", {"name": "ann", "age": None})
    assert registry.get_subjects() == [subject]
    assert serde.deserializer("users", data)["name"] == "ann"


def test_should_take_the_strategy_from_the_settings(registry):
    java = {"value.subject.name.strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"}
    AvroSerde(USER, {**MOCK, **java}).serializer("users", {"name": "ann"})
    assert registry.get_subjects() == ["users-shop.User"]


def test_should_read_what_another_version_of_the_schema_wrote():
    newer = {**USER, "fields": [*USER["fields"], {"name": "country", "type": "string", "default": "de"}]}
    old, new = AvroSerde(USER, MOCK), AvroSerde(newer, MOCK)
    first = old.serializer("users", {"name": "ann", "age": 1})
    second = new.serializer("users", {"name": "bob", "age": 2, "country": "fr"})
    assert (first[4], second[4]) == (1, 2)
    assert new.deserializer("users", first) == {"name": "ann", "age": 1, "country": "de"}
    assert old.deserializer("users", second) == {"name": "bob", "age": 2}
    assert AvroSerde(None, MOCK).deserializer("users", second) == {"name": "bob", "age": 2, "country": "fr"}


def test_should_write_with_the_latest_version_where_no_schema_is_given(registry):
    with pytest.raises(SerializationError, match="users"):
        AvroSerde(None, MOCK).serializer("users", {"name": "ann", "age": 1})
    AvroSerde(USER, MOCK).serializer("users", {"name": "ann"})
    assert AvroSerde(None, MOCK).serializer("users", {"name": "ann", "age": 7}) == bytes.fromhex("00 00000001 06616e6e 02 0e")


def test_should_follow_references_to_other_subjects(registry):
    AvroSerde(USER, MOCK, "record").serializer("users", {"name": "ann"})
    order = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"by","type":"shop.User"}]}'
    schema = Schema(order, "AVRO", [SchemaReference("shop.User", "shop.User", 1)])
    serde = AvroSerde(schema, MOCK)
    data = serde.serializer("orders", {"by": {"name": "ann", "age": 7}})
    assert data[5:] == bytes.fromhex("06616e6e 02 0e")
    assert pickle.loads(pickle.dumps(serde)).deserializer("orders", data) == {"by": {"name": "ann", "age": 7}}


def test_should_write_the_same_id_whatever_topics_come_between():
    serde = AvroSerde(USER, MOCK)
    before = serde.serializer("users", {"name": "ann"})
    assert serde.serializer("others", {"name": "ann"}) == before
    AvroSerde(PEOPLE, MOCK).serializer("people", {"name": "ann"})
    assert serde.serializer("users", {"name": "ann"}) == before


def test_should_register_nothing_where_it_must_not(registry):
    serde = AvroSerde(USER, {**MOCK, "auto.register.schemas": "false"})
    with pytest.raises(SerializationError, match=r"AvroSerde cannot serialize .* for topic 'users'"):
        serde.serializer("users", {"name": "ann"})
    assert registry.get_subjects() == []


def test_should_ask_the_registry_once_for_a_schema(registry, monkeypatch):
    asked = []
    register = registry.register_schema_full_response
    monkeypatch.setattr(
        registry, "register_schema_full_response", lambda *args, **named: asked.append(args[0]) or register(*args, **named)
    )
    serde = AvroSerde(USER, MOCK)
    for _ in range(5):
        serde.serializer("users", {"name": "ann"})
    assert asked == ["users-value"]


# Values


def test_should_take_objects():
    for to_dict, from_dict in (
        (asdict, lambda found: User(**found)),
        (lambda user, _: asdict(user), lambda found, _: User(**found)),
    ):
        for serde in (AvroSerde(USER, MOCK, to_dict=to_dict, from_dict=from_dict),):
            assert serde.deserializer("users", serde.serializer("users", User("ann", 7))) == User("ann", 7)
    person = JsonSchemaSerde(PERSON, MOCK, to_dict=asdict, from_dict=lambda found: User(**found))
    assert person.deserializer("people", person.serializer("people", User("ann", 7))) == User("ann", 7)


def test_should_keep_none():
    for serde in (AvroSerde(USER, MOCK), JsonSchemaSerde(PERSON, MOCK), ProtobufSerde(MESSAGES["Order"], MOCK)):
        assert as_serializer(serde)("topic", None) is None
        assert as_deserializer(serde)("topic", None) is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01\x00\x00\x00\x01\x06ann", b"\x00\x00\x00\x00\x63\x06ann"])
def test_should_say_what_it_could_not_read(data):
    AvroSerde(USER, MOCK).serializer("users", {"name": "ann"})
    with pytest.raises(
        SerializationError, match=r"AvroSerde cannot read \d+ bytes of topic 'users' \(Schema Registry mock://tests\)"
    ):
        AvroSerde(USER, MOCK).deserializer("users", data)


def test_should_check_json_against_its_schema():
    serde = JsonSchemaSerde(PERSON, MOCK)
    with pytest.raises(SerializationError, match="name"):
        serde.serializer("people", {"age": 7})
    with pytest.raises(SerializationError, match="the key 1"):
        serde.serializer("people", {"name": "a", 1: 2})


def test_should_keep_ids_in_headers_where_it_is_told_to():
    serde = AvroSerde(USER, {**MOCK, "schema.id.serializer": "header"})
    write, read = as_serializer(serde), as_deserializer(serde)
    assert wants_headers(write)
    assert wants_headers(read)
    headers: list = []
    data = write("users", {"name": "ann", "age": 7}, headers)
    assert data == bytes.fromhex("06616e6e 02 0e")
    assert [name for name, _ in headers] == ["__value_schema_id"]
    assert read("users", data, tuple(headers)) == {"name": "ann", "age": 7}
    assert not wants_headers(as_serializer(AvroSerde(USER, MOCK)))


# How they travel, and what they show


def test_should_travel_without_open_clients():
    serde = AvroSerde(USER, MOCK)
    data = serde.serializer("users", {"name": "ann", "age": 7})
    again = pickle.loads(pickle.dumps(serde))
    assert again._halves == {}
    assert again == serde
    assert hash(again) == hash(serde)
    assert again.deserializer("users", data) == {"name": "ann", "age": 7}
    message = ProtobufSerde(timestamp_pb2.Timestamp, MOCK)
    assert pickle.loads(pickle.dumps(message)) == message
    halves = pickle.loads(pickle.dumps(as_serializer(serde)))
    assert halves("users", {"name": "ann", "age": 7}) == data


def test_should_show_no_secrets():
    registry = {"schema.registry.url": "http://me:letmein@localhost:1", "basic.auth.user.info": "me:letmein"}
    serde = AvroSerde(USER, registry)
    assert "letmein" not in repr(serde)
    assert "'User'" in repr(serde)
    with pytest.raises((SerializationError, ConfigError)) as caught:
        serde.serializer("users", {"name": "ann"})
    assert "letmein" not in str(caught.value)
    assert "letmein" not in repr(StreamsConfig.partial({"default.value.serde": serde, **registry}))


def test_should_be_configured_with_the_applications_settings(registry):
    class Users(AvroSerde):
        def __init__(self):
            super().__init__(USER)

    config = StreamsConfig.partial({**MOCK, "default.key.serde": Users, "default.value.serde": Users})
    assert config.default_key_serde.is_key
    assert not config.default_value_serde.is_key
    config.default_key_serde.serializer("users", {"name": "ann"})
    config.default_value_serde.serializer("users", {"name": "ann"})
    assert sorted(registry.get_subjects()) == ["users-key", "users-value"]


def test_should_say_that_there_is_no_registry():
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        AvroSerde(USER).serializer("users", {"name": "ann"})


def test_should_refuse_what_is_no_schema():
    with pytest.raises(ConfigError, match="is not JSON"):
        AvroSerde("record User", MOCK)
    with pytest.raises(ConfigError, match="protoc"):
        ProtobufSerde("Order", MOCK)
    with pytest.raises(ConfigError, match="expected topic, record, topic_record"):
        AvroSerde(USER, MOCK, "subject")


def test_should_say_which_extra_is_missing(monkeypatch):
    monkeypatch.setattr(AvroSerde, "_module", "confluent_kafka.no_such_module")
    with pytest.raises(ConfigError, match=r"pip install 'penstock-streams\[avro\]'"):
        AvroSerde(USER, MOCK)


# In a topology


def test_should_count_records_in_avro(registry):
    users = AvroSerde(USER, MOCK)
    keys = AvroSerde('"string"', MOCK, is_key=True)
    builder = StreamsBuilder()
    by_name = builder.stream("users", Consumed(Serdes.string(), users)).group_by(
        lambda _, user: user["name"], Grouped("by-name", keys, users)
    )
    by_name.count(Materialized("counts", keys, Serdes.long())).to_stream().to("counts", Produced(keys, Serdes.long()))
    with TopologyTestDriver(builder.build(), {"application.id": "shop"}) as driver:
        topic = driver.create_input_topic("users", Serdes.string(), users)
        topic.pipe_values([{"name": "ann"}, {"name": "bob"}, {"name": "ann"}])
        assert driver.create_output_topic("counts", keys, Serdes.long()).read_key_values_to_map() == {"ann": 2, "bob": 1}
    assert sorted(registry.get_subjects()) == [
        "counts-key",
        "shop-by-name-repartition-key",
        "shop-by-name-repartition-value",
        "shop-counts-changelog-key",
        "users-value",
    ]
