"""A task may be closed and opened again between any two commits, elsewhere too: its stores and its times come back.

Punctuators do not: as in Kafka Streams, `init` schedules them anew.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.processor import Processor, PunctuationType
from penstock.record import RawRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier, RocksDBKeyValueBytesStoreSupplier
from penstock.state.value_formats import PLAIN
from penstock.topology.topology import Topology
from tests.harness.thoroughness import examples

from .harness import LONG, STRING, TASK, Forwarder, Harness, config, pairs, pipeline

TOPICS = ("in", "other")


class Busy(Processor[Any, Any, Any, Any]):
    """Counts per key, and keeps its own stream time."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.metadata = context
        self.store = context.get_state_store("counts")
        self.observed = context.processor_metadata_for_key("busy-time")

    def process(self, record: Any) -> None:
        late = self.observed is not None and record.timestamp < self.observed
        self.observed = max(self.observed or 0, record.timestamp)
        self.metadata.add_processor_metadata_key_value("busy-time", self.observed)
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(f"{count}{' late' if late else ''}"))


def topology(persistent: bool, caching: bool) -> Topology:
    supplier: Any = RocksDBKeyValueBytesStoreSupplier if persistent else InMemoryKeyValueBytesStoreSupplier
    builder = KeyValueStoreBuilder(supplier("counts", PLAIN) if persistent else supplier("counts"), STRING, LONG)
    if caching:
        builder.with_caching_enabled()
    return pipeline(Busy, topics=TOPICS).add_state_store(builder, "processor-0")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from(TOPICS), st.sampled_from("abc"), st.integers(0, 60)),
        st.tuples(st.just("commit"), st.sampled_from(["stay", "reopen", "move"])),
    ),
    max_size=25,
)


def run(steps: list[Any], persistent: bool, caching: bool, undisturbed: bool) -> list[Any]:
    with folder() as first:
        harness = Harness(topology(persistent, caching), first, config(max_task_idle_ms=-1))
        harness.open()
        offsets = dict.fromkeys(TOPICS, 0)
        for topic in TOPICS:
            harness.task.update_next_offset(TopicPartition(topic, TASK.partition), 0)
        for step in [*steps, ("commit", "stay")]:
            if step[0] == "record":
                _, topic, key, timestamp = step
                record = RawRecord(topic, TASK.partition, offsets[topic], timestamp, key.encode(), b"x")
                offsets[topic] += 1
                harness.task.add_records(TopicPartition(topic, TASK.partition), [record])
                harness.task.process_all()
            else:
                harness.commit()
                if step[1] != "stay" and not undisturbed:
                    harness.task.suspend()
                    harness.task.close_clean()
                    if step[1] == "move":
                        shutil.rmtree(first / "rocksdb", ignore_errors=True)
                    harness.open()
        harness.task.close_dirty()
        return pairs(harness.outputs)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@settings(max_examples=examples(30), deadline=None)
@given(STEPS, st.booleans())
def test_should_give_the_same_output_with_state_in_memory(steps: list[Any], caching: bool) -> None:
    assert run(steps, False, caching, undisturbed=False) == run(steps, False, caching, undisturbed=True)


@settings(max_examples=examples(15), deadline=None)
@given(STEPS, st.booleans())
def test_should_give_the_same_output_with_state_on_disk(steps: list[Any], caching: bool) -> None:
    assert run(steps, True, caching, undisturbed=False) == run(steps, True, caching, undisturbed=True)


class Timed(Forwarder):
    """Schedules one punctuator in `init`, with the interval that `intervals` gives next."""

    def __init__(self, intervals: Iterator[int], kind: PunctuationType, fired: list[int]) -> None:
        self.intervals, self.kind, self.fired = intervals, kind, fired

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(next(self.intervals), self.kind, self.fired.append)


def timed(folder: Path, kind: PunctuationType, intervals: Iterator[int]) -> tuple[Harness, list[int]]:
    fired: list[int] = []
    harness = Harness(pipeline(lambda: Timed(intervals, kind, fired)), folder)
    harness.open()
    harness.task.update_next_offset(TopicPartition("in", TASK.partition), 0)
    return harness, fired


