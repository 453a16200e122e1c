"""Records that would take a registry serde's library too deep, or too long, are deserialization errors."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema

from penstock import Consumed, Produced, Serdes, SerializationError, StreamsBuilder, StreamsConfig, TopologyTestDriver
from penstock.schema_registry import AvroSerde, JsonSchemaSerde, ProtobufSerde
from penstock.schema_registry.avro_bounds import MAX_DECIMAL_BYTES, MAX_DEPTH, AvroBoundError, AvroBounds
from penstock.schema_registry.clients import client_for, drop_mock
from tests.harness.protobuf_messages import MESSAGES

MOCK = {"schema.registry.url": "mock://bounds"}
COMMENT = {"type": "record", "name": "Comment", "fields": [{"name": "answer", "type": ["null", "Comment"]}]}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "below", "type": {"type": "array", "items": "Tree"}}]}
NULLS = {"type": "array", "items": "null"}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": ["null", AMOUNT]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "other", "type": ["null", "Hash", "Kind"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": ["double", "boolean", "float"]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
HUGE = b"\x80\x80\x80\x80\x80\x40"  # 2**40 as Avro writes it


@pytest.fixture(autouse=True)
def registry() -> Any:
    drop_mock("bounds")
    return client_for({"url": "mock://bounds"})


def framed(registry: Any, schema: Any, payload: bytes, kind: str = "AVRO") -> bytes:
    """A record under a schema that anybody has registered."""
    return b"\0" + struct.pack(">I", registry.register_schema("somebodys", Schema(json.dumps(schema), kind))) + payload


def zigzag(number: int) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, "long", number)
    return buffer.getvalue()


def bounds(schema: Any) -> AvroBounds:
    return AvroBounds(fastavro.parse_schema(schema))


@pytest.mark.parametrize("with_reader", [True, False], ids=["own schema", "writer's schema"])
@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        pytest.param(COMMENT, b"\x02" * 5_000 + b"\0", id="list of 5,000"),
        pytest.param(TREE, b"\x02" * 5_000 + b"\0" * 5_001, id="tree of 5,000 levels"),
        pytest.param(
            {"type": "record", "name": "Self", "fields": [{"name": "self", "type": "Self"}]}, b"\0", id="record within itself"
        ),
        pytest.param(NULLS, HUGE + b"\0", id="2**40 nulls"),
        pytest.param(NULLS, zigzag(-(2**40)) + b"\2" + b"\0", id="2**40 nulls in a block with a size"),
        pytest.param({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, HUGE, id="2**40 empty fixed"),
        pytest.param({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, HUGE, id="2**40 empty records"),
        pytest.param({"type": "array", "items": NULLS}, (zigzag(90_000) + b"\0") * 20, id="arrays of arrays of nulls"),
        pytest.param(AMOUNT | {"name": "x"}, b"", id="nothing"),
    ],
)
def test_should_refuse_an_avro_record_before_the_library_reads_it(
    registry: Any, schema: Any, payload: bytes, with_reader: bool
) -> None:
    serde: AvroSerde[Any] = AvroSerde(schema if with_reader else None, MOCK)
    with pytest.raises(SerializationError, match="AvroSerde cannot read"):
        serde.deserializer("orders", framed(registry, schema, payload))


def test_should_refuse_nulls_in_a_field_that_the_own_schema_does_not_have(registry: Any) -> None:
    own = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    evil = {**own, "fields": [*own["fields"], {"name": "x", "type": NULLS}]}
    with pytest.raises(SerializationError, match="declares a block of"):
        AvroSerde(own, MOCK).deserializer("orders", framed(registry, evil, b"\x02a" + HUGE + b"\0"))


def test_should_refuse_an_avro_union_at_the_top_whatever_names_subjects(registry: Any) -> None:
    serde: AvroSerde[Any] = AvroSerde(None, MOCK, "record")
    with pytest.raises(SerializationError, match="declares a block of"):
        serde.deserializer("orders", framed(registry, ["null", NULLS], b"\x02" + HUGE))


def test_should_refuse_a_schema_that_doubles_with_every_type(registry: Any) -> None:
    schema: Any = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, 60):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{number - 1}"}]
        schema = {"type": "record", "name": f"R{number}", "fields": fields}
    with pytest.raises(SerializationError, match="more than 100000 types"):
        AvroSerde(None, MOCK).deserializer("orders", framed(registry, schema, b"\0"))


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_should_refuse_a_decimal_whose_conversion_takes_minutes(kind: str) -> None:
    size = 1_000_000
    schema = AMOUNT if kind == "bytes" else {**AMOUNT, "type": "fixed", "name": "F", "size": size}
    payload = (zigzag(size) if kind == "bytes" else b"") + b"\x11" * size
    with pytest.raises(AvroBoundError, match="a decimal of 1000000 bytes"):
        bounds(schema).check(payload)
    bounds(AMOUNT).check(zigzag(MAX_DECIMAL_BYTES) + b"\x11" * MAX_DECIMAL_BYTES)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (COMMENT, b"\x05"),
        (COMMENT, b"\x03"),
        (COMMENT, b"\x02"),
        (TREE, b"\x02" * 3),
        (TREE, b"\x80" * 20),
        ({**TREE, "fields": [*TREE["fields"], {"name": "text", "type": "string"}]}, b"\0\x7f"),
        ({**TREE, "fields": [*TREE["fields"], {"name": "text", "type": "string"}]}, b"\0\x08abc"),
    ],
)
def test_should_refuse_a_walked_record_that_is_malformed(schema: Any, payload: bytes) -> None:
    with pytest.raises(AvroBoundError):
        bounds(schema).check(payload)


def test_should_read_recursive_records_up_to_the_bound(registry: Any) -> None:
    depth = MAX_DEPTH // 2 - 1
    serde: AvroSerde[Any] = AvroSerde(COMMENT, MOCK)
    value: Any = {"answer": None}
    for _ in range(depth):
        value = {"answer": value}
    assert serde.deserializer("comments", framed(registry, COMMENT, b"\x02" * depth + b"\0")) == value
    with pytest.raises(SerializationError, match=f"more than {MAX_DEPTH} levels"):
        serde.deserializer("comments", framed(registry, COMMENT, b"\x02" * (depth + 1) + b"\0"))


@pytest.mark.parametrize("lines", [0, 3, 500])
def test_should_walk_over_every_type_as_the_library_reads_it(lines: int) -> None:
    """The schema is made recursive, so that its records are walked."""
    recursive = {**ORDER, "fields": [*ORDER["fields"], {"name": "parts", "type": {"type": "array", "items": "shop.Order"}}]}
    part = {"id": "é", "amount": None, "kind": "B", "hash": b"1234", "other": "A", "lines": [], "at": 1, "parts": []}
    value = {
        **part,
        "amount": Decimal("7.25"),
        "other": b"5678",
        "lines": [{"x": 1.5, "y": True}] * lines,
        "at": 1_700_000_000_000,
        "parts": [part] * lines,
    }
    schema, buffer = fastavro.parse_schema(recursive), io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    AvroBounds(schema).check(buffer.getvalue())
    with pytest.raises(AvroBoundError):
        AvroBounds(schema).check(buffer.getvalue()[:-1])


@pytest.mark.parametrize(
    "schema", ["string", ORDER, ["null", "int"], {"type": "map", "values": {"type": "array", "items": "long"}}]
)
def test_should_not_walk_where_the_schema_bounds_its_records(schema: Any) -> None:
    bounds(schema).check(b"")  # a walk would find that it ends too early


def test_should_go_on_behind_an_avro_record_that_is_too_deep(registry: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("comments", Consumed(Serdes.string(), AvroSerde(COMMENT, MOCK))).map_values(str).to(
        "out", Produced(Serdes.string(), Serdes.string())
    )
    settings = {"application.id": "a", "bootstrap.servers": "x:1", "deserialization.exception.handler": "log_and_continue"}
    with TopologyTestDriver(builder.build(), StreamsConfig(settings)) as driver:
        entered, out = (
            driver.create_input_topic("comments", Serdes.bytes(), Serdes.bytes()),
            driver.create_output_topic("out", Serdes.string(), Serdes.string()),
        )
        entered.pipe_input(b"a", framed(registry, COMMENT, b"\x02" * 5_000 + b"\0"))
        entered.pipe_input(b"b", framed(registry, COMMENT, b"\0"))
        assert out.read_key_values_to_list() == [("b", "{'answer': None}")]


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"name":' * 100_000])
def test_should_refuse_json_that_is_too_deep(registry: Any, text: str) -> None:
    with pytest.raises(SerializationError, match="JsonSchemaSerde cannot read"):
        JsonSchemaSerde({}, MOCK).deserializer("people", framed(registry, {}, text.encode(), "JSON"))


def test_should_refuse_json_of_a_schema_that_holds_itself_too_deep(registry: Any) -> None:
    schema = {"title": "List", "properties": {"next": {"$ref": "#"}}}
    serde: JsonSchemaSerde[Any] = JsonSchemaSerde(schema, MOCK)
    assert serde.deserializer("lists", framed(registry, schema, b'{"next":{"next":{}}}', "JSON")) == {"next": {"next": {}}}
    with pytest.raises(SerializationError, match="500 levels"):
        serde.deserializer("lists", framed(registry, schema, b'{"next":' * 900 + b"1" + b"}" * 900, "JSON"))


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/x.json", "https://example.com/x.json", "file:///etc/passwd"])
def test_should_never_fetch_a_schema_that_json_schema_refers_to(registry: Any, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.schema_registry._sync import json_schema

    fetched: list[str] = []
    monkeypatch.setattr(json_schema, "_retrieve_via_httpx", fetched.append)
    schema = {"title": "Person", "properties": {"name": {"$ref": uri}}}
    serde: JsonSchemaSerde[Any] = JsonSchemaSerde(schema, MOCK)
    with pytest.raises(SerializationError, match=r"(?i)unresolvable"):
        serde.deserializer("people", framed(registry, schema, b'{"name":"x"}', "JSON"))
    with pytest.raises(SerializationError, match=r"(?i)unresolvable"):
        serde.serializer("people", {"name": "x"})
    assert fetched == []


def test_should_resolve_json_schemas_of_the_registry_and_of_json_schema_itself(registry: Any) -> None:
    from confluent_kafka.schema_registry import SchemaReference

    registry.register_schema("names", Schema('{"type": "string"}', "JSON"))
    text = json.dumps(
        {"properties": {"name": {"$ref": "name.json"}, "schema": {"$ref": "http://json-schema.org/draft-07/schema#"}}}
    )
    serde: JsonSchemaSerde[Any] = JsonSchemaSerde(Schema(text, "JSON", [SchemaReference("name.json", "names", 1)]), MOCK)
    written = serde.serializer("people", {"name": "ann", "schema": {}})
    assert serde.deserializer("people", written) == {"name": "ann", "schema": {}}
    with pytest.raises(SerializationError):
        serde.serializer("people", {"name": 1})


def test_should_refuse_a_protobuf_message_that_is_too_deep() -> None:
    serde: ProtobufSerde[Any] = ProtobufSerde(MESSAGES["Node"], MOCK)
    head = serde.serializer("values", MESSAGES["Node"]())
    nested = {}
    for depth in range(301):
        nested[depth] = b"" if depth == 0 else b"\x0a" + _length(nested[depth - 1])
    assert serde.deserializer("values", head + nested[50]).HasField("below")
    with pytest.raises(SerializationError, match=r"(?i)pars|decod"):
        serde.deserializer("values", head + nested[300])


@pytest.mark.parametrize(
    "indexes", [b"\x80" * 1_000_000, zigzag(50_000) + b"\2" * 50_000, HUGE], ids=["number", "list", "declared"]
)
def test_should_refuse_a_list_of_protobuf_numbers_that_is_too_long(indexes: bytes) -> None:
    serde: ProtobufSerde[Any] = ProtobufSerde(MESSAGES["Order"], MOCK)
    head = serde.serializer("values", MESSAGES["Order"](sku="a"))[:5]
    with pytest.raises(SerializationError, match="ProtobufSerde cannot read"):
        serde.deserializer("values", head + indexes)


def _length(data: bytes) -> bytes:
    size, out = len(data), b""
    while size >= 0x80:
        out, size = out + bytes([size & 0x7F | 0x80]), size >> 7
    return out + bytes([size]) + data
