"""Read exact offset ranges of topic partitions."""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any, Final, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from penstock.batches.record_batch import RawBatch, UnreadableBatch
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.abandon import close_within
from penstock.kafka.client_metrics import ClientMetrics
from penstock.kafka.clients import FETCH_BYTES, open_client, refused

_log = logging.getLogger(__name__)

# Shorter ranges are read with the consumer that does not prefetch: 3 ms instead of 26.
_SHORT = 2_000

MOST_BYTES: Final = 64 << 20
"""The largest number of decompressed bytes that one batch of a stream thread takes from librdkafka."""

AHEAD_KIB: Final = 16 << 10
"""The number of decompressed bytes that librdkafka queues before it stops fetching."""

_SHORT_READS = {
    "queued.min.messages": 1,
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": 256 * 1024,
    "fetch.max.bytes": 1 << 20,
    "message.max.bytes": 1 << 20,
}
_LONG_READS = {
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": AHEAD_KIB,
    "fetch.wait.max.ms": 10,  # fetches of the next log wait while a broker holds a fetch at the end of another: 240 -> 130 ms
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": FETCH_BYTES,
    "fetch.max.bytes": FETCH_BYTES,
}
# Messages kept of partitions that were not asked for. Beyond this number they are fetched again when needed.
_MOST_AHEAD = 200_000

# Waiting for one partition delays the others, so a partition that delivered nothing last time is waited for less.
_PATIENCE, _LITTLE_PATIENCE = 10.0, 1.0

_OF_THE_CONNECTION = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._SSL,
    KafkaError._AUTHENTICATION,
)

# A batch of an unknown format, with a wrong checksum, or that cannot be decompressed (zstd: up to receive.message.max.bytes).
_OF_A_BATCH = (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED)

BatchEnd = Callable[[TopicPartition, int], int]
"""Returns the offset after the batch that contains an offset of a partition."""


_first, _second = itemgetter(0), itemgetter(1)


