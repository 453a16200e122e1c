"""The versions of one key within one segment of a versioned store, as one row.

    int64 next_timestamp, int64 min_timestamp, (int64 timestamp, int32 size) newest first, values oldest first

`next_timestamp` is the end of the newest version, `min_timestamp` the begin of the oldest, which also ends the list. A version
ends where the next one begins. A tombstone has size -1.

A row may hold a lone tombstone whose begin and end are one: the key was deleted when nothing of it was known. Such a row is
degenerate; no time lies within it, so nothing is ever found in it, but it tells a version that comes late where to end.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass
from typing import Final

from penstock.errors import SerializationError

log = logging.getLogger(__name__)

_HEADER: Final = struct.Struct(">qq")
_ENTRY: Final = struct.Struct(">qi")
_TOMBSTONE_SIZE: Final = -1


@dataclass(frozen=True, slots=True)
class SegmentSearchResult:
    """A version that was found: its place in the row, newest first, and from when to when it was valid."""

    index: int
    valid_from: int
    valid_to: int
    value: bytes | None


def next_timestamp(row: bytes) -> int:
    """The end of the newest version of a row."""
    return _bounds(row)[0]


def min_timestamp(row: bytes) -> int:
    """The begin of the oldest version of a row."""
    return _bounds(row)[1]


def _bounds(row: bytes) -> tuple[int, int]:
    try:
        return _HEADER.unpack_from(row)
    except struct.error as exc:
        raise _broken(row, exc) from exc


def _broken(row: bytes, why: object) -> SerializationError:
    return SerializationError(f"a row of {len(row)} bytes in a versioned store is broken: {why}; reset the application's state")


class SegmentValue:
    """A row that can be searched and changed.

    >>> row = SegmentValue.with_record(b"old", 10, 20)
    >>> row.insert_as_latest(20, 30, b"new")
    >>> SegmentValue.deserialize(row.serialize()).find(15)
    SegmentSearchResult(index=1, valid_from=10, valid_to=20, value=b'old')
    """

    __slots__ = ("min_timestamp", "next_timestamp", "versions")

    def __init__(self, versions: list[tuple[int, bytes | None]], min_timestamp: int, next_timestamp: int) -> None:
        self.versions = versions
        """Begin and value of each version, newest first."""
        self.min_timestamp = min_timestamp
        self.next_timestamp = next_timestamp

    @classmethod
    def with_record(cls, value: bytes | None, valid_from: int, valid_to: int) -> SegmentValue:
        """A new row with one version; a tombstone with equal bounds makes a degenerate one."""
        return cls([(valid_from, value)], valid_from, valid_to)

    @classmethod
    def deserialize(cls, row: bytes) -> SegmentValue:
        """The row that `serialize` wrote; raises SerializationError where it is none."""
        next_, min_ = _bounds(row)
        versions: list[tuple[int, bytes | None]] = []
        at = _HEADER.size
        values_end = len(row)
        while True:
            if at + _ENTRY.size > values_end:
                raise _broken(row, "its versions end too early")
            timestamp, size = _ENTRY.unpack_from(row, at)
            at += _ENTRY.size
            if size > values_end - at:
                raise _broken(row, f"a version of {size} bytes does not fit in")
            if size < 0:
                versions.append((timestamp, None))
            else:
                versions.append((timestamp, row[values_end - size : values_end]))
                values_end -= size
            if timestamp == min_:
                return cls(versions, min_, next_)

    def serialize(self) -> bytes:
        """The row in bytes."""
        parts = [_HEADER.pack(self.next_timestamp, self.min_timestamp)]
        parts += [_ENTRY.pack(timestamp, _TOMBSTONE_SIZE if value is None else len(value)) for timestamp, value in self.versions]
        parts += [value for _, value in reversed(self.versions) if value is not None]
        return b"".join(parts)

    @property
    def is_degenerate(self) -> bool:
        """Whether the row is a lone tombstone without a duration."""
        return self.min_timestamp == self.next_timestamp

    def find(self, timestamp: int) -> SegmentSearchResult:
        """The version that was valid at a time, which must lie within the row."""
        if timestamp < self.min_timestamp:
            raise ValueError("Timestamp is too small to be found in this segment.")
        if timestamp >= self.next_timestamp:
            raise ValueError("Timestamp is too large to be found in this segment.")
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.versions):
            if valid_from <= timestamp:
                return SegmentSearchResult(index, valid_from, valid_to, value)
            valid_to = valid_from
        raise RuntimeError("Search in segment expected to find result but did not.")

    def find_all(self, from_time: int, to_time: int) -> list[SegmentSearchResult]:
        """All versions but tombstones that were valid at some moment of a range of time, newest first."""
        found = []
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.versions):
            if value is not None and valid_from <= to_time and valid_to > from_time:
                found.append(SegmentSearchResult(index, valid_from, valid_to, value))
            valid_to = valid_from
        return found

    def insert_as_latest(self, valid_from: int, valid_to: int, value: bytes | None) -> None:
        """Put a version on top; what the row has from `valid_from` on gives way."""
        if valid_from < self.next_timestamp:
            log.warning("Row of a versioned store reaches past the version above it; it is cut at %d.", valid_from)
            self._truncate(valid_from)
        if self.is_degenerate:
            self.versions = []
            self.min_timestamp = min(self.next_timestamp, valid_from)
        if self.next_timestamp != valid_from:
            # Nothing was valid in between: the gap is a tombstone.
            self.versions.insert(0, (self.next_timestamp, None))
        self.versions.insert(0, (valid_from, value))
        self.next_timestamp = valid_to

    def insert_as_earliest(self, timestamp: int, value: bytes | None) -> None:
        """Put a version below all others; it ends where they begin."""
        if self.is_degenerate:
            self.versions = []
        self.versions.append((timestamp, value))
        self.min_timestamp = timestamp

    def insert(self, timestamp: int, value: bytes | None, index: int) -> None:
        """Put a version in a place that `find` gave."""
        self.versions.insert(index, (timestamp, value))

    def update_record(self, timestamp: int, value: bytes | None, index: int) -> None:
        """Replace the version in a place that `find` gave."""
        if self.versions[index][0] == self.min_timestamp:
            self.min_timestamp = timestamp
        self.versions[index] = (timestamp, value)

    def _truncate(self, timestamp: int) -> None:
        if timestamp <= self.min_timestamp:
            self.versions = [(timestamp, None)]
            self.min_timestamp = self.next_timestamp = timestamp
            return
        self.versions = [version for version in self.versions if version[0] < timestamp]
        self.next_timestamp = timestamp
