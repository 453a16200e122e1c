"""The operators of the DSL, with their task closed and opened again after every record: the output stays the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.operators.time_tracker import time_key
from penstock.record import ProducedRecord, RawRecord
from penstock.runtime.offset_metadata import MAX_LENGTH, OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from penstock.runtime.task import StreamTask, TaskCommit
from penstock.testing import TopologyTestDriver
from tests.harness.thoroughness import examples

from .harness import Harness

STRING = Serdes.string()
TEXT = Consumed(STRING, STRING)
BY_KEY = Grouped(key_serde=STRING, value_serde=STRING)
JOINED = StreamJoined(STRING, STRING, STRING)


class MovingDriver(TopologyTestDriver):
    """Closes its task after every record and opens it again from what was committed and logged."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._log: dict[TopicPartition, list[RawRecord]] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        super().__init__(*args, **kwargs)

    def pipe_record(self, *args: Any, **kwargs: Any) -> None:
        super().pipe_record(*args, **kwargs)
        self._move()

    def advance_wall_clock_time(self, advance: Any) -> None:
        super().advance_wall_clock_time(advance)
        self._move()

    def _move(self) -> None:
        assert self._task is not None
        assert not self._task.has_records_queued
        self._commit(self._task)
        self._task.suspend()
        self._task.close_clean()
        self._task = self._open_task(self._plan)

    def _keep(self, commit: TaskCommit) -> None:
        self._committed.update(commit.offsets)
        for record in commit.changelogs:
            log = self._log.setdefault(TopicPartition(record.topic, record.partition or 0), [])
            log.append(_as_read(record, len(log)))
        super()._keep(commit)

    def _prepare(self, task: StreamTask) -> None:
        for partition, offset in task.state_manager.changelog_offsets.items():
            task.state_manager.restore(partition, self._log.get(partition, [])[offset:])
        task.complete_restoration(self._committed)


class EarlierDriver(MovingDriver):
    """Commits operators' times as earlier versions did, under names in full."""

    def _keep(self, commit: TaskCommit) -> None:
        super()._keep(commit)
        assert self._task is not None
        stores = [store.name for store in self._task.topology.state_stores]
        in_full = {time_key(name): name for store in stores for name in (f"{store}@stream-time", f"{store}@min-time")}
        for partition, committed in commit.offsets.items():
            time, kept = TopicPartitionMetadata.decode(committed.metadata)
            entries = {in_full.get(name, name): value for name, value in kept.as_dict().items()}
            assert not any(name.startswith("@") for name in entries)
            text = TopicPartitionMetadata(time, ProcessorMetadata(entries)).encode()
            self._committed[partition] = committed._replace(metadata=text)


def _as_read(record: ProducedRecord, offset: int) -> RawRecord:
    return RawRecord(record.topic, record.partition or 0, offset, record.timestamp, record.key, record.value, record.headers)


def counted(windows: Any, emit: EmitStrategy | None = None, suppressed: Any = None) -> Callable[[StreamsBuilder], Any]:
    def topology(builder: StreamsBuilder) -> Any:
        stream: Any = builder.stream("left", TEXT).group_by_key(BY_KEY).windowed_by(windows)
        if emit is not None:
            stream = stream.emit_strategy(emit)
        # Kept for long: a session that has expired from the store may still be in a cache, which a task that moves has not.
        table = stream.count(Materialized("counts", key_serde=STRING, value_serde=Serdes.long(), retention=10_000))
        return (table if suppressed is None else table.suppress(suppressed)).to_stream()

    return topology


def joined(how: str) -> Callable[[StreamsBuilder], Any]:
    def topology(builder: StreamsBuilder) -> Any:
        left, right = builder.stream("left", TEXT), builder.stream("right", TEXT)
        windows = JoinWindows(before=10, after=5, grace=7)
        return getattr(left, how)(right, lambda a, b: f"{a}+{b}", windows, JOINED)

    return topology