class FetchRange(NamedTuple):
    """Offsets `start` to `end` (not included) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}..{self.end})"


class Short(NamedTuple):
    """A range that was not read to its end: the next offset, and the reason.

    `out_of_range`: the log does not have the offset, so waiting is useless. `is_enough`: the size limit was reached.
    """

    offset: int
    reason: str
    out_of_range: bool = False
    is_enough: bool = False


class StuckPartitionsError(BrokerError):
    """Some ranges were not read to their ends in time. The other ranges were."""

    def __init__(self, message: str, short: Mapping[TopicPartition, Short] | None = None) -> None:
        super().__init__(message)
        self.short = dict(short or {})


class OffsetOutOfRangeError(BrokerError):
    """Positions outside their logs. The offsets are read again, and the reset policy decides."""


class RangeFetcher:
    """Reads offset ranges. Keeps its consumers open between calls.

    A range ends at its last offset, even if no record is there: transaction markers, aborted and compacted records leave gaps.
    `fetch` reads all ranges to their ends or raises.

    An unreadable batch is skipped and listed in the columns of its partition (`RawBatch.unreadable`). Without `batch_end`,
    which finds its end, `fetch` raises.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        timeout: float = 60.0,
        metrics: ClientMetrics | None = None,
        batch_end: BatchEnd | None = None,
    ) -> None:
        self._config = dict(client_config)
        self._batch_end = batch_end
        self._timeout = timeout
        self._metrics = metrics
        self._slow: frozenset[TopicPartition] = frozenset()
        self._short: _Reader | None = None
        self._long: _Reader | None = None
        self._opened_at = -math.inf

    def fetch(self, ranges: Sequence[FetchRange], headers: bool = True) -> dict[TopicPartition, RawBatch]:
        """Return all records of the ranges, in offset order per partition, with headers if `headers`.

        After a long read the consumer prefetches the following records until a short read or `rest`.
        """
        found, short = self._read(ranges, headers)
        _refuse_short(short)
        return found

    def parts(
        self, ranges: Sequence[FetchRange], headers: bool = True
    ) -> Iterator[tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, int]]]:
        """Yield the ranges in parts of about `MOST_BYTES`: the records of each partition, and its next offset."""
        left = {TopicPartition(r.topic, r.partition): r for r in ranges}
        while left:
            found, short = self._read(list(left.values()), headers, MOST_BYTES)
            _refuse_short({partition: at for partition, at in short.items() if not at.is_enough})
            yield found, {partition: short[partition].offset if partition in short else r.end for partition, r in left.items()}
            left = {partition: left[partition]._replace(start=at.offset) for partition, at in short.items()}

    def expect(self, next_range: FetchRange) -> None:
        """Prefetch a long range. The records wait in the consumer."""
        if next_range.end - next_range.start > _SHORT:
            self._long = self._long or self._reader(_LONG_READS)
            self._long.expect(TopicPartition(next_range.topic, next_range.partition), next_range.start)

    def _read(
        self, ranges: Sequence[FetchRange], headers: bool = True, most_bytes: float = math.inf
    ) -> tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, Short]]:
        wanted = {TopicPartition(r.topic, r.partition): r for r in ranges if r.end > r.start}
        if not wanted:
            return {}, {}
        return self._read_wanted(wanted, headers, most_bytes)

    def _read_wanted(
        self, wanted: Mapping[TopicPartition, FetchRange], headers: bool, most_bytes: float
    ) -> tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, Short]]:
        if sum(r.end - r.start for r in wanted.values()) > _SHORT:
            self._long = self._long or self._reader(_LONG_READS)
            found, short = self._long.read(wanted, self._slow, headers, most_bytes)
        else:
            self.rest()
            self._short = self._short or self._reader(_SHORT_READS)
            try:
                found, short = self._short.read(wanted, self._slow, headers, most_bytes)
            finally:
                self._short.rest()
        silent = [partition for partition, at in short.items() if at.offset == wanted[partition].start and not at.out_of_range]
        if len(silent) == len(wanted) and time.monotonic() > self._opened_at + self._timeout:
            # No record of any partition: librdkafka may have forgotten all brokers (librdkafka issue 5301), which only a new
            # client cures.
            self.close()
        return found, short

    def rest(self) -> None:
        """Stop fetching until the next call."""
        if self._long is not None:
            self._long.rest()

    def serve(self) -> None:
        """Poll idle consumers for their statistics. Active consumers report them by themselves."""
        if self._metrics is not None:
            for reader in (self._short, self._long):
                if reader is not None and reader.rests:
                    reader.consumer.poll(0)

    def close(self) -> None:
        for reader in (self._short, self._long):
            if reader is not None:
                close_within("a consumer", reader.consumer.close)
        self._short = self._long = None

    def _reader(self, settings: Mapping[str, Any]) -> _Reader:
        self._opened_at = time.monotonic()
        config = {**settings, **self._config, "enable.partition.eof": True}
        if self._metrics is not None:
            config = self._metrics.settings(config, "short" if settings is _SHORT_READS else "long")
        return _Reader(open_client("consumer", Consumer, config), self._timeout, self._batch_end)