def test_should_schedule_wall_clock_punctuators_anew_when_reopened(tmp_path: Path) -> None:
    harness, fired = timed(tmp_path, PunctuationType.WALL_CLOCK_TIME, repeat(100))
    assert harness.commit().next_timer == 1100
    harness.clock.advance(60)
    assert harness.reopen().next_timer() == 1160
    harness.clock.advance(99)
    assert not harness.task.maybe_punctuate_system_time()
    harness.clock.advance(1)
    assert harness.task.maybe_punctuate_system_time()
    assert fired == [1160]


@pytest.mark.parametrize("kind", list(PunctuationType))
def test_should_commit_nothing_of_punctuators(tmp_path: Path, kind: PunctuationType) -> None:
    harness, fired = timed(tmp_path, kind, count(100))
    for number in range(100):  # each opening has another interval
        harness.add("in", ("a", "x", 1000 * number), first_offset=number)
        harness.clock.advance(1000)
        harness.task.process_all()
        harness.task.maybe_punctuate_stream_time()
        harness.task.maybe_punctuate_system_time()
        (committed,) = harness.commit().offsets.values()
        assert TopicPartitionMetadata.decode(committed.metadata).processor_metadata == ProcessorMetadata()
        harness.reopen()
    assert len(fired) >= 100


@pytest.mark.parametrize("kind", list(PunctuationType))
def test_should_call_a_punctuator_again_that_cancelled_itself_before_the_task_was_reopened(
    tmp_path: Path, kind: PunctuationType
) -> None:
    fired: list[int] = []

    class Once(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            self.timer = context.schedule(10, kind, self.punctuate)

        def punctuate(self, timestamp: int) -> None:
            fired.append(timestamp)
            self.timer.cancel()

    harness = Harness(pipeline(Once), tmp_path)
    harness.open()
    for number in range(2):
        harness.add("in", ("a", "x", 5 + 500 * number), first_offset=number)
        harness.clock.advance(500)
        harness.task.process_all()
        harness.task.maybe_punctuate_system_time()
        harness.commit()
        harness.reopen()
    assert len(fired) == 2


def test_should_ignore_due_times_that_an_earlier_version_committed(tmp_path: Path) -> None:
    never = ProcessorMetadata({"processor-0@w0/100": 2**63 - 1, "processor-0@s0/100": 2**63 - 1})
    harness, fired = timed(tmp_path, PunctuationType.WALL_CLOCK_TIME, repeat(100))
    harness.committed = {TopicPartition("in", TASK.partition): OffsetAndMetadata(9, TopicPartitionMetadata(5, never).encode())}
    assert harness.reopen().next_timer() == 1100
    harness.clock.advance(100)
    harness.task.maybe_punctuate_system_time()
    assert fired == [1100]
    assert harness.task.context.processor_metadata == ProcessorMetadata()


def test_should_call_stream_time_punctuators_at_once_when_opened_with_a_stream_time(tmp_path: Path) -> None:
    """As Kafka Streams does when it starts: what was committed has the partition's time."""
    harness, fired = timed(tmp_path, PunctuationType.STREAM_TIME, repeat(100))
    times = TopicPartitionMetadata(730, ProcessorMetadata()).encode()
    harness.committed = {TopicPartition("in", TASK.partition): OffsetAndMetadata(9, times)}
    for number in range(2):
        assert harness.reopen().next_timer() == 0
        assert harness.task.maybe_punctuate_stream_time()
        assert (fired, harness.task.next_timer()) == ([730] * (number + 1), None)
        harness.commit()
    harness.add("in", ("a", "x", 790), ("a", "x", 810), first_offset=9)
    harness.task.process_all()
    assert fired == [730, 730, 810]


def test_should_forget_the_times_of_operators_that_are_gone(tmp_path: Path) -> None:
    harness = Harness(topology(persistent=False, caching=False), tmp_path)
    kept = ProcessorMetadata({"busy-time": 7, "renamed-store": 8, "renamed-store@stream-time": 9})
    times = TopicPartitionMetadata(5, kept).encode()
    harness.committed = {TopicPartition(topic, TASK.partition): OffsetAndMetadata(9, times) for topic in TOPICS}
    assert harness.open().context.processor_metadata == ProcessorMetadata({"busy-time": 7})


def test_should_refuse_two_processors_that_commit_a_time_under_one_name(tmp_path: Path) -> None:
    class Keeper(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.processor_metadata_for_key("time")

    with pytest.raises(StreamsError, match="two processors of a task commit a time under the name 'time'"):
        Harness(pipeline(Keeper, Keeper), tmp_path).open()
