from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.batches.record_batch import RawBatch, UnreadableBatch
from penstock.errors import DeserializationError, ProcessingError, SerializationError, StreamsError, TaskMigratedError
from penstock.ids import TopicPartition
from penstock.processor import Processor, PunctuationType
from penstock.record import RawRecord, Record
from penstock.runtime.offset_metadata import TopicPartitionMetadata
from penstock.runtime.task_state import TaskState
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.stores import Stores
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier, RocksDBKeyValueBytesStoreSupplier
from penstock.topology.topology import Topology

from .harness import LONG, STRING, TASK, Forwarder, Harness, config, pairs, pipeline, set_threshold

IN = TopicPartition("in", TASK.partition)
OTHER = TopicPartition("other", TASK.partition)


class Count(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("counts")

    def process(self, record: Any) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(str(count)))


def counting(persistent: bool = True, caching: bool = False) -> Topology:
    supplier: Any = RocksDBKeyValueBytesStoreSupplier("counts") if persistent else InMemoryKeyValueBytesStoreSupplier("counts")
    builder = KeyValueStoreBuilder(supplier, STRING, LONG)
    if caching:
        builder.with_caching_enabled()
    return pipeline(Count).add_state_store(builder, "processor-0")


def test_should_process_records_and_hand_back_outputs_changes_and_offsets(tmp_path: Path) -> None:
    harness = Harness(counting(), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10), ("b", "x", 20), ("a", "x", 15))

    assert harness.task.process_all() == 3
    commit = harness.commit()

    assert pairs(commit.outputs) == [(b"a", b"1", 10), (b"b", b"1", 20), (b"a", b"2", 15)]
    assert [(record.topic, record.partition, record.key, record.value, record.timestamp) for record in commit.changelogs] == [
        ("app-counts-changelog", 1, b"a", (1).to_bytes(8, "big"), 10),
        ("app-counts-changelog", 1, b"b", (1).to_bytes(8, "big"), 20),
        ("app-counts-changelog", 1, b"a", (2).to_bytes(8, "big"), 15),
    ]
    assert commit.offsets[IN].offset == 3
    assert TopicPartitionMetadata.decode(commit.offsets[IN].metadata).partition_time == 20
    assert commit.next_timer is None


def test_should_commit_the_offset_of_the_next_record_in_the_queue(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 1), ("a", "x", 2), first_offset=7)

    assert harness.task.process_all(max_records=1) == 1
    assert harness.commit().offsets[IN].offset == 8
    assert harness.task.process_all() == 1
    assert harness.commit().offsets[IN].offset == 9


def test_should_keep_what_there_is_no_time_for(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 1), ("a", "x", 2), ("a", "x", 3), first_offset=7)

    assert harness.task.process_all(until=0.0) == 1
    assert harness.task.was_cut_short
    commit = harness.commit()
    assert (commit.offsets[IN].offset, commit.next_timer) == (8, 0)
    assert harness.task.process_all() == 2
    assert not harness.task.was_cut_short
    commit = harness.commit()
    assert (commit.offsets[IN].offset, commit.next_timer) == (10, None)


def test_should_keep_what_there_is_no_time_for_of_records_that_are_read_together(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    set_threshold(harness.task, 1)
    harness.add("in", ("a", "x", 1), ("a", "x", 2), ("a", "x", 3), first_offset=7)

    for offset, next_timer in ((8, 0), (9, 0), (10, None)):
        assert harness.task.process_all(until=0.0) == 1
        commit = harness.commit()
        assert (commit.offsets[IN].offset, commit.next_timer) == (offset, next_timer)
    assert not harness.task.was_cut_short


def test_should_want_no_turn_where_its_last_record_took_all_the_time(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 1))
    assert harness.task.process_all(until=0.0) == 1
    assert harness.commit().next_timer is None