class LenientFetcher(RangeFetcher):
    """Reads as much as possible. A partition without progress delays only itself.

    Incomplete ranges are kept until `take_short`. A partition that delivered nothing is waited for at most a second the next
    time. After about `most_bytes` the remaining ranges are incomplete as well.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        timeout: float = _PATIENCE,
        metrics: ClientMetrics | None = None,
        batch_end: BatchEnd | None = None,
        most_bytes: float = math.inf,
    ) -> None:
        super().__init__(client_config, timeout, metrics, batch_end)
        self._most_bytes = most_bytes
        self._missed: dict[TopicPartition, Short] = {}

    def fetch(self, ranges: Sequence[FetchRange], headers: bool = True) -> dict[TopicPartition, RawBatch]:
        """Return the records of the ranges that arrived."""
        found, short = self._read(ranges, headers, self._most_bytes)
        self._missed.update(short)
        self._slow = (self._slow - found.keys()) | short.keys()
        return found

    def take_short(self) -> dict[TopicPartition, Short]:
        """Return the ranges that were not read to their ends since the last call."""
        missed, self._missed = self._missed, {}
        return missed


class _Reader:
    """One consumer, assigned where its last read ended, so that a read that continues there finds prefetched records."""

    def __init__(self, consumer: Consumer, timeout: float, batch_end: BatchEnd | None = None) -> None:
        self.consumer = consumer
        self._timeout, self._batch_end = timeout, batch_end
        self._next: dict[TopicPartition, int] = {}
        """The assigned partitions and the offsets at which their last reads ended."""
        self._ahead: dict[TopicPartition, list[Message]] = {}
        """Messages that arrived beyond the end of the last read."""
        self._reached: dict[TopicPartition, int] = {}
        """The end of each log that the consumer has reached."""
        self._lost: dict[TopicPartition, str] = {}
        """Partitions whose logs do not have the requested offset, with the reason."""
        self._unreadable: dict[TopicPartition, tuple[int, str]] = {}
        """The first offset of an unreadable batch, with the reason. The consumer does not pass it."""
        self._headers = True

    def read(
        self,
        wanted: Mapping[TopicPartition, FetchRange],
        slow: Set[TopicPartition],
        headers: bool = True,
        most_bytes: float = math.inf,
    ) -> tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, Short]]:
        """Return the records of the ranges, and the ranges that were not read to their ends in time.

        Slow partitions are waited for less.
        """
        found = {partition: RawBatch(*partition, [], [], [], []) for partition in wanted}
        self._lost, self._unreadable, self._headers = {}, {}, headers
        try:
            short = self._fill(wanted, found, slow, most_bytes)
        except BaseException:
            self.rest()
            raise
        if short:
            self.rest()
        return found, short

    def expect(self, partition: TopicPartition, start: int) -> None:
        """Prefetch from an offset."""
        if self._next.get(partition) != start:
            self._assign({partition: start})

    @property
    def rests(self) -> bool:
        """Return True if nothing is assigned, so that a poll returns no record."""
        return not self._next

    def rest(self) -> None:
        """Stop fetching until the next read."""
        if self._next:
            self.consumer.unassign()
            self._next, self._ahead, self._reached = {}, {}, {}

    def _fill(
        self,
        wanted: Mapping[TopicPartition, FetchRange],
        found: Mapping[TopicPartition, RawBatch],
        slow: Set[TopicPartition],
        most_bytes: float,
    ) -> dict[TopicPartition, Short]:
        elsewhere = {partition: r.start for partition, r in wanted.items() if self._next.get(partition) != r.start}
        if 0 < len(elsewhere) < len(wanted) and elsewhere.keys().isdisjoint(self._next):
            # Keep what was prefetched of the other partitions, as when the topics of a foreign-key join get their first
            # records.
            self._next |= elsewhere
            self.consumer.incremental_assign([ClientPartition(*partition, start) for partition, start in elsewhere.items()])
        elif elsewhere:
            self._assign({partition: r.start for partition, r in wanted.items()})
        ends = {partition: r.end for partition, r in wanted.items()}
        missing = {partition: r.start for partition, r in wanted.items()}  # partition -> its next missing offset
        short: dict[TopicPartition, Short] = {}
        for partition in wanted:
            self._take_run(partition, self._ahead.pop(partition, []), ends, missing, found)
        moved_at, before, patience, size = time.monotonic(), -1, self._timeout, 0
        while missing:
            # consume() waits until it has the requested number: never request more than can arrive.
            left = sum(ends[p] - at for p, at in missing.items())
            if left != before:  # messages of other partitions do not count as progress
                moved_at, before = time.monotonic(), left
                patience = min(self._timeout, _LITTLE_PATIENCE) if missing.keys() <= slow else self._timeout
            messages = self.consumer.consume(min(10_000, left), 0.05)
            if messages:
                self._take(messages, ends, missing, found)
                if sum(map(len, self._ahead.values())) > _MOST_AHEAD:
                    self._assign(missing)
            else:
                self._drop_finished(ends, missing)
            if self._unreadable:
                self._skip_unreadable(ends, missing, found)
            for partition in self._lost.keys() & missing.keys():
                short[partition] = Short(missing.pop(partition), self._lost[partition], out_of_range=True)
            size += sum(map(len, messages))
            if size > most_bytes:
                return {**short, **{p: Short(at, f"{size} bytes came before", is_enough=True) for p, at in missing.items()}}
            if missing and time.monotonic() > moved_at + patience:
                self._drop_finished(ends, missing)
                reason = f"no record arrived within {patience:.0f} s: its leader is unavailable, or a transaction is open"
                return {**short, **{partition: Short(at, reason) for partition, at in missing.items()}}
        self._next.update((partition, end) for partition, end in ends.items() if partition in self._next)
        if not any(self._ahead.values()) and self._next.items() <= self._reached.items():
            self.rest()  # the end is reached
        return short

    def _assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self.rest()
        self._next = dict(starts)
        self.consumer.assign([ClientPartition(*partition, start) for partition, start in starts.items()])

    def _take(
        self,
        messages: Sequence[Message],
        ends: Mapping[TopicPartition, int],
        missing: dict[TopicPartition, int],
        found: Mapping[TopicPartition, RawBatch],
    ) -> None:
        """Move messages into the columns of their partitions, run by run: responses have many messages of one partition
        together.
        """
        stamps = list(map(Message.timestamp, messages))
        # Events that are no records have no timestamp. The timestamps are needed anyway, so only such batches are checked one
        # by one.
        plain = TIMESTAMP_NOT_AVAILABLE not in map(_first, stamps)
        if len(self._next) == 1:
            (partition,) = self._next
            if plain:
                self._take_run(partition, messages, ends, missing, found, stamps)
            else:
                self._take_run(partition, self._without_errors(partition, messages), ends, missing, found)
            return
        partitions = list(zip(map(Message.partition, messages), map(Message.topic, messages)))
        start = 0
        while start < len(messages):
            stop = end_of_run(partitions, start)
            index, topic = partitions[start]
            partition, run = TopicPartition(topic, index), messages[start:stop]
            self._take_run(partition, run if plain else self._without_errors(partition, run), ends, missing, found)
            start = stop

    def _take_run(
        self,
        partition: TopicPartition,
        messages: Sequence[Message],
        ends: Mapping[TopicPartition, int],
        missing: dict[TopicPartition, int],
        found: Mapping[TopicPartition, RawBatch],
        stamps: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Add messages of one partition to its columns. Keep messages beyond the end of its range."""
        if partition not in missing:
            if messages:
                self._ahead.setdefault(partition, []).extend(messages)
            return
        offsets, end = offsets_of(messages), ends[partition]
        if offsets and offsets[-1] >= end:
            inside = bisect_left(offsets, end)
            self._ahead[partition] = list(messages[inside:])
            messages, offsets = messages[:inside], offsets[:inside]
            stamps = None if stamps is None else stamps[:inside]
            del missing[partition]
        elif self._reached.get(partition, 0) >= end or (offsets and offsets[-1] == end - 1):
            del missing[partition]
        elif offsets:
            missing[partition] = offsets[-1] + 1
        append_messages(found[partition], partition, messages, offsets, stamps, self._headers)

    def _without_errors(self, partition: TopicPartition, messages: Sequence[Message]) -> list[Message]:
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._reached[partition] = message.offset()
            elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                self._lost[partition] = "the offset is no longer in the log: retention deleted it, or the topic was recreated"
            elif error.code() in _OF_A_BATCH:
                self._unreadable[partition] = message.offset(), error.str()
                break  # the consumer would retry it for ever
            else:
                _fail(error, partition)
        return records

    def _skip_unreadable(
        self,
        ends: Mapping[TopicPartition, int],
        missing: dict[TopicPartition, int],
        found: Mapping[TopicPartition, RawBatch],
    ) -> None:
        """Record the unreadable batches and continue after them."""
        for partition, (first, reason) in self._unreadable.items():
            if partition not in missing:
                continue  # the batch is beyond the current range
            start = max(first, missing.pop(partition))
            if start >= ends[partition]:
                continue
            if self._batch_end is None:
                raise UnreadableBatch(start, start + 1, reason).error(*partition)
            end = min(max(self._batch_end(partition, start), start + 1), ends[partition])
            found[partition].unreadable += (UnreadableBatch(start, end, reason),)
            if end < ends[partition]:
                missing[partition] = end
        self._unreadable.clear()
        self.rest()
        if missing:
            self._assign(missing)

    def _drop_finished(self, ends: Mapping[TopicPartition, int], missing: dict[TopicPartition, int]) -> None:
        """Remove partitions whose position passed the end over a gap without records."""
        for position in self.consumer.position([ClientPartition(p.topic, p.partition) for p in missing]):
            partition = TopicPartition(position.topic, position.partition)
            if position.offset >= ends[partition]:
                del missing[partition]


