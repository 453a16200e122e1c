"""A block of records for one partition of a repartition topic, and its bytes as one Kafka record.

Stream threads hand blocks to their own tasks in memory. Between threads a block is the value of one Kafka record, marked by the
header `penstock.block`. The value is an Arrow IPC stream of one record batch:

    key, value      binary, may be null
    timestamp       int64
    headers         list<name: binary, value: binary>; only if a record has headers
    weight          int64; only in blocks of counts: the number of records that a row stands for

Nothing in a block is executed. Columns, types, lengths and weights are checked before a row is read, so that the memory for a
block is bounded by its bytes and its rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.batches.late_column import BytesColumn
from penstock.batches.record_batch import ProducedBatch, RawBatch
from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.record import Headers, ProducedRecord

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

BLOCK_HEADER = "penstock.block"
_VERSION = b"1"

_HEADERS = pa.list_(pa.struct([pa.field("name", pa.binary()), pa.field("value", pa.binary())]))
_REQUIRED = {"key": pa.binary(), "value": pa.binary(), "timestamp": pa.int64()}
_OPTIONAL = {"headers": _HEADERS, "weight": pa.int64()}
_NULLABLE = frozenset({"key", "value"})
_INT, _UINT, _USHORT = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<H")

MOST_ROWS = 100_000
"""The most rows of a block. A row of 16 bytes is 150 bytes of Python objects in the task that reads it."""

MOST_RECORDS = 1 << 31
"""The most records that a row may stand for: no block brings a count near the end of its 64 bits."""


class RecordBlock:
    """Keys, values, timestamps and headers of records in their order; `weights` if each row stands for several records."""

    __slots__ = ("headers", "keys", "timestamps", "values", "weights")

    def __init__(
        self,
        keys: pa.Array,
        values: pa.Array,
        timestamps: Longs,
        headers: list[Headers] | None = None,
        weights: Longs | None = None,
    ) -> None:
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.weights = weights

    @classmethod
    def of_columns(cls, produced: ProducedBatch) -> RecordBlock:
        """The records that a sink wrote as columns."""
        return cls(
            _array_of(produced.keys),
            _array_of(produced.values),
            np.array(produced.timestamps, np.int64),
            produced.headers,
        )

    @classmethod
    def of_records(cls, records: Sequence[ProducedRecord]) -> RecordBlock:
        """The records that a sink wrote one by one."""
        headers = [record.headers for record in records]
        return cls(
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
            np.array([record.timestamp for record in records], np.int64),
            headers if any(headers) else None,
        )

    @classmethod
    def concat(cls, blocks: Sequence[RecordBlock]) -> RecordBlock:
        """The rows of all blocks, one block after the other."""
        if len(blocks) == 1:
            return blocks[0]
        headers = None
        if any(block.headers is not None for block in blocks):
            headers = [some for block in blocks for some in block.headers or [()] * len(block)]
        return cls(
            pa.concat_arrays([block.keys for block in blocks]),
            pa.concat_arrays([block.values for block in blocks]),
            np.concatenate([block.timestamps for block in blocks]),
            headers,
            None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks]),
        )

    @classmethod
    def merged(cls, blocks: Sequence[RecordBlock]) -> RecordBlock:
        """Merge blocks from several tasks, as a task merges its inputs: the lowest head first, each block in its order.

        It is a stable sort by the highest timestamp so far within each block, so a late row follows the row before it.
        """
        whole = cls.concat(blocks)
        if len(blocks) == 1:
            return whole
        latest = np.concatenate([np.maximum.accumulate(block.timestamps) for block in blocks])
        if (np.diff(latest) >= 0).all():
            return whole
        return whole.take(np.argsort(latest, kind="stable"))

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def records(self) -> int:
        """The number of records that the rows stand for."""
        return len(self) if self.weights is None else int(self.weights.sum())

    def take(self, rows: Longs) -> RecordBlock:
        """Some of the rows, in the given order."""
        chosen = pa.array(rows)
        return RecordBlock(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.timestamps[rows],
            None if self.headers is None else [self.headers[row] for row in rows.tolist()],
            None if self.weights is None else self.weights[rows],
        )

    def slice(self, start: int, stop: int) -> RecordBlock:
        """Return consecutive rows without copying them."""
        return RecordBlock(
            self.keys.slice(start, stop - start),
            self.values.slice(start, stop - start),
            self.timestamps[start:stop],
            None if self.headers is None else self.headers[start:stop],
            None if self.weights is None else self.weights[start:stop],
        )

    def by_partition(self, partitions: Longs) -> Iterator[tuple[int, RecordBlock]]:
        """Yield each partition with its rows in order. `partitions` has the partition of each row."""
        order = np.argsort(partitions, kind="stable")
        ordered, sorted_partitions = self.take(order), partitions[order]
        chosen, begins = np.unique(sorted_partitions, return_index=True)
        for partition, (start, stop) in zip(chosen.tolist(), pairwise([*begins.tolist(), len(self)])):
            yield partition, ordered.slice(start, stop)

    def columns(self, partition: TopicPartition, offsets: Sequence[int]) -> RawBatch:
        """Return the rows in the form that a task reads."""
        keys, values = self.keys.to_pylist(), self.values.to_pylist()
        return RawBatch(*partition, offsets, self.timestamps.tolist(), keys, values, self.headers)

    def records_for(self, partition: TopicPartition, largest: int) -> list[ProducedRecord]:
        """The block as Kafka records for a partition, each with at most about `largest` bytes unless one row has more."""
        data = self.to_bytes()
        if (len(data) > largest or len(self) > MOST_ROWS) and len(self) > 1:
            half = len(self) // 2
            parts = (self.slice(0, half), self.slice(half, len(self)))
            return [record for part in parts for record in part.records_for(partition, largest)]
        return [ProducedRecord(*partition, None, data, int(self.timestamps.max()), ((BLOCK_HEADER, _VERSION),))]

    def to_bytes(self) -> bytes:
        """One Arrow IPC stream."""
        columns = {"key": self.keys, "value": self.values, "timestamp": pa.array(self.timestamps)}
        if self.headers is not None:
            columns["headers"] = _headers_column(self.headers)
        if self.weights is not None:
            columns["weight"] = pa.array(self.weights)
        batch = pa.RecordBatch.from_pydict(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> RecordBlock:
        """Decode the bytes of `to_bytes`. Raises SerializationError for other bytes."""
        columns = _checked_columns(data)
        return cls(
            columns["key"],
            columns["value"],
            columns["timestamp"].to_numpy(),
            _headers_of(columns["headers"]) if "headers" in columns else None,
            columns["weight"].to_numpy() if "weight" in columns else None,
        )


def _array_of(column: Sequence[bytes | None]) -> pa.Array:
    return column.array if isinstance(column, BytesColumn) else pa.array(column, pa.binary())


def is_block(headers: Headers) -> bool:
    """Return True if the headers mark a record of a repartition topic as a block."""
    return any(name == BLOCK_HEADER for name, _ in headers)


def block_of(value: bytes | None, headers: Headers) -> RecordBlock:
    """Return the block of a Kafka record. Raises SerializationError if it cannot be read."""
    version = next(found for name, found in headers if name == BLOCK_HEADER)
    if version != _VERSION or value is None:
        raise SerializationError(f"a block of version {version!r} cannot be read: this release reads version {_VERSION!r}")
    return RecordBlock.from_bytes(value)


def _checked_columns(data: bytes) -> dict[str, pa.Array]:
    try:
        batch = _record_batch(data)
        batch.validate(full=True)  # 2 ns a row: no offset points beyond the bytes
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, struct.error) as exc:
        raise SerializationError(f"a block of records cannot be read: {exc}") from exc
    columns = dict(zip(batch.schema.names, batch.columns))
    for name, column in columns.items():
        if column.null_count and name not in _NULLABLE:
            raise SerializationError(f"a block of records has nulls in its column {name}")
    if not 0 < len(batch) <= MOST_ROWS:
        raise SerializationError(f"a block of records has {len(batch)} rows: it may have 1 to {MOST_ROWS}")
    if int(columns["timestamp"].to_numpy().min()) < 0:
        raise SerializationError("a block of records has a negative timestamp")
    if "weight" in columns and not 0 < columns["weight"].to_numpy().min() <= columns["weight"].to_numpy().max() <= MOST_RECORDS:
        raise SerializationError(f"a row of a block of records stands for less than 1 or more than {MOST_RECORDS} records")
    return columns


def _record_batch(data: bytes) -> pa.RecordBatch:
    """Read the only batch of a stream. Columns and compression are checked before Arrow allocates memory."""
    schema, *batches = islice(pa.ipc.MessageReader.open_stream(pa.py_buffer(data)), 3)
    if schema.type != "schema" or [message.type for message in batches] != ["record batch"]:
        raise ValueError("not exactly one Arrow batch")
    found = pa.ipc.read_schema(schema)
    fields = {field.name: field.type for field in found}  # UnicodeDecodeError if a name is not UTF-8
    expected = {name: kind for name, kind in {**_REQUIRED, **_OPTIONAL}.items() if name in fields or name in _REQUIRED}
    if len(found) != len(expected) or fields != expected:
        raise ValueError(f"its columns are {', '.join(fields)[:200]}")
    if _may_be_compressed(batches[0].metadata.to_pybytes()):
        raise ValueError("its columns are compressed")
    return pa.ipc.read_record_batch(batches[0], found)


def _may_be_compressed(metadata: bytes) -> bool:
    """Return True if an Arrow message names a compression, which pyarrow does not show.

    `header` is the third field of a Message, and `compression` the fourth of a RecordBatch (Message.fbs). Arrow 0.17 named it
    in the fifth field of a Message, `custom_metadata`, which blocks do not have.
    """
    (message,) = _UINT.unpack_from(metadata)
    header = _flatbuffer_field(metadata, message, 2)
    batch = header + _UINT.unpack_from(metadata, header)[0]
    return bool(_flatbuffer_field(metadata, message, 4) or _flatbuffer_field(metadata, batch, 3))


def _flatbuffer_field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field in a table, 0 if it is absent."""
    vtable = table - _INT.unpack_from(data, table)[0]
    at = 4 + 2 * number
    (size,) = _USHORT.unpack_from(data, vtable)
    (offset,) = _USHORT.unpack_from(data, vtable + at) if at < size else (0,)
    return table + offset if offset else 0


def _headers_column(headers: Sequence[Headers]) -> pa.Array:
    ends = np.cumsum([0, *map(len, headers)], dtype=np.int32)
    flat = list(chain.from_iterable(headers))
    names = pa.array([name.encode("utf-8", "replace") for name, _ in flat], pa.binary())
    values = pa.array([value for _, value in flat], pa.binary())
    entries = pa.StructArray.from_arrays([names, values], fields=list(_HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(ends), entries)


def _headers_of(column: pa.Array) -> list[Headers]:
    flat = column.flatten()
    if flat.null_count or flat.field(0).null_count:
        raise SerializationError("a block of records has a header without a name")
    try:
        encoded = flat.field(0).dictionary_encode()  # nearly all rows have the same few names
        distinct = [name.decode() for name in encoded.dictionary.to_pylist()]
    except UnicodeDecodeError as exc:
        raise SerializationError(f"a block of records has a header whose name is not UTF-8: {exc}") from exc
    names = list(map(distinct.__getitem__, encoded.indices.to_numpy().tolist()))
    pairs = tuple(zip(names, flat.field(1).to_pylist()))
    ends = np.cumsum([0, *column.value_lengths().to_pylist()]).tolist()
    return [pairs[start:end] for start, end in pairwise(ends)]
