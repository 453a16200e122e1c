"""Follow the ends of topic partitions, without asking for their end offsets.

`kafka/fetch.py` reads given ranges of offsets. A stream thread uses the follower: it takes whatever has arrived.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.kafka.abandon import close_within
from penstock.kafka.client_metrics import ClientMetrics
from penstock.kafka.clients import FETCH_BYTES, open_client, refused
from penstock.kafka.fetch import AHEAD_KIB, MOST_BYTES, FetchRange, append_messages, end_of_run, offsets_of

# Brokers answer at the first record. An empty response tells the consumer that a partition is at its end.
_SETTINGS = {
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": AHEAD_KIB,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": FETCH_BYTES,
    "fetch.max.bytes": FETCH_BYTES,
}
_AT_ONCE = 10_000


class Taken(NamedTuple):
    """Records taken from the follower, with the offset range of each partition. A range may have no records."""

    ranges: Mapping[TopicPartition, FetchRange]
    columns: Mapping[TopicPartition, RawBatch]

    def fetch(self, ranges: Sequence[FetchRange]) -> dict[TopicPartition, RawBatch]:
        """Return the columns of these ranges, as a fetcher does."""
        return {partition: self.columns[partition] for partition in (TopicPartition(r.topic, r.partition) for r in ranges)}

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(map(len, self.columns.values()))


class Follower:
    """One consumer that stays assigned. It is assigned again only for other positions."""

    def __init__(self, client_config: Mapping[str, Any], metrics: ClientMetrics | None = None) -> None:
        config = {**_SETTINGS, **client_config, "enable.partition.eof": True}
        self._config = config if metrics is None else metrics.settings(config, "followed")
        self._consumer: Consumer | None = None
        self._at: dict[TopicPartition, int] = {}
        self._messages: dict[TopicPartition, list[Message]] = {}
        self._bytes: dict[TopicPartition, int] = {}
        """The size of these messages."""
        self._ends: dict[TopicPartition, int] = {}
        self.trouble: dict[TopicPartition, str] = {}
        """Partitions that cannot be read further, with the reason: an unreadable batch, or an offset that is not in the log."""
        self._paused: frozenset[TopicPartition] = frozenset()
        self._stopped: set[TopicPartition] = set()
        """The paused partitions that the consumer does not fetch either."""
        self._until: dict[TopicPartition, int] = {}
        self._beyond: set[TopicPartition] = set()
        """Partitions whose limit was reached: the consumer does not fetch them."""

    def follow(self, positions: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int] | None = None) -> None:
        """Continue from these positions. Prefetched messages are kept for positions that are unchanged.

        `until` has limits: records from such an offset on are not taken. To change limits, call `rest` first.
        """
        if self._at == positions and not self.trouble:
            return
        self._consumer = self._consumer or open_client("consumer", Consumer, self._config)
        new = {partition: at for partition, at in positions.items() if partition not in self._at}
        if self._at and not self.trouble and all(positions.get(p) == at for p, at in self._at.items()):
            self._at |= new
            self._until.update(until or {})
            self._consumer.incremental_assign([ClientPartition(*partition, at) for partition, at in new.items()])
            return
        self.rest()
        self._at, self._until = dict(positions), dict(until or {})
        self._consumer.assign([ClientPartition(*partition, at) for partition, at in positions.items()])

    def wait(self, seconds: float, most: int = _AT_ONCE) -> None:
        """Wait for records at most `seconds`. Records that arrived together are read together, up to about `most`."""
        if self._consumer is None:
            time.sleep(seconds)
            return
        first = self._consumer.poll(seconds)
        if first is None:
            return
        self._take_in(first)
        # Not `consume` alone: it waits until it has the requested number.
        while self.waiting < most and not self.is_full and (more := self._consumer.consume(_AT_ONCE, 0)):
            self._take_in_all(more)
            self._stop_fetching(most)

    def wait_apart(self, seconds: float, sleep: Callable[[float], object] = time.sleep, most: int = _AT_ONCE) -> None:
        """Sleep, then read what has arrived: one wake-up for many records is cheaper than one for each."""
        if seconds > 0:
            sleep(seconds)
        self.wait(0, most)

    def pause(self, partitions: frozenset[TopicPartition]) -> None:
        """Leave the records of these partitions until the next call: their tasks have many records queued."""
        self._paused = partitions
        if self._consumer is not None and (again := self._stopped - partitions):
            if fetched := again - self._beyond:
                self._consumer.resume([ClientPartition(*partition) for partition in fetched])
            self._stopped -= again

    def _stop_fetching(self, most: int) -> None:
        """Stop fetching paused partitions that have a whole batch waiting."""
        whole = {
            partition
            for partition in self._paused - self._stopped
            if len(self._messages.get(partition, ())) >= most or self._bytes.get(partition, 0) >= MOST_BYTES
        }
        if self._consumer is not None and whole:
            self._consumer.pause([ClientPartition(*partition) for partition in whole])
            self._stopped |= whole

    @property
    def waiting(self) -> int:
        """The number of records that can be taken."""
        return sum(len(messages) for partition, messages in self._messages.items() if partition not in self._paused)

    @property
    def is_full(self) -> bool:
        """True if the waiting records are enough for a batch by size."""
        return sum(size for partition, size in self._bytes.items() if partition not in self._paused) >= MOST_BYTES

    @property
    def has_skipped(self) -> bool:
        """True if offsets without records can be taken: transaction markers and aborted records."""
        return any(end > self._at[partition] for partition, end in self._ends.items() if partition not in self._paused)

    def is_at_end(self, partition: TopicPartition) -> bool:
        """Return True if all records of a partition were taken, up to its limit or its end by the brokers' last answer."""
        if partition in self._messages:
            return False
        at = self._at.get(partition, -1)
        if at >= self._until.get(partition, math.inf):
            return True
        if self._ends.get(partition, -1) >= at or self._consumer is None:
            return True
        # The end-of-partition event comes later than the last record. The high watermark comes with the record.
        known = self._consumer.get_watermark_offsets(ClientPartition(*partition), cached=True)
        return known is not None and 0 <= known[1] <= at

    def take(self, most: int) -> Taken:
        """Take what has arrived, at most about `most` records. The follower continues after them."""
        ranges: dict[TopicPartition, FetchRange] = {}
        columns: dict[TopicPartition, RawBatch] = {}
        waiting = self.waiting
        for partition, start in self._at.items():
            if partition in self._paused:
                continue
            messages = self._messages.pop(partition, [])
            if waiting > most and len(messages) > 1:
                share = max(1, most * len(messages) // waiting)
                if share < len(messages):
                    self._messages[partition] = messages[share:]
                    del messages[share:]
            left = self._bytes.pop(partition, 0) - sum(map(len, messages))
            if partition in self._messages:
                self._bytes[partition] = left
            end = messages[-1].offset() + 1 if messages else start
            if partition not in self._messages:
                end = max(end, self._ends.get(partition, -1))
            if end > start:
                ranges[partition] = FetchRange(*partition, start, end)
                columns[partition] = RawBatch(*partition, [], [], [], [])
                append_messages(columns[partition], partition, messages, offsets_of(messages))
                self._at[partition] = end
        return Taken(ranges, columns)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition."""
        return self._at

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """The number of untaken records of each partition, by the brokers' last answer. Partitions without one are left out.

        Records beyond a limit do not count.
        """
        found: dict[TopicPartition, int] = {}
        if self._consumer is None:
            return found
        for partition, at in self._at.items():
            known = self._consumer.get_watermark_offsets(ClientPartition(*partition), cached=True)
            if partition in self._ends or (known is not None and known[1] >= 0):
                end = max(self._ends.get(partition, 0), known[1] if known is not None else 0)
                found[partition] = max(0, min(end, self._until.get(partition, end)) - at)
        return found

    def rest(self) -> None:
        """Stop fetching until the next `follow`."""
        self.pause(frozenset())  # a paused partition would stay paused when it is followed again
        if self._consumer is not None and self._at:
            if self._beyond:
                self._consumer.resume([ClientPartition(*partition) for partition in self._beyond])
            self._consumer.unassign()
        self._until, self._beyond = {}, set()
        self._at, self._messages, self._bytes, self._ends, self.trouble = {}, {}, {}, {}, {}
        self._paused, self._stopped = frozenset(), set()

    def serve(self) -> None:
        """Poll an idle consumer for its statistics."""
        if self._consumer is not None and not self._at:
            self._consumer.poll(0)

    def close(self) -> None:
        if self._consumer is not None:
            close_within("a consumer", self._consumer.close)
        self._consumer = None
        self._at, self._messages, self._bytes, self._ends, self._until, self._beyond = {}, {}, {}, {}, {}, set()

    def _take_in_all(self, messages: Sequence[Message]) -> None:
        """Read messages run by run: responses have many messages of one partition together."""
        if any(map(Message.error, messages)):
            for message in messages:
                self._take_in(message)
            return
        partitions = list(zip(map(Message.partition, messages), map(Message.topic, messages)))
        start = 0
        while start < len(messages):
            stop = end_of_run(partitions, start)
            partition = TopicPartition(partitions[start][1], partitions[start][0])
            end = stop
            if messages[stop - 1].offset() >= self._until.get(partition, math.inf):
                end = bisect_left(messages, self._until[partition], start, stop, key=Message.offset)
            if end > start and messages[start].offset() >= self._at.get(partition, math.inf):
                self._messages.setdefault(partition, []).extend(messages[start:end])
                self._bytes[partition] = self._bytes.get(partition, 0) + sum(map(len, messages[start:end]))
                self._ends.pop(partition, None)
            if end < stop:
                self._reach_limit(partition)
            start = stop

    def _reach_limit(self, partition: TopicPartition) -> None:
        """A record at or beyond the limit of a partition has come: it is not taken, and no other is fetched."""
        self._ends[partition] = self._until[partition]
        if self._consumer is not None and partition not in self._beyond:
            self._beyond.add(partition)
            self._consumer.pause([ClientPartition(*partition)])

    def _take_in(self, message: Message) -> None:
        error = message.error()
        if message.topic() is None:  # an error of the connection; librdkafka reconnects unless the error is fatal
            if error is not None and error.fatal():
                raise refused("reading the input topics", error) from KafkaException(error)
            return
        partition = TopicPartition(message.topic(), message.partition())
        if error is None:
            if partition in self._at and message.offset() >= self._until.get(partition, math.inf):
                self._reach_limit(partition)
            elif message.offset() >= self._at.get(partition, message.offset() + 1):
                self._messages.setdefault(partition, []).append(message)
                self._bytes[partition] = self._bytes.get(partition, 0) + len(message)
                self._ends.pop(partition, None)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._ends[partition] = min(message.offset(), self._until.get(partition, message.offset()))
        elif error.fatal() or not error.retriable():
            self.trouble[partition] = error.str()