def test_should_commit_the_consumers_position_behind_the_last_record(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    task = harness.open()
    task.add_records(IN, [RawRecord("in", 1, 4, 0, b"k", b"v")], next_offset=6)
    task.process_all()
    assert harness.commit().offsets[IN].offset == 6

    task.update_next_offset(IN, 9)
    assert task.commit_needed
    assert harness.commit().offsets[IN].offset == 9


def test_should_commit_how_far_a_partition_was_read_that_had_no_records(tmp_path: Path) -> None:
    """The rest of a log may be the end of a transaction, or one that was aborted: it is read, and read only once."""
    harness = Harness(pipeline(Forwarder), tmp_path)
    task = harness.open()
    task.add_records(IN, [], next_offset=6)
    assert task.commit_needed
    assert harness.commit().offsets[IN].offset == 6
    assert not task.commit_needed


def test_should_have_nothing_to_commit_before_the_first_record(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    assert not harness.task.commit_needed
    assert harness.commit().offsets == {}


def test_should_commit_processor_metadata_to_all_input_partitions(tmp_path: Path) -> None:
    brought_back: list[int | None] = []

    class Keep(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            brought_back.append(context.processor_metadata_for_key("kept"))

        def process(self, record: Any) -> None:
            self.context.add_processor_metadata_key_value("kept", record.timestamp)  # type: ignore[attr-defined]

    harness = Harness(pipeline(Keep, topics=("in", "other")), tmp_path, config(max_task_idle_ms=-1))
    task = harness.open()
    task.update_next_offset(OTHER, 40)
    harness.add("in", ("a", "x", 5))
    task.process_all()
    offsets = harness.commit().offsets

    assert {partition: offset for partition, (offset, _) in offsets.items()} == {IN: 1, OTHER: 40}
    for partition, time in ((IN, 5), (OTHER, -1)):
        carried = TopicPartitionMetadata.decode(offsets[partition].metadata)
        assert (carried.partition_time, carried.processor_metadata.get("kept")) == (time, 5)

    harness.reopen()
    assert brought_back == [None, 5]
    assert harness.task.stream_time == 5


def test_should_skip_corrupt_records_and_commit_behind_them(tmp_path: Path) -> None:
    settings = config(deserialization_exception_handler="log_and_continue", default_value_serde=LONG)
    harness = Harness(pipeline(Forwarder), tmp_path, settings)
    harness.open()
    harness.add("in", ("a", (1).to_bytes(8, "big"), 1), ("a", b"bad", 2), ("a", b"bad", 3))

    assert harness.task.process_all() == 2
    commit = harness.commit()
    assert pairs(commit.outputs) == [(b"a", (1).to_bytes(8, "big"), 1)]
    assert commit.offsets[IN].offset == 3
    assert harness.metrics.value("dropped-records-total", "stream-task-metrics") == 2


def unreadable(*values: bytes, batches: Sequence[UnreadableBatch] = ()) -> RawBatch:
    """Records of a fetch that has skipped batches."""
    count = len(values)
    found = RawBatch(*IN, range(10, 10 + count), [1] * count, [b"k"] * count, list(values))
    found.unreadable = tuple(batches)
    return found


TWO_BATCHES = (UnreadableBatch(5, 8, "Decompression failed"), UnreadableBatch(8, 9, "Bad checksum"))


@pytest.mark.parametrize("values", [(), (b"a", b"b")])
def test_should_go_on_behind_batches_that_cannot_be_read_if_the_handler_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, values: Sequence[bytes]
) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path, config(deserialization_exception_handler="log_and_continue"))
    harness.open()
    harness.task.add_records(IN, unreadable(*values, batches=TWO_BATCHES), 12)
    harness.task.process_all()
    commit = harness.commit()
    assert pairs(commit.outputs) == [(b"k", value, 1) for value in values]
    assert commit.offsets[IN].offset == 12
    assert harness.metrics.value("dropped-records-total", "stream-task-metrics") == 2
    assert "The record batch of in-1 at offsets 5 to 7 cannot be read: Decompression failed." in caplog.text
    assert "The record batch of in-1 at offsets 8 to 8 cannot be read: Bad checksum." in caplog.text


def test_should_fail_at_a_batch_that_cannot_be_read_by_default(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    with pytest.raises(DeserializationError, match="topic in, partition 1, offset 5") as caught:
        harness.task.add_records(IN, unreadable(b"a", batches=TWO_BATCHES), 11)
    assert isinstance(caught.value.__cause__, SerializationError)


@pytest.mark.parametrize("as_columns", [True, False])
@pytest.mark.parametrize("part", ["key", "value", "header"])
def test_should_ask_the_handler_about_records_that_unpack_to_more_than_consumers_take(
    tmp_path: Path, part: str, as_columns: bool
) -> None:
    settings = {"deserialization_exception_handler": "log_and_continue", "consumer.receive.message.max.bytes": 1_000}
    harness = Harness(pipeline(Forwarder), tmp_path, config(**settings))
    harness.open()
    large = bytes(1_001)
    records = [RawRecord(*IN, offset, 1, b"", b"x" * 997) for offset in range(3)]
    bomb = {"key": {"key": large}, "value": {"value": large}, "header": {"headers": (("h", large),)}}[part]
    records[1] = records[1]._replace(**bomb)
    harness.task.add_records(IN, RawBatch.of(*IN, records) if as_columns else records, 3)
    harness.task.process_all()
    commit = harness.commit()
    assert [len(record.value or b"") for record in commit.outputs] == [997, 997]
    assert commit.offsets[IN].offset == 3
    assert harness.metrics.value("dropped-records-total", "stream-task-metrics") == 1


def test_should_flush_caches_before_it_hands_out_outputs(tmp_path: Path) -> None:
    harness = Harness(counting(caching=True), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10), ("a", "x", 20))
    harness.task.process_all()

    assert [int.from_bytes(record.value or b"", "big") for record in harness.commit().changelogs] == [2]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("caching", [True, False])
def test_should_find_its_state_again(tmp_path: Path, persistent: bool, caching: bool) -> None:
    harness = Harness(counting(persistent, caching), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10), ("b", "x", 20))
    harness.task.process_all()
    harness.commit()
    harness.reopen()
    harness.add("in", ("a", "x", 30), first_offset=2)
    harness.task.process_all()

    assert pairs(harness.commit().outputs) == [(b"a", b"2", 30)]


