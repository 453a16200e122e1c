"""Batches and single records give the same outputs, changelogs, offsets and stores, whatever comes in."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import (
    Branched,
    Consumed,
    EmitStrategy,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindow,
    TimeWindows,
    UnlimitedWindows,
    Window,
    WindowedSerdes,
    Windows,
)
from penstock.batches.record_batch import RawBatch, records_of
from penstock.ids import TopicPartition
from penstock.metrics.registry import Metrics
from penstock.record import RawRecord
from penstock.state.cache import RecordCache
from tests.harness.thoroughness import examples
from tests.unit.runtime.harness import TASK, Harness, config, process_in_batches

STRING, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()
TEXT = Produced(STRING, STRING)

Build = Callable[[StreamsBuilder], Any]


def picky(value: str) -> str:
    if "x" in value:
        raise ValueError(f"does not like {value}")
    return value.upper()


def yields_and_fails(value: str) -> Any:
    for letter in value:
        if letter == "x":
            raise ValueError("x")
        yield letter


def table(serde: Any = LONG, caching: bool = True, store_type: Any = "rocksdb") -> Materialized[Any, Any]:
    return Materialized("table", STRING, serde, caching=caching, store_type=store_type)


def grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in", Consumed(STRING, STRING)).group_by_key(Grouped(None, STRING, STRING))


def append(_key: str, value: str, seen: Any) -> Any:
    seen.append(value)
    return seen


def forget_on_x(_key: str, value: str, seen: Any) -> Any:
    return None if value == "x" else f"{seen}{value}"


def branches(builder: StreamsBuilder) -> None:
    split = builder.stream("in", Consumed(STRING, STRING)).split(name="s-")
    split = split.branch(lambda k, v: v > "b", Branched("high")).branch(lambda k, v: picky(v) == "A", Branched("a"))
    for name, stream in split.default_branch(Branched("rest")).items():
        stream.to(f"out{name}", TEXT)


def stateless(apply: Callable[[Any], Any]) -> Build:
    return lambda builder: apply(builder.stream("in", Consumed(STRING, STRING))).to("out", TEXT)


def windowed(windows: Any, emit: EmitStrategy | None = None, caching: bool = True) -> Build:
    def build(builder: StreamsBuilder) -> None:
        stream = grouped(builder).windowed_by(windows)
        stream = stream if emit is None else stream.emit_strategy(emit)
        counts = stream.count(Materialized("table", STRING, LONG, caching=caching))
        counts.to_stream(lambda w, _: f"{w.key}@{w.window.start}").to("out", Produced(STRING, LONG))

    return build


def windowed_aggregate(initial: Callable[[], Any], aggregate: Any, serde: Any, emit: EmitStrategy | None = None) -> Build:
    keys = WindowedSerdes.time_windowed(STRING, 6)

    def build(builder: StreamsBuilder) -> None:
        stream = grouped(builder).windowed_by(TimeWindows(6, grace=2, advance=3))
        stream = stream if emit is None else stream.emit_strategy(emit)
        results = stream.aggregate(initial, aggregate, Materialized("table", STRING, serde))
        if emit is None:
            odd = results.filter(lambda _, value: len(value) % 2 == 1, Materialized("odd", keys, serde))
            odd.to_stream().map_values(json.dumps).to("odd", Produced(keys, STRING))
        results.to_stream().map_values(json.dumps).to("out", Produced(keys, STRING))

    return build


def listed(windows: Any, aggregate: Any, emit: EmitStrategy | None = None) -> Build:
    """Lists over sliding windows or sessions, which functions change in place."""

    def build(builder: StreamsBuilder) -> None:
        stream = grouped(builder).windowed_by(windows)
        stream = stream if emit is None else stream.emit_strategy(emit)
        merging = {"merger": lambda _, one, two: one + two} if isinstance(windows, SessionWindows) else {}
        lists = stream.aggregate(list, aggregate, materialized=Materialized("table", STRING, JSON), **merging)
        lists.to_stream(lambda w, _: f"{w.key}@{w.window.start}-{w.window.end}").map_values(json.dumps).to("out", TEXT)

    return build


def picky_append(key: str, value: str, seen: Any) -> Any:
    return append(key, picky(value), seen)


def stream_table(builder: StreamsBuilder) -> None:
    rows = builder.table("rows", Consumed(STRING, STRING), Materialized("rows"))
    builder.stream("in", Consumed(STRING, STRING)).left_join(rows, lambda v, row: f"{v}-{row}").to("out", TEXT)


def merged(builder: StreamsBuilder) -> Any:
    return builder.stream("in", Consumed(STRING, STRING)).merge(builder.stream("rows", Consumed(STRING, STRING)))


def cogrouped(builder: StreamsBuilder) -> None:
    other = builder.stream("rows", Consumed(STRING, STRING)).group_by_key(Grouped(None, STRING, STRING))
    both = grouped(builder).cogroup(picky_append).cogroup(other, append)
    both.aggregate(list, table(JSON)).to_stream().map_values(json.dumps).to("out", TEXT)


NEAR = JoinWindows(5, grace=2)


def join_streams(
    kind: str = "join",
    before: Callable[[Any], Any] = lambda s: s,
    joiner: Callable[[str, str], str] = lambda a, b: f"{a}-{b}",
    after: Callable[[Any], Any] = lambda s: s,
    windows: JoinWindows = NEAR,
    serde: Any = STRING,
    in_memory: bool = False,
) -> Build:
    def build(builder: StreamsBuilder) -> None:
        left = before(builder.stream("in", Consumed(STRING, STRING)))
        right = builder.stream("rows", Consumed(STRING, STRING))
        store_type = "in_memory" if in_memory else None
        joined = getattr(left, kind)(right, joiner, windows, StreamJoined(STRING, serde, serde, store_type=store_type))
        after(joined).to("out", TEXT)

    return build


def join_tables(
    kind: str, result: Materialized[Any, Any] | None = None, then: Callable[[Any], Any] = lambda stream: stream
) -> Build:
    def build(builder: StreamsBuilder) -> None:
        left = builder.table("in", Consumed(STRING, STRING))
        right = builder.table("rows", Consumed(STRING, STRING))
        joined = getattr(left, kind)(right, lambda a, b: f"{a and picky(a)}-{b}", *([] if result is None else [result]))
        then(joined.to_stream()).to("out", TEXT)

    return build


def join_aggregates(aggregate: Callable[[Any, str], Any]) -> Build:
    def build(builder: StreamsBuilder) -> None:
        left, right = (
            aggregate(builder.stream(topic, Consumed(STRING, STRING)).group_by_key(Grouped(None, STRING, STRING)), f"of-{topic}")
            for topic in ("in", "rows")
        )
        left.join(right, lambda a, b: json.dumps([a, b])).to_stream().to("out", TEXT)

    return build


def count_text(stream: Any) -> Any:
    grouped_again = stream.group_by_key(Grouped(None, STRING, STRING))
    return grouped_again.count(table(caching=False)).to_stream().map_values(str)


class Growing(Windows):
    """Windows of 5 and 8 by turns, of which the longer ones overlap the next."""

    size = 8
    grace_period_ms = 2

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        even = timestamp // 10 * 10
        found = [TimeWindow(even, even + 8), TimeWindow(even + 5, even + 10)]
        return {window.start: window for window in found if window.start <= timestamp < window.end}


CASES: dict[str, Build] = {
    "map": stateless(lambda s: s.map(lambda k, v: (v, k or "")).filter(lambda k, v: k is not None)),
    "values": stateless(lambda s: s.map_values(str.upper)),
    "picky": stateless(lambda s: s.map_values(picky).filter_not(lambda k, v: v == "A")),
    "flat values": stateless(lambda s: s.flat_map_values(yields_and_fails)),
    "words": stateless(lambda s: s.flat_map_values(str.split)),
    "words by themselves": stateless(lambda s: s.flat_map_values(lambda line: line.split()).select_key(lambda _, word: word)),
    "counted words": lambda b: b.stream("in", Consumed(STRING, STRING)).flat_map_values(str.split)
    .group_by(lambda _, word: word, Grouped(None, STRING, STRING)).count(table()).to_stream().to("out", Produced(STRING, LONG)),
    "flat": stateless(lambda s: s.flat_map(lambda k, v: [(v, k or "-"), (v, "2")] if v else None)),
    "keys": stateless(lambda s: s.select_key(lambda k, v: picky(v))),
    "peek": stateless(lambda s: s.peek(lambda k, v: picky(v))),
    "branches": branches,
    "count": lambda b: grouped(b).count(table()).to_stream().to("out", Produced(STRING, LONG)),
    "count uncached": lambda b: grouped(b).count(table(caching=False)).to_stream().to("out", Produced(STRING, LONG)),
    "count in memory": lambda b: grouped(b).count(table(store_type="in_memory")).to_stream().to("out", Produced(STRING, LONG)),
    "count as double": lambda b: grouped(b).aggregate(lambda: 0, lambda k, v, n: n + 1, table(Serdes.double()))
    .to_stream().map_values(str).to("out", TEXT),
    "filtered count": lambda b: grouped(b).count(table()).filter(lambda k, n: n % 2 == 0).to_stream()
    .map_values(str).to("out", TEXT),
    "reduce": lambda b: grouped(b).reduce(lambda a, v: max(a, picky(v)), table(STRING)).to_stream().to("out", TEXT),
    "reduce uncached": lambda b: grouped(b).reduce(max, table(STRING, False)).to_stream().to("out", TEXT),
    "lists": lambda b: grouped(b).aggregate(list, append, table(JSON)).to_stream().map_values(json.dumps).to("out", TEXT),
    "lists uncached": lambda b: grouped(b).aggregate(list, append, table(JSON, False)).map_values(json.dumps)
    .to_stream().to("out", TEXT),
    "lists as they are": lambda b: grouped(b).aggregate(list, append, table(JSON)).to_stream().to("out", Produced(STRING, JSON)),
    "lists that are changed on their way": lambda b: grouped(b).aggregate(list, append, table(JSON)).to_stream()
    .peek(lambda k, seen: seen.append(k)).to("out", Produced(STRING, JSON)),
    "forgetful": lambda b: grouped(b).aggregate(str, forget_on_x, table(STRING)).to_stream().to("out", TEXT),
    "forgetful uncached": lambda b: grouped(b).aggregate(str, forget_on_x, table(STRING, False)).to_stream().to("out", TEXT),
    "old values uncached": lambda b: grouped(b).aggregate(list, append, table(JSON, False))
    .group_by(lambda k, seen: (str(len(seen)), json.dumps(seen)), Grouped("by-length", STRING, STRING)).count(),
    "old values of reduce uncached": lambda b: b.stream("in", Consumed(STRING, STRING)).map_values(list)
    .group_by_key(Grouped(None, STRING, JSON)).reduce(lambda seen, value: append("", value, seen), table(JSON, False))
    .group_by(lambda k, seen: (str(len(seen)), json.dumps(seen)), Grouped("by-length", STRING, STRING)).count(),
    "old values": lambda b: grouped(b).aggregate(list, append, table(JSON)).filter(lambda k, v: len(v) % 2, Materialized("f"))
    .to_stream().map_values(json.dumps).to("out", TEXT),
    "windows": windowed(TimeWindows(5, grace=3)),
    "windows uncached": windowed(TimeWindows(5, grace=3), caching=False),
    "hopping": windowed(TimeWindows(6, grace=0, advance=2)),
    "on close": windowed(TimeWindows(5, grace=3), EmitStrategy.on_window_close()),
    "hopping on close": windowed(TimeWindows(6, grace=0, advance=4), EmitStrategy.on_window_close()),
    "unlimited": windowed(UnlimitedWindows(start=9)),
    "windows of one's own": windowed(Growing()),
    "windows of one's own, uncached": windowed(Growing(), caching=False),
    "windowed lists": windowed_aggregate(list, append, JSON),
    "windowed picky lists": windowed_aggregate(list, picky_append, JSON),
    "windowed forgetful": windowed_aggregate(str, forget_on_x, STRING),
    "windowed lists on close": windowed_aggregate(list, picky_append, JSON, EmitStrategy.on_window_close()),
    "sliding": windowed(SlidingWindows(5, grace=3)),
    "sessions": windowed(SessionWindows(3, grace=3)),
    "sliding on close": windowed(SlidingWindows(5, grace=3), EmitStrategy.on_window_close()),
    "sliding picky lists": listed(SlidingWindows(5, grace=3), picky_append),
    "sliding picky lists on close": listed(SlidingWindows(5, grace=0), picky_append, EmitStrategy.on_window_close()),
    "sessions on close": windowed(SessionWindows(3, grace=3), EmitStrategy.on_window_close()),
    "session picky lists": listed(SessionWindows(3, grace=3), picky_append),
    "session picky lists on close": listed(SessionWindows(3, grace=0), picky_append, EmitStrategy.on_window_close()),
    "stream-table": stream_table,
    "table without a store": lambda b: b.table("in", Consumed(STRING, STRING)).to_stream().map_values(lambda v: v and picky(v))
    .to("out", TEXT),
    "merged": lambda b: merged(b).map_values(picky).to("out", TEXT),
    "merged and counted": lambda b: merged(b).group_by_key(Grouped(None, STRING, STRING)).count(table())
    .to_stream().to("out", Produced(STRING, LONG)),
    "merged and counted, uncached": lambda b: merged(b).group_by_key(Grouped(None, STRING, STRING)).count(table(caching=False))
    .to_stream().to("out", Produced(STRING, LONG)),
    "merged in windows": lambda b: merged(b).group_by_key(Grouped(None, STRING, STRING)).windowed_by(TimeWindows(5, grace=3))
    .count(table()).to_stream(lambda w, _: f"{w.key}@{w.window.start}").to("out", Produced(STRING, LONG)),
    "cogrouped": cogrouped,
    "inner join": join_streams(),
    "inner join after others": join_streams(before=lambda s: s.filter(lambda k, v: v != "cc").flat_map_values(yields_and_fails)),
    "inner join of records out of order": join_streams(windows=JoinWindows(0, grace=0, before=20, after=-3)),
    "inner join before others": join_streams(after=lambda s: count_text(s.map_values(picky))),
    "inner join with a picky joiner": join_streams(joiner=lambda a, b: picky(a) + picky(b), serde=JSON),
    "inner join in memory": join_streams(in_memory=True),
    "inner join in memory of records out of order": join_streams(
        windows=JoinWindows(0, grace=0, before=20, after=-3), in_memory=True
    ),
    "left join in memory": join_streams("left_join", in_memory=True),
    "outer join in memory": join_streams("outer_join", in_memory=True),
    "joined tables": join_tables("join"),
    "joined tables with a store": join_tables("join", table(STRING)),
    "joined lists": join_aggregates(lambda grouped, name: grouped.aggregate(list, append, Materialized(name, STRING, JSON))),
    "joined counts": join_aggregates(lambda grouped, name: grouped.count(Materialized(name, STRING, LONG))),
    "joined tables that are counted": join_tables("join", then=count_text),
    "left joined tables": join_tables("left_join"),
    "outer joined tables": join_tables("outer_join"),
    "left join": join_streams("left_join"),
    "left join after others": join_streams("left_join", lambda s: s.flat_map_values(yields_and_fails)),
    "left join of records out of order": join_streams("left_join", windows=JoinWindows(0, grace=0, before=20, after=-3)),
    "outer join": join_streams("outer_join"),
    "outer join of records out of order": join_streams("outer_join", windows=JoinWindows(0, grace=9, before=2, after=7)),
    "outer join before others": join_streams("outer_join", after=lambda s: count_text(s.map_values(picky))),
    "outer join with a picky joiner": join_streams("outer_join", joiner=lambda a, b: picky(a) + str(b and picky(b)), serde=JSON),
}  # fmt: skip

ROWS = st.tuples(
    st.sampled_from(["a", "b", "c", "d", None]),
    st.sampled_from(["a", "b", "cc", "x", "", " a  b", "\u3000c\x1cd ", None]),
    st.integers(0, 30),
    st.sampled_from([(), (), (("h", b"1"),), (("h", b"2"), ("n", None))]),
)
TURNS = st.lists(st.tuples(st.lists(ROWS, max_size=60), st.lists(ROWS, max_size=20)), min_size=1, max_size=3)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Let a task without stores have several parts in a turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.runtime.task._PART", 7)
        yield


def run(
    build: Build,
    turns: Any,
    columns: bool,
    logs_last_only: bool = False,
    emit_interval_ms: int = 1000,
    until: float = math.inf,
) -> Any:
    builder = StreamsBuilder()
    build(builder)
    with tempfile.TemporaryDirectory() as folder:
        handler = {"processing.exception.handler": "log_and_continue", "deserialization.exception.handler": "log_and_continue"}
        handler |= {"__emit.interval.ms.kstreams.windowed.aggregation__": emit_interval_ms}
        handler |= {"__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": emit_interval_ms}
        harness = Harness(builder.build(), Path(folder), config().with_values(handler))
        harness.topic_partitions = {"out": 3, "odd": 2}
        harness.metrics = Metrics("INFO", clock=harness.clock)
        task = harness.open()
        assert task.takes_batches
        seen: list[Any] = []
        at = {"in": 0, "rows": 0}
        for turn in turns:
            for topic, rows in zip(("in", "rows"), turn):
                partition = TopicPartition(topic, TASK.partition)
                if partition not in task.input_partitions:
                    continue
                raw = [
                    RawRecord(*partition, at[topic] + i, t, k and k.encode(), v if v is None else v.encode(), h)
                    for i, (k, v, t, h) in enumerate(rows)
                ]
                at[topic] += len(rows)
                task.add_records(partition, RawBatch.of(*partition, raw) if columns else raw)
            task.update_lags(dict.fromkeys(task.input_partitions, 0))
            if columns:
                process_in_batches(task, until)
            else:
                while task.process():
                    task.maybe_punctuate_stream_time()
            commit = task.prepare_commit()
            outputs: dict[Any, list[Any]] = {}
            for record in records_of(commit.outputs):
                outputs.setdefault((record.topic, record.partition), []).append(tuple(record))
            # Between partitions and between changelogs there is no order; within one there is.
            changes = sorted((tuple(record) for record in records_of(commit.changelogs)), key=lambda change: change[0])
            if logs_last_only:
                changes = sorted({(topic, key): tuple(rest) for topic, _, key, *rest in changes}.items())
            seen.append((outputs, changes, commit.offsets, task.stream_time))
            task.post_commit({})
        # A cache still shows windows that the store below has let go.
        for store in task.topology.state_stores:
            task.context.cache.clear(RecordCache.name_space(TASK, store.name))
        stores = {s.name: list(s.all()) for s in task.topology.state_stores if hasattr(s, "all")}
        dropped = {
            name: metric.metric_value
            for name, metric in harness.metrics.metrics().items()
            if "dropped" in name.name and "total" in name.name
        }
        task.close_dirty()
        return seen, stores, dropped


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(10), deadline=None)
@given(turns=TURNS)
def test_should_give_the_same_in_batches_and_record_by_record(case: str, turns: Any) -> None:
    # With results on close there is no cache; columns log the last state of a window in a turn, as a cache would.
    last_only = "on close" in case
    assert run(CASES[case], turns, True, last_only) == run(CASES[case], turns, False, last_only)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("left join", "outer join"))])
@settings(max_examples=examples(10), deadline=None)
@given(turns=TURNS)
def test_should_give_the_same_where_results_leave_as_soon_as_windows_close(case: str, turns: Any) -> None:
    assert run(CASES[case], turns, True, emit_interval_ms=0) == run(CASES[case], turns, False, emit_interval_ms=0)


def test_should_process_records_behind_an_unreadable_one_of_a_later_part(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG)).map_values(lambda number: number + 1).to("out", Produced(STRING, LONG))
    handler = {"deserialization.exception.handler": "log_and_continue"}
    harness = Harness(builder.build(), tmp_path, config().with_values(handler))
    harness.metrics = Metrics("INFO", clock=harness.clock)
    task = harness.open()
    partition = TopicPartition("in", TASK.partition)
    numbers = [b"short" if at == 20 else LONG.serializer("in", at) for at in range(40)]
    raw = [RawRecord(*partition, at, at, b"k", number) for at, number in enumerate(numbers)]
    task.add_records(partition, RawBatch.of(*partition, raw))
    assert task.process_all() == 39
    assert task.processed_in_batches == 14  # two parts are in front of the part with the record
    commit = task.prepare_commit()
    written = [LONG.deserializer("out", record.value) for record in records_of(commit.outputs)]
    assert written == [at + 1 for at in range(40) if at != 20]
    assert commit.offsets[partition].offset == 40
