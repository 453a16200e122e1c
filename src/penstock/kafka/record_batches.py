"""Decode record batches into columns, without an object for each message.

Record lengths are read one by one; everything else is decoded for many records at once. The format is that of Kafka 0.11 and
later, without record headers. Other formats and damaged batches raise `UnreadableBatchError`, and the caller uses the consumer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.batches.record_batch import RawBatch

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

# Offset of the first record, length, (leader epoch), format, (checksum), attributes, last offset delta, first timestamp, latest
# timestamp, producer id, (its epoch, its first sequence), number of records.
_HEADER = struct.Struct(">qi4xb4xhiqqq6xi")
_LENGTH_AT = 12  # a batch's length counts from here
_FORMAT = 2
_COMPRESSION, _STAMPED_BY_BROKER, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CODECS = {1: "gzip", 3: "lz4", 4: "zstd"}  # the codecs that Arrow reads in Kafka's framing: not snappy
_ABORT = b"\x00\x00"

LARGEST_BATCH = 128 << 20
"""The largest decompressed size. A hostile batch of a few kilobytes could otherwise exhaust the memory."""
_PIECE = 1 << 20

MOST_UNPACKED = 64 << 20
"""`read_batches` begins no further batch after so many bytes of records. An answer of 4 MiB could unpack to gigabytes."""

# Records are checked in runs for equal lengths. A run of at least `_LONG_RUN` is decoded at once.
_RUN, _LONG_RUN = 2_048, 64


class UnreadableBatchError(Exception):
    """A batch that this module cannot read."""


class Aborted(NamedTuple):
    """An aborted transaction: its producer and its first offset."""

    producer_id: int
    first_offset: int


class ReadBatches(NamedTuple):
    """The records of batches, the offset after the last batch, and the size of the unpacked records."""

    columns: RawBatch
    next_offset: int
    size: int


def offset_behind(data: bytes, position: int) -> int:
    """Return the offset after the last complete batch of an answer, or the requested position if there is none."""
    return max([position, *(batch.last_offset + 1 for batch, _, _ in _whole_batches(data))])


def batch_end(data: bytes, position: int) -> int:
    """Return the offset after the batch that contains a position, from its header. If it is unknown, the next offset."""
    try:
        batch = next((batch for batch, _, _ in _whole_batches(data) if batch.last_offset >= position), None)
    except UnreadableBatchError:
        batch = None
    return position + 1 if batch is None or batch.format != _FORMAT else batch.last_offset + 1


def read_batches(topic: str, partition: int, data: bytes, position: int, aborted: Sequence[Aborted] = ()) -> ReadBatches:
    """Return the records of an answer from a position on, without aborted transactions.

    A last batch that is cut off is not read. Without a complete batch the result is empty and the next offset is the position.
    Batches after `MOST_UNPACKED` bytes of records are left for another call with the same answer.
    """
    picked, next_offset = _Picked(data), position
    waiting, decided_not = sorted(aborted, key=lambda one: one.first_offset), set[int]()
    for batch, at, end in _whole_batches(data):
        if picked.size > MOST_UNPACKED:
            break
        if batch.format != _FORMAT:
            raise UnreadableBatchError(f"a batch at offset {batch.first_offset} is of format {batch.format}")
        while waiting and waiting[0].first_offset <= batch.last_offset:
            decided_not.add(waiting.pop(0).producer_id)
        if batch.attributes & _CONTROL:
            if batch.producer_id in decided_not and _is_abort(data, batch, at, end):
                decided_not.discard(batch.producer_id)
        elif batch.last_offset >= position and not (batch.attributes & _TRANSACTIONAL and batch.producer_id in decided_not):
            picked.add(batch, at, end)
        next_offset = max(next_offset, batch.last_offset + 1)
    return ReadBatches(picked.columns(topic, partition, position), next_offset, picked.size)


class _Batch(NamedTuple):
    first_offset: int
    length: int
    format: int
    attributes: int
    last_delta: int
    first_timestamp: int
    latest_timestamp: int
    producer_id: int
    records: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed it."""
        return self.first_offset + self.last_delta