def append_messages(
    columns: RawBatch,
    partition: TopicPartition,
    messages: Sequence[Message],
    offsets: Sequence[int],
    stamps: Sequence[tuple[int, int]] | None = None,
    with_headers: bool = True,
) -> None:
    """Append messages of a partition with these offsets (and timestamps, if known) to its columns."""
    columns.offsets += offsets  # type: ignore[operator]
    columns.timestamps += map(_second, map(Message.timestamp, messages) if stamps is None else stamps)
    columns.keys += map(Message.key, messages)
    columns.values += map(Message.value, messages)
    if not with_headers:
        return
    headers = _headers_of(partition, messages)
    if columns.headers is not None or any(headers):
        columns.headers = columns.headers or [()] * (len(columns) - len(headers))
        columns.headers += [tuple(some) if some else () for some in headers]


def _headers_of(partition: TopicPartition, messages: Sequence[Message]) -> list[Any]:
    """Return the headers of each message, None if a header name is not UTF-8.

    The client raises at the first access to such headers. A second access would return a broken object.
    """
    found: list[Any] = []
    left, broken = iter(messages), 0
    while True:
        try:
            found.extend(map(Message.headers, left))
            break
        except (SystemError, UnicodeDecodeError):
            found.append(None)
            broken += 1
    if broken:
        _log.warning(
            "%d records of %s between offsets %d and %d have a header whose name is not UTF-8. "
            "These records are read without headers",
            *(broken, partition, messages[0].offset(), messages[-1].offset()),
        )
    return found