def cogrouped(windows: Any, **merger: Any) -> Callable[[StreamsBuilder], Any]:
    def topology(builder: StreamsBuilder) -> Any:
        left, right = (builder.stream(topic, TEXT).group_by_key(BY_KEY) for topic in ("left", "right"))
        both = left.cogroup(lambda k, v, a: f"{a}l").cogroup(right, lambda k, v, a: f"{a}r")
        # Kept for long, as in `counted`.
        store = Materialized("both", key_serde=STRING, value_serde=STRING, retention=10_000)
        return both.windowed_by(windows).aggregate(str, materialized=store, **merger).to_stream()

    return topology


def tables(how: str) -> Callable[[StreamsBuilder], Any]:
    def topology(builder: StreamsBuilder) -> Any:
        left = builder.table("left", TEXT, Materialized("left-store"))
        right = builder.table("right", TEXT, Materialized("right-store"))
        return getattr(left, how)(right, lambda a, b: f"{a}+{b}").to_stream()

    return topology


def foreign_key(builder: StreamsBuilder) -> Any:
    left, right = builder.table("left", TEXT), builder.table("right", TEXT)
    joined = left.left_join(right, lambda a, b: f"{a}+{b}", foreign_key=lambda value: value)
    return joined.to_stream()


def waiting_for_table(how: str) -> Callable[[StreamsBuilder], Any]:
    def topology(builder: StreamsBuilder) -> Any:
        history = Stores.persistent_versioned_key_value_store("history", 100)
        table = builder.table("right", TEXT, Materialized(supplier=history))
        waiting = Joined(STRING, STRING, STRING, grace_period=10)
        return getattr(builder.stream("left", TEXT), how)(table, lambda a, b: f"{a}+{b}", waiting)

    return topology


def self_join(builder: StreamsBuilder) -> Any:
    stream = builder.stream("left", TEXT)
    return stream.join(stream, lambda a, b: f"{a}+{b}", JoinWindows(before=10, after=5, grace=7), JOINED)


def suppressed_table(builder: StreamsBuilder) -> Any:
    grouped = builder.stream("left", TEXT).group_by(lambda key, value: value, BY_KEY)
    table = grouped.count(Materialized("counts", key_serde=STRING, value_serde=Serdes.long()))
    return table.suppress(Suppressed.until_time_limit(15, BufferConfig.max_records(2).emit_early_when_full())).to_stream()


CLOSE = EmitStrategy.on_window_close()
CASES: dict[str, Callable[[StreamsBuilder], Any]] = {
    "tumbling": counted(TimeWindows(10, grace=5)),
    "hopping on close": counted(TimeWindows(10, grace=5, advance=4), CLOSE),
    "sliding": counted(SlidingWindows(10, grace=5)),
    "sliding on close": counted(SlidingWindows(10, grace=5), CLOSE),
    "session": counted(SessionWindows(6, grace=5)),
    "session on close": counted(SessionWindows(6, grace=5), CLOSE),
    "cogroup tumbling": cogrouped(TimeWindows(10, grace=5)),
    "cogroup sliding": cogrouped(SlidingWindows(10, grace=5)),
    "cogroup session": cogrouped(SessionWindows(6, grace=5), merger=lambda key, first, second: first + second),
    "suppressed until windows close": counted(
        TimeWindows(10, grace=5), suppressed=Suppressed.until_window_closes(BufferConfig.unbounded())
    ),
    "suppressed table": suppressed_table,
    "stream join": joined("join"),
    "stream left join": joined("left_join"),
    "stream outer join": joined("outer_join"),
    "table left join": tables("left_join"),
    "table outer join": tables("outer_join"),
    "foreign key": foreign_key,
    "stream self join": self_join,
    "stream table join with grace": waiting_for_table("join"),
    "stream table left join with grace": waiting_for_table("left_join"),
}

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["left", "left", "right"]),
        st.sampled_from("abc"),
        st.sampled_from(["a", "b", "c", None]),
        st.integers(0, 80),
    ),
    max_size=12,
)
SAMPLE = [
    ("left", "a", "b", 0),
    ("right", "a", "x", 3),
    ("left", "b", "a", 12),
    ("left", "a", "c", 9),
    ("right", "b", None, 30),
    ("left", "a", "a", 33),
    ("right", "a", "y", 60),
    ("left", "c", None, 61),
    ("left", "a", "b", 20),
]


