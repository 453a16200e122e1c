"""Behaviour with state: aggregates, windows, sessions, suppress, chains, processors with stores."""

from __future__ import annotations

from typing import Any

from penstock import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windowed,
)
from tests.behaviour.case import In, Names, case, ins, long, outs, string

_BOTH = ("exactly_once_v2", "at_least_once")
_TEXT: Consumed[str, str] = Consumed(string, string)
_BY_TEXT: Grouped[str, str] = Grouped(key_serde=string, value_serde=string)
_COUNTS = {"counts": (string, long)}
_HOUR = 3_600_000


def window_text(key: Windowed[str], _: Any) -> str:
    """`key@start-end`, counted from the start of the case."""
    return f"{key.key}@{key.window.start % _HOUR}-{key.window.end % _HOUR}"


def word_count(t: Names) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(t("lines"), _TEXT).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, _BY_TEXT).count(Materialized("counts", string, long))
    counts.to_stream().to(t("counts"), Produced(string, long))
    return builder.build()


for _transport in ("auto", "topic", "shuffle"):
    case(
        f"word count, repartition by {_transport}",
        inputs=ins("lines", ("1", "to be or not", 1), ("1", "to be", 2), ("1", "that is", 3), ("1", "or", 4)),
        expected={
            "counts": outs(
                ("to", 1, 1), ("be", 1, 1), ("or", 1, 1), ("not", 1, 1), ("to", 2, 2), ("be", 2, 2), ("that", 1, 3), ("is", 1, 3),
                ("or", 2, 4),
            )
        },
        serdes=_COUNTS,
        config={"repartition.transport": _transport},
        guarantees=_BOTH if _transport != "shuffle" else ("exactly_once_v2",),
    )(word_count)  # fmt: skip


@case(
    "reduce and aggregate of a grouped stream, null keys dropped",
    inputs=ins("in", ("a", "x", 1), (None, "lost", 2), ("a", "y", 3), ("b", "z", 4), ("a", "w", 5)),
    expected={
        "longest": outs(("a", "x", 1), ("a", "xy", 3), ("b", "z", 4), ("a", "xyw", 5)),
        "counts": outs(("a", 1, 1), ("a", 2, 3), ("b", 1, 4), ("a", 3, 5)),
    },
    serdes=_COUNTS,
    guarantees=_BOTH,
)
def reduce_and_aggregate(t: Names) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(t("in"), _TEXT).group_by_key(_BY_TEXT)
    grouped.reduce(lambda a, b: a + b).to_stream().to(t("longest"), Produced(string, string))
    counted = grouped.aggregate(lambda: 0, lambda k, v, n: n + 1, Materialized("n", string, long))
    counted.to_stream().to(t("counts"), Produced(string, long))
    return builder.build()


@case(
    "table with tombstones, filter, group by",
    inputs=ins("in", ("a", "red", 1), ("b", "red", 2), ("a", "blue", 3), ("b", None, 4), ("c", "blue", 5)),
    expected={
        "table": outs(("a", "red", 1), ("b", "red", 2), ("a", "blue", 3), ("b", None, 4), ("c", "blue", 5)),
        "counts": outs(
            ("red", 1, 1), ("red", 2, 2), ("red", 1, 3), ("blue", 1, 3), ("red", 0, 4), ("blue", 2, 5),
        ),
    },
    serdes=_COUNTS,
    partitions=1,
)  # fmt: skip
def table_with_tombstones(t: Names) -> Topology:
    builder = StreamsBuilder()
    table = builder.table(t("in"), _TEXT, Materialized("favourites", string, string))
    table.to_stream().to(t("table"), Produced(string, string))
    counts = table.group_by(lambda k, v: (v, k), _BY_TEXT).count(Materialized("by-colour", string, long))
    counts.to_stream().to(t("counts"), Produced(string, long))
    return builder.build()


@case(
    "tumbling windows with late records",
    inputs=ins(
        "in", ("a", "1", 0), ("a", "2", 9), ("b", "3", 12), ("a", "ok", 8), ("a", "4", 31), ("a", "late", 9), ("a", "5", 32)
    ),
    expected={
        "counts": outs(
            ("a@0-10", 1, 0), ("a@0-10", 2, 9), ("b@10-20", 1, 12), ("a@0-10", 3, 9), ("a@30-40", 1, 31), ("a@30-40", 2, 32),
        )
    },
    serdes=_COUNTS,
    partitions=1,
    guarantees=_BOTH,
)  # fmt: skip
def windowed_count(t: Names) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(t("in"), _TEXT).group_by_key(_BY_TEXT).windowed_by(TimeWindows(10, grace=5))
    counts = grouped.count(Materialized("windows", string, long))
    counts.to_stream(window_text).to(t("counts"), Produced(string, long))
    return builder.build()


@case(
    "sessions that merge",
    inputs=ins("in", ("a", "1", 0), ("a", "2", 5), ("a", "3", 40), ("a", "between", 22), ("b", "4", 41)),
    expected={
        "counts": outs(
            ("a@0-0", 1, 0), ("a@0-0", None, 0), ("a@0-5", 2, 5), ("a@40-40", 1, 40),
            ("a@0-5", None, 5), ("a@40-40", None, 40), ("a@0-40", 4, 40), ("b@41-41", 1, 41),
        )
    },
    serdes=_COUNTS,
    partitions=1,
)  # fmt: skip
def sessions(t: Names) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(t("in"), _TEXT).group_by_key(_BY_TEXT).windowed_by(SessionWindows(20, grace=1000))
    counts = grouped.count(Materialized("sessions", string, long))
    counts.to_stream(window_text).to(t("counts"), Produced(string, long))
    return builder.build()


