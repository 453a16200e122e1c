"""The input partitions of one task: which record is next, and whether the task may go on while a partition is empty."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.batches.record_batch import RawBatch
from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.java_priority_queue import JavaPriorityQueue
from penstock.record import RawRecord
from penstock.runtime.record_queue import UNKNOWN, RecordQueue, StampedRecord

_log = logging.getLogger(__name__)

MAX_TASK_IDLE_MS_DISABLED = -1


class ReadyToProcess(NamedTuple):
    """Whether a task may process now, and if not, why."""

    is_ready: bool
    reason: str | None = None


_READY = ReadyToProcess(True)


Run = tuple[RecordQueue, RawBatch]
"""Records of a partition that follow each other in the common order of all that were taken."""

Taken = tuple[RecordQueue, RawBatch, list[int]]
"""Records of a partition, and their places in the common order of all that were taken."""


class TakenRows(ABC):
    """Records that were taken out of their queues, to be processed part by part."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.left = sum(len(raw) for _, raw in runs)

    @abstractmethod
    def first(self, count: int) -> list[Taken]:
        """The next records, at most so many."""

    @abstractmethod
    def done(self, part: Sequence[Taken]) -> int:
        """These are processed; returns how many they are."""


class RowsOfRuns(TakenRows):
    """Runs of records of one partition each; a part belongs to one run."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__(runs)
        self._rest = deque(runs)
        self._start = 0
        """How many records of the first run that is left are processed."""

    def first(self, count: int) -> list[Taken]:
        """The next records of the first run, at most so many."""
        queue, raw = self._rest[0]
        return [(queue, raw.rows(self._start, min(self._start + count, len(raw))), [])]

    def done(self, part: Sequence[Taken]) -> int:
        """These are processed; returns how many they are."""
        records = len(part[0][1])
        self._start += records
        if self._start == len(self._rest[0][1]):
            self._rest.popleft()
            self._start = 0
        self.left -= records
        return records


class MergedRows(TakenRows):
    """Records of several partitions with a common order; a part has the first places of it."""

    def __init__(self, taken: list[Taken]) -> None:
        super().__init__([(queue, raw) for queue, raw, _ in taken])
        self._taken = taken
        self._next = 0

    def first(self, count: int) -> list[Taken]:
        """The records of so many places, by their partitions."""
        if count >= self.left:
            return self._taken
        ends = [bisect_left(places, self._next + count) for _, _, places in self._taken]
        return [(queue, raw.rows(0, end), places[:end]) for (queue, raw, places), end in zip(self._taken, ends) if end]

    def done(self, part: Sequence[Taken]) -> int:
        """These are processed; returns how many they are."""
        ends = {queue.partition: len(raw) for queue, raw, _ in part}
        records = sum(ends.values())
        rest = [(queue, raw, places, ends.get(queue.partition, 0)) for queue, raw, places in self._taken]
        self._taken = [(queue, raw.rows(end, len(raw)), places[end:]) for queue, raw, places, end in rest if end < len(raw)]
        self.left -= records
        self._next += records
        return records


def _has_records(queue: RecordQueue) -> bool:
    return queue.head is not None


class PartitionGroup:
    """Merges the partitions by time: the lowest timestamp at the head of a queue goes first.

    Stream time is the highest timestamp taken out of any of them, and never goes back.
    """

    def __init__(
        self,
        queues: Mapping[TopicPartition, RecordQueue],
        max_task_idle_ms: int,
        record_lateness: Callable[[int], None] | None = None,
        enforced_processing: Callable[[], None] | None = None,
    ) -> None:
        self._queues = dict(queues)
        self._max_task_idle_ms = max_task_idle_ms
        self._record_lateness = record_lateness
        self._enforced_processing = enforced_processing
        self._non_empty: JavaPriorityQueue[RecordQueue] = JavaPriorityQueue()
        self._before_taking: JavaPriorityQueue[RecordQueue] = JavaPriorityQueue()
        """Whose turn it was when records were last taken out together."""
        self._idle_deadlines: dict[TopicPartition, int] = {}
        self._fetched_lags: dict[TopicPartition, int] = {}
        self.stream_time = UNKNOWN
        self.awaited: frozenset[TopicPartition] = frozenset()
        """Partitions that are always waited for: rows of their history are left, which are older than what others have."""

    @property
    def num_buffered(self) -> int:
        """How many records wait, in all partitions."""
        return sum(map(len, self._queues.values()))

    @property
    def has_records(self) -> bool:
        """Whether any record waits."""
        return len(self._non_empty) > 0

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The input partitions."""
        return frozenset(self._queues)

    def queue(self, partition: TopicPartition) -> RecordQueue:
        """The queue of one of the partitions."""
        try:
            return self._queues[partition]
        except KeyError:
            raise StreamsError(
                f"Partition {partition} not found: this task reads {', '.join(sorted(map(str, self._queues))) or 'nothing'}."
            ) from None

    def set_partition_time(self, partition: TopicPartition, partition_time: int) -> None:
        """Bring back a partition time that was committed."""
        self.queue(partition).partition_time = partition_time
        self.stream_time = max(self.stream_time, partition_time)

    def add_raw_records(self, partition: TopicPartition, raw_records: Iterable[RawRecord] | RawBatch) -> int:
        """Add records to a partition's queue; returns its new length."""
        queue = self.queue(partition)
        was_empty = queue.head is None
        new_size = queue.add(raw_records)
        if was_empty and queue.head is not None:
            self._non_empty.offer(queue.head_timestamp, queue)
        return new_size

    def next_record(self) -> tuple[StampedRecord, RecordQueue] | None:
        """Take out the record with the lowest timestamp, with the queue it came from; None where there is none."""
        waiting = self._non_empty
        only = waiting.only
        if only is not None:
            # Most tasks have one partition, and need no merging.
            queue = only
            timestamp = queue.head_timestamp
            stamped = queue.poll()
            if queue.head is not None:
                waiting.rerank_only(queue.head_timestamp)
            else:
                waiting.clear()
        elif waiting:
            queue = waiting.poll()
            timestamp = queue.head_timestamp
            stamped = queue.poll()
            if queue.head is not None:
                waiting.offer(queue.head_timestamp, queue)
        else:
            return None
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        if self._record_lateness is not None:
            self._record_lateness(self.stream_time - timestamp)
        return stamped, queue

    def take_runs(self, now: int) -> list[tuple[RecordQueue, RawBatch]]:
        """Take out what may be processed now, in its order, cut where it goes from one partition to another.

        `next_record` would give the same records in the same order; the times advance when a run is `consumed`.
        """
        waiting = self._non_empty
        self._before_taking = waiting.copy()
        only = waiting.only
        if only is not None:
            waiting.clear()
            return [(only, only.take_all())]
        runs: list[tuple[RecordQueue, RawBatch]] = []
        taken = {queue.partition: queue.take_all() for queue in self._queues.values() if queue.head is not None}
        at = dict.fromkeys(taken, 0)
        queue: RecordQueue | None = waiting.poll()
        while queue is not None:
            raw = taken[queue.partition]
            start, row, end, following = at[queue.partition], at[queue.partition] + 1, len(raw), None
            while row < end:
                if not waiting:
                    row = end
                    break
                # Put back after each record, as next_record does: what is in the heap, and since when, breaks ties.
                waiting.offer(raw.timestamps[row], queue)
                following = waiting.poll()
                if following is not queue:
                    break
                row += 1
            runs.append((queue, raw.rows(start, row)))
            at[queue.partition] = row
            if row < end:
                queue = following
            elif waiting and self._ready(now, lambda q: at.get(q.partition, 0) < len(taken.get(q.partition, ()))).is_ready:
                queue = waiting.poll()
            else:
                queue = None
        waiting.clear()
        for partition, raw in taken.items():
            if at[partition] < len(raw):
                self.add_raw_records(partition, raw.rows(at[partition], len(raw)))
        return runs

    def take_merged(self, now: int) -> list[Taken]:
        """Take out what may be processed now of two partitions: the records of each, and their places in the common order.

        `next_record` would give the same records in the same order; the times advance when they are `consumed`.
        """
        waiting = self._non_empty
        self._before_taking = waiting.copy()
        queues = [waiting.poll() for _ in range(len(waiting))]
        taken = [queue.take_all() for queue in queues]
        if len(queues) == 1:
            return [(queues[0], taken[0], list(range(len(taken[0]))))]
        places: tuple[list[int], list[int]] = [], []
        place = _merge(taken[0].timestamps, taken[1].timestamps, *places)
        waits = 0 if len(places[0]) < len(taken[0]) else 1
        left, end, other = len(places[waits]), len(taken[waits]), queues[waits]
        if self._ready(now, lambda queue: queue is other).is_ready:
            places[waits].extend(range(place, place + end - left))
        else:
            self.add_raw_records(other.partition, taken[waits].rows(left, end))
        return [(q, raw.rows(0, len(p)), p) for q, raw, p in zip(queues, taken, places) if p]

    def consumed(self, queue: RecordQueue, raw: RawBatch) -> None:
        """A run has been processed: partition time and stream time follow it."""
        latest = max(raw.timestamps)
        queue.partition_time = max(queue.partition_time, latest)
        queue.consumed_offset = raw.offsets[-1]
        self.stream_time = max(self.stream_time, latest)

    def put_back(self, runs: Iterable[tuple[RecordQueue, RawBatch]], processed: int = 0) -> None:
        """Undo `take_runs` or `take_merged`, of which these were the runs, but for the first records, which were processed.

        What comes next is what would have come next had they been taken one by one. The rows of a partition go back at once: a
        record that cannot be read is skipped when it becomes the head, and counts as processed only where nothing is behind it.
        """
        rows: dict[TopicPartition, list[RawBatch]] = {}
        for queue, raw in runs:
            rows.setdefault(queue.partition, []).append(raw)
        for queue in self._queues.values():
            if queue.head is not None:
                rows.setdefault(queue.partition, []).append(queue.take_all())
        whole = {partition: _joined(parts) for partition, parts in rows.items()}
        waiting, at = self._before_taking, dict.fromkeys(whole, 0)
        for _ in range(processed):
            queue = waiting.poll()
            at[queue.partition] = row = at[queue.partition] + 1
            if row < len(whole[queue.partition]):
                waiting.offer(whole[queue.partition].timestamps[row], queue)
        self._non_empty = waiting
        for partition, raw in whole.items():
            self._queues[partition].add(raw.rows(at[partition], len(raw)))

    def withdraw(self, partition: TopicPartition, offset: int) -> RawBatch:
        """Take out the records of a partition that wait from an offset on; the others stay."""
        queue = self.queue(partition)
        waiting = queue.take_all()
        others = [other for other in self._non_empty if other is not queue]
        self._non_empty.clear()
        for other in others:
            self._non_empty.offer(other.head_timestamp, other)
        kept = bisect_left(waiting.offsets, offset)
        if kept:
            self.add_raw_records(partition, waiting.rows(0, kept))
        return waiting.rows(kept, len(waiting))

    def update_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Tell how many records the brokers still have of each partition; a partition left out is not known."""
        if self._max_task_idle_ms != MAX_TASK_IDLE_MS_DISABLED:
            self._fetched_lags = {partition: lags[partition] for partition in self._queues if partition in lags}

    def ready_to_process(self, now: int) -> ReadyToProcess:
        """Whether to go on: every partition has data, or has had its chance.

        An empty partition is waited for while its lag is not known or not zero, and then for `max.task.idle.ms` more.
        """
        return self._ready(now, _has_records)

    def _ready(self, now: int, has_records: Callable[[RecordQueue], bool]) -> ReadyToProcess:
        for partition in self.awaited:
            if not has_records(self._queues[partition]):
                return ReadyToProcess(False, f"Partition {partition}: its history is not read to the end.")
        if self._max_task_idle_ms == MAX_TASK_IDLE_MS_DISABLED:
            return _READY
        if all(map(has_records, self._queues.values())):
            self._idle_deadlines.clear()
            return _READY
        enforced: dict[TopicPartition, int] = {}
        queued = 0
        for partition, queue in self._queues.items():
            if has_records(queue):
                self._idle_deadlines.pop(partition, None)
                queued += 1
                continue
            lag = self._fetched_lags.get(partition, -1)
            if lag != 0:
                self._idle_deadlines.pop(partition, None)
                reason = "Waiting to fetch data" if lag < 0 else f"current lag is {lag}, but no data is buffered locally"
                return ReadyToProcess(False, f"Partition {partition}: {reason}.")
            deadline = self._idle_deadlines.setdefault(partition, now + self._max_task_idle_ms)
            if now < deadline:
                return ReadyToProcess(
                    False,
                    f"Partition {partition} has current lag 0 and current time is {now}. Waiting for new data to be produced "
                    f"for configured idle time {self._max_task_idle_ms} (deadline is {deadline}).",
                )
            enforced[partition] = deadline
        if enforced and not queued:
            return ReadyToProcess(False, "No partitions were buffered locally, so this task is not ready for processing.")
        if enforced:
            if self._enforced_processing is not None:
                self._enforced_processing()
            _log.debug(
                "Continuing to process although some partitions are empty on the broker. There may be out-of-order processing "
                "for this task as a result. Partitions we gave up waiting for, with their deadlines: %s. max.task.idle.ms: %d.",
                enforced,
                self._max_task_idle_ms,
            )
        return _READY

    def idle_deadline(self) -> int | None:
        """When the task would stop to wait for an empty partition; None where it does not wait for the clock."""
        return max(self._idle_deadlines.values(), default=None)

    def clear(self) -> None:
        """Drop all records, partition times and what is known of lags."""
        for queue in self._queues.values():
            queue.clear()
        self._non_empty.clear()
        self._fetched_lags.clear()
        self._idle_deadlines.clear()
        self.stream_time = UNKNOWN


def _merge(times: Sequence[int], others: Sequence[int], places: list[int], other_places: list[int]) -> int:
    """Give the rows of two partitions their places, until one of them has none left; the first begins. Returns the next place.

    A partition goes on while its time is lower; where times are equal the other one has waited longer, and goes first.
    """
    place, row, other, end, other_end = 0, 0, 0, len(times), len(others)
    due, other_due = times[0], others[0]
    while True:
        while True:
            places.append(place)
            place += 1
            row += 1
            if row == end:
                return place
            due = times[row]
            if due >= other_due:
                break
        while True:
            other_places.append(place)
            place += 1
            other += 1
            if other == other_end:
                return place
            other_due = others[other]
            if other_due >= due:
                break


def _joined(parts: list[RawBatch]) -> RawBatch:
    """The rows of several runs of one partition as one."""
    first = parts[0]
    return first if len(parts) == 1 else RawBatch.of(first.topic, first.partition, [row for part in parts for row in part])
