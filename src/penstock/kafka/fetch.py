"""Read exact offset ranges of topic partitions, inside the process that needs them."""

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

# Below this many records a range is read with the consumer that does not prefetch: 3 ms instead of 26.
_SHORT = 2_000

MOST_BYTES: Final = 64 << 20
"""How much of what was unpacked is taken from librdkafka for one batch of a stream thread."""

AHEAD_KIB: Final = 16 << 10
"""How much of what was unpacked may wait in librdkafka before it fetches more."""

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
    "fetch.wait.max.ms": 10,  # while a broker waits at the end of one log, nothing of the next is fetched: 240 -> 130 ms
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": FETCH_BYTES,
    "fetch.max.bytes": FETCH_BYTES,
}
# So many messages of partitions that are not asked for are kept; more are fetched again when their turn comes.
_MOST_AHEAD = 200_000

# A turn that waits for one partition does nothing for the others: less for one that did not move the last time.
_PATIENCE, _LITTLE_PATIENCE = 10.0, 1.0

_OF_THE_CONNECTION = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._SSL,
    KafkaError._AUTHENTICATION,
)

# A batch of unknown kind, with a wrong checksum, or that cannot be decompressed (zstd: to receive.message.max.bytes at most).
_OF_A_BATCH = (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED)

BatchEnd = Callable[[TopicPartition, int], int]
"""Returns the offset behind the batch that holds an offset of a partition."""


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
    """A range that could not be read to its end: how far it was read, and why not further.

    `out_of_range` says that the log does not have the offset (any more): to wait does not help. `is_enough` says that the rest
    was left for another call.
    """

    offset: int
    reason: str
    out_of_range: bool = False
    is_enough: bool = False


class StuckPartitionsError(BrokerError):
    """Ranges that could not be read to their ends in time; the others have been."""

    def __init__(self, message: str, short: Mapping[TopicPartition, Short] | None = None) -> None:
        super().__init__(message)
        self.short = dict(short or {})


class OffsetOutOfRangeError(BrokerError):
    """Positions that are not in their logs (any more): offsets are read anew, and the reset policy decides."""


class RangeFetcher:
    """Reads offset ranges; keeps its consumers open from call to call.

    A range ends where its last offset does, whether or not a record is there: transaction markers, aborted and
    compacted records leave gaps. All of them are read to their ends, or `fetch` raises.

    A batch that cannot be read is skipped, and noted with the columns of its partition (`RawBatch.unreadable`). Without
    `batch_end`, which finds its end, `fetch` raises.
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
        """All records of the ranges, in offset order per partition; without their headers, if nobody looks at them.

        A long read goes on fetching when it is done: what comes next is likely to be read next. A short one, or `rest`, ends it.
        """
        found, short = self._read(ranges, headers)
        _refuse_short(short)
        return found

    def parts(
        self, ranges: Sequence[FetchRange], headers: bool = True
    ) -> Iterator[tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, int]]]:
        """The same in parts of about `MOST_BYTES`: the records of each partition, and the offset behind them."""
        left = {TopicPartition(r.topic, r.partition): r for r in ranges}
        while left:
            found, short = self._read(list(left.values()), headers, MOST_BYTES)
            _refuse_short({partition: at for partition, at in short.items() if not at.is_enough})
            yield found, {partition: short[partition].offset if partition in short else r.end for partition, r in left.items()}
            left = {partition: left[partition]._replace(start=at.offset) for partition, at in short.items()}

    def expect(self, next_range: FetchRange) -> None:
        """Begin to fetch what will be asked for next, if that is a long read; it waits in the consumer until then."""
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
            # Not a record of any: librdkafka may have forgotten all brokers (its issue 5301), and would for ever.
            self.close()
        return found, short

    def rest(self) -> None:
        """Fetch nothing until the next call."""
        if self._long is not None:
            self._long.rest()

    def serve(self) -> None:
        """Let consumers that rest tell their statistics; those that read do it by themselves."""
        if self._metrics is not None:
            for reader in (self._short, self._long):
                if reader is not None and reader.rests:
                    reader.consumer.poll(0)

    def close(self) -> None:
        """Close the consumers."""
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
    """Reads what it can: a partition that does not move holds up itself only.

    What is missing is remembered until it is asked for. A turn waits so long for it; after that others come first.
    Behind about `most_bytes` the rest is missing as well.
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
        """The records of the ranges, as far as they come."""
        found, short = self._read(ranges, headers, self._most_bytes)
        self._missed.update(short)
        self._slow = (self._slow - found.keys()) | short.keys()
        return found

    def take_short(self) -> dict[TopicPartition, Short]:
        """The ranges that were not read to their ends since this was last asked."""
        missed, self._missed = self._missed, {}
        return missed