@case(
    "suppress until windows close",
    inputs=ins("in", ("a", "1", 0), ("a", "2", 9), ("b", "3", 3), ("a", "4", 14), ("a", "5", 30), ("z", "flush", 100)),
    expected={"counts": outs(("b@0-10", 1, 3), ("a@0-10", 2, 9), ("a@10-20", 1, 14), ("a@30-40", 1, 30))},
    serdes=_COUNTS,
    partitions=1,
)
def suppressed(t: Names) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(t("in"), _TEXT).group_by_key(_BY_TEXT).windowed_by(TimeWindows(10, grace=5))
    counts = grouped.count(Materialized("windows", string, long)).suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded())
    )
    counts.to_stream(window_text).to(t("counts"), Produced(string, long))
    return builder.build()


def chain(t: Names) -> Topology:
    """Count words, then count how many words have each count."""
    builder = StreamsBuilder()
    words = builder.stream(t("lines"), _TEXT).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, _BY_TEXT).count(Materialized("counts", string, long))
    by_count = counts.group_by(lambda word, n: (str(n), word), Grouped(key_serde=string, value_serde=string))
    by_count.count(Materialized("spectrum", string, long)).to_stream().to(t("counts"), Produced(string, long))
    return builder.build()


case(
    "a chain of two stateful steps",
    inputs=ins("lines", ("1", "a b a", 1), ("1", "b c", 2), ("1", "a", 3)),
    expected={
        "counts": outs(
            # The first count of a word replaces the initial 0, as in Kafka Streams.
            ("0", None, 1), ("1", 1, 1), ("0", None, 1), ("1", 2, 1), ("1", 1, 1), ("2", 1, 1),
            ("1", 0, 2), ("2", 2, 2), ("0", None, 2), ("1", 1, 2), ("2", 1, 3), ("3", 1, 3),
        )
    },
    serdes=_COUNTS,
    partitions=1,
    guarantees=_BOTH,
)(chain)  # fmt: skip

case(
    "a chain of two stateful steps over several partitions",
    inputs=ins("lines", *((str(i), f"w{i % 7} w{i % 5}", i) for i in range(70))),
    expected={"counts": outs(("24", 5), ("10", 2))},
    serdes=_COUNTS,
    partitions=3,
    final=True,
)(chain)


class _TotalOnTheClock(Processor[str, str, str, str]):
    """Counts in a store; hands the total out when the clock strikes."""

    stores: Any = ()

    def init(self, context: Any) -> None:
        self._context = context
        self._store = context.get_state_store("totals")
        context.schedule(200, PunctuationType.WALL_CLOCK_TIME, self._strike)

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, str(int(self._store.get(record.key) or "0") + 1))

    def _strike(self, now: int) -> None:
        with self._store.all() as entries:
            found = list(entries)
        for key, total in found:
            self._context.forward(Record(key, f"total {total}", now))
            self._store.delete(key)


@case(
    "wall-clock punctuation without input",
    inputs=ins("in", ("a", "1", 1), ("a", "2", 2), ("b", "3", 3)),
    expected={"out": outs(("a", "total 2"), ("b", "total 1"))},
    wall_clock_ms=200,
    guarantees=_BOTH,
)
def wall_clock(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("totals"), string, string))
    builder.stream(t("in"), _TEXT).process(_TotalOnTheClock, "totals").to(t("out"), Produced(string, string))
    return builder.build()


class _Previous(Processor[str, str, str, str]):
    """Tells what it saw before, and on stream time how many keys there are."""

    def init(self, context: Any) -> None:
        self._context = context
        self._store = context.get_state_store("previous")
        context.schedule(10, PunctuationType.STREAM_TIME, self._tick)

    def process(self, record: Record[str, str]) -> None:
        before = self._store.get(record.key)
        self._store.put(record.key, record.value)
        self._context.forward(record.with_value(f"{before} -> {record.value}"))

    def _tick(self, stream_time: int) -> None:
        with self._store.all() as entries:
            self._context.forward(Record("keys", str(len(list(entries))), stream_time))


@case(
    "processor with an in-memory store and stream-time punctuation",
    inputs=ins("in", ("a", "1", 0), ("b", "2", 5), ("a", "3", 12), ("c", "4", 25)),
    expected={
        "out": outs(
            ("a", "None -> 1", 0), ("keys", "1", 0), ("b", "None -> 2", 5), ("a", "1 -> 3", 12), ("keys", "2", 12),
            ("c", "None -> 4", 25), ("keys", "3", 25),
        )
    },
    partitions=1,
)  # fmt: skip
def stream_time(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("previous"), string, string))
    builder.stream(t("in"), _TEXT).process(_Previous, "previous").to(t("out"), Produced(string, string))
    return builder.build()


@case(
    "stream to table, and its updates",
    inputs=[In("in", "a", "1", 1), In("in", "b", "2", 2), In("in", "a", None, 3), In("in", "a", "4", 4)],
    expected={"out": outs(("a", "1", 1), ("b", "2", 2), ("a", None, 3), ("a", "4", 4))},
)
def to_table(t: Names) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(t("in"), _TEXT)
    stream.to_table(Materialized("latest", string, string)).to_stream().to(t("out"), Produced(string, string))
    return builder.build()
