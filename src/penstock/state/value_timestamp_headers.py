"""How a value with timestamp and headers lies in a store that keeps both: size of the headers, headers, timestamp, value.

The size is a variable-length number; no headers are a single zero byte. The headers are their number, then name and
value of each, both with their length in front, -1 for a value that is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.change import read_varint, write_varint
from penstock.errors import SerializationError
from penstock.record import Headers
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, UNKNOWN_TIMESTAMP

V = TypeVar("V")

NO_HEADERS = b"\x00"
_NULL_SIZE = -1


@dataclass(frozen=True)
class ValueTimestampHeaders(Generic[V]):
    """A value with the timestamp and the headers of the record that last changed it."""

    value: V
    timestamp: int
    headers: Headers = ()


def serialize_headers(headers: Headers) -> bytes:
    """The headers with their size in front.

    >>> serialize_headers(()).hex(), serialize_headers((("a", b"b"), ("c", None))).hex()
    ('00', '100402610262026301')
    """
    if not headers:
        return NO_HEADERS
    parts = [write_varint(len(headers))]
    for name, value in headers:
        raw_name = name.encode()
        parts += [write_varint(len(raw_name)), raw_name]
        parts += [write_varint(_NULL_SIZE)] if value is None else [write_varint(len(value)), value]
    payload = b"".join(parts)
    return write_varint(len(payload)) + payload


def with_timestamp_and_headers(raw: bytes | None, timestamp: int, headers: Headers) -> bytes | None:
    """The bytes of a value with its headers and timestamp in front; None stays None."""
    if raw is None:
        return None
    return serialize_headers(headers) + timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + raw


def split_headers(raw: bytes) -> tuple[Headers, bytes]:
    """The headers in front, and the rest."""
    if raw[:1] == NO_HEADERS:
        return (), raw[1:]
    try:
        size, start = read_varint(raw)
        if size < 0 or start + size > len(raw):
            raise ValueError(f"{size} bytes of headers in {len(raw)} bytes")
        return _read_headers(raw[start : start + size]), raw[start + size :]
    except (IndexError, ValueError) as exc:
        raise SerializationError(f"a stored value does not start with headers: {exc}") from exc


def timestamped_value(raw: bytes | None) -> bytes | None:
    """The same value without its headers: what a timestamped store keeps."""
    return None if raw is None else split_headers(raw)[1]


def plain_value(raw: bytes | None) -> bytes | None:
    """The value alone."""
    return None if raw is None else split_headers(raw)[1][TIMESTAMP_SIZE:]


def from_timestamped_value(raw: bytes) -> bytes:
    """A value of a timestamped store, with no headers."""
    return NO_HEADERS + raw


def from_plain_value(raw: bytes) -> bytes:
    """A value of a plain store, with no headers and an unknown timestamp."""
    return NO_HEADERS + UNKNOWN_TIMESTAMP + raw


def _read_headers(payload: bytes) -> Headers:
    count, position = read_varint(payload)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(payload, position)
        name, position = _taken(payload, position, size)
        size, position = read_varint(payload, position)
        value: bytes | None = None
        if size != _NULL_SIZE:
            value, position = _taken(payload, position, size)
        headers.append((name.decode(), value))
    return tuple(headers)


def _taken(payload: bytes, position: int, size: int) -> tuple[bytes, int]:
    """The next bytes and the position behind them; never back, never beyond the end."""
    if not 0 <= size <= len(payload) - position:
        raise ValueError(f"{size} bytes at {position} of {len(payload)} bytes of headers")
    return payload[position : position + size], position + size
