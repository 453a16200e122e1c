"""Batches of records: one column, a list, for each field.

A list per field costs a fraction of an object per record: reading, mapping and writing a column are single calls where a
record at a time would be many. Every column has one entry a row; `headers` is None where no row has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.errors import SerializationError
from penstock.record import Headers, ProducedRecord, RawRecord, Record, RecordContext

if TYPE_CHECKING:
    import numpy.typing as npt


class UnreadableBatch(NamedTuple):
    """Offsets `start` to `end` (not included) of a partition, in a record batch whose bytes cannot be read, and why not."""

    start: int
    end: int
    reason: str

    def error(self, topic: str, partition: int) -> SerializationError:
        """Return what is told to handlers and users."""
        offsets = f"offsets {self.start} to {self.end - 1}"
        return SerializationError(f"The record batch of {topic}-{partition} at {offsets} cannot be read: {self.reason}.")


class RawBatch:
    """Records of one topic partition as they were read: bytes, in the order of their offsets.

    >>> raw = RawBatch("lines", 0, [7, 8], [100, 101], [None, b"k"], [b"a", b"b"])
    >>> raw[1]
    RawRecord(topic='lines', partition=0, offset=8, timestamp=101, key=b'k', value=b'b', headers=())
    """

    __slots__ = ("headers", "keys", "offsets", "partition", "timestamps", "topic", "unreadable", "values")

    def __init__(
        self,
        topic: str,
        partition: int,
        offsets: Sequence[int],
        timestamps: list[int],
        keys: list[bytes | None],
        values: list[bytes | None],
        headers: list[Headers] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.headers = headers
        self.unreadable: tuple[UnreadableBatch, ...] = ()
        """Batches among these records that could not be read. Only a fetch sets it; whoever fetched takes them out."""

    @classmethod
    def of(cls, topic: str, partition: int, records: Sequence[RawRecord]) -> RawBatch:
        """The same records as a batch."""
        headers = [r.headers for r in records]
        return cls(
            topic,
            partition,
            [r.offset for r in records],
            [r.timestamp for r in records],
            [r.key for r in records],
            [r.value for r in records],
            headers if any(headers) else None,
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> RawRecord:
        headers = () if self.headers is None else self.headers[row]
        return RawRecord(
            self.topic, self.partition, self.offsets[row], self.timestamps[row], self.keys[row], self.values[row], headers
        )

    def __iter__(self) -> Iterator[RawRecord]:
        topic, partition = self.topic, self.partition
        if self.headers is None:
            for offset, timestamp, key, value in zip(self.offsets, self.timestamps, self.keys, self.values):
                yield RawRecord(topic, partition, offset, timestamp, key, value)
        else:
            rows = zip(self.offsets, self.timestamps, self.keys, self.values, self.headers)
            for offset, timestamp, key, value, headers in rows:
                yield RawRecord(topic, partition, offset, timestamp, key, value, headers)

    def context(self, row: int, timestamp: int, headers: Headers) -> RecordContext:
        """What is known of a record, with the time and headers that were made of it."""
        return RecordContext(timestamp, self.offsets[row], self.partition, self.topic, headers, self.keys[row], self.values[row])

    def extend(self, more: RawBatch) -> None:
        """Put the rows of others behind these."""
        if self.headers is not None or more.headers is not None:
            self.headers = (self.headers or [()] * len(self)) + (more.headers or [()] * len(more))
        if len(self):
            offsets = self.offsets if isinstance(self.offsets, list) else list(self.offsets)
            offsets.extend(more.offsets)
            self.offsets = offsets
        else:
            self.offsets = more.offsets
        self.timestamps += more.timestamps
        self.keys += more.keys
        self.values += more.values

    def rows(self, start: int, stop: int) -> RawBatch:
        """Some of the rows, in their order."""
        if start == 0 and stop == len(self):
            return self
        return RawBatch(
            self.topic,
            self.partition,
            self.offsets[start:stop],
            self.timestamps[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            None if self.headers is None else self.headers[start:stop],
        )


class TwoOrigins:
    """The records of two partitions, those of the second behind those of the first: what the rows of a join are made of."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: RawBatch, second: RawBatch) -> None:
        self._first, self._second = first, second

    @property
    def offsets(self) -> list[int]:
        """The offsets of all records, each in its own partition."""
        return [*self._first.offsets, *self._second.offsets]

    def context(self, row: int, timestamp: int, headers: Headers) -> RecordContext:
        """What is known of a record, with the time and headers that were made of it."""
        if row < len(self._first):
            return self._first.context(row, timestamp, headers)
        return self._second.context(row - len(self._first), timestamp, headers)


