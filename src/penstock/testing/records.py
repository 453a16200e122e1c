"""TestRecord: a record of a test, whose timestamp is optional."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, TypeVar

from penstock.record import FixedKeyRecord, ProducedRecord, RawRecord, Record, _set_fixed

K = TypeVar("K")
V = TypeVar("V")

Timestamp = int | datetime

_VALUE_ONLY: Any = object()


def as_timestamp(timestamp: Timestamp) -> int:
    """Convert a time to milliseconds since the epoch."""
    return round(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp


class TestRecord(Record[K, V]):
    """A record to write to a topic under test, or to compare with a record that was read. It equals a `Record` with the same
    fields.

    A single argument is the value. Without a timestamp, the input topic sets it.

    >>> TestRecord("word", 1).timestamp is None
    True
    >>> TestRecord("word", 1, 10) == Record("word", 1, timestamp=10)
    True
    """

    __slots__ = ()
    __test__ = False  # not a test class of pytest

    def __init__(
        self,
        key: K | V | None = None,
        value: V | None = _VALUE_ONLY,
        timestamp: Timestamp | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        if value is _VALUE_ONLY:
            key, value = None, key
        if timestamp is not None:
            if not isinstance(timestamp, (int, datetime)):
                raise TypeError(
                    f"the timestamp of a TestRecord is {timestamp!r}: write TestRecord(key, value, timestamp, headers) with "
                    "milliseconds since the epoch or a datetime"
                )
            timestamp = as_timestamp(timestamp)
            if timestamp < 0:
                raise ValueError(f"Invalid timestamp: {timestamp}. Timestamp should always be non-negative or None.")
        _set_fixed(self, key, value, timestamp, tuple(headers or ()))  # type: ignore[arg-type]

    @classmethod
    def of(cls, record: FixedKeyRecord[K, V] | RawRecord | ProducedRecord) -> TestRecord[Any, Any]:
        """Convert a record that was read or will be written."""
        key: Any = record.key
        value: Any = record.value
        return cls(key, value, record.timestamp, record.headers)

    @property
    def record_time(self) -> datetime | None:
        """The timestamp in UTC, None without one."""
        return None if self.timestamp is None else datetime.fromtimestamp(self.timestamp / 1000, timezone.utc)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (other.key, other.value, other.timestamp, other.headers)

    __hash__ = Record.__hash__
