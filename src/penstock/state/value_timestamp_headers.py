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
