"""What people write who know Kafka Streams: taken as meant, or refused with the right call and the line of their code."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Branched,
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KafkaStreams,
    KTable,
    Materialized,
    ProcessingError,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Repartitioned,
    Serde,
    Serdes,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsError,
    TableJoined,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
    ValueTransformerWithKey,
)

TEXT, LONG = Serdes.string(), Serdes.long()
READ = Consumed(TEXT, TEXT)
HERE = Path(__file__).name


def stream() -> Any:
    return StreamsBuilder().stream("in", READ)


def grouped() -> Any:
    return stream().group_by_key()


def tables() -> tuple[Any, Any]:
    builder = StreamsBuilder()
    return builder.table("left", READ), builder.table("right", READ)


def streams() -> tuple[Any, Any]:
    builder = StreamsBuilder()
    return builder.stream("left", READ), builder.stream("right", READ)


NAMED: dict[str, Callable[[], Any]] = {
    "count": lambda: grouped().count("store"),
    "reduce": lambda: grouped().reduce(lambda a, b: a, "store"),
    "aggregate": lambda: grouped().aggregate(int, lambda key, value, total: total, "store"),
    "windowed count": lambda: grouped().windowed_by(TimeWindows(10, grace=0)).count("store"),
    "windowed reduce": lambda: grouped().windowed_by(TimeWindows(10, grace=0)).reduce(lambda a, b: a, "store"),
    "session count": lambda: grouped().windowed_by(SessionWindows(10, grace=0)).count("store"),
    "cogroup": lambda: grouped().cogroup(lambda key, value, total: total).aggregate(int, "store"),
    "to_table": lambda: stream().to_table("store"),
    "table": lambda: StreamsBuilder().table("topic", READ, "store"),
    "table filter": lambda: tables()[0].filter(lambda key, value: True, "store"),
    "table map_values": lambda: tables()[0].map_values(str.upper, materialized="store"),
    "table join": lambda: (lambda left, right: left.join(right, lambda a, b: a, "store"))(*tables()),
    "grouped table count": lambda: (
        tables()[0].group_by(lambda key, value: (value, key), Grouped(None, TEXT, TEXT)).count("store")
    ),
}


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED.keys())
def test_should_take_a_string_in_place_of_options_as_the_name_of_the_store(make: Callable[[], KTable[Any, Any]]) -> None:
    assert make().queryable_store_name == "store"


def test_should_take_a_table_with_its_store_and_nothing_else() -> None:
    assert StreamsBuilder().table("topic", Materialized("store")).queryable_store_name == "store"
    assert StreamsBuilder().global_table("topic", Materialized("store")).queryable_store_name == "store"


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "Grouped": (lambda: Grouped(TEXT, TEXT), "Grouped(key_serde=…, value_serde=…)"),  # type: ignore[arg-type]
    "Materialized": (lambda: Materialized(TEXT, LONG), "Materialized(key_serde=…, value_serde=…)"),  # type: ignore[arg-type]
    "Repartitioned": (lambda: Repartitioned(TEXT, TEXT), "Repartitioned(key_serde=…, value_serde=…)"),  # type: ignore[arg-type]
    "store of serdes": (lambda: grouped().count(TEXT), "Materialized(key_serde=…, value_serde=…)"),
    "several topics": (lambda: StreamsBuilder().stream("a", "b"), "stream(['a', 'b'])"),  # type: ignore[arg-type]
    "options first": (lambda: StreamsBuilder().stream(READ, "a"), "stream(topic, Consumed(…))"),  # type: ignore[arg-type]
    "serde of a stream": (lambda: StreamsBuilder().stream("a", TEXT), "Consumed(key_serde=…, value_serde=…)"),  # type: ignore[arg-type]
    "name of a table": (lambda: StreamsBuilder().table("a", "store"), 'table(topic, materialized="name of the store")'),  # type: ignore[arg-type]
    "table options swapped": (lambda: StreamsBuilder().table("a", Materialized("s"), READ), "expects a Consumed"),  # type: ignore[arg-type]
    "serde of a sink": (lambda: stream().to("out", TEXT), "Produced(key_serde=…, value_serde=…)"),
    "sink options first": (lambda: stream().to(Produced(TEXT, TEXT), "out"), "to(topic, Produced(…))"),
    "name of a group": (lambda: stream().group_by_key("name"), "Grouped(name='name')"),
    "serde of a group": (lambda: stream().group_by(lambda key, value: key, TEXT), "Grouped(key_serde=…, value_serde=…)"),
    "name of a repartition": (lambda: stream().repartition("name"), "Repartitioned(name='name')"),
    "buffer": (lambda: grouped().count().suppress(BufferConfig.unbounded()), "Suppressed.until_window_closes("),
    "foreign key": (
        lambda: (lambda left, right: left.join(right, lambda value: value, lambda a, b: a))(*tables()),
        "join(other, joiner, foreign_key=lambda value: …",
    ),
    "foreign key with options": (
        lambda: (lambda left, right: left.left_join(right, str, lambda a, b: a, TableJoined(), Materialized("s")))(*tables()),
        "join(other, joiner, foreign_key=lambda value: …",
    ),
    "windows before the joiner": (
        lambda: (lambda left, right: left.join(right, JoinWindows(1, grace=0), lambda a, b: a))(*streams()),
        "join(other_stream, joiner, JoinWindows(…))",
    ),
    "stream joined first": (
        lambda: (lambda left, right: left.join(right, lambda a, b: a, StreamJoined(), JoinWindows(1, grace=0)))(*streams()),
        "join(other_stream, joiner, JoinWindows(…))",
    ),
    "join without windows": (
        lambda: (lambda left, right: left.join(right, lambda a, b: a))(*streams()),
        "join(other_stream, joiner, JoinWindows(…))",
    ),
    "join with the wrong options": (
        lambda: (lambda left, right: left.join(right, lambda a, b: a, JoinWindows(1, grace=0), Joined()))(*streams()),
        "StreamJoined(…)",
    ),
    "merge with a table": (lambda: stream().merge(tables()[0]), "with a KStream"),
    "a processor for its supplier": (lambda: stream().process(Counter()), "give the class Counter"),
    "branch swapped": (lambda: stream().split().branch(Branched("b"), lambda key, value: True), "the predicate"),
    "a factory of serdes": (lambda: Consumed(Serdes.string, Serdes.string), "Serdes.string()"),  # type: ignore[arg-type]
    "a class of serdes": (lambda: Consumed(MySerde, TEXT), "key_serde=MySerde()"),  # type: ignore[arg-type]
    "no serde": (lambda: Produced(TEXT, "string"), "Serdes.string()"),  # type: ignore[arg-type]
    "source in Java's order": (lambda: Topology().add_source("s", TEXT, TEXT, "in"), "key_deserializer=…"),  # type: ignore[arg-type]
    "sink in Java's order": (lambda: Topology().add_sink("s", "out", TEXT, TEXT, "p"), "key_serializer=…"),  # type: ignore[arg-type]
    "driver of a builder": (lambda: TopologyTestDriver(StreamsBuilder()), "TopologyTestDriver(builder.build()"),  # type: ignore[arg-type]
    "driver swapped": (lambda: TopologyTestDriver({}, Topology()), "TopologyTestDriver(topology, config)"),  # type: ignore[arg-type]
    "application of a builder": (lambda: KafkaStreams(StreamsBuilder(), {}), "KafkaStreams(builder.build()"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "right"), REFUSED.values(), ids=REFUSED.keys())
def test_should_refuse_with_the_right_call_and_the_line(call: Callable[[], Any], right: str) -> None:
    with pytest.raises(TypeError, match=re.escape(right)) as refused:
        call()
    assert re.search(rf"\w+\(\) \(.*{HERE}:\d+\): ", str(refused.value))


FUNCTIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "initializer and aggregator": (lambda: grouped().aggregate(lambda key, value, total: total, int), "the initializer"),
    "aggregator without key": (lambda: grouped().aggregate(int, lambda value, total: total), "f(key, value, aggregate)"),
    "mapper with key": (lambda: stream().map_values(lambda key, value: value), "with_key=True"),
    "mapper without key": (lambda: stream().map(lambda value: value), "f(key, value)"),
    "predicate": (lambda: stream().filter(lambda value: True), "f(key, value)"),
    "joiner": (lambda: (lambda left, right: left.join(right, lambda key, a, b: a))(*tables()), "f(value, other_value)"),
    "foreign key": (
        lambda: (lambda left, right: left.join(right, lambda a, b: a, foreign_key=lambda key, value: value))(*tables()),
        "foreign_key is called as f(value)",
    ),
}


@pytest.mark.parametrize(("call", "shape"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_should_refuse_a_function_that_cannot_be_called_so(call: Callable[[], Any], shape: str) -> None:
    with pytest.raises(TypeError, match=re.escape(shape)):
        call()


def test_should_take_functions_whose_parameters_cannot_be_seen_or_fit_anyway() -> None:
    stream().map_values(str.upper).map_values(int).map_values(partial(pow, 2)).flat_map_values(str.split)
    stream().filter(lambda *record: True).map(lambda key, value, unused=None: (key, value)).peek(print)


class MySerde(Serde[str]):
    def __init__(self) -> None:
        super().__init__(TEXT.serializer, TEXT.deserializer)


class Counter(Processor[str, str, str, int]):
    stores = (Stores.key_value_store_builder(Stores.in_memory_key_value_store("seen"), TEXT, LONG),)

    def __init__(self, step: int = 1) -> None:
        self.step = step

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.store = context.get_state_store("seen")

    def process(self, record: Record[str, str]) -> None:
        count = (self.store.get(record.key) or 0) + self.step
        self.store.put(record.key, count)
        self.context.forward(record.with_value(count))


class Numbered(ValueTransformerWithKey[str, str, int]):
    stores = (Stores.key_value_store_builder(Stores.in_memory_key_value_store("numbers"), TEXT, LONG),)

    def transform(self, key: str, value: str) -> int:
        store = self.context.get_state_store("numbers")
        store.put(key, (store.get(key) or 0) + 1)
        return int(store.get(key))


@pytest.mark.parametrize("supplier", [Counter, lambda: Counter(1), partial(Counter, step=1)], ids=["class", "lambda", "partial"])
def test_should_connect_the_stores_of_a_processor_however_it_is_made(supplier: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).process(supplier).to("out", Produced(TEXT, LONG))
    assert counted(builder.build()) == [("a", 1), ("a", 2)]

    topology = Topology().add_source("s", "in", key_deserializer=TEXT, value_deserializer=TEXT)
    topology.add_processor("p", supplier, "s").add_sink("t", "out", "p", key_serializer=TEXT, value_serializer=LONG)
    assert counted(topology) == [("a", 1), ("a", 2)]


def test_should_connect_the_stores_of_a_transformer_behind_a_lambda() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", READ, "kept").transform_values(lambda: Numbered(), materialized=Materialized("t", TEXT, LONG))
    table.to_stream().to("out", Produced(TEXT, LONG))
    assert [key for key, _ in counted(builder.build())] == ["a", "a"]


def counted(topology: Topology) -> list[tuple[str, int]]:
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("a", "x"), ("a", "y")])
        return driver.create_output_topic("out", TEXT, LONG).read_key_values()


def test_should_refuse_a_factory_of_serdes_for_the_topics_of_the_driver() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(TypeError, match=re.escape("write Serdes.string()")):
            driver.create_input_topic("in", Serdes.string, Serdes.string)
        with pytest.raises(TypeError, match=re.escape("write Serdes.string()")):
            driver.create_output_topic("out", Serdes.string, Serdes.string)


def test_should_name_the_line_of_an_operator_that_cannot_be_built() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).filter(lambda key, value: True, name="twice").filter(lambda key, value: True, name="twice")
    with pytest.raises(TopologyError, match=rf"Processor twice is already added \(added at .*{HERE}:\d+\)"):
        builder.build()

    builder = StreamsBuilder()
    builder.stream("in", READ).process(lambda: Counter(), "nowhere")
    with pytest.raises(TopologyError, match=rf"StateStore nowhere is not added yet.*\(added at .*{HERE}:\d+\)"):
        builder.build()


def test_should_name_the_line_of_a_supplier_that_needs_arguments() -> None:
    class Demanding(Processor[Any, Any, Any, Any]):
        def __init__(self, limit: int) -> None:
            self.limit = limit

    builder = StreamsBuilder()
    builder.stream("in", READ).process(Demanding)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=rf"lambda: Processor\(argument\) \(added at .*{HERE}:\d+\)"):
        builder.build()


def test_should_name_the_line_of_an_operator_that_fails() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).map_values(int).to("out", Produced(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(ProcessingError, match=rf"processor=KSTREAM-MAPVALUES-0000000001 \(added at .*{HERE}:\d+\)"):
            topic.pipe_input("a", "no number")


def test_should_name_the_line_of_a_sink_without_a_serde() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).map_values(lambda text: int(text)).to("out")
    with pytest.raises(StreamsError, match=rf"sink node KSTREAM-SINK-0000000002 \(added at .*{HERE}:\d+\)"):
        TopologyTestDriver(builder.build())


def test_should_read_the_windows_of_a_key_as_in_java() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows(10, grace=0)
    counts = builder.stream("in", READ).group_by_key().windowed_by(windows).count("counts")
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for timestamp in (1, 2, 11):
            topic.pipe_input("a", "x", timestamp)
        assert counts.queryable_store_name == "counts"
        store = driver.get_window_store("counts")
        assert store.fetch("a", 0) == 2
        assert list(store.fetch("a", 0, 20)) == list(store.fetch_range("a", 0, 20)) == [(0, 2), (10, 1)]
        stamped = driver.get_timestamped_window_store("counts")
        assert [(start, value.value) for start, value in stamped.fetch("a", 0, 20)] == [(0, 2), (10, 1)]


@pytest.mark.parametrize("given", [Materialized("kept"), "kept"])
def test_should_take_a_materialized_after_the_mapper(given: Any) -> None:
    table = StreamsBuilder().table("in")
    assert table.map_values(len, given).queryable_store_name == "kept"


def test_should_name_with_key_where_something_else_is_in_its_place() -> None:
    stream, table = StreamsBuilder().stream("in"), StreamsBuilder().table("in")
    for call in (
        lambda: stream.map_values(len, "name"),
        lambda: stream.flat_map_values(list, Materialized("store")),
        lambda: table.map_values(len, 1),
        lambda: table.map_values(len, Materialized("one"), Materialized("two")),
        lambda: stream.join(table, max, with_key="name"),
        lambda: table.join(table, max, foreign_key=str, with_key="name"),
    ):
        with pytest.raises(TypeError, match="with_key is True or False"):
            call()  # type: ignore[no-untyped-call]


async def later(*_: Any) -> Any:
    return None


class Later:
    async def __call__(self, value: str) -> Any:
        return value


@pytest.mark.parametrize(
    "call",
    [
        lambda: stream().map(later),
        lambda: stream().map_values(Later()),
        lambda: stream().foreach(partial(later, "x")),
        lambda: stream().filter(later),
        lambda: stream().join(stream(), later, JoinWindows(1000, grace=0)),
        lambda: grouped().aggregate(lambda: 0, later),
        lambda: grouped().reduce(later),
    ],
)
def test_should_refuse_an_async_function(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=rf"\(.*{HERE}:\d+\): .* is an async function, which would not be awaited"):
        call()


def test_should_refuse_a_processor_with_an_async_method() -> None:
    class Waits(Processor[Any, Any, Any, Any]):
        async def process(self, record: Record[Any, Any]) -> None:  # type: ignore[override]
            pass

    builder = StreamsBuilder()
    builder.stream("in", READ).process(Waits)
    with pytest.raises(TopologyError, match=rf"async method process, .* \(added at .*{HERE}:\d+\)"):
        builder.build()


def test_should_name_the_line_of_a_map_that_returns_text() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).map(lambda key, value: value).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(ProcessingError, match=rf"\(added at .*{HERE}:\d+\).*map returned a str: it must return a pair"):
            topic.pipe_input("a", "xy")


@pytest.mark.parametrize(
    ("call", "right"),
    [
        (lambda: stream().mapValues, "KStream has no mapValues: write map_values"),
        (lambda: stream().groupByKey, "write group_by_key"),
        (lambda: grouped().windowedBy, "write windowed_by"),
        (lambda: StreamsBuilder().globalTable, "write global_table"),
        (lambda: Topology().addSource, "write add_source"),
        (lambda: Consumed.with_, r"Consumed has no with_: write Consumed\(key_serde=…, value_serde=…, "),
        (lambda: getattr(Consumed, "with"), r"Consumed has no with: write Consumed\("),
        (lambda: Materialized.as_, r"Materialized has no as_: write Materialized\("),
        (lambda: TimeWindows.ofSizeAndGrace, r"has no ofSizeAndGrace: write TimeWindows\(size=…, grace=…, advance=…\)"),
        (lambda: TimeWindows.of_size_and_grace, r"has no of_size_and_grace: write TimeWindows\(size=…"),
        (lambda: TimeWindows(1000, grace=0).advanceBy, r"has no advanceBy: write TimeWindows\(size=…"),
        (lambda: JoinWindows.ofTimeDifferenceWithNoGrace, r"write JoinWindows\(time_difference=…"),
        (lambda: Stores.persistentKeyValueStore, "write persistent_key_value_store"),
        (lambda: KafkaStreams.cleanUp, "write clean_up"),
        (lambda: TopologyTestDriver.createInputTopic, "write create_input_topic"),
        (lambda: stream().nothing_like_it, "'KStream' object has no attribute 'nothing_like_it'"),
        (lambda: Consumed.nothing, "type object 'Consumed' has no attribute 'nothing'"),
    ],
)
def test_should_name_the_python_spelling_of_a_java_name(call: Callable[[], Any], right: str) -> None:
    with pytest.raises(AttributeError, match=right):
        call()


def test_should_read_key_value_stores_as_a_dict() -> None:
    builder = StreamsBuilder()
    builder.table("in", READ, Materialized("rows"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        topic.pipe_key_values([("a", "x"), ("b", "y")])
        for store in (driver.get_key_value_store("rows"), driver.get_timestamped_key_value_store("rows")):
            assert "a" in store
            assert "c" not in store
            assert [key for key, _ in store.items()] == ["a", "b"]
            with pytest.raises(KeyError, match="c"):
                store["c"]
            with pytest.raises(TypeError, match="not iterable"):
                iter(store)
        assert driver.get_key_value_store("rows")["a"] == "x"
