"""Serdes of stores and joins that take headers: what they are given, and where the headers go that they add.

`serdes_with_headers.txt` is what Kafka Streams 4.3.0 prints for the same topologies, with serializers that add a header (`k` of
keys, `v` of values) to input records with the header `in`; see `SerdesWithHeaders.java`. Lines with `reads` list the headers that
deserializers were given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    AggregationWithHeaders,
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serde,
    Serdes,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    ValueTimestampHeaders,
    Window,
    Windowed,
)
from penstock.record import Headers
from tests.conformance.batch_driver import EagerBatchDriver

pytestmark = pytest.mark.filterwarnings("ignore:.*has changed during the test")

JAVA = Path(__file__).with_name("serdes_with_headers.txt").read_text()
TEXT, BYTES = Serdes.string(), Serdes.bytes()
Input = tuple[str, str, "str | None", int]

READ: list[str] = []


class Adding(Serde[str]):
    """Text whose serializer adds a header, and whose deserializer tells which ones it was given."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def serialize(self, topic: str, value: str, headers: list[Any]) -> bytes:
        headers.append((self.tag, b"\1"))
        return value.encode()

    def deserialize(self, topic: str, data: bytes, headers: Headers) -> str:
        READ.append(f"{self.tag}<{_names(headers)}")
        return data.decode()


class Requiring(Serde[str]):
    """Text that is written and read only where the record has a header."""

    def serialize(self, topic: str, value: str, headers: list[Any]) -> bytes:
        assert dict(headers)["schema"] == b"1"
        return value.encode()

    def deserialize(self, topic: str, data: bytes, headers: Headers) -> str:
        assert dict(headers)["schema"] == b"1"
        return data.decode()


K, V = Adding("k"), Adding("v")
TO = Produced(TEXT, TEXT)
TWO: list[Input] = [("in", "a", "1", 10), ("in", "a", "2", 20)]
DELETED: list[Input] = [*TWO, ("in", "a", None, 30)]


def _names(headers: Headers) -> str:
    return ",".join(name for name, _ in headers)


def _kept(key_serde: Any, value_serde: Any) -> Materialized[Any, Any]:
    return Materialized("s", key_serde, value_serde)


def _table(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    builder.table("in", Consumed(k, v), materialized=_kept(k, v)).to_stream().to("out", TO)


def _grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(key_serde=TEXT, value_serde=TEXT))


