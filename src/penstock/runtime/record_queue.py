"""The records of one input partition that wait for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from penstock.batches.record_batch import RawBatch, UnreadableBatch
from penstock.errors import StreamsError
from penstock.handlers import DeserializationExceptionHandler
from penstock.ids import TopicPartition
from penstock.record import NO_TIMESTAMP, RawRecord, Record
from penstock.runtime.record_deserializer import ConsumerRecord, handle_deserialization_failure
from penstock.timestamps import FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig
    from penstock.runtime.nodes import SourceNode

UNKNOWN = NO_TIMESTAMP

# These only judge a bad timestamp; they need not be asked for a good one, which saves 0.5 us a record.
_TRUSTING = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp)

# The next record of a queue: typed, and as it came. None for the typed one marks the last of a run of records that were
# skipped; it is handed out all the same so that its offset gets committed.
StampedRecord = tuple["Record[Any, Any] | None", RawRecord]


_LARGEST_RECORD = 100_000_000  # librdkafka's receive.message.max.bytes


def largest_record(config: StreamsConfig) -> int:
    """Return how many bytes a record may have: what the consumers take."""
    given = config.main_consumer_configs(config["application.id"], "").get("receive.message.max.bytes")
    return _LARGEST_RECORD if given is None else int(given)


class RecordQueue:
    """First in, first out; only the head is deserialized, the rest stay bytes, and a batch stays a batch until one is taken out.

    Partition time is the highest timestamp that was taken out so far; the timestamp extractor gets it.
    """

    __slots__ = (
        "_batch",
        "_context",
        "_extract",
        "_extractor_name",
        "_fifo",
        "_handler",
        "consumed_offset",
        "head",
        "head_timestamp",
        "partition",
        "partition_time",
        "source",
        "trusts_record",
    )

    def __init__(
        self,
        partition: TopicPartition,
        source: SourceNode,
        timestamp_extractor: Callable[[Any, int], int],
        deserialization_handler: DeserializationExceptionHandler,
        context: Any,
    ) -> None:
        self.partition = partition
        self.source = source
        self.partition_time = UNKNOWN
        self.consumed_offset: int | None = None
        self.head: StampedRecord | None = None
        self.head_timestamp = UNKNOWN
        self._fifo: deque[RawRecord] = deque()
        self._batch: RawBatch | None = None  # where it is set, the head is its first row and nothing else waits
        self._context = context
        self._handler = deserialization_handler
        self._extract = getattr(timestamp_extractor, "extract", timestamp_extractor)
        self._extractor_name = getattr(timestamp_extractor, "__qualname__", type(timestamp_extractor).__qualname__)
        self.trusts_record = type(timestamp_extractor) in _TRUSTING

    def __len__(self) -> int:
        return len(self._fifo) + (self.head is not None) if self._batch is None else len(self._batch)

    @property
    def head_offset(self) -> int | None:
        """The offset of the next record; None where there is none."""
        return None if self.head is None else self.head[1].offset

    def count_at_head(self) -> int:
        """How many of the records that wait have the offset of the first one: rows of one block."""
        if self.head is None:
            return 0
        offsets = (raw.offset for raw in self._fifo) if self._batch is None else islice(self._batch.offsets, 1, None)
        return 1 + sum(1 for _ in takewhile(self.head[1].offset.__eq__, offsets))

    def add(self, records: Iterable[RawRecord] | RawBatch) -> int:
        """Add records as they come, one by one or as a batch; returns how many there are now."""
        return self.add_batch(records) if isinstance(records, RawBatch) else self.add_raw_records(records)

    def add_raw_records(self, raw_records: Iterable[RawRecord]) -> int:
        """Add records at the end; returns how many there are now."""
        self._split_batch()
        self._fifo.extend(raw_records)
        if self.head is None:
            self._update_head()
        return len(self)

    def add_batch(self, batch: RawBatch) -> int:
        """Add records as a batch, which stays one while nothing else waits than batches; returns how many there are now."""
        if self._batch is not None:
            self._batch.extend(batch)
            return len(self)
        if self.head is not None or not len(batch):
            return self.add_raw_records(batch)
        self._fifo.append(batch[0])
        self._update_head()
        if self.head is not None and self.head[0] is not None:
            self._batch = batch
        elif len(batch) > 1:
            self.head = None  # the first one is skipped; the next that is shows its offset
            self.add_raw_records(islice(batch, 1, None))
        return len(self)

    def skip(self, batch: UnreadableBatch) -> None:
        """Go on without a batch that cannot be read, if the deserialization exception handler says so."""
        raw = RawRecord(*self.partition, batch.start, NO_TIMESTAMP, None, None)
        self.source.failed += 1
        handle_deserialization_failure(self._handler, self._context, batch.error(*self.partition), raw, self.source.name)

    def without_bombs(self, records: Sequence[RawRecord] | RawBatch, largest: int) -> Sequence[RawRecord] | RawBatch:
        """Go on without records larger than this, if the deserialization exception handler says so.

        librdkafka unpacks no zstd batch to more than `receive.message.max.bytes`; those of other codecs it unpacks whatever
        their size.
        """
        if isinstance(records, RawBatch) and records.headers is None:
            batch = (records.keys, records.values)
            if sum(max(map(len, filter(None, column)), default=0) for column in batch) <= largest:
                return records
        kept = []
        for raw in records:
            size = sum(len(part or b"") for part in (raw.key, raw.value, *(value for _, value in raw.headers)))
            if size <= largest:
                kept.append(raw)
            else:
                reason = f"a record of {size:,} bytes is larger than consumer.receive.message.max.bytes ({largest:,})"
                self.skip(UnreadableBatch(raw.offset, raw.offset + 1, reason))
        return RawBatch.of(*self.partition, kept)

    def take_all(self) -> RawBatch:
        """Take out everything that waits, as a batch; the times stay as they are."""
        waiting = self._batch
        if waiting is None:
            head = [] if self.head is None else [self.head[1]]
            waiting = RawBatch.of(*self.partition, [*head, *self._fifo])
        self._batch, self.head, self.head_timestamp = None, None, UNKNOWN
        self._fifo.clear()
        return waiting

    def _split_batch(self) -> None:
        if self._batch is not None:
            self._fifo.extend(islice(self._batch, 1, None))
            self._batch = None

    def poll(self) -> StampedRecord:
        """Take the head out."""
        if self._batch is not None:
            self._split_batch()
        polled = self.head
        if polled is None:
            raise IndexError(f"no record of {self.partition} is waiting")
        self.head = None
        if self.head_timestamp > self.partition_time:
            self.partition_time = self.head_timestamp
        self.head_timestamp = UNKNOWN
        if self._fifo:
            self._update_head()
        return polled

    def can_read_key(self, raw: RawRecord) -> bool:
        """Whether the key of a record deserializes; where it does not, the handler is asked about the record."""
        try:
            self.source.read_key(raw)
        except Exception as exc:  # noqa: BLE001  (whatever a user's deserializer raises is the handler's to judge)
            self.source.failed += 1
            handle_deserialization_failure(self._handler, self._context, exc, raw, self.source.name)
            return False
        return True

    def clear(self) -> None:
        """Drop all records and forget the partition time."""
        self._fifo.clear()
        self._batch = self.head = None
        self.head_timestamp = self.partition_time = UNKNOWN

    def _update_head(self) -> None:
        fifo, source = self._fifo, self.source
        skipped: RawRecord | None = None
        while fifo:
            raw = fifo.popleft()
            topic, _, _, timestamp, raw_key, raw_value, headers = raw
            try:
                if source.wants_headers:
                    key, value = source.read(raw)
                else:
                    key, value = source.deserialize_key(topic, raw_key), source.deserialize_value(topic, raw_value)
            except Exception as exc:  # noqa: BLE001  (whatever a user's deserializer raises is the handler's to judge)
                source.failed += 1
                handle_deserialization_failure(self._handler, self._context, exc, raw, source.name)
                skipped = raw
                continue
            if timestamp < 0 or not self.trusts_record:
                timestamp = self._extracted(ConsumerRecord(raw, key, value))
                if timestamp < 0:
                    self._context.record_dropped(
                        f"Skipping record due to negative extracted timestamp. topic=[{raw.topic}] "
                        f"partition=[{raw.partition}] offset=[{raw.offset}] extractedTimestamp=[{timestamp}] "
                        f"extractor=[{self._extractor_name}]"
                    )
                    skipped = raw
                    continue
            self.head = (Record(key, value, timestamp, headers), raw)
            self.head_timestamp = timestamp
            return
        if skipped is not None:
            self.head = (None, skipped)
            self.head_timestamp = UNKNOWN

    def _extracted(self, record: ConsumerRecord) -> int:
        try:
            return int(self._extract(record, self.partition_time))
        except StreamsError:
            raise
        except Exception as exc:
            raise StreamsError(
                f"Fatal user code error in timestamp extractor {self._extractor_name} for record {record.topic}-"
                f"{record.partition} offset {record.offset}."
            ) from exc