def _whole_batches(data: bytes) -> Iterator[tuple[_Batch, int, int]]:
    """Yield the complete batches of an answer, with the start and end of their records."""
    at = 0
    while at + _HEADER.size <= len(data):
        batch = _Batch(*_HEADER.unpack_from(data, at))
        end = at + _LENGTH_AT + batch.length
        if batch.length < _HEADER.size - _LENGTH_AT or batch.records < 0 or batch.last_delta < 0:
            raise UnreadableBatchError(f"a batch at offset {batch.first_offset} has an impossible length")
        if end > len(data):
            return
        yield batch, at + _HEADER.size, end
        at = end


class _Picked:
    """Collects the record positions of batches and decodes their columns."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        # If a batch is compressed, all batches are copied into one buffer, which keeps the order.
        self._pieces: list[bytes] | None = None
        if any(batch.attributes & _COMPRESSION for batch, _, _ in _whole_batches(data)):
            self._pieces = []
        self.size = 0
        """The bytes of the records that were added, unpacked."""
        self._starts: list[Numbers] = []
        self._batches: list[_Batch] = []

    def add(self, batch: _Batch, at: int, end: int) -> None:
        """Add the records of a batch between two positions."""
        if self._pieces is None:
            self._note(batch, self._data, at, end, 0)
            self.size += end - at
            return
        piece = _unpacked(batch, self._data[at:end])
        self._note(batch, piece, 0, len(piece), self.size)
        self._pieces.append(piece)
        self.size += len(piece)

    def _note(self, batch: _Batch, data: bytes, at: int, end: int, moved: int) -> None:
        memory, left = np.frombuffer(data, np.uint8), batch.records
        try:
            while left:
                places = _equally_long(memory, data[at], at, end, left)
                if len(places) < _LONG_RUN:
                    places, at = _one_by_one(data, at, min(left, _RUN))
                else:
                    at += len(places) * ((data[at] >> 1) + 1)
                self._starts.append(places + moved)
                left -= len(places)
        except IndexError:
            at = -1
        if at != end:
            raise UnreadableBatchError(f"a batch at offset {batch.first_offset} has another length than its records")
        self._batches.append(batch)

    def columns(self, topic: str, partition: int, position: int) -> RawBatch:
        """Return the columns of all records from an offset on."""
        batches = self._batches
        if not self._starts:
            return RawBatch(topic, partition, [], [], [], [])
        data = self._data
        if self._pieces is not None:
            data = b"".join(self._pieces)
            self._pieces.clear()
        memory = np.frombuffer(data, np.uint8)
        counts = [batch.records for batch in batches]
        try:
            _, at = _varints(memory, np.concatenate(self._starts))
            stamps, at = _varints(memory, at + 1)
            offsets, at = _varints(memory, at)
            offsets += np.repeat(np.array([batch.first_offset for batch in batches], np.int64), counts)
            if offsets[0] < batches[0].first_offset or offsets[-1] > batches[-1].last_offset or (np.diff(offsets) <= 0).any():
                where = f"{topic}-{partition} at offset {position}"
                raise UnreadableBatchError(f"records of {where} are not in the order of their offsets")
            key_sizes, keys_at = _varints(memory, at)
            value_sizes, values_at = _varints(memory, keys_at + np.maximum(key_sizes, 0))
            keys, values = _entries(data, keys_at, key_sizes), _entries(data, values_at, value_sizes)
        except IndexError as exc:
            raise UnreadableBatchError(f"records of {topic}-{partition} at offset {position} are cut off") from exc
        stamps += np.repeat(np.array([batch.first_timestamp for batch in batches], np.int64), counts)
        if any(batch.attributes & _STAMPED_BY_BROKER for batch in batches):
            by_broker = np.repeat([bool(batch.attributes & _STAMPED_BY_BROKER) for batch in batches], counts)
            latest = np.repeat(np.array([batch.latest_timestamp for batch in batches], np.int64), counts)
            stamps = np.where(by_broker, latest, stamps)
        first = int(np.searchsorted(offsets, position))  # a batch may begin before the position
        found = RawBatch(topic, partition, _as_sequence(offsets), stamps.tolist(), keys, values)
        return found.rows(first, len(found))


def _as_sequence(offsets: Numbers) -> Sequence[int]:
    """Return offsets as a range if they are contiguous."""
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first == len(offsets) - 1 else offsets.tolist()


def _equally_long(memory: npt.NDArray[np.uint8], size: int, at: int, end: int, most: int) -> Numbers:
    """Return the starts of records with the same length as the first. Empty if the length takes more than one byte.

    The starts are equally spaced, because the lengths are equal.
    """
    if size > 127:
        return np.empty(0, np.int64)
    step = (size >> 1) + 1
    places = np.arange(at, min(end, at + step * min(most, _RUN)), step, dtype=np.int64)
    same = memory[places] == size
    return places if same.all() else places[: int(same.argmin())]


def _one_by_one(data: bytes, at: int, count: int) -> tuple[Numbers, int]:
    """Return the starts of `count` records, and the position after them: 0.08 µs each."""
    places: list[int] = []
    note = places.append
    for _ in range(count):
        note(at)
        size = data[at]
        at += 1
        if size > 127:
            size, shift = size & 127, 7
            while data[at] > 127:
                size, shift, at = size | (data[at] & 127) << shift, shift + 7, at + 1
            size, at = size | data[at] << shift, at + 1
        at += size >> 1
    return np.array(places, np.int64), at


def _unpacked(batch: _Batch, records: bytes) -> bytes:
    codec = batch.attributes & _COMPRESSION
    if not codec:
        return records
    if codec not in _CODECS:
        raise UnreadableBatchError(f"a batch at offset {batch.first_offset} has an unsupported compression")
    pieces, size = list[bytes](), 0
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(records), _CODECS[codec])
        while size <= LARGEST_BATCH and (piece := stream.read(_PIECE)):
            pieces.append(piece)
            size += len(piece)
    except (OSError, pa.ArrowException) as exc:
        raise UnreadableBatchError(f"a batch at offset {batch.first_offset} cannot be decompressed: {exc}") from exc
    if size > LARGEST_BATCH:
        raise UnreadableBatchError(f"a batch at offset {batch.first_offset} decompresses to more than {LARGEST_BATCH} bytes")
    return b"".join(pieces)


def _is_abort(data: bytes, batch: _Batch, at: int, end: int) -> bool:
    """Return True if a control batch ends an aborted transaction. Its record's key has a version and the outcome."""
    picked = _Picked(data)
    picked.add(batch, at, end)
    return any((key or b"")[2:4] == _ABORT for key in picked.columns("", 0, 0).keys)


