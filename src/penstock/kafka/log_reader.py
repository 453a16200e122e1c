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
from penstock.kafka.fetch import FetchRange
from penstock.kafka.log_transport import ANSWER_SECONDS, LogTransport, LogUnreadableError
from penstock.kafka.record_batches import ReadBatches, offset_behind, read_batches


class LogReader:
    """Reads one range after another. The next request is sent before the last answer is decoded."""

    def __init__(self, transport: LogTransport, reads_committed: bool) -> None:
        self._transport, self._reads_committed = transport, reads_committed
        self._asked: tuple[TopicPartition, int] | None = None
        self._ahead: dict[tuple[TopicPartition, int], ReadBatches] = {}
        """Records beyond the end of the last range, by that end."""

    def ask(self, wanted: FetchRange) -> None:
        """Request the beginning of a range. Raises LogUnreadableError if that fails."""
        partition = TopicPartition(wanted.topic, wanted.partition)
        try:
            self._ask(partition, wanted.start)
        except Exception as exc:
            raise LogUnreadableError(f"{partition}: {exc}") from exc

    def read(self, wanted: FetchRange, until: int) -> RawBatch:
        """Return the records of a range, and request the records that follow before `until`. Raises LogUnreadableError if it
        gives up.
        """
        partition, position = TopicPartition(wanted.topic, wanted.partition), wanted.start
        found, deadline = RawBatch(*partition, [], [], [], []), time.monotonic() + ANSWER_SECONDS
        try:
            while position < wanted.end:
                if time.monotonic() > deadline:
                    raise LogUnreadableError("no progress")
                kept, self._ahead = self._ahead.get((partition, position)), {}
                columns, behind = kept or self._next(partition, position, until)
                inside = bisect_left(columns.offsets, wanted.end)
                found.extend(columns.rows(0, inside))
                position = min(behind, wanted.end)
                if behind > wanted.end:
                    self._ahead = {(partition, wanted.end): ReadBatches(columns.rows(inside, len(columns)), behind)}
            return found
        except Exception as exc:
            raise LogUnreadableError(f"{partition} at offset {position}: {exc}") from exc

    def close(self) -> None:
        self._asked, self._ahead = None, {}
        self._transport.close()

    def _next(self, partition: TopicPartition, position: int, until: int) -> ReadBatches:
        if self._asked != (partition, position):
            self._ask(partition, position)
        self._asked = None
        answer = self._transport.answer()
        behind = offset_behind(answer.records, position)
        if position < behind < until:
            self._ask(partition, behind)
        return read_batches(*partition, answer.records, position, answer.aborted if self._reads_committed else ())

    def _ask(self, partition: TopicPartition, position: int) -> None:
        self._transport.ask(partition, position)
        self._asked = partition, position
