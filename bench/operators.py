"""A topology for each operator that is measured; those of `java/src/main/java/bench/Operators.java`, line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindowedKStream,
    TimeWindows,
    WindowedSerdes,
)

STRING, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()
WINDOW_MS, ADVANCE_MS, DIFFERENCE_MS, GAP_MS, DEDUP_MS = 10_000, 2_000, 5_000, 2_000, 10_000

_Build = Callable[[StreamsBuilder, str, str, str], None]


def _texts(builder: StreamsBuilder, topic: str) -> KStream[str, str]:
    return builder.stream(topic, Consumed(STRING, STRING))


def _numbers(builder: StreamsBuilder, topic: str) -> KStream[str, int]:
    return builder.stream(topic, Consumed(STRING, LONG))


def _objects(builder: StreamsBuilder, topic: str) -> KStream[str, Any]:
    return builder.stream(topic, Consumed(STRING, JSON))


def _table(builder: StreamsBuilder, topic: str) -> KTable[str, str]:
    return builder.table(topic, Consumed(STRING, STRING))


# -- one by one --------------------------------------------------------------------------------------------------------


def _texts_chain(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    lines = _texts(builder, source).filter(lambda _, line: not line.startswith("#"))
    words = lines.map_values(lambda line: line.upper()).flat_map_values(lambda line: line.split(";"))
    words.filter(lambda _, word: len(word) > 3).map_values(lambda word: f"<{word}>").to(sink, Produced(STRING, STRING))


def _json_chain(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    large = _objects(builder, source).filter(lambda _, order: order["amount"] >= 500)
    large.map_values(lambda order: {"user": order["user"], "cents": order["amount"] * 100}).to(sink, Produced(STRING, JSON))


# -- by key ------------------------------------------------------------------------------------------------------------


def _reduce(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    grouped = _numbers(builder, source).group_by_key(Grouped(key_serde=STRING, value_serde=LONG))
    sums = grouped.reduce(lambda one, other: one + other, Materialized(key_serde=STRING, value_serde=LONG))
    sums.to_stream().to(sink, Produced(STRING, LONG))


def _json_aggregate(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    by_user = _objects(builder, source).group_by(lambda _, order: order["user"], Grouped(key_serde=STRING, value_serde=JSON))
    spent = by_user.aggregate(
        lambda: {"orders": 0, "amount": 0},
        lambda _, order, so_far: {"orders": so_far["orders"] + 1, "amount": so_far["amount"] + order["amount"]},
        Materialized(key_serde=STRING, value_serde=JSON),
    )
    spent.to_stream().to(sink, Produced(STRING, JSON))


@dataclass
class Order:
    """An order as a dataclass."""

    id: int
    user: str
    amount: int
    country: str
    items: list[str]


@dataclass
class Spent:
    """What a user has spent, as a dataclass."""

    orders: int
    amount: int


class OrderStruct(msgspec.Struct):
    """An order as a Struct of msgspec."""

    id: int
    user: str
    amount: int
    country: str
    items: list[str]


class SpentStruct(msgspec.Struct):
    """What a user has spent, as a Struct of msgspec."""

    orders: int
    amount: int


def _typed_aggregate(order_type: Any, spent_type: Any) -> _Build:
    order_serde, spent_serde = Serdes.json(order_type), Serdes.json(spent_type)

    def build(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
        orders = builder.stream(source, Consumed(STRING, order_serde))
        spent = orders.group_by(lambda _, order: order.user, Grouped(key_serde=STRING, value_serde=order_serde)).aggregate(
            lambda: spent_type(0, 0),
            lambda _, order, so_far: spent_type(so_far.orders + 1, so_far.amount + order.amount),
            Materialized(key_serde=STRING, value_serde=spent_serde),
        )
        spent.to_stream().to(sink, Produced(STRING, spent_serde))

    return build


# -- windows -----------------------------------------------------------------------------------------------------------


def _windows(builder: StreamsBuilder, source: str, windows: TimeWindows | SlidingWindows) -> TimeWindowedKStream[str, int]:
    return _numbers(builder, source).group_by_key(Grouped(key_serde=STRING, value_serde=LONG)).windowed_by(windows)


def _count_windows(windows: TimeWindows | SlidingWindows, size: int) -> _Build:
    def build(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
        counts = _windows(builder, source, windows).count(Materialized(key_serde=STRING, value_serde=LONG))
        counts.to_stream().to(sink, Produced(WindowedSerdes.time_windowed(STRING, size), LONG))

    return build


def _suppress(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    counts = _windows(builder, source, TimeWindows(WINDOW_MS, grace=0)).count(Materialized(key_serde=STRING, value_serde=LONG))
    closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream().to(sink, Produced(WindowedSerdes.time_windowed(STRING, WINDOW_MS), LONG))


def _suppress_map(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    """Many keys, and a function of the user's behind the windows."""
    grouped = _texts(builder, source).group_by_key(Grouped(key_serde=STRING, value_serde=STRING))
    counts = grouped.windowed_by(TimeWindows(WINDOW_MS, grace=0)).count(Materialized(key_serde=STRING, value_serde=LONG))
    closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()
    closed.map(lambda windowed, count: (f"{windowed.key}@{windowed.window.start}", count)).to(sink, Produced(STRING, LONG))