def test_should_forget_what_was_not_committed_when_closed_dirty(tmp_path: Path) -> None:
    harness = Harness(counting(), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10))
    harness.task.process_all()
    harness.commit()
    harness.add("in", ("a", "x", 20), first_offset=1)
    harness.task.process_all()
    harness.task.close_dirty()
    harness.open()
    harness.add("in", ("a", "x", 20), first_offset=1)
    harness.task.process_all()

    assert pairs(harness.commit().outputs) == [(b"a", b"2", 20)]


def test_should_refuse_to_close_clean_with_uncommitted_work(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10))
    harness.task.process_all()
    harness.task.suspend()
    with pytest.raises(TaskMigratedError):
        harness.task.close_clean()
    harness.commit()
    harness.task.close_clean()
    assert harness.task.state is TaskState.CLOSED


def test_should_refuse_wrong_steps(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    task = harness.open()
    with pytest.raises(StreamsError, match="suspend it first"):
        task.close_clean()
    task.suspend()
    task.close_clean()
    task.close_clean()
    with pytest.raises(StreamsError, match="it is closed"):
        task.prepare_commit()
    with pytest.raises(StreamsError, match="cannot complete restoration while CLOSED"):
        task.complete_restoration()
    assert task.process() is False


def test_should_close_every_processor_even_when_one_fails(tmp_path: Path) -> None:
    closed: list[str] = []

    class Failing(Forwarder):
        def close(self) -> None:
            raise ValueError("cannot close")

    class Closing(Forwarder):
        def close(self) -> None:
            closed.append("closed")

    harness = Harness(pipeline(Failing, Closing), tmp_path)
    harness.open()
    with pytest.raises(StreamsError, match="failed to close processor processor-0"):
        harness.task.suspend()
    assert closed == ["closed"]
    assert harness.task.state is TaskState.SUSPENDED


def test_should_merge_partitions_by_time_and_wait_for_the_empty_one(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder, topics=("in", "other")), tmp_path, config(max_task_idle_ms=100))
    task = harness.open()
    task.update_lags({IN: 0, OTHER: 0})
    harness.add("in", ("a", "1", 1), ("a", "3", 3))
    assert task.process_all() == 0
    assert task.next_timer() == 1100

    harness.add("other", ("a", "2", 2))
    assert task.process_all() == 2
    assert pairs(harness.commit().outputs) == [(b"a", b"1", 1), (b"a", b"2", 2)]
    assert task.process_all() == 0
    harness.clock.advance(100)
    assert task.process_all() == 1


def test_should_say_which_record_failed_and_where(tmp_path: Path) -> None:
    class Failing(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            raise KeyError("mine")

    harness = Harness(pipeline(Forwarder, Failing), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10), first_offset=42)
    with pytest.raises(ProcessingError) as caught:
        harness.task.process_all()

    text = str(caught.value)
    assert "Exception caught in process. taskId=0_1, processor=processor-1 (added at " in text
    assert "topic=in, partition=1, offset=42" in text
    assert isinstance(caught.value.__cause__, KeyError)


