"""What every key schema can do: bounds for range scans, and the choice among the keys a scan meets.

A scan over byte order cannot be exact where keys differ in length: the time that follows a short key sorts among the bytes of
longer keys. So a schema gives bounds that are wide enough, and a matcher that looks at each key on the way.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

ACCEPT: Final = 1
"""The key belongs to the result."""

SKIP: Final = 0
"""The key does not, a later one may."""

STOP: Final = -1
"""Neither this key nor any later one of this segment does."""

Matcher = Callable[[bytes], int]
"""Says ACCEPT, SKIP or STOP of one key; keys come in the order of the scan."""

TIMESTAMP_SIZE: Final = 8


class KeySchema(ABC):
    """A layout of (record key, time, ...) in bytes."""

    __slots__ = ()

    @abstractmethod
    def upper_range(self, key: bytes | None, to: int) -> bytes | None:
        """The highest bytes a key up to `key` with a time up to `to` can have; None leaves the end open."""

    @abstractmethod
    def lower_range(self, key: bytes | None, from_: int) -> bytes | None:
        """The lowest bytes a key from `key` on with a time from `from_` on can have; None leaves the end open."""

    @abstractmethod
    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        """The upper bound where every key in question is exactly `key`."""

    @abstractmethod
    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        """The lower bound where every key in question is exactly `key`."""

    @abstractmethod
    def segment_timestamp(self, key: bytes) -> int:
        """The time that decides which segment a key belongs to."""

    @abstractmethod
    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        """The choice among the keys that a scan between the bounds meets."""

    @abstractmethod
    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        """The range of segment times that can hold an answer."""


class ChangelogKeySchema(KeySchema):
    """A layout of changelogs: the record key, then its times in a suffix of fixed size."""

    __slots__ = ()
    suffix: ClassVar[struct.Struct]

    @abstractmethod
    def _highest_suffix(self, to: int) -> bytes:
        """Return the highest suffix of keys with a time up to `to`."""

    def upper_range(self, key: bytes | None, to: int) -> bytes | None:
        return None if key is None else ordered_upper_range(key, self._highest_suffix(to))

    def lower_range(self, key: bytes | None, from_: int) -> bytes | None:
        # Not `from_`: a longer key that begins with `key` and zeros sorts before `key` at that time.
        return None if key is None else key + bytes(self.suffix.size)

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        return key + self._highest_suffix(to)

    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        return key + self.suffix.pack(max(0, from_), 0)


def ordered_upper_range(key: bytes, max_suffix: bytes) -> bytes:
    """The upper bound for keys up to `key` when each is followed by a suffix of at most `max_suffix`.

    A key that `key` begins with belongs to the range too, and with the highest suffix may sort behind `key` itself: of all
    of them the highest counts. (Kafka Streams takes a short cut that loses the windows of `b"a"` in a range up to `b"a\\x00"`.)
    Keys are taken to be at least one byte long.

    >>> ordered_upper_range(b"\\x0a\\x0b", b"\\x7f\\xff")
    b'\\n\\x7f\\xff'
    """
    return max(key[:end] + max_suffix for end in range(min(1, len(key)), len(key) + 1))


def in_key_range(key: bytes, key_from: bytes | None, key_to: bytes | None) -> bool:
    """Whether a record key lies between two others, both included, None being open."""
    return (key_from is None or key >= key_from) and (key_to is None or key <= key_to)