def _sessions(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    grouped = _numbers(builder, source).group_by_key(Grouped(key_serde=STRING, value_serde=LONG))
    counts = grouped.windowed_by(SessionWindows(GAP_MS, grace=0)).count(Materialized(key_serde=STRING, value_serde=LONG))
    counts.to_stream().to(sink, Produced(WindowedSerdes.session_windowed(STRING), LONG))


# -- joins -------------------------------------------------------------------------------------------------------------


def _or_dash(mine: str | None, theirs: str | None) -> str:
    return f"{mine or '-'},{theirs or '-'}"


def _left_join(builder: StreamsBuilder, source: str, other: str, sink: str) -> None:
    left, right = _texts(builder, source), _texts(builder, other)
    joined = left.left_join(right, _or_dash, JoinWindows(WINDOW_MS, grace=0), StreamJoined(STRING, STRING, STRING))
    joined.to(sink, Produced(STRING, STRING))


def _outer_join(builder: StreamsBuilder, source: str, other: str, sink: str) -> None:
    left, right = _texts(builder, source), _texts(builder, other)
    joined = left.outer_join(right, _or_dash, JoinWindows(WINDOW_MS, grace=0), StreamJoined(STRING, STRING, STRING))
    joined.to(sink, Produced(STRING, STRING))


def _global_table(builder: StreamsBuilder, source: str, other: str, sink: str) -> None:
    users = builder.global_table(other, Consumed(STRING, STRING))
    joined = _texts(builder, source).join(users, lambda _, user: user, lambda user, name: f"{user},{name}")
    joined.to(sink, Produced(STRING, STRING))


def _tables(builder: StreamsBuilder, source: str, other: str, sink: str) -> None:
    joined = _table(builder, source).join(_table(builder, other), lambda mine, theirs: f"{mine},{theirs}")
    joined.to_stream().to(sink, Produced(STRING, STRING))


def _foreign_key(builder: StreamsBuilder, source: str, other: str, sink: str) -> None:
    orders, users = _table(builder, source), _table(builder, other)
    joined = orders.join(
        users,
        lambda order, name: f"{order},{name}",
        foreign_key=lambda order: order.split("|")[0],
        materialized=Materialized(key_serde=STRING, value_serde=STRING),
    )
    joined.to_stream().to(sink, Produced(STRING, STRING))


# -- processors --------------------------------------------------------------------------------------------------------


class Totals(Processor[str, int, str, int]):
    """The sum of each key's numbers, in a key-value store."""

    stores = (Stores.key_value_store_builder(Stores.persistent_key_value_store("totals"), STRING, LONG),)

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.totals = context.get_state_store("totals")

    def process(self, record: Record[str, int]) -> None:
        total = (self.totals.get(record.key) or 0) + record.value
        self.totals.put(record.key, total)
        self.context.forward(record.with_value(total))


class Dedup(Processor[str, str, str, str]):
    """Lets a key pass that has not been seen for a while, by a window store of those that have."""

    stores = (Stores.window_store_builder(Stores.persistent_window_store("seen", 6 * DEDUP_MS, DEDUP_MS), STRING, STRING),)

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.seen = context.get_state_store("seen")

    def process(self, record: Record[str, str]) -> None:
        with self.seen.fetch(record.key, record.timestamp - DEDUP_MS, record.timestamp) as seen:
            if next(seen, None) is not None:
                return
        self.seen.put(record.key, record.value, record.timestamp)
        self.context.forward(record)


def _totals(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    _numbers(builder, source).process(Totals).to(sink, Produced(STRING, LONG))


def _dedup(builder: StreamsBuilder, source: str, _: str, sink: str) -> None:
    _texts(builder, source).process(Dedup).to(sink, Produced(STRING, STRING))


OPERATORS: dict[str, _Build] = {
    "hopping": _count_windows(TimeWindows(WINDOW_MS, grace=0, advance=ADVANCE_MS), WINDOW_MS),
    "global-table": _global_table,
    "reduce": _reduce,
    "json": _json_chain,
    "processor": _totals,
    "tables": _tables,
    "suppress": _suppress,
    "json-aggregate": _json_aggregate,
    "json-dataclass": _typed_aggregate(Order, Spent),
    "json-struct": _typed_aggregate(OrderStruct, SpentStruct),
    "suppress-map": _suppress_map,
    "texts": _texts_chain,
    "foreign-key": _foreign_key,
    "dedup": _dedup,
    "sliding": _count_windows(SlidingWindows(DIFFERENCE_MS, grace=DIFFERENCE_MS), DIFFERENCE_MS),
    "sessions": _sessions,
    "left-join": _left_join,
    "outer-join": _outer_join,
}
