from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.batches.record_batch import RawBatch
from penstock.errors import DeserializationError, StreamsError
from penstock.handlers import LogAndContinueExceptionHandler, LogAndFailExceptionHandler
from penstock.ids import TaskId, TopicPartition
from penstock.record import ProducedRecord, RawRecord
from penstock.runtime.partition_group import PartitionGroup
from penstock.runtime.record_queue import UNKNOWN, RecordQueue
from penstock.serdes.serde import Serdes
from penstock.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)

P1 = TopicPartition("topic-a", 1)
P2 = TopicPartition("topic-b", 1)


class Context:
    task_id = TaskId(0, 1)

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.dead: list[ProducedRecord] = []

    def record_dropped(self, reason: str) -> None:
        self.dropped.append(reason)

    def send_dead_letters(self, records: Any, error_context: Any = None) -> None:
        self.dead.extend(records)


def queue(
    partition: TopicPartition, extractor: Callable[[Any, int], int] | None = None, handler: Any = None, context: Any = None
) -> RecordQueue:
    source: Any = SimpleNamespace(
        wants_headers=False,
        name="source",
        failed=0,
        deserialize_key=Serdes.integer().deserializer,
        deserialize_value=Serdes.integer().deserializer,
    )
    return RecordQueue(
        partition, source, extractor or FailOnInvalidTimestamp(), handler or LogAndFailExceptionHandler(), context or Context()
    )


def raw(partition: TopicPartition, offset: int, timestamp: int, value: bytes = b"\0\0\0\x07") -> RawRecord:
    return RawRecord(partition.topic, partition.partition, offset, timestamp, b"\0\0\0\x01", value)


def group(max_task_idle_ms: int = -1, **queues: RecordQueue) -> PartitionGroup:
    return PartitionGroup({each.partition: each for each in queues.values()} or {P1: queue(P1), P2: queue(P2)}, max_task_idle_ms)


def taken(partitions: PartitionGroup) -> tuple[TopicPartition, int, int]:
    following = partitions.next_record()
    assert following is not None
    (record, _), source = following
    assert record is not None
    return source.partition, record.timestamp, partitions.stream_time


def test_should_track_time_over_two_partitions() -> None:
    lateness: list[int] = []
    partitions = PartitionGroup({P1: queue(P1), P2: queue(P2)}, -1, record_lateness=lateness.append)
    partitions.add_raw_records(P1, [raw(P1, offset, offset) for offset in (1, 3, 5)])
    partitions.add_raw_records(P2, [raw(P2, offset, offset) for offset in (2, 4, 6)])
    assert (partitions.num_buffered, partitions.stream_time) == (6, UNKNOWN)

    assert taken(partitions) == (P1, 1, 1)
    assert taken(partitions) == (P2, 2, 2)
    partitions.add_raw_records(P1, [raw(P1, offset, offset) for offset in (2, 4)])

    assert partitions.num_buffered == 6
    assert [taken(partitions) for _ in range(6)] == [
        (P1, 3, 3),
        (P2, 4, 4),
        (P1, 5, 5),
        (P1, 2, 5),
        (P1, 4, 5),
        (P2, 6, 6),
    ]
    assert lateness == [0, 0, 0, 0, 0, 3, 1, 0]
    assert partitions.next_record() is None
    assert partitions.num_buffered == 0
    assert partitions.queue(P1).partition_time == 5


def test_should_take_the_lowest_head_although_a_lower_timestamp_waits_behind_another() -> None:
    partitions = group()
    partitions.add_raw_records(P1, [raw(P1, 0, 10), raw(P1, 1, 1)])
    partitions.add_raw_records(P2, [raw(P2, 0, 5)])

    assert [taken(partitions)[:2] for _ in range(3)] == [(P2, 5), (P1, 10), (P1, 1)]


def test_should_name_the_partitions_of_the_task_when_asked_for_another() -> None:
    with pytest.raises(StreamsError, match="Partition other-0 not found: this task reads topic-a-1, topic-b-1"):
        group().add_raw_records(TopicPartition("other", 0), [])


def test_should_raise_stream_time_with_a_partition_time_that_was_committed() -> None:
    partitions = group()
    partitions.set_partition_time(P1, 100)
    partitions.set_partition_time(P2, 50)

    assert partitions.stream_time == 100
    assert partitions.queue(P2).partition_time == 50


