"""A task may be closed and opened again between any two commits, elsewhere too: nobody can tell from its output."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ids import TopicPartition
from penstock.processor import Processor, PunctuationType
from penstock.record import RawRecord, Record
from penstock.runtime.carry_over import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from penstock.runtime.punctuation import NEVER
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier, RocksDBKeyValueBytesStoreSupplier
from penstock.topology.topology import Topology
from tests.harness.thoroughness import examples

from .harness import LONG, STRING, TASK, Forwarder, Harness, config, pairs, pipeline

TOPICS = ("in", "other")


class Busy(Processor[Any, Any, Any, Any]):
    """Counts per key, keeps its own stream time, and has three timers, one of which stops by itself."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.metadata = context
        self.store = context.get_state_store("counts")
        self.observed = context.processor_metadata_for_key("busy-time")
        context.schedule(10, PunctuationType.STREAM_TIME, lambda time: self.tell("stream", time))
        context.schedule(7, PunctuationType.WALL_CLOCK_TIME, lambda time: self.tell("wall", time))
        self.once = context.schedule(5, PunctuationType.WALL_CLOCK_TIME, self.stop)

    def tell(self, kind: str, time: int) -> None:
        counts = ",".join(f"{key}={value}" for key, value in self.store.all())
        self.context.forward(Record(kind, f"{counts} at {self.context.current_stream_time_ms()}", time))

    def stop(self, time: int) -> None:
        self.tell("once", time)
        self.once.cancel()

    def process(self, record: Any) -> None:
        late = self.observed is not None and record.timestamp < self.observed
        self.observed = max(self.observed or 0, record.timestamp)
        self.metadata.add_processor_metadata_key_value("busy-time", self.observed)
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(f"{count}{' late' if late else ''}"))


def topology(persistent: bool, caching: bool) -> Topology:
    supplier: Any = RocksDBKeyValueBytesStoreSupplier if persistent else InMemoryKeyValueBytesStoreSupplier
    builder = KeyValueStoreBuilder(supplier("counts", False) if persistent else supplier("counts"), STRING, LONG)
    if caching:
        builder.with_caching_enabled()
    return pipeline(Busy, topics=TOPICS).add_state_store(builder, "processor-0")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from(TOPICS), st.sampled_from("abc"), st.integers(0, 60)),
        st.tuples(st.just("clock"), st.integers(1, 12)),
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
            elif step[0] == "clock":
                harness.clock.advance(step[1])
                harness.task.maybe_punctuate_system_time()
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


def test_should_not_fire_early_or_late_after_reopening(tmp_path: Path) -> None:
    fired: list[int] = []

    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(100, PunctuationType.WALL_CLOCK_TIME, fired.append)

    harness = Harness(pipeline(Timed), tmp_path)
    harness.open()
    harness.task.update_next_offset(TopicPartition("in", TASK.partition), 0)
    assert harness.commit().next_timer == 1100
    harness.clock.advance(60)
    harness.reopen()
    assert harness.task.next_timer() == 1100
    harness.clock.advance(39)
    assert not harness.task.maybe_punctuate_system_time()
    harness.clock.advance(1)
    assert harness.task.maybe_punctuate_system_time()
    assert fired == [1100]


def test_should_start_afresh_with_another_interval(tmp_path: Path) -> None:
    interval = [100]

    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(interval[0], PunctuationType.WALL_CLOCK_TIME, print)

    harness = Harness(pipeline(Timed), tmp_path)
    harness.open()
    harness.task.update_next_offset(TopicPartition("in", TASK.partition), 0)
    harness.commit()
    interval[0] = 30
    harness.reopen()
    assert harness.task.next_timer() == 1030


@pytest.mark.parametrize("kind", list(PunctuationType))
def test_should_keep_a_cancelled_punctuator_cancelled(tmp_path: Path, kind: PunctuationType) -> None:
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
    harness.add("in", ("a", "x", 5))
    harness.clock.advance(10)
    harness.task.process_all()
    harness.task.maybe_punctuate_system_time()
    harness.commit()
    harness.reopen()
    harness.add("in", ("a", "x", 500), first_offset=1)
    harness.clock.advance(500)
    harness.task.process_all()
    harness.task.maybe_punctuate_system_time()
    assert len(fired) == 1
    assert NEVER in harness.task.context.processor_metadata.as_dict().values()


def test_should_fire_at_once_where_java_kept_stream_time_and_not_when_timers_are_due(tmp_path: Path) -> None:
    """As Kafka Streams does when it starts: what it committed has the partition's time."""
    fired: list[int] = []

    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(100, PunctuationType.STREAM_TIME, fired.append)

    harness = Harness(pipeline(Timed), tmp_path)
    java = TopicPartitionMetadata(730, ProcessorMetadata()).encode()
    harness.committed = {TopicPartition("in", TASK.partition): OffsetAndMetadata(9, java)}
    assert harness.open().next_timer() == 0
    assert harness.task.maybe_punctuate_stream_time()
    assert (fired, harness.task.next_timer()) == ([730], None)
    harness.commit()
    assert harness.reopen().next_timer() is None
    harness.add("in", ("a", "x", 790), ("a", "x", 810), first_offset=9)
    harness.task.process_all()
    assert fired == [730, 810]
