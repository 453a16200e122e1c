"""The DSL put together with the operators and run by the test driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from penstock.dsl.suppressed import BufferConfig, Suppressed
from penstock.processor import FixedKeyProcessor, Processor, ValueTransformerWithKey
from penstock.record import FixedKeyRecord, Record
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.windows import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windowed
from tests.unit.dsl.programs import by_value, cat

TEXT, LONG = Serdes.string(), Serdes.long()
READ: Any = Consumed(TEXT, TEXT)
WRITE: Any = Produced(TEXT, TEXT)
COUNTED: Any = Produced(TEXT, LONG)
Input = tuple[str, "str | None", "str | None", int]
Output = tuple[Any, Any, int]


def run(
    define: Callable[[StreamsBuilder], None],
    inputs: list[Input],
    values: Any = TEXT,
    optimization: str = "none",
) -> list[Output]:
    builder = StreamsBuilder()
    define(builder)
    topology = builder.build({"topology.optimization": optimization})
    with TopologyTestDriver(topology, {"application.id": "app"}) as driver:
        topics: dict[str, Any] = {}
        for topic, key, value, timestamp in inputs:
            if topic not in topics:
                topics[topic] = driver.create_input_topic(topic, TEXT, TEXT)
            topics[topic].pipe_input(key, value, timestamp=timestamp)
        records = driver.create_output_topic("out", TEXT, values).read_records()
        return [(record.key, record.value, record.timestamp) for record in records]


def window_text(key: Windowed[str], value: Any) -> str:
    return str(key)


def test_should_count_words() -> None:
    def define(b: StreamsBuilder) -> None:
        words = b.stream("in", READ).flat_map_values(str.split)
        words.group_by(by_value, Grouped(None, TEXT, TEXT)).count().to_stream().to("out", COUNTED)

    assert run(define, [("in", "k", "a b a", 1), ("in", "k", "b", 2)], LONG) == [
        ("a", 1, 1),
        ("b", 1, 1),
        ("a", 2, 1),
        ("b", 2, 2),
    ]


def test_should_send_each_record_to_the_first_branch_that_takes_it() -> None:
    def define(b: StreamsBuilder) -> None:
        b.stream("in", READ).split("s-").branch(
            lambda k, v: v > "m", Branched("late", function=lambda s: s.map_values(str.upper))
        ).branch(lambda k, v: v > "c", Branched(consumer=lambda s: s.to("out", WRITE))).default_branch(
            Branched(consumer=lambda s: s.map_values(lambda v: f"rest {v}").to("out", WRITE))
        )["s-late"].to("out", WRITE)

    inputs: list[Input] = [("in", "k", value, 1) for value in ("z", "d", "a")]
    assert [value for _, value, _ in run(define, inputs)] == ["Z", "d", "rest a"]


class CountPerKey(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.store: Any = context.get_state_store("seen")

    def process(self, record: Record[str, str]) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(f"{record.value} {count}"))


class WithStore:
    stores = (Stores.key_value_store_builder(Stores.in_memory_key_value_store("seen"), TEXT, LONG),)

    def __call__(self) -> CountPerKey:
        return CountPerKey()


class ReadCount(FixedKeyProcessor[str, str, str]):
    def process(self, record: FixedKeyRecord[str, str]) -> None:
        count = self.context.get_state_store("seen").get(record.key)
        self.context.forward(record.with_value(f"{record.value}/{count}"))


class AddCount(ValueTransformerWithKey[str, str, str]):
    def transform(self, key: str, value: str) -> str:
        return f"{value} {self.context.get_state_store('seen').get(key)}"


def test_should_share_a_store_between_processors() -> None:
    def define(b: StreamsBuilder) -> None:
        b.stream("in", READ).process(WithStore()).process_values(ReadCount, "seen").to("out", WRITE)
        b.table("table", READ).transform_values(AddCount, "seen").to_stream().to("out", WRITE)

    inputs: list[Input] = [("in", "k", "a", 1), ("in", "k", "b", 2), ("table", "k", "row", 3)]
    assert [value for _, value, _ in run(define, inputs)] == ["a 1/1", "b 2/2", "row 2"]


def test_should_use_an_added_store() -> None:
    def define(b: StreamsBuilder) -> None:
        b.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), TEXT, LONG))
        b.stream("in", READ).process(CountPerKey, "seen", name="count").to("out", WRITE)

    assert run(define, [("in", "k", "a", 1), ("in", "k", "b", 2)]) == [("k", "a 1", 1), ("k", "b 2", 2)]


def test_should_choose_a_topic_for_each_record() -> None:
    def define(b: StreamsBuilder) -> None:
        b.stream("in", READ).to(lambda key, value, context: "out" if value == context.topic else "other", WRITE)

    assert run(define, [("in", "a", "in", 1), ("in", "b", "x", 2)]) == [("a", "in", 1)]


def test_should_repartition_by_the_users_partitioner() -> None:
    def define(b: StreamsBuilder) -> None:
        options: Any = Repartitioned("r", TEXT, TEXT, 3, lambda topic, key, value, count: 0)
        b.stream("in", READ).repartition(options).to("out", WRITE)

    assert run(define, [("in", "a", "x", 1)]) == [("a", "x", 1)]


def test_should_map_whole_batches() -> None:
    def define(b: StreamsBuilder) -> None:
        b.stream("in", READ).map_batches(lambda batch: batch).to("out", WRITE)

    assert run(define, [("in", "a", "x", 1)]) == [("a", "x", 1)]


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (TimeWindows(10, grace=0), [("[k@0/10]", 1, 1), ("[k@0/10]", 2, 2), ("[k@10/20]", 1, 12)]),
        (SessionWindows(5, grace=0), [("[k@1/1]", 1, 1), ("[k@1/1]", None, 1), ("[k@1/2]", 2, 2), ("[k@12/12]", 1, 12)]),
        (
            SlidingWindows(10, grace=0),
            [("[k@0/10]", 1, 1), ("[k@0/10]", 2, 2), ("[k@2/12]", 1, 2), ("[k@2/12]", 2, 12), ("[k@3/13]", 1, 12)],
        ),
    ],
)
def test_should_count_in_windows(windows: Any, expected: list[Output]) -> None:
    def define(b: StreamsBuilder) -> None:
        b.stream("in", READ).group_by_key().windowed_by(windows).count().to_stream(window_text).to("out", COUNTED)

    counted = run(define, [("in", "k", "a", 1), ("in", "k", "b", 2), ("in", "k", "c", 12)], LONG)
    assert sorted(counted, key=str) == sorted(expected, key=str)


def test_should_emit_final_results_only() -> None:
    inputs: list[Input] = [("in", "k", "a", 1), ("in", "k", "b", 2), ("in", "k", "c", 12)]

    def suppressed(b: StreamsBuilder) -> None:
        windowed = b.stream("in", READ).group_by_key().windowed_by(TimeWindows(10, grace=0)).count()
        final = windowed.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        final.to_stream(window_text).to("out", COUNTED)

    def on_close(b: StreamsBuilder) -> None:
        windowed = b.stream("in", READ).group_by_key().windowed_by(TimeWindows(10, grace=0))
        windowed.emit_strategy(EmitStrategy.on_window_close()).count().to_stream(window_text).to("out", COUNTED)

    assert run(suppressed, inputs, LONG) == run(on_close, inputs, LONG) == [("[k@0/10]", 2, 2)]


@pytest.mark.parametrize("optimization", ["none", "all"])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("join", [("k", "a+b", 2)]),
        ("left_join", [("k", "a+b", 2), ("z", "d+None", 50)]),
        ("outer_join", [("k", "a+b", 2), ("x", "None+c", 3), ("z", "d+None", 50)]),
    ],
)
def test_should_join_streams(kind: str, expected: list[Output], optimization: str) -> None:
    def define(b: StreamsBuilder) -> None:
        left: Any = b.stream("l", READ).select_key(lambda k, v: k)
        join = getattr(left, kind)
        options: Any = StreamJoined(TEXT, TEXT, TEXT, name="j")
        join(b.stream("r", READ), lambda a, b: f"{a}+{b}", JoinWindows(10, grace=0), options).to("out", WRITE)

    inputs: list[Input] = [("l", "k", "a", 1), ("r", "k", "b", 2), ("r", "x", "c", 3), ("l", "z", "d", 50), ("l", "e", "e", 90)]
    assert run(define, inputs, optimization=optimization) == expected


def test_should_join_a_stream_with_tables() -> None:
    def define(b: StreamsBuilder) -> None:
        stream = b.stream("in", READ)
        joined = stream.join(b.table("t", READ), lambda key, a, c: f"{key}{a}{c}", Joined(TEXT, TEXT, TEXT), with_key=True)
        everywhere = b.global_table("g", READ)
        joined.left_join(everywhere, lambda key, value: key, lambda a, c: f"{a}{c}").to("out", WRITE)

    inputs: list[Input] = [("t", "k", "1", 0), ("g", "k", "2", 0), ("in", "k", "a", 1), ("in", "x", "b", 2)]
    assert run(define, inputs) == [("k", "ka12", 1)]


def test_should_look_up_a_versioned_table_as_of_the_streams_time() -> None:
    def define(b: StreamsBuilder) -> None:
        versions: Any = Materialized(supplier=Stores.persistent_versioned_key_value_store("v", 1000))
        table = b.table("t", READ, versions)
        b.stream("in", READ).join(table, cat, Joined(TEXT, TEXT, TEXT, grace_period=10)).to("out", WRITE)

    inputs: list[Input] = [("t", "k", "1", 1), ("t", "k", "5", 5), ("in", "k", "a", 4), ("in", "k", "b", 6), ("in", "k", "c", 40)]
    assert run(define, inputs) == [("k", "a1", 4), ("k", "b5", 6)]


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_should_join_tables_by_key_and_by_foreign_key(optimization: str) -> None:
    def define(b: StreamsBuilder) -> None:
        orders, customers = b.table("orders", READ), b.table("customers", READ)
        named: Any = TableJoined("fk")
        kept: Any = Materialized(value_serde=TEXT)
        by_foreign_key = orders.left_join(customers, lambda o, c: f"{o}:{c}", kept, foreign_key=str.lower, table_joined=named)
        by_foreign_key.join(orders, lambda a, o: f"{a}/{o}", Materialized("result", TEXT, TEXT)).to_stream().to("out", WRITE)

    inputs: list[Input] = [("customers", "ann", "Ann", 1), ("orders", "1", "ANN", 2), ("customers", "ann", "Anna", 3)]
    assert run(define, inputs, optimization=optimization)[-1] == ("1", "ANN:Anna/ANN", 3)


def test_should_move_rows_between_groups() -> None:
    def define(b: StreamsBuilder) -> None:
        by_city = b.table("people", READ).group_by(lambda person, city: (city, person), Grouped("city", TEXT, TEXT))
        by_city.aggregate(
            lambda: "",
            lambda city, person, people: people + person,
            lambda city, person, people: people.replace(person, ""),
            Materialized("residents", TEXT, TEXT),
        ).to_stream().to("out", WRITE)

    inputs: list[Input] = [("people", "a", "Rome", 1), ("people", "b", "Rome", 2), ("people", "a", "Oslo", 3)]
    assert run(define, inputs) == [("Rome", "a", 1), ("Rome", "ab", 2), ("Rome", "b", 3), ("Oslo", "a", 3)]


def test_should_aggregate_several_streams_into_one_table() -> None:
    def define(b: StreamsBuilder) -> None:
        clicks, buys = (b.stream(topic, READ).group_by_key() for topic in ("clicks", "buys"))
        both = clicks.cogroup(lambda k, v, a: a + v).cogroup(buys, lambda k, v, a: a + v.upper())
        both.aggregate(str, Materialized("c", TEXT, TEXT)).to_stream().to("out", WRITE)

    assert run(define, [("clicks", "u", "a", 1), ("buys", "u", "b", 2)]) == [("u", "a", 1), ("u", "aB", 2)]


def test_should_drop_records_without_a_key_before_a_repartition_unless_a_left_join_wants_them() -> None:
    def define(b: StreamsBuilder, kind: str) -> None:
        stream: Any = b.stream("in", READ).select_key(lambda k, v: None if v == "none" else k)
        getattr(stream, kind)(b.table("t", READ), lambda a, c: f"{a}+{c}", Joined(TEXT, TEXT, TEXT)).to("out", WRITE)

    inputs: list[Input] = [("in", "k", "none", 1), ("in", "k", "a", 2)]
    assert run(lambda b: define(b, "join"), inputs) == []
    assert run(lambda b: define(b, "left_join"), inputs) == [(None, "none+None", 1), ("k", "a+None", 2)]


def test_should_emit_results_without_a_partner_at_once_with_javas_deprecated_join_windows() -> None:
    text = Serdes.string()
    builder = StreamsBuilder()
    left, right = builder.stream("left", Consumed(text, text)), builder.stream("right", Consumed(text, text))
    joined = left.outer_join(
        right, lambda one, other: f"{one}+{other}", JoinWindows.of(10).grace(0), StreamJoined(text, text, text)
    )
    joined.to("out", Produced(text, text))
    with TopologyTestDriver(builder.build()) as driver:
        lefts, rights = driver.create_input_topic("left", text, text), driver.create_input_topic("right", text, text)
        lefts.pipe_input("k", "a", timestamp=0)
        rights.pipe_input("k", "b", timestamp=5)
        rights.pipe_input("k", "c", timestamp=30)
        read = driver.create_output_topic("out", text, text).read_values()
    assert read == ["a+None", "a+b", "None+c"]
