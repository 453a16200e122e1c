"""Serdes that nobody has given: from annotations and from the streams themselves, where there is no default; a default wins."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from penstock import (
    BufferConfig,
    Consumed,
    FixedKeyProcessor,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    Serde,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    ValueTransformerWithKey,
)
from penstock.dsl import cogrouped, kstream, ktable, options, windowing
from penstock.serdes import guessed


@dataclass(frozen=True)
class Order:
    """What functions below make and take."""

    customer: str
    amount: int


def parse(line: str) -> Order:
    customer, amount = line.split()
    return Order(customer, int(amount))


def customer_of(_: str | None, order: Order) -> str:
    return order.customer


def by_customer(_: str | None, order: Order) -> tuple[str, Order]:
    return order.customer, order


def parts(order: Order) -> list[Order]:
    return [order, order]


def several(_: str | None, order: Order) -> Iterable[tuple[str, int]]:
    return [(order.customer, order.amount)]


def add(_: str, order: Order, total: int) -> int:
    return total + order.amount


def both(_: str, one: int, other: int) -> int:
    return one + other


def named(left: Order, right: Order | None) -> Order | None:
    return Order(left.customer, left.amount + (right.amount if right else 0))


def amount(order: Order) -> int:
    return order.amount


def customer_and_amount(key: str, order: Order) -> tuple[str, int]:
    return order.customer, order.amount


class ByCustomer(Processor[str, Order, str, int]):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_key(record.value.customer).with_value(record.value.amount))


class OnlyAmounts(FixedKeyProcessor[str, Order, int]):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(record.value.amount))


class Amounts(ValueTransformerWithKey[str, Order, int]):
    def transform(self, key: str, value: Order | None) -> int | None:
        return None if value is None else value.amount


def first(windowed: Any, _: Any) -> str:
    key: str = windowed.key
    return key


def minus(_: str, one: int, total: int) -> int:
    return total - one


def run(builder: StreamsBuilder, *lines: str, config: dict[str, Any] | None = None) -> dict[Any, Any]:
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", str, str).pipe_key_values([(f"k{n}", line) for n, line in enumerate(lines)], 0)
        return driver.create_output_topic("out", str, dict if config is None else str).read_key_values_to_map()


LINES = ("ann 1", "bob 2", "ann 3")


def orders(builder: StreamsBuilder) -> Any:
    return builder.stream("in", Consumed(str, str)).map_values(parse)


ORDER = {"customer": "ann", "amount": 3}


@pytest.mark.parametrize(
    ("follow", "expected"),
    [
        (lambda s: s.select_key(customer_of), ORDER),
        (lambda s: s.map(by_customer), ORDER),
        (lambda s: s.flat_map_values(parts).select_key(customer_of), ORDER),
        (lambda s: s.map_values(partial(named, right=None)).select_key(customer_of), ORDER),
        (lambda s: s.select_key(customer_of).repartition(), ORDER),
        (lambda s: s.select_key(customer_of).to_table().to_stream(), ORDER),
        (lambda s: s.group_by(customer_of).reduce(lambda old, new: new).to_stream(), ORDER),
        (lambda s: s.group_by(customer_of, Grouped("by")).reduce(lambda old, new: new).to_stream(), ORDER),
        (lambda s: s.select_key(customer_of).group_by_key(Grouped("by")).reduce(lambda old, new: new).to_stream(), ORDER),
        (lambda s: s.to_table().group_by(by_customer).reduce(lambda a, b: b, lambda a, b: a).to_stream(), ORDER),
    ],
)
def test_should_take_serdes_from_annotations(follow: Any, expected: Any) -> None:
    builder = StreamsBuilder()
    follow(orders(builder)).to("out")
    assert run(builder, *LINES)["ann"] == expected


@pytest.mark.parametrize(
    ("follow", "expected"),
    [
        (lambda s: s.flat_map(several), 3),
        (lambda s: s.group_by(customer_of).aggregate(int, add).to_stream(), 4),
        (lambda s: s.group_by(customer_of).aggregate(lambda: 0, add, Materialized("totals")).to_stream(), 4),
        (lambda s: s.group_by(customer_of).aggregate(int, lambda k, v, a: a + v.amount).to_stream(), 4),
        (lambda s: s.group_by(customer_of).windowed_by(TimeWindows(10, grace=0)).aggregate(int, add).to_stream(first), 4),
        (
            lambda s: s.group_by(customer_of).windowed_by(SessionWindows(10, grace=0)).aggregate(int, add, both).to_stream(first),
            4,
        ),
        (lambda s: s.select_key(customer_of).to_table().map_values(amount).to_stream(), 3),
        (lambda s: s.select_key(customer_of).to_table().map_values(amount, materialized="amounts").to_stream(), 3),
        (lambda s: s.to_table().group_by(customer_and_amount).aggregate(int, both, minus).to_stream(), 4),
        (lambda s: s.group_by(customer_of).cogroup(add).aggregate(lambda: 0).to_stream(), 4),
        (lambda s: s.group_by(customer_of).cogroup(add).windowed_by(TimeWindows(10, grace=0)).aggregate(int).to_stream(first), 4),
        (lambda s: s.process(ByCustomer), 3),
        (lambda s: s.select_key(customer_of).process_values(OnlyAmounts), 3),
        (lambda s: s.select_key(customer_of).to_table().transform_values(Amounts).to_stream(), 3),
        (lambda s: s.flat_map(several).merge(s.flat_map(several)), 3),
    ],
)
def test_should_take_serdes_of_aggregates_from_annotations(follow: Any, expected: int) -> None:
    builder = StreamsBuilder()
    follow(orders(builder)).to("out", Produced(str))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", str, str).pipe_key_values([(f"k{n}", line) for n, line in enumerate(LINES)], 0)
        assert driver.create_output_topic("out", str, int).read_key_values_to_map()["ann"] == expected


@pytest.mark.parametrize("how", ["join", "left_join"])
def test_should_take_serdes_of_joins_from_streams_and_joiners(how: str) -> None:
    builder = StreamsBuilder()
    stream = orders(builder).select_key(customer_of)
    table = stream.to_table()
    joined = getattr(stream, how)(table, named)
    again = getattr(joined, how)(stream, named, JoinWindows(10, grace=0))
    getattr(table, how)(again.to_table(), named).to_stream().to("out")
    assert run(builder, "ann 1")["ann"]["customer"] == "ann"


def test_should_take_the_serde_of_a_foreign_key_join_from_its_joiner() -> None:
    builder = StreamsBuilder()
    table = orders(builder).select_key(customer_of).to_table()
    table.join(table, named, foreign_key=lambda order: order.customer).to_stream().to("out")
    assert run(builder, "ann 1")["ann"] == {"customer": "ann", "amount": 2}


class Marked(Serde[Any]):
    """A default serde that shows itself."""

    def serialize(self, topic: str, value: Any) -> bytes:
        return f"marked {value}".encode()

    def deserialize(self, topic: str, data: bytes) -> Any:
        return Order(*eval_order(data.decode().removeprefix("marked ")))


def eval_order(text: str) -> tuple[str, int]:
    customer, amount = text.removeprefix("Order(customer='").removesuffix(")").split("', amount=")
    return customer, int(amount)


@pytest.mark.parametrize(
    "follow",
    [
        lambda s: s,
        lambda s: s.group_by(customer_of).reduce(lambda old, new: new).to_stream(),
        lambda s: s.select_key(customer_of).to_table().to_stream(),
        lambda s: s.to_table().group_by(by_customer).reduce(lambda a, b: b, lambda a, b: a).to_stream(),
    ],
)
def test_should_let_a_default_serde_win_over_what_was_guessed(follow: Any) -> None:
    builder = StreamsBuilder()
    follow(orders(builder)).to("out")
    found = run(builder, *LINES, config={"default.key.serde": str, "default.value.serde": Marked})
    assert all(value.startswith("marked Order(") for value in found.values())
    assert found


def test_should_read_a_store_with_the_serde_it_was_written_with() -> None:
    builder = StreamsBuilder()
    orders(builder).group_by(customer_of).reduce(lambda old, new: new, Materialized("last"))
    for config in (None, {"default.key.serde": str, "default.value.serde": Marked}):
        with TopologyTestDriver(builder.build(), config) as driver:
            driver.create_input_topic("in", str, str).pipe_values(["ann 1", "ann 3"])
            assert driver.get_key_value_store("last").get("ann") == Order("ann", 3)


def test_should_guess_nothing_without_annotations() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).map_values(lambda line: line.split()).to("out")
    with pytest.raises(StreamsError, match="no value serde"):
        run(builder, "ann 1")


def test_should_guess_nothing_from_annotations_that_say_nothing() -> None:
    def anything(line: str) -> Any:
        return line

    def gone(line: str) -> Missing:  # type: ignore[name-defined]  # noqa: F821
        return line

    for mapper in (anything, gone, str.upper):
        builder = StreamsBuilder()
        assert builder.stream("in", Consumed(str, str)).map_values(mapper)._value_serde is None


def test_should_keep_serdes_that_were_given() -> None:
    builder = StreamsBuilder()
    stream = orders(builder).group_by(customer_of, Grouped("by", Serdes.string(), Serdes.json()))
    assert repr(stream._value_serde) == "Serdes.json()"


class Anything(Serde[Any]):
    """A default serde that takes whatever there is, and shows that it did."""

    def serialize(self, topic: str, value: Any) -> bytes:
        return b"default " + pickle.dumps(value, protocol=2)

    def deserialize(self, topic: str, data: bytes) -> Any:
        return pickle.loads(data.removeprefix(b"default "))


WINDOWS = JoinWindows(10, grace=0)
PROGRAMS: dict[str, Any] = {
    "map": lambda s: s.map(by_customer),
    "repartition": lambda s: s.select_key(customer_of).repartition(),
    "group": lambda s: s.group_by_key().reduce(lambda old, new: new).to_stream(),
    "named group": lambda s: s.group_by_key(Grouped("by")).reduce(lambda old, new: new).to_stream(),
    "group by": lambda s: s.group_by(customer_of, Grouped("by")).aggregate(int, add, "totals").to_stream(),
    "windows": lambda s: s.group_by(customer_of).windowed_by(TimeWindows(10, grace=0)).aggregate(int, add).to_stream(),
    "suppressed": lambda s: (
        s.group_by(customer_of)
        .windowed_by(TimeWindows(10, grace=0))
        .aggregate(int, add)
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        .to_stream()
    ),
    "sessions": lambda s: s.group_by(customer_of).windowed_by(SessionWindows(5, grace=0)).aggregate(int, add, both).to_stream(),
    "stream join": lambda s: s.join(s.filter(lambda k, v: True), named, WINDOWS),
    "outer join": lambda s: s.outer_join(s.filter(lambda k, v: v.amount > 1), lambda a, b: (a, b), WINDOWS),
    "repartitioned join": lambda s: s.select_key(customer_of).join(s.select_key(customer_of), named, WINDOWS),
    "table join": lambda s: s.select_key(customer_of).join(s.to_table(), named),
    "tables": lambda s: s.to_table().join(s.to_table(), named, "both").filter(lambda k, v: True, "filtered").to_stream(),
    "foreign key": lambda s: s.to_table().join(s.to_table(), named, foreign_key=lambda v: "k0").to_stream(),
    "table group": lambda s: s.to_table().group_by(customer_and_amount).aggregate(int, both, minus, "sums").to_stream(),
    "map values": lambda s: s.to_table().map_values(amount, materialized="amounts").to_stream(),
    "cogroup": lambda s: s.group_by(customer_of).cogroup(add).aggregate(int, "sums").to_stream(),
    "windowed cogroup": lambda s: s.group_by_key().cogroup(add).windowed_by(TimeWindows(10, grace=0)).aggregate(int).to_stream(),
    "processed": lambda s: s.process(ByCustomer),
    "merged": lambda s: s.merge(s.filter(lambda k, v: True)).select_key(customer_of).group_by_key().count().to_stream(),
    "transformed": lambda s: s.to_table().transform_values(Amounts, materialized="amounts").to_stream(),
}


@pytest.mark.parametrize("optimize", ["none", "all"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_should_write_with_a_default_what_it_writes_without_guesses(
    program: str, optimize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte, those of changelogs and repartition topics too; and every failure."""
    expected = written(program, optimize)
    for module in (cogrouped, kstream, ktable, options, windowing):
        monkeypatch.setattr(module, "guess", lambda serde, part: None)
    monkeypatch.setattr(guessed, "guess", lambda serde, part: None)
    monkeypatch.setattr(guessed, "_of_type", lambda returned, part: None)
    assert expected == written(program, optimize)


def written(program: str, optimize: str) -> Any:
    config = {"default.key.serde": Anything, "default.value.serde": Anything, "topology.optimization": optimize}
    builder = StreamsBuilder(config)
    source = builder.stream("in", Consumed(Serdes.string(), Serdes.json(Order)))
    PROGRAMS[program](source).to("out")
    with TopologyTestDriver(builder.build(config), config, 0) as driver:
        orders = driver.create_input_topic("in", str, Order, 0, 1)
        orders.pipe_key_values([("k0", Order("ann", 1)), ("k1", Order("bob", 2)), ("k0", Order("ann", 3))])
        orders.pipe_input("k9", Order("cid", 4), 100)
        names = sorted(driver.produced_topic_names())
        return {name: driver.create_output_topic(name, bytes, bytes).read_records() for name in names}
