"""penstock's topologies; those of `java/src/main/java/bench/Topologies.java`, line by line."""

from __future__ import annotations

import os
from collections.abc import Callable

from bench.operators import OPERATORS
from penstock import (
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    Serdes,
    SparkHistory,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
    WindowedSerdes,
)

STRING, LONG = Serdes.string(), Serdes.long()
WINDOW_MS = 10_000
# Closed windows are looked for once a second by the clock on the wall. A backlog is read at hundreds of seconds of event time in
# that second, and what the store has dropped by then is never seen: keep it.
RETENTION_MS = 86_400_000

# A folder of Parquet files that `source` reads first.
HISTORY = "BENCH_HISTORY"

_Build = Callable[[StreamsBuilder, KStream, str, str], None]


def named(name: str, source: str, other: str, sink: str) -> Topology:
    """One of the topologies below or of `operators.py`, from the topic `source` (and `other`, where it joins) to `sink`."""
    builder = StreamsBuilder()
    if name in OPERATORS:
        OPERATORS[name](builder, source, other, sink)
        return builder.build()
    history = SparkHistory(os.environ[HISTORY]) if HISTORY in os.environ else None
    _TOPOLOGIES[name](builder, builder.stream(source, Consumed(STRING, STRING, history=history)), other, sink)
    return builder.build()


def _wordcount(_: StreamsBuilder, lines: KStream, __: str, sink: str) -> None:
    words = lines.flat_map_values(str.split).group_by(lambda _, word: word, Grouped(key_serde=STRING, value_serde=STRING))
    words.count(Materialized(key_serde=STRING, value_serde=LONG)).to_stream().to(sink, Produced(STRING, LONG))


def _named(_: StreamsBuilder, lines: KStream, __: str, sink: str) -> None:
    """The same with a store that can be asked for by its name; there is no twin of it in Java."""
    words = lines.flat_map_values(str.split).group_by(lambda _, word: word, Grouped("words", STRING, STRING))
    words.count(Materialized("counts", STRING, LONG)).to_stream().to(sink, Produced(STRING, LONG))


def _wordcount_lambda(_: StreamsBuilder, lines: KStream, __: str, sink: str) -> None:
    """The same as users write it: lambdas that are called for each record."""
    words = lines.flat_map_values(lambda line: line.split())
    grouped = words.group_by(lambda _, word: word, Grouped(key_serde=STRING, value_serde=STRING))
    grouped.count(Materialized(key_serde=STRING, value_serde=LONG)).to_stream().to(sink, Produced(STRING, LONG))


def _wordcount_opaque(_: StreamsBuilder, lines: KStream, __: str, sink: str) -> None:
    """Nothing but lambdas that no one can look into: every operator runs the user's own Python."""
    words = lines.flat_map_values(lambda line: line.split(" "))
    grouped = words.group_by(lambda _, word: word, Grouped(key_serde=STRING, value_serde=STRING))
    counts = grouped.aggregate(lambda: 0, lambda _, __, count: count + 1, Materialized(key_serde=STRING, value_serde=LONG))
    counts.to_stream().to(sink, Produced(STRING, LONG))


def _windows(strategy: EmitStrategy) -> _Build:
    def build(_: StreamsBuilder, events: KStream, __: str, sink: str) -> None:
        windowed = events.group_by_key(Grouped(key_serde=STRING, value_serde=STRING)).windowed_by(TimeWindows(WINDOW_MS, grace=0))
        counts = windowed.emit_strategy(strategy).count(Materialized(key_serde=STRING, value_serde=LONG, retention=RETENTION_MS))
        counts.to_stream().to(sink, Produced(WindowedSerdes.time_windowed(STRING, WINDOW_MS), LONG))

    return build


def _join_table(builder: StreamsBuilder, clicks: KStream, table: str, sink: str) -> None:
    users = builder.table(table, Consumed(STRING, STRING))
    joined = clicks.join(users, lambda click, user: f"{click},{user}", Joined(STRING, STRING, STRING))
    joined.to(sink, Produced(STRING, STRING))


def _join_stream(builder: StreamsBuilder, left: KStream, other: str, sink: str) -> None:
    right = builder.stream(other, Consumed(STRING, STRING))
    windows = JoinWindows(WINDOW_MS, grace=0)
    joined = left.join(right, lambda mine, theirs: f"{mine},{theirs}", windows, StreamJoined(STRING, STRING, STRING))
    joined.to(sink, Produced(STRING, STRING))


def _count(_: StreamsBuilder, events: KStream, __: str, sink: str) -> None:
    grouped = events.group_by_key(Grouped(key_serde=STRING, value_serde=STRING))
    grouped.count(Materialized("counts", STRING, LONG)).to_stream().to(sink, Produced(STRING, LONG))


_TOPOLOGIES: dict[str, _Build] = {
    "wordcount": _wordcount,
    "named": _named,
    "wordcount-lambda": _wordcount_lambda,
    "wordcount-opaque": _wordcount_opaque,
    "windows-on-update": _windows(EmitStrategy.on_window_update()),
    "windows-on-close": _windows(EmitStrategy.on_window_close()),
    "join-table": _join_table,
    "join-stream": _join_stream,
    "count": _count,
}
