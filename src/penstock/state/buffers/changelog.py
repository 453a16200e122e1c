"""Reading the changelog of a suppress buffer, in every format that Kafka Streams has written.

    header v   written by        value
    none       2.1.0             buffer time, change
    1          2.2               buffer time, record context, sized change
    2          2.3               record context, sized change, sized prior value, buffer time
    2          2.4.0 to 2.5.0    format 3 under the wrong number
    3          2.4.2, 2.5.1 on   buffer value (see `values`), buffer time

A change is the sized old value and the sized new value.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import ProcessorStateError, SerializationError
from penstock.record import Headers, RawRecord, RecordContext
from penstock.state.buffers.values import BufferValue, Reader

VERSION_HEADER = "v"
CHANGELOG_HEADERS: Headers = ((VERSION_HEADER, b"\x03"),)


class RestoredEntry(NamedTuple):
    """One entry of a buffer as its changelog had it."""

    time: int
    value: BufferValue


def read_changelog_record(record: RawRecord, previous_prior: bytes | None) -> RestoredEntry:
    """The entry in a changelog record that is not a tombstone.

    `previous_prior` is the prior value of the entry that is in the buffer for that key; the formats that do
    not write the prior value keep it. Raises ProcessorStateError where the record is none of a buffer's changelog.
    """
    assert record.value is not None
    version = _version(record.headers)
    try:
        if version is None:
            return _read_v0(record, record.value, previous_prior)
        if version == b"\x03":
            return _read_v3(record.value)
        if version == b"\x02":
            return _read_v2_or_v3(record.value)
        if version == b"\x01":
            return _read_v1(record.value, previous_prior)
    except SerializationError as exc:
        raise ProcessorStateError(f"{_where(record)}: {exc}") from exc
    raise ProcessorStateError(
        f"{_where(record)}: the format {version[:20]!r} is not known; it was written by a newer version or is not a changelog of "
        "a buffer"
    )


def _where(record: RawRecord) -> str:
    return f"cannot restore a suppress buffer from {record.topic}-{record.partition} at offset {record.offset}"


def _version(headers: Headers) -> bytes | None:
    for key, value in reversed(headers):
        if key == VERSION_HEADER:
            return value if value is not None else b""
    return None


def _read_v0(record: RawRecord, data: bytes, previous_prior: bytes | None) -> RestoredEntry:
    reader = Reader(data)
    time = reader.int64()
    old, new = reader.sized(), reader.sized()
    context = RecordContext(record.timestamp, record.offset, record.partition, record.topic, record.headers)
    return RestoredEntry(time, BufferValue(old if previous_prior is None else previous_prior, old, new, context))


def _read_v1(data: bytes, previous_prior: bytes | None) -> RestoredEntry:
    reader = Reader(data)
    time = reader.int64()
    context = reader.context()
    old, new = _change(reader.sized())
    return RestoredEntry(time, BufferValue(old if previous_prior is None else previous_prior, old, new, context))


def _read_v2(data: bytes) -> RestoredEntry:
    reader = Reader(data)
    context = reader.context()
    old, new = _change(reader.sized())
    prior = reader.sized()
    return RestoredEntry(reader.int64(), BufferValue(prior, old, new, context))


def _read_v3(data: bytes) -> RestoredEntry:
    reader = Reader(data)
    value = reader.buffer_value()
    return RestoredEntry(reader.int64(), value)


def _read_v2_or_v3(data: bytes) -> RestoredEntry:
    try:
        return _read_v2(data)
    except SerializationError:
        try:
            return _read_v3(data)
        except SerializationError as exc:
            raise SerializationError("the value is neither of format 2 nor of format 3") from exc


def _change(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    if data is None:
        raise SerializationError("a buffer's changelog value has no change in it")
    reader = Reader(data)
    return reader.sized(), reader.sized()
