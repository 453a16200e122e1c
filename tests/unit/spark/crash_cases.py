"""Topologies that are crashed at every step, with their input and with how their results are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.hashing import default_partition
from tests.unit.spark.crash_world import Brokers

string, long = Serdes.string(), Serdes.long()
TEXT: Any = Consumed(string, string)
PARTITIONS = 2
Row = tuple[int, bytes | None, bytes, int]  # partition, key, value, timestamp


def by_key(rows: Sequence[tuple[Any, Any]]) -> Any:
    """The values of each key in their order: exact, whatever the order of the keys."""
    found: dict[Any, list[Any]] = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    return found


def as_set(rows: Sequence[tuple[Any, Any]]) -> Any:
    """Every record as often as it was written, in any order."""
    return sorted(rows, key=repr)


def last(rows: Sequence[tuple[Any, Any]]) -> Any:
    """Where caches are flushed when a turn ends: the last value of each key; and none may come twice."""
    assert len(set(rows)) == len(rows), "a value was written twice"
    return dict(rows)


@dataclass(frozen=True)
class Case:
    """`inputs(part)` are the records of one of three parts, by topic; `waits` is what is not fetched while others are."""

    topology: Callable[[], Any]
    inputs: Callable[[int], Mapping[str, Sequence[Row]]]
    outputs: Mapping[str, Callable[[Sequence[tuple[Any, Any]]], Any]]
    config: Mapping[str, Any] = field(default_factory=lambda: {"statestore.cache.max.bytes": 0})
    waits: tuple[str, ...] = ()
    same_stores: bool = True

    def feed(self, brokers: Brokers, part: int) -> None:
        """Write a part of the input."""
        for topic, rows in self.inputs(part).items():
            for partition, *record in rows:
                brokers.append(topic, partition, *record)


def _stateless() -> Any:
    builder = StreamsBuilder()
    numbers = builder.stream("in", TEXT).filter(lambda _, value: not value.endswith("3"))
    numbers.map_values(lambda value: f"<{value}>").to("out", Produced(string, string))
    return builder.build()


def _plain(part: int) -> dict[str, list[Row]]:
    return {"in": [(n % 2, b"k%d" % (n % 4), b"%d" % n, n) for n in range(part * 8, part * 8 + 8)]}


def _count() -> Any:
    builder = StreamsBuilder()
    counted = builder.stream("in", TEXT).group_by_key(Grouped(key_serde=string, value_serde=string)).count(Materialized("counts"))
    counted.to_stream().to("out", Produced(string, long))
    return builder.build()


def _words() -> Any:
    builder = StreamsBuilder()
    lines = builder.stream("in", Consumed(string, Serdes.json()))
    lines.map_values(str).to("audit", Produced(string, string))
    words = lines.flat_map_values(lambda line: line.split())
    counted = words.group_by(lambda _, word: word, Grouped("words", string, string)).count(Materialized("counts"))
    counted.to_stream().to("out", Produced(string, long))
    return builder.build()


def _lines(part: int) -> dict[str, list[Row]]:
    texts = [b'"a b c d"', b'"b c e f g"', b"no json %d" % part, b'"a g h i j k"', b'"l m"', b'"m b a"']
    return {"in": [(n % 2, b"line", text, part * 10 + n) for n, text in enumerate(texts)]}


def _join() -> Any:
    """What waits has crossed the shuffle; its audit waits with it."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", TEXT)
    orders.to("audit", Produced(string, string))
    keyed = orders.select_key(lambda _, value: value[0]).repartition(Repartitioned("keyed", string, string))
    other = builder.stream("other", TEXT)
    within = JoinWindows(10_000, grace=10_000)
    joined = keyed.join(other, lambda a, b: f"{a}+{b}", within, StreamJoined(string, string, string, name="joined"))
    joined.to("out", Produced(string, string))
    return builder.build()


_LETTERS = b"abcdef"


def _both(part: int) -> dict[str, list[Row]]:
    letters = [_LETTERS[n : n + 1] for n in range(len(_LETTERS))]
    return {
        "orders": [(n % 2, b"k", letter + b"%d" % part, part * 100 + n) for n, letter in enumerate(letters)],
        "other": [
            (default_partition(letter, PARTITIONS), letter, b"o%d" % part, part * 100 + 10 * n)
            for n, letter in enumerate(letters)
        ],
    }


def _windows() -> Any:
    builder = StreamsBuilder()
    grouped = builder.stream("in", TEXT).group_by(lambda _, value: value[-1], Grouped("digits", string, string))
    counted = grouped.windowed_by(TimeWindows(10, grace=1_000)).count(Materialized("windows"))
    counted.to_stream(lambda windowed, _: f"{windowed.key}@{windowed.window.start}").to("out", Produced(string, long))
    return builder.build()


def _final() -> Any:
    builder = StreamsBuilder()
    grouped = builder.stream("in", TEXT).group_by_key(Grouped(key_serde=string, value_serde=string))
    counted = grouped.windowed_by(TimeWindows(4, grace=0)).count(Materialized("windows"))
    final = counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final"))
    final.to_stream(lambda windowed, _: f"{windowed.key}@{windowed.window.start}").to("out", Produced(string, long))
    return builder.build()


_DEAD = {"errors.dead.letter.queue.topic.name": "dead", "deserialization.exception.handler": "log_and_continue"}
_UNCACHED = {"statestore.cache.max.bytes": 0}

CASES: Mapping[str, Case] = {
    "stateless": Case(_stateless, _plain, {"out": by_key}),
    "count": Case(_count, _plain, {"out": by_key}),
    "words": Case(_words, _lines, {"out": by_key, "audit": as_set, "dead": as_set}, {**_UNCACHED, **_DEAD}),
    "words counted": Case(_words, _lines, {"out": last, "audit": as_set, "dead": as_set}, _DEAD),
    "join": Case(_join, _both, {"out": as_set, "audit": as_set}, waits=("other",), same_stores=False),
    "windows": Case(_windows, _plain, {"out": by_key}),
    "final": Case(_final, _plain, {"out": by_key}),
}
