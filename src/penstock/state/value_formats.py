"""What a store keeps in front of each value: nothing, a timestamp, headers and a timestamp, or headers alone (sessions).

A format relates three shapes of a value: the object of the typed store, the bytes in the byte store, and the changelog record,
which has the plain value with timestamp and headers of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.record import NO_TIMESTAMP, Headers
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.capabilities import StoreCapabilities, innermost
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE
from penstock.state.value_timestamp_headers import ValueTimestampHeaders, serialize_headers, split_headers

ToBytes = Callable[[Any], "bytes | None"]

Split = tuple[bytes, "int | None", Headers]
"""The plain value, its timestamp (None where the format keeps none), and its headers."""


class ValueFormat(ABC):
    """One format. Each is a constant of this module, also after it was pickled."""

    shown_as: str
    """What queries call the values."""
    keeps_timestamps = False
    keeps_headers = False

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"ValueFormat.{self._name}"

    @abstractmethod
    def split(self, raw: bytes) -> Split:
        """Return what a changelog record has of the bytes of a value."""

    @abstractmethod
    def join(self, value: bytes, timestamp: int, headers: Headers) -> bytes:
        """Return the bytes of a value from what a changelog record has of it."""

    @abstractmethod
    def writer(self, to_bytes: ToBytes) -> ToBytes:
        """Return the function from an object of the typed store to its bytes; None if it has no value."""

    @abstractmethod
    def reader(self, from_bytes: Callable[..., Any]) -> Callable[[bytes | None], Any]:
        """Return the function from the bytes of a value to the object of the typed store.

        `from_bytes` reads the plain value; formats with headers pass it the headers too.
        """

    @abstractmethod
    def unpack(self, value: Any) -> tuple[Any, int, Headers | None]:
        """Return the user's value, the timestamp and the headers of an object of the typed store."""


class _Plain(ValueFormat):
    shown_as = "plain"

    def split(self, raw: bytes) -> Split:
        return raw, None, ()

    def join(self, value: bytes, timestamp: int, headers: Headers) -> bytes:
        return value

    def writer(self, to_bytes: ToBytes) -> ToBytes:
        return lambda value: None if value is None else to_bytes(value)

    def reader(self, from_bytes: Callable[..., Any]) -> Callable[[bytes | None], Any]:
        return lambda raw: None if raw is None else from_bytes(raw)

    def unpack(self, value: Any) -> tuple[Any, int, Headers | None]:
        return value, NO_TIMESTAMP, None


class _Timestamped(ValueFormat):
    shown_as = "timestamped"
    keeps_timestamps = True

    def split(self, raw: bytes) -> Split:
        return raw[TIMESTAMP_SIZE:], int.from_bytes(raw[:TIMESTAMP_SIZE], "big", signed=True), ()

    def join(self, value: bytes, timestamp: int, headers: Headers) -> bytes:
        return timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + value

    def writer(self, to_bytes: ToBytes) -> ToBytes:
        # Without the calls of `split` and `join`: every aggregated record is read and written.
        def write(value: Any) -> bytes | None:
            if value is None or value.value is None:
                return None
            raw = to_bytes(value.value)
            if raw is None:
                return None
            timestamp: bytes = value.timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True)
            return timestamp + raw

        return write

    def reader(self, from_bytes: Callable[..., Any]) -> Callable[[bytes | None], Any]:
        read_timestamp = int.from_bytes

        def read(raw: bytes | None) -> Any:
            if raw is None:
                return None
            value = from_bytes(raw[TIMESTAMP_SIZE:])
            if value is None:
                return None
            return ValueAndTimestamp(value, read_timestamp(raw[:TIMESTAMP_SIZE], "big", signed=True))

        return read

    def unpack(self, value: Any) -> tuple[Any, int, Headers | None]:
        return value.value, value.timestamp, None


class _HeadersFormat(ValueFormat):
    shown_as = "headers"
    keeps_headers = True

    @abstractmethod
    def pack(self, value: Any, timestamp: int | None, headers: Headers) -> Any:
        """Return the object that the typed store shows."""

    def writer(self, to_bytes: ToBytes) -> ToBytes:
        unpack, join = self.unpack, self.join

        def write(value: Any) -> bytes | None:
            if value is None:
                return None
            plain, timestamp, headers = unpack(value)
            raw = None if plain is None else to_bytes(plain)
            return None if raw is None else join(raw, timestamp, headers or ())

        return write

    def reader(self, from_bytes: Callable[..., Any]) -> Callable[[bytes | None], Any]:
        split, pack = self.split, self.pack

        def read(raw: bytes | None) -> Any:
            if raw is None:
                return None
            plain, timestamp, headers = split(raw)
            value = from_bytes(plain, headers)
            return None if value is None else pack(value, timestamp, headers)

        return read


class _WithHeaders(_HeadersFormat):
    keeps_timestamps = True

    def split(self, raw: bytes) -> Split:
        headers, rest = split_headers(raw)
        return rest[TIMESTAMP_SIZE:], int.from_bytes(rest[:TIMESTAMP_SIZE], "big", signed=True), headers

    def join(self, value: bytes, timestamp: int, headers: Headers) -> bytes:
        return serialize_headers(headers) + timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + value

    def unpack(self, value: Any) -> tuple[Any, int, Headers | None]:
        # The operators of tables put a value and its timestamp only: their results have no headers of their own.
        return value.value, value.timestamp, getattr(value, "headers", None)

    def pack(self, value: Any, timestamp: int | None, headers: Headers) -> Any:
        return ValueTimestampHeaders(value, NO_TIMESTAMP if timestamp is None else timestamp, headers)


class _AggregateWithHeaders(_HeadersFormat):
    def split(self, raw: bytes) -> Split:
        headers, value = split_headers(raw)
        return value, None, headers

    def join(self, value: bytes, timestamp: int, headers: Headers) -> bytes:
        return serialize_headers(headers) + value

    def unpack(self, value: Any) -> tuple[Any, int, Headers | None]:
        return value.aggregation, NO_TIMESTAMP, value.headers

    def pack(self, value: Any, timestamp: int | None, headers: Headers) -> Any:
        return AggregationWithHeaders(value, headers)


PLAIN: ValueFormat = _Plain("PLAIN")
TIMESTAMPED: ValueFormat = _Timestamped("TIMESTAMPED")
WITH_HEADERS: ValueFormat = _WithHeaders("WITH_HEADERS")
AGGREGATE_WITH_HEADERS: ValueFormat = _AggregateWithHeaders("AGGREGATE_WITH_HEADERS")


def format_of(store: StoreCapabilities) -> ValueFormat:
    """Return the format in which the engine below a store keeps its values."""
    held: ValueFormat | None = innermost(store).value_format
    return held or PLAIN


def value_converter(held: ValueFormat, wanted: ValueFormat) -> Callable[[bytes], bytes]:
    """Return the function from the bytes of one format to those of another; what is not known is -1 and no headers.

    >>> value_converter(PLAIN, TIMESTAMPED)(b"v").hex()
    'ffffffffffffffff76'
    """

    def convert(raw: bytes) -> bytes:
        value, timestamp, headers = held.split(raw)
        return wanted.join(value, NO_TIMESTAMP if timestamp is None else timestamp, headers)

    return convert