class RecordBatch:
    """Typed records on their way from one operator to the next.

    `origin` are the records they were made of and `sources` the row of each in it; None where it is the same row.
    """

    __slots__ = ("headers", "keys", "origin", "sources", "timestamps", "values")

    def __init__(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        timestamps: list[int],
        headers: list[Headers] | None,
        origin: RawBatch | TwoOrigins,
        sources: list[int] | None = None,
    ) -> None:
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.origin = origin
        self.sources = sources

    def __len__(self) -> int:
        return len(self.keys)

    def with_values(self, values: Sequence[Any]) -> RecordBatch:
        """The same rows with other values."""
        return RecordBatch(self.keys, values, self.timestamps, self.headers, self.origin, self.sources)

    def with_keys(self, keys: Sequence[Any]) -> RecordBatch:
        """The same rows with other keys."""
        return RecordBatch(keys, self.values, self.timestamps, self.headers, self.origin, self.sources)

    def with_keys_and_values(self, keys: Sequence[Any], values: Sequence[Any]) -> RecordBatch:
        """The same rows with other keys and values."""
        return RecordBatch(keys, values, self.timestamps, self.headers, self.origin, self.sources)

    def with_rows(self, keys: Sequence[Any], values: Sequence[Any], timestamps: list[int]) -> RecordBatch:
        """The same rows with other keys, values and times."""
        return RecordBatch(keys, values, timestamps, self.headers, self.origin, self.sources)

    def with_headers(self, headers: list[Headers] | None) -> RecordBatch:
        """The same rows with other headers."""
        return RecordBatch(self.keys, self.values, self.timestamps, headers, self.origin, self.sources)

    def take(self, rows: list[int]) -> RecordBatch:
        """Some of the rows, in the given order; a row may come more than once."""
        keys, values, timestamps, headers, sources = self.keys, self.values, self.timestamps, self.headers, self.sources
        return RecordBatch(
            [keys[row] for row in rows],
            [values[row] for row in rows],
            [timestamps[row] for row in rows],
            None if headers is None else [headers[row] for row in rows],
            self.origin,
            rows if sources is None else [sources[row] for row in rows],
        )

    def rows(self, start: int, stop: int) -> RecordBatch:
        """Some of the rows, in their order."""
        return RecordBatch(
            self.keys[start:stop],
            self.values[start:stop],
            self.timestamps[start:stop],
            None if self.headers is None else self.headers[start:stop],
            self.origin,
            list(range(start, stop)) if self.sources is None else self.sources[start:stop],
        )

    def offsets(self) -> list[int]:
        """The offset of the record each row was made of."""
        offsets = self.origin.offsets
        return list(offsets) if self.sources is None else list(map(offsets.__getitem__, self.sources))

    def partitions(self) -> list[int]:
        """The partition of the record each row was made of."""
        if isinstance(self.origin, RawBatch):
            return [self.origin.partition] * len(self)
        return [self.context(row).partition for row in range(len(self))]

    def record(self, row: int) -> Record[Any, Any]:
        """One row as a record."""
        headers = () if self.headers is None else self.headers[row]
        return Record(self.keys[row], self.values[row], self.timestamps[row], headers)

    def context(self, row: int) -> RecordContext:
        """What is known of the record a row was made of, with the time and headers the row has now."""
        source = row if self.sources is None else self.sources[row]
        return self.origin.context(source, self.timestamps[row], () if self.headers is None else self.headers[row])


class ProducedBatch:
    """Records of bytes for one topic; `partition` None leaves the choice to the producer.

    `origin` and `offsets` tell what they were made of, where somebody has to know.
    """

    __slots__ = ("headers", "keys", "offsets", "origin", "partition", "timestamps", "topic", "values")

    def __init__(
        self,
        topic: str,
        partition: int | None,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None = None,
        origin: RawBatch | TwoOrigins | None = None,
        offsets: list[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.origin = origin
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[ProducedRecord]:
        return self.records()

    def records(self, start: int = 0) -> Iterator[ProducedRecord]:
        """The records, from the one at `start` on."""
        topic, partition = self.topic, self.partition
        headers = [()] * len(self) if self.headers is None else self.headers
        for key, value, timestamp, some in islice(zip(self.keys, self.values, self.timestamps, headers), start, None):
            yield ProducedRecord(topic, partition, key, value, timestamp, some)

    def by_partition(self, partitions: npt.NDArray[np.int32]) -> list[ProducedBatch]:
        """The same records with a partition for each, as batches of one partition each, in their order."""
        order = np.argsort(partitions, kind="stable")
        chosen, begins = np.unique(partitions[order], return_index=True)
        return [self.take(rows.tolist(), partition) for partition, rows in zip(chosen.tolist(), np.split(order, begins[1:]))]

    def take(self, rows: list[int], partition: int | None) -> ProducedBatch:
        """Some of the records, in the given order, for a partition."""
        return ProducedBatch(
            self.topic,
            partition,
            [self.keys[row] for row in rows],
            [self.values[row] for row in rows],
            [self.timestamps[row] for row in rows],
            None if self.headers is None else [self.headers[row] for row in rows],
            self.origin,
            None if self.offsets is None else [self.offsets[row] for row in rows],
        )


RecordOrBatch = ProducedRecord | ProducedBatch


def records_of(produced: Sequence[RecordOrBatch]) -> Iterator[ProducedRecord]:
    """What a task wants written, record by record."""
    for item in produced:
        if isinstance(item, ProducedRecord):
            yield item
        else:
            yield from item


def count_of(produced: Sequence[RecordOrBatch]) -> int:
    """How many records those are."""
    return sum(1 if isinstance(item, ProducedRecord) else len(item) for item in produced)