def _varints(memory: npt.NDArray[np.uint8], at: Numbers) -> tuple[Numbers, Numbers]:
    """Decode zigzag varints at these positions. Returns the numbers and the positions after them."""
    byte = memory[at].astype(np.int64)
    raw, behind = byte & 127, at + 1
    longer, shift = np.flatnonzero(byte > 127), 7
    while len(longer):
        byte = memory[behind[longer]].astype(np.int64)
        raw[longer] |= (byte & 127) << shift
        behind[longer] += 1
        longer, shift = longer[byte > 127], shift + 7
        if shift > 63:
            raise IndexError("a number does not end")
    return (raw >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), behind


def _entries(data: bytes, at: Numbers, sizes: Numbers) -> list[bytes | None]:
    """Return the bytes at these positions, in order; None for size -1.

    They are taken from an Arrow array over the data and the gaps between, without a copy: 0.04 µs each.
    """
    count, there = len(at), sizes >= 0
    bounds = np.empty(2 * count, np.int64)
    bounds[::2], bounds[1::2] = at, at + np.maximum(sizes, 0)
    if int(sizes.min()) < -1 or int(bounds[-1]) > len(data) or (bounds[1:] < bounds[:-1]).any():
        raise IndexError("an entry lies outside of its record")
    both = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * count - 1, [None, _buffer(bounds), pa.py_buffer(data)])
    # Not pa.array() or to_numpy(): both import pandas if it is installed, which takes 0.2 s.
    wanted = pa.Array.from_buffers(pa.int64(), count, [None, _buffer(np.arange(0, 2 * count, 2, dtype=np.int64))])
    found: list[bytes | None] = both.take(wanted).to_pylist()
    if not there.all():
        for row in np.flatnonzero(~there).tolist():
            found[row] = None
    return found


def _buffer(numbers: Numbers) -> Any:
    return pa.py_buffer(numbers)