def run(driver_class: type[TopologyTestDriver], case: str, store_type: str, records: list[Any]) -> list[Any]:
    config = {"default.key.serde": STRING, "default.value.serde": STRING, "default.dsl.store": store_type}
    builder = StreamsBuilder(config)
    CASES[case](builder).map(lambda key, value: (str(key), str(value))).to("out")
    with driver_class(builder.build(), config) as driver:
        known = {topic for topic in ("left", "right") if topic in driver._partitions}
        inputs = {topic: driver.create_input_topic(topic, STRING, STRING) for topic in known}
        for topic, key, value, timestamp in records:
            if topic in inputs:
                inputs[topic].pipe_input(key, value, timestamp)
        return driver.create_output_topic("out", STRING, STRING).read_records()


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(8), deadline=None)
@given(records=RECORDS)
def test_should_not_be_seen_in_the_output(case: str, records: list[Any]) -> None:
    assert run(MovingDriver, case, "in_memory", records) == run(TopologyTestDriver, case, "in_memory", records)


@pytest.mark.parametrize("case", CASES)
def test_should_not_be_seen_in_the_output_with_state_on_disk(case: str) -> None:
    assert run(MovingDriver, case, "rocksDB", SAMPLE) == run(TopologyTestDriver, case, "rocksDB", SAMPLE)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("cogroup")])
@pytest.mark.parametrize("slower_first", [False, True])
def test_should_keep_the_stream_time_of_each_input_of_a_windowed_cogroup(case: str, slower_first: bool) -> None:
    slower = [("right", "a", "x", 200), ("right", "b", "x", 205)]
    faster = [("left", "a", "x", 1000), ("left", "b", "x", 1005)]
    # Late for the faster input alone.
    records = [*(slower + faster if slower_first else faster + slower), ("left", "c", "x", 210), ("right", "c", "x", 210)]
    moved = run(MovingDriver, case, "in_memory", records)
    assert moved == run(TopologyTestDriver, case, "in_memory", records)
    assert {record.value for record in moved if "c@" in record.key} == {"r"}


def test_should_commit_the_times_of_many_windows_with_final_results_in_what_brokers_keep(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("left", TEXT).group_by_key(BY_KEY)
    for size in range(1, 61):
        final = Suppressed.until_window_closes(BufferConfig.unbounded())
        grouped.windowed_by(TimeWindows(size * 1000, grace=0)).count().suppress(final).to_stream(lambda w, v: w.key).to("out")
    harness = Harness(builder.build(), tmp_path)
    harness.open()
    harness.add("left", ("a", "x", 1000), ("a", "x", 900_000))
    harness.task.process_all()
    (committed,) = harness.commit().offsets.values()
    assert len(committed.metadata) <= MAX_LENGTH
    assert len(TopicPartitionMetadata.decode(committed.metadata).processor_metadata.as_dict()) == 120


def test_should_refuse_to_open_a_task_with_too_many_windows_that_emit_on_close(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("left", TEXT).group_by_key(BY_KEY)
    for size in range(1, 101):
        grouped.windowed_by(TimeWindows(size * 1000, grace=0)).emit_strategy(CLOSE).count()
    with pytest.raises(StreamsError, match=r"task 0_1 cannot be opened: 100 stores emit results on window close"):
        Harness(builder.build(), tmp_path).open()


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("cogroup")])
def test_should_go_on_from_times_that_an_earlier_version_committed(case: str) -> None:
    assert run(EarlierDriver, case, "in_memory", SAMPLE) == run(TopologyTestDriver, case, "in_memory", SAMPLE)
