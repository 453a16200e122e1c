"""Reads long ranges of a log as raw record batches from the partition leader.

librdkafka and confluent-kafka each create an object for each message: 0.75 µs of CPU a record until it is in a column, here
0.35. The reader opens its own connections, which pays for long ranges. It does not wait, find a new leader or retry: if it
gives up, the caller uses the consumer.
"""

from __future__ import annotations

import time
from bisect import bisect_left

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.kafka.fetch import MOST_BYTES, FetchRange
from penstock.kafka.log_transport import ANSWER_SECONDS, FetchAnswer, LogTransport, LogUnreadableError
from penstock.kafka.record_batches import ReadBatches, offset_behind, read_batches


class LogReader:
    """Reads one range after another. The next request is sent before the last answer is decoded."""

    def __init__(self, transport: LogTransport, reads_committed: bool) -> None:
        self._transport, self._reads_committed = transport, reads_committed
        self._asked: tuple[TopicPartition, int] | None = None
        self._ahead: dict[tuple[TopicPartition, int], ReadBatches] = {}
        """Records beyond the end of the last range, by that end."""
        self._left: tuple[TopicPartition, int, FetchAnswer] | None = None
        """An answer with batches that are not unpacked yet, and the offset of the first of them."""

    def ask(self, wanted: FetchRange) -> None:
        """Request the beginning of a range. Raises LogUnreadableError if that fails."""
        partition = TopicPartition(wanted.topic, wanted.partition)
        try:
            self._ask(partition, wanted.start)
        except Exception as exc:
            raise LogUnreadableError(f"{partition}: {exc}") from exc

    def read(self, wanted: FetchRange, until: int) -> tuple[RawBatch, int]:
        """Return the records of a range and the offset after them, which is inside the range after `MOST_BYTES`.

        Requests the records that follow before `until`. Raises LogUnreadableError if it gives up.
        """
        partition, position, size = TopicPartition(wanted.topic, wanted.partition), wanted.start, 0
        found, deadline = RawBatch(*partition, [], [], [], []), time.monotonic() + ANSWER_SECONDS
        try:
            while position < wanted.end and size <= MOST_BYTES:
                if time.monotonic() > deadline:
                    raise LogUnreadableError("no progress")
                kept, self._ahead = self._ahead.get((partition, position)), {}
                columns, behind, unpacked = kept or self._next(partition, position, until)
                size += unpacked
                inside = bisect_left(columns.offsets, wanted.end)
                found.extend(columns.rows(0, inside))
                position = min(behind, wanted.end)
                if behind > wanted.end:
                    self._ahead = {(partition, wanted.end): ReadBatches(columns.rows(inside, len(columns)), behind, unpacked)}
            return found, position
        except Exception as exc:
            raise LogUnreadableError(f"{partition} at offset {position}: {exc}") from exc

    def close(self) -> None:
        self._asked, self._ahead, self._left = None, {}, None
        self._transport.close()

    def _next(self, partition: TopicPartition, position: int, until: int) -> ReadBatches:
        answer = self._answer(partition, position, until)
        found = read_batches(*partition, answer.records, position, answer.aborted if self._reads_committed else ())
        if found.next_offset < offset_behind(answer.records, position):
            self._left = partition, found.next_offset, answer
        return found

    def _answer(self, partition: TopicPartition, position: int, until: int) -> FetchAnswer:
        left, self._left = self._left, None
        if left is not None and left[:2] == (partition, position):
            return left[2]
        if self._asked != (partition, position):
            self._ask(partition, position)
        self._asked = None
        answer = self._transport.answer()
        behind = offset_behind(answer.records, position)
        if position < behind < until:
            self._ask(partition, behind)
        return answer

    def _ask(self, partition: TopicPartition, position: int) -> None:
        self._transport.ask(partition, position)
        self._asked = partition, position