class _Reader:
    """One consumer, which is assigned where the last read ended: a read that goes on there finds what was fetched meanwhile."""

    def __init__(self, consumer: Consumer, timeout: float, batch_end: BatchEnd | None = None) -> None:
        self.consumer = consumer
        self._timeout, self._batch_end = timeout, batch_end
        self._next: dict[TopicPartition, int] = {}
        """Which partitions are assigned, and where the last read of each ended."""
        self._ahead: dict[TopicPartition, list[Message]] = {}
        """What came of partitions beyond the end of the last read."""
        self._reached: dict[TopicPartition, int] = {}
        """The end of a partition, where the consumer has come to it."""
        self._lost: dict[TopicPartition, str] = {}
        """Partitions whose logs do not have what is read, and why."""
        self._unreadable: dict[TopicPartition, tuple[int, str]] = {}
        """Where batches begin that cannot be read, and why not; the consumer goes no further."""
        self._headers = True

    def read(
        self,
        wanted: Mapping[TopicPartition, FetchRange],
        slow: Set[TopicPartition],
        headers: bool = True,
        most_bytes: float = math.inf,
    ) -> tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, Short]]:
        """The records of the ranges, and those that were not read to their ends because nothing came in time.

        Those that are known to be slow are not waited for as long.
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
        """Fetch from an offset on, before somebody reads there."""
        if self._next.get(partition) != start:
            self._assign({partition: start})

    @property
    def rests(self) -> bool:
        """Whether nothing is assigned, so that a poll gives no record."""
        return not self._next

    def rest(self) -> None:
        """Fetch nothing until the next read, which begins anew."""
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
            # What was fetched of the others stays, as when the topics inside a foreign-key join get their first records.
            self._next |= elsewhere
            self.consumer.incremental_assign([ClientPartition(*partition, start) for partition, start in elsewhere.items()])
        elif elsewhere:
            self._assign({partition: r.start for partition, r in wanted.items()})
        ends = {partition: r.end for partition, r in wanted.items()}
        missing = {partition: r.start for partition, r in wanted.items()}  # partition -> the next offset it lacks
        short: dict[TopicPartition, Short] = {}
        for partition in wanted:
            self._take_run(partition, self._ahead.pop(partition, []), ends, missing, found)
        moved_at, before, patience, size = time.monotonic(), -1, self._timeout, 0
        while missing:
            # consume() waits until it has as many as it was asked for: never ask for more than can come.
            left = sum(ends[p] - at for p, at in missing.items())
            if left != before:  # what comes of other partitions does not count
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
                reason = f"nothing arrived within {patience:.0f} s: its leader is away, or a transaction is open there"
                return {**short, **{partition: Short(at, reason) for partition, at in missing.items()}}
        self._next.update((partition, end) for partition, end in ends.items() if partition in self._next)
        if not any(self._ahead.values()) and self._next.items() <= self._reached.items():
            self.rest()  # there is no more
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
        """Move messages into the columns of their partitions, run by run: a broker answers with many of one together."""
        stamps = list(map(Message.timestamp, messages))
        # What is no record has no timestamp: they have to be read anyway, and errors one by one only where there may be some.
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
        """Take messages of one partition, with their timestamps if those are known, and keep what is beyond its end."""
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
                self._lost[partition] = "it is no longer in the log: deleted by retention, or the topic was made anew"
            elif error.code() in _OF_A_BATCH:
                self._unreadable[partition] = message.offset(), error.str()
                break  # the consumer tries it again and again
            else:
                _fail(error, partition)
        return records

    def _skip_unreadable(
        self,
        ends: Mapping[TopicPartition, int],
        missing: dict[TopicPartition, int],
        found: Mapping[TopicPartition, RawBatch],
    ) -> None:
        """Note the batches that cannot be read, and go on behind them."""
        for partition, (first, reason) in self._unreadable.items():
            if partition not in missing:
                continue  # it lies behind what is read now
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
        """Take out the partitions whose position passed the end over a gap, without a record to show it."""
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
    """Put messages of a partition, which have these offsets (and timestamps, if known), behind those that columns have."""
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
    """The headers of each message; none where the name of one is not UTF-8, which the client cannot read.

    It says so by an exception the first time it is asked; asked again, it would hand out an object with a hole in it.
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
            "%d records of %s between offsets %d and %d have a header whose name is not UTF-8: they are read without headers",
            *(broken, partition, messages[0].offset(), messages[-1].offset()),
        )
    return found


def offsets_of(messages: Sequence[Message]) -> Sequence[int]:
    """The offset of each message; a range where none is missing between them."""
    if messages:
        first, last = messages[0].offset(), messages[-1].offset()
        if last - first == len(messages) - 1:
            return range(first, last + 1)
    return list(map(Message.offset, messages))


def end_of_run(partitions: Sequence[tuple[int, str]], start: int) -> int:
    """Where the entries that equal the one at `start` end; runs are long, so steps double while they stay inside."""
    first, stop, step = partitions[start], start + 1, 1
    while partitions[stop : stop + step] == [first] * step:
        stop, step = stop + step, 2 * step
    while stop < len(partitions) and partitions[stop] == first:
        stop += 1
    return stop


def _refuse_short(short: Mapping[TopicPartition, Short]) -> None:
    if short:
        told = "; ".join(f"{partition} at offset {at.offset}: {at.reason}" for partition, at in short.items())
        raise StuckPartitionsError(f"not all that was to be read could be read ({told})", short)


def _fail(error: KafkaError, partition: TopicPartition) -> None:
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        raise BrokerError(f"{partition} does not exist any more: the topic was deleted or recreated while the application runs")
    if error.fatal() or not error.retriable():
        if error.code() in _OF_THE_CONNECTION:
            return  # librdkafka reconnects by itself; the deadline decides
        raise refused(f"reading {partition}", error) from KafkaException(error)