def test_should_forget_everything_on_clear() -> None:
    partitions = group()
    partitions.add_raw_records(P1, [raw(P1, 0, 10)])
    partitions.next_record()
    partitions.add_raw_records(P2, [raw(P2, 0, 10)])
    partitions.clear()

    assert (partitions.stream_time, partitions.num_buffered, partitions.next_record()) == (UNKNOWN, 0, None)
    assert partitions.queue(P1).partition_time == UNKNOWN


# max.task.idle.ms


def test_should_not_wait_when_idling_is_disabled() -> None:
    partitions = group(-1)
    partitions.add_raw_records(P1, [raw(P1, 0, 0)])
    assert partitions.ready_to_process(0).is_ready


def test_should_wait_until_the_lag_of_an_empty_partition_is_known() -> None:
    partitions = group(0)
    partitions.add_raw_records(P1, [raw(P1, 0, 0)])

    assert not partitions.ready_to_process(0).is_ready
    partitions.update_lags({P1: 0, P2: 0})
    assert partitions.ready_to_process(0).is_ready


def test_should_wait_for_records_the_brokers_have() -> None:
    partitions = group(0)
    partitions.add_raw_records(P1, [raw(P1, 0, 0)])
    partitions.update_lags({P1: 0, P2: 1})

    waiting = partitions.ready_to_process(0)
    assert (waiting.is_ready, waiting.reason) == (
        False,
        "Partition topic-b-1: current lag is 1, but no data is buffered locally.",
    )
    partitions.add_raw_records(P2, [raw(P2, 0, 0)])
    assert partitions.ready_to_process(0).is_ready


def test_should_wait_for_max_task_idle_and_start_again_when_data_came() -> None:
    enforced: list[int] = []
    partitions = PartitionGroup({P1: queue(P1), P2: queue(P2)}, 10, enforced_processing=lambda: enforced.append(1))
    partitions.add_raw_records(P1, [raw(P1, 0, 0)])
    partitions.update_lags({P1: 0, P2: 0})

    assert not partitions.ready_to_process(100).is_ready
    assert partitions.idle_deadline() == 110
    assert not partitions.ready_to_process(109).is_ready
    assert enforced == []
    assert partitions.ready_to_process(110).is_ready
    assert enforced == [1]

    partitions.add_raw_records(P2, [raw(P2, 0, 0)])
    assert partitions.ready_to_process(120).is_ready
    partitions.next_record()
    assert not partitions.ready_to_process(130).is_ready
    assert partitions.idle_deadline() == 140


def test_should_not_be_ready_without_any_record() -> None:
    partitions = group(0)
    partitions.update_lags({P1: 0, P2: 0})
    assert not partitions.ready_to_process(0).is_ready


# one queue


def test_should_deserialize_only_the_head() -> None:
    seen: list[int] = []

    def extract(record: Any, partition_time: int) -> int:
        seen.append(record.offset)
        return int(record.timestamp)

    records = queue(P1, extract)
    records.add_raw_records([raw(P1, 0, 1), raw(P1, 1, 2, b"not an integer")])

    assert seen == [0]
    assert len(records) == 2


def test_should_give_the_extractor_typed_records_and_the_partition_time() -> None:
    seen: list[tuple[Any, Any, int]] = []

    def extract(record: Any, partition_time: int) -> int:
        seen.append((record.key, record.value, partition_time))
        return int(record.timestamp) * 10

    records = queue(P1, extract)
    records.add_raw_records([raw(P1, 0, 3), raw(P1, 1, 2), raw(P1, 2, 4)])
    for _ in range(3):
        records.poll()

    assert seen == [(1, 7, -1), (1, 7, 30), (1, 7, 30)]
    assert records.partition_time == 40


def test_should_raise_on_a_negative_timestamp_by_default() -> None:
    with pytest.raises(StreamsError, match="negative"):
        queue(P1).add_raw_records([raw(P1, 0, -1)])