def test_should_fail_to_open_with_the_name_of_the_processor_that_failed(tmp_path: Path) -> None:
    class Failing(Forwarder):
        def init(self, context: Any) -> None:
            raise ValueError("not today")

    with pytest.raises(
        StreamsError, match=r"failed to initialize processor processor-0 \(added at .*harness.py:\d+\): not today"
    ):
        Harness(pipeline(Failing), tmp_path).open()


def test_should_name_the_node_without_a_serde(tmp_path: Path) -> None:
    settings = config(default_value_serde=None)
    with pytest.raises(StreamsError, match="Failed to initialize value serdes for source node source"):
        Harness(pipeline(Forwarder), tmp_path, settings).open()


def test_should_punctuate_stream_time_after_each_record(tmp_path: Path) -> None:
    order: list[Any] = []

    class Timed(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.STREAM_TIME, lambda timestamp: order.append(("punctuate", timestamp)))

        def process(self, record: Any) -> None:
            order.append(record.timestamp)

    harness = Harness(pipeline(Timed), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 3), ("a", "x", 4), ("a", "x", 12), ("a", "x", 5), ("a", "x", 40))
    harness.task.process_all()
    assert order == [3, ("punctuate", 3), 4, 12, ("punctuate", 12), 5, 40, ("punctuate", 40)]


def test_should_punctuate_by_the_wall_clock_and_report_when_next(tmp_path: Path) -> None:
    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(50, PunctuationType.WALL_CLOCK_TIME, self.punctuate)

        def punctuate(self, timestamp: int) -> None:
            metadata = self.context.record_metadata
            self.context.forward(Record("tick", str(metadata), timestamp))

    harness = Harness(pipeline(Timed), tmp_path)
    task = harness.open()
    assert task.next_timer() == 1050
    assert not task.maybe_punctuate_system_time()
    harness.clock.advance(60)
    assert task.maybe_punctuate_system_time()
    commit = harness.commit()
    assert pairs(commit.outputs) == [(b"tick", b"None", 1060)]
    assert commit.next_timer == 1100


def test_should_not_restore_a_store_whose_changelog_is_its_source(tmp_path: Path) -> None:
    class Fill(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("table")

        def process(self, record: Any) -> None:
            self.store.put(record.key, record.value)

    supplier = RocksDBKeyValueBytesStoreSupplier("table")
    topology = Topology().add_read_only_state_store(KeyValueStoreBuilder(supplier, STRING, STRING), "source", "in", "fill", Fill)
    harness = Harness(topology, tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10), ("b", "y", 11))
    harness.task.process_all()
    commit = harness.commit()
    assert commit.changelogs == []
    assert harness.task.state_manager.changelog_offsets == {IN: 2}
    harness.reopen()
    assert harness.task.state_manager.changelog_offsets == {IN: 2}
    assert harness.task.state_manager.store("table").get("b") == "y"


def test_should_restore_timestamped_stores_with_their_timestamps(tmp_path: Path) -> None:
    from penstock.state.store import ValueAndTimestamp

    class Fill(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("table")

        def process(self, record: Any) -> None:
            self.store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))

    builder = Stores.timestamped_key_value_store_builder(InMemoryKeyValueBytesStoreSupplier("table"), STRING, STRING)
    harness = Harness(pipeline(Fill).add_state_store(builder, "processor-0"), tmp_path)
    harness.open()
    harness.add("in", ("a", "x", 10))
    harness.task.process_all()
    harness.commit()
    harness.reopen()
    assert harness.task.state_manager.store("table").get("a") == ValueAndTimestamp("x", 10)


def test_should_count_what_it_consumes_and_produces(tmp_path: Path) -> None:
    harness = Harness(pipeline(Forwarder), tmp_path)
    harness.open()
    harness.add("in", ("a", "xy", 10), ("b", "x", 11))
    harness.task.process_all()
    harness.commit()
    group = "stream-topic-metrics"
    assert harness.metrics.value("records-consumed-total", group, {"topic": "in", "processor-node-id": "source"}) == 2
    assert harness.metrics.value("bytes-consumed-total", group) == 2 * (20 + 2) + 3 + 2
    assert harness.metrics.value("records-produced-total", group, {"topic": "out"}) == 2
    assert harness.metrics.value("process-total", "stream-task-metrics") == 2
    assert harness.metrics.value("record-e2e-latency-max", "stream-processor-node-metrics", {"processor-node-id": "sink"}) == 990
    harness.task.suspend()
    harness.task.close_clean()
    assert not [name for name in harness.metrics.metrics() if name.tags.get("task-id") == "0_1"]