def offsets_of(messages: Sequence[Message]) -> Sequence[int]:
    """Return the offset of each message, as a range if the offsets are contiguous."""
    if messages:
        first, last = messages[0].offset(), messages[-1].offset()
        if last - first == len(messages) - 1:
            return range(first, last + 1)
    return list(map(Message.offset, messages))


def end_of_run(partitions: Sequence[tuple[int, str]], start: int) -> int:
    """Return the end of the run of equal entries that begins at `start`. Runs are long, so the step doubles."""
    first, stop, step = partitions[start], start + 1, 1
    while partitions[stop : stop + step] == [first] * step:
        stop, step = stop + step, 2 * step
    while stop < len(partitions) and partitions[stop] == first:
        stop += 1
    return stop


def _refuse_short(short: Mapping[TopicPartition, Short]) -> None:
    if short:
        told = "; ".join(f"{partition} at offset {at.offset}: {at.reason}" for partition, at in short.items())
        raise StuckPartitionsError(f"Some ranges could not be read to their ends: {told}", short)


def _fail(error: KafkaError, partition: TopicPartition) -> None:
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        raise BrokerError(f"Reading {partition} failed: the topic was deleted or recreated. Restart the application")
    if error.fatal() or not error.retriable():
        if error.code() in _OF_THE_CONNECTION:
            return  # librdkafka reconnects by itself, and the caller has a deadline
        raise refused(f"reading {partition}", error) from KafkaException(error)