def test_should_drop_a_negative_timestamp_where_told_to() -> None:
    context = Context()
    records = queue(P1, LogAndSkipOnInvalidTimestamp(), context=context)
    records.add_raw_records([raw(P1, 0, -1), raw(P1, 1, -1)])

    assert len(context.dropped) == 2
    assert "topic=[topic-a] partition=[1] offset=[0] extractedTimestamp=[-1]" in context.dropped[0]
    # The last of them stays as a marker, so that the offset behind it gets committed.
    assert records.head_offset == 1
    record, last = records.poll()
    assert (record, last.offset) == (None, 1)


def test_should_use_the_partition_time_for_a_negative_timestamp_where_told_to() -> None:
    records = queue(P1, UsePartitionTimeOnInvalidTimestamp())
    records.add_raw_records([raw(P1, 0, 50), raw(P1, 1, -1)])
    records.poll()
    record, _ = records.poll()

    assert record is not None
    assert record.timestamp == 50


def test_should_use_the_wall_clock_where_told_to() -> None:
    records = queue(P1, WallclockTimestampExtractor())
    records.add_raw_records([raw(P1, 0, 5)])
    assert records.head_timestamp > 1_600_000_000_000


def test_should_wrap_the_error_of_a_users_extractor() -> None:
    def extract(record: Any, partition_time: int) -> int:
        raise ZeroDivisionError("oops")

    with pytest.raises(StreamsError, match="timestamp extractor") as caught:
        queue(P1, extract).add_raw_records([raw(P1, 3, 0)])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_should_fail_on_bytes_that_cannot_be_read_by_default() -> None:
    with pytest.raises(DeserializationError, match="topic topic-a, partition 1, offset 9") as caught:
        queue(P1).add_raw_records([raw(P1, 9, 0, b"bad")])
    assert caught.value.__cause__ is not None


def test_should_skip_bytes_that_cannot_be_read_where_told_to() -> None:
    context = Context()
    records = queue(P1, handler=LogAndContinueExceptionHandler(), context=context)
    records.add_raw_records([raw(P1, 0, 5, b"bad"), raw(P1, 1, 6), raw(P1, 2, 7, b"bad")])

    assert records.head_offset == 1
    records.poll()
    assert records.head_offset == 2
    assert records.head_timestamp == UNKNOWN
    assert context.dropped[0] == ("Skipping record due to deserialization error. topic=[topic-a] partition=[1] offset=[0]")


def test_should_send_a_dead_letter_for_bytes_that_cannot_be_read() -> None:
    context = Context()
    handler = LogAndContinueExceptionHandler()
    handler.configure({"errors.dead.letter.queue.topic.name": "dead"})
    records = queue(P1, handler=handler, context=context)
    records.add_raw_records([raw(P1, 4, 5, b"bad")])

    (dead,) = context.dead
    assert (dead.topic, dead.key, dead.value, dead.timestamp) == ("dead", b"\0\0\0\x01", b"bad", 5)
    headers = dict(dead.headers)
    assert headers["__streams.errors.topic"] == b"topic-a"
    assert headers["__streams.errors.partition"] == b"1"
    assert headers["__streams.errors.offset"] == b"4"
    assert headers["__streams.errors.exception"] == b"penstock.errors.SerializationError"
    assert b"Traceback" in (headers["__streams.errors.stacktrace"] or b"")


@pytest.mark.parametrize("processed", range(13))
def test_should_go_on_after_records_were_put_back_as_if_taken_one_by_one(processed: int) -> None:
    partitions = [TopicPartition(topic, 1) for topic in ("a", "b", "c")]
    times = [(0, 1, 1, 2, 5), (1, 1, 2, 2), (1, 0, 2)]

    def filled() -> PartitionGroup:
        filled = PartitionGroup({partition: queue(partition) for partition in partitions}, -1)
        for partition, of_partition in zip(partitions, times):
            records = [raw(partition, offset, time) for offset, time in enumerate(of_partition)]
            filled.add_raw_records(partition, RawBatch.of(*partition, records))
        return filled

    def rest(group: PartitionGroup) -> list[tuple[TopicPartition, int]]:
        return [taken(group)[:2] for _ in range(group.num_buffered)]

    one_by_one, together = filled(), filled()
    for _ in range(processed):
        one_by_one.next_record()
    together.put_back(together.take_runs(0), processed)
    assert rest(together) == rest(one_by_one)