def _aggregate(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    counted = _grouped(builder).aggregate(lambda: "", lambda key, value, so_far: so_far + value, materialized=_kept(k, v))
    counted.to_stream().to("out", TO)


def _window(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    windowed = _grouped(builder).windowed_by(TimeWindows(100, grace=0))
    counted = windowed.aggregate(lambda: "", lambda key, value, so_far: so_far + value, materialized=_kept(k, v))
    counted.to_stream(lambda key, value: key.key).to("out", TO)


def _session(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    windowed = _grouped(builder).windowed_by(SessionWindows(100, grace=0))
    counted = windowed.aggregate(
        lambda: "",
        lambda key, value, so_far: so_far + value,
        lambda key, one, other: one + other,
        materialized=_kept(k, v),
    )
    counted.to_stream(lambda key, value: key.key).to("out", TO)


def _suppress(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    limit = Suppressed.until_time_limit(5, BufferConfig.unbounded()).with_name("sup")
    builder.table("in", Consumed(k, v), materialized=_kept(k, v)).suppress(limit).to_stream().to("out", TO)


def _foreign_key(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    left, right = builder.table("in", Consumed(k, v)), builder.table("right", Consumed(k, v))
    joined = left.join(right, lambda one, other: one + other, foreign_key=lambda value: value[:1], materialized=_kept(k, v))
    joined.to_stream().to("out", TO)


def _outer(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    left, right = (builder.stream(topic, Consumed(TEXT, TEXT)) for topic in ("in", "right"))
    options = StreamJoined(key_serde=k, value_serde=v, other_value_serde=v, store_name="j", name="j")
    joined = left.outer_join(right, lambda one, other: (one or "null") + (other or "null"), JoinWindows(10, grace=0), options)
    joined.to("out", TO)


def _versioned(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    kept: Materialized[Any, Any] = Materialized(
        supplier=Stores.persistent_versioned_key_value_store("s", 1000), key_serde=k, value_serde=v
    )
    builder.table("in", Consumed(k, v), materialized=kept).to_stream().to("out", TO)


def _global(builder: StreamsBuilder, k: Any = K, v: Any = V) -> None:
    builder.global_table("in", Consumed(k, v), _kept(k, v))


SCENARIOS: dict[str, tuple[Callable[..., None], list[Input]]] = {
    "table": (_table, DELETED),
    "aggregate": (_aggregate, TWO),
    "window": (_window, TWO),
    "session": (_session, TWO),
    "suppress": (_suppress, TWO),
    "fk": (
        _foreign_key,
        [
            ("right", "1", "r", 5),
            ("in", "a", "1x", 10),
            ("right", "1", "q", 15),
            ("in", "a", "2x", 20),
            ("right", "2", "z", 25),
            ("in", "a", None, 30),
        ],
    ),
    "outer": (_outer, [("in", "a", "1", 10), ("right", "a", "r", 12), ("right", "b", "q", 15), ("in", "c", "2", 100)]),
}
RUNS = [(name, headers, cached) for headers in (False, True) for cached in (False, True) for name in SCENARIOS]
OTHERS: dict[str, tuple[Callable[..., None], list[Input]]] = {"versioned": (_versioned, DELETED), "global": (_global, TWO)}


def _settings(headers: bool, cached: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "application.id": "app",
        "default.key.serde": "string",
        "default.value.serde": "string",
        "statestore.cache.max.bytes": 1_000_000 if cached else 0,
    }
    return settings | {"dsl.store.format": "HEADERS"} if headers else settings


def _printed(driver_type: type[TopologyTestDriver], name: str, headers: bool, cached: bool) -> list[str]:
    settings = _settings(headers, cached)
    builder = StreamsBuilder(settings)
    build, inputs = (SCENARIOS | OTHERS)[name]
    build(builder)
    lines = [f"== {name} headers={headers} cache={cached}"]
    with driver_type(builder.build(settings), settings) as driver:
        for topic, key, value, timestamp in inputs:
            READ.clear()
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, value, timestamp, headers=(("in", b"\1"),))
            if isinstance(driver, EagerBatchDriver):
                driver.complete_turn()
            lines.append(f"> {topic} {key} {value or 'null'}")
            lines += _outputs(driver)
            lines.append(f"  reads [{', '.join(sorted(set(READ)))}]")
    return lines


def _outputs(driver: TopologyTestDriver) -> list[str]:
    lines = []
    for topic in sorted(driver.produced_topic_names()):
        output = driver.create_output_topic(topic, BYTES, BYTES)
        while not output.is_empty:
            record = output.read_record()
            value = "null" if record.value is None else record.value.decode() if topic == "out" else "value"
            lines.append(f"  {topic} {value} [{_names(record.headers)}]")
    return lines


def _java(name: str, headers: bool, cached: bool) -> list[str]:
    sections = {lines[0]: lines for lines in (section.splitlines() for section in JAVA.split("== ")[1:])}
    first = f"{name} headers={headers} cache={cached}"
    return [f"== {first}", *sections[first][1:]]


@pytest.mark.parametrize(("name", "headers", "cached"), [*RUNS, ("versioned", False, False), ("global", False, False)])
def test_should_give_serdes_the_headers_that_kafka_streams_gives_them(name: str, headers: bool, cached: bool) -> None:
    assert _printed(TopologyTestDriver, name, headers, cached) == _java(name, headers, cached)


@pytest.mark.parametrize(("name", "headers", "cached"), [*RUNS, ("versioned", False, False)])
def test_should_give_serdes_the_same_headers_where_records_come_as_columns(name: str, headers: bool, cached: bool) -> None:
    assert _printed(EagerBatchDriver, name, headers, cached) == _java(name, headers, cached)


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("name", ["table", "aggregate", "window", "session", "outer"])
def test_should_give_serdes_the_headers_of_each_of_many_records(name: str, headers: bool) -> None:
    columns, records = (_outputs_of_a_turn(driver, name, headers) for driver in (EagerBatchDriver, TopologyTestDriver))
    assert columns == records


def _outputs_of_a_turn(driver_type: type[TopologyTestDriver], name: str, headers: bool) -> list[str]:
    """What comes of many records, each with a header of its own."""
    settings = _settings(headers, cached=False)
    builder = StreamsBuilder(settings)
    build, inputs = (SCENARIOS | OTHERS)[name]
    build(builder)
    with driver_type(builder.build(settings), settings) as driver:
        for number, (topic, key, value, timestamp) in enumerate(inputs):
            own = ((f"in-{number}", b"\1"),)
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, value, timestamp, headers=own)
        if isinstance(driver, EagerBatchDriver):
            driver.complete_turn()
        return _outputs(driver)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("name", [*(name for name in SCENARIOS if name != "outer"), *OTHERS])
@pytest.mark.parametrize("driver_type", [TopologyTestDriver, EagerBatchDriver])
def test_should_serve_serdes_that_require_a_header(driver_type: type[TopologyTestDriver], name: str, cached: bool) -> None:
    settings = _settings(False, cached)
    builder = StreamsBuilder(settings)
    build, inputs = (SCENARIOS | OTHERS)[name]
    build(builder, Requiring(), Requiring())
    with driver_type(builder.build(settings), settings) as driver:
        # Kafka Streams reads a subscription that was kept without headers, unless stores are to keep them.
        for topic, key, value, timestamp in inputs[:2] if name == "fk" else inputs:
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, value, timestamp, headers=(("schema", b"1"),))
            if isinstance(driver, EagerBatchDriver):
                driver.complete_turn()
        assert name == "global" or not driver.create_output_topic("out", TEXT, TEXT).is_empty


class _KeepsInTable(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.store = context.get_state_store("s")

    def process(self, record: Record[str, str]) -> None:
        key = record.key
        match record.value:
            case "delete":
                self.store.delete(key)
            case "put":
                self.store.put(key, None)
            case "put_if_absent":
                self.store.put_if_absent(key, None)
            case "put_all":
                self.store.put_all([(key, None)])
            case _:
                self.store.put(key, ValueTimestampHeaders(record.value, record.timestamp, record.headers))
        self.context.forward(record)


class _KeepsInWindows(_KeepsInTable):
    def process(self, record: Record[str, str]) -> None:
        value = ValueTimestampHeaders(record.value, record.timestamp, record.headers)
        self.store.put(record.key, None if record.value == "put" else value, 0)
        self.context.forward(record)


class _KeepsInSessions(_KeepsInTable):
    def process(self, record: Record[str, str]) -> None:
        session = Windowed(record.key, Window(0, 10))
        match record.value:
            case "delete":
                self.store.remove(session)
            case "put":
                self.store.put(session, None)
            case _:
                self.store.put(session, AggregationWithHeaders(record.value, record.headers))
        self.context.forward(record)


BUILDERS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "key-value": (
        Stores.timestamped_key_value_store_with_headers_builder(Stores.in_memory_key_value_store("s"), K, TEXT),
        _KeepsInTable,
        ("delete", "put", "put_if_absent", "put_all"),
    ),
    "window": (
        Stores.timestamped_window_store_with_headers_builder(Stores.in_memory_window_store("s", 100, 10, False), K, TEXT),
        _KeepsInWindows,
        ("put",),
    ),
    "session": (
        Stores.session_store_with_headers_builder(Stores.in_memory_session_store("s", 100), K, TEXT),
        _KeepsInSessions,
        ("delete", "put"),
    ),
}


@pytest.mark.parametrize("kind", BUILDERS)
def test_should_write_headers_that_a_serializer_adds_to_the_changelog(kind: str) -> None:
    store, processor, deletions = BUILDERS[kind]
    builder = StreamsBuilder()
    builder.add_state_store(store)
    builder.stream("in", Consumed(TEXT, TEXT)).process(processor, "s").to("out", TO)
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        changelog = driver.create_output_topic("app-s-changelog", BYTES, BYTES)
        out = driver.create_output_topic("out", TEXT, TEXT)
        for number, deletion in enumerate(deletions):
            key = f"key-{number}" if deletion == "put_if_absent" else "a"
            topic.pipe_input("a", "value", 1)
            assert _names(changelog.read_record().headers) == "k"
            assert _names(out.read_record().headers) == "k", "the value shares the headers of the record"
            topic.pipe_input(key, deletion, 2)
            tombstone = changelog.read_record()
            assert (tombstone.value, _names(tombstone.headers)) == (None, "k")
            assert out.read_record().headers == (), "what a deletion adds stays out of the record"


def test_should_keep_headers_of_serializers_with_each_value() -> None:
    class Versioned(Serde[str]):
        """Text in a schema that a header names."""

        def serialize(self, topic: str, value: str, headers: list[Any]) -> bytes:
            schema = b"upper" if value.isupper() else b"lower"
            headers[:] = [(name, data) for name, data in headers if name != "schema"]
            headers.append(("schema", schema))
            return value.lower().encode()

        def deserialize(self, topic: str, data: bytes, headers: Headers) -> str:
            text = data.decode()
            return text.upper() if dict(headers)["schema"] == b"upper" else text

    settings = _settings(True, False)
    builder = StreamsBuilder(settings)
    builder.table("in", Consumed(TEXT, TEXT)).map_values(lambda value: value, materialized=_kept(TEXT, Versioned()))
    with TopologyTestDriver(builder.build(settings), settings) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        topic.pipe_input("a", "UP", 1)
        topic.pipe_input("b", "low", 2)
        store = driver.get_key_value_store("s")
        assert (store.get("a"), store.get("b"), list(store.all())) == ("UP", "low", [("a", "UP"), ("b", "low")])
