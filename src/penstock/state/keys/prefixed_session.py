"""Keys of the session stores that results are emitted from when a session closes (`keys/prefixed.py`).

The base has sessions in the order of their ends: `0x00 + int64 END + int64 START + key`.
The index finds the sessions of one key: `0x01 + key + int64 END + int64 START`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.state.keys.prefixed import BASE_PREFIX, INDEX_PREFIX, BaseKeySchema
from penstock.state.keys.schema import ACCEPT, SKIP, STOP, Matcher, in_key_range
from penstock.state.keys.session import SUFFIX_SIZE
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed

_TIME_PREFIX: Final = struct.Struct(">bqq")
_PREFIX_AND_TIMES_SIZE: Final = 17
_TIMESTAMP: Final = struct.Struct(">q")


class TimeFirstSessionKeySchema(BaseKeySchema):
    """The base layout: the session's end and start before the key.

    >>> TimeFirstSessionKeySchema.to_binary(b"key", 50, 100).hex()
    '00000000000000006400000000000000326b6579'
    """

    __slots__ = ()

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        return INDEX_PREFIX if key is None else _TIME_PREFIX.pack(0, MAX_TIMESTAMP, to) + key

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        if key is None:
            return BASE_PREFIX + _TIMESTAMP.pack(max(0, from_))
        return _TIME_PREFIX.pack(0, max(0, from_), 0) + key

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        return self.to_binary(key, to, MAX_TIMESTAMP)

    def lower_range_fixed_size(self, key: bytes | None, from_: int) -> bytes:
        return self.to_binary(key or b"", 0, max(0, from_))

    def segment_timestamp(self, key: bytes) -> int:
        return self.extract_end_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:

        def match(binary: bytes) -> int:
            if binary[:1] != BASE_PREFIX:
                return STOP
            _, end, start = _TIME_PREFIX.unpack_from(binary)
            if end < from_:
                # Backwards the ends only get earlier.
                return SKIP if forward else STOP
            if start > to:
                return SKIP
            return ACCEPT if in_key_range(binary[_PREFIX_AND_TIMES_SIZE:], key_from, key_to) else SKIP

        return match

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        return from_, MAX_TIMESTAMP

    @staticmethod
    def to_binary(key: bytes, start: int, end: int) -> bytes:
        """The bytes of a key in the store."""
        return _TIME_PREFIX.pack(0, end, start) + key

    @staticmethod
    def store_keys(places: Iterable[tuple[bytes, int, int]]) -> list[bytes]:
        """The bytes of many keys with the start and end of a session."""
        pack = _TIME_PREFIX.pack
        return [pack(0, end, start) + key for key, start, end in places]

    @staticmethod
    def times(binary: bytes) -> tuple[int, int]:
        """The session's start and end."""
        _, end, start = _TIME_PREFIX.unpack_from(binary)
        return start, end

    @staticmethod
    def extract_end_timestamp(binary: bytes) -> int:
        """The session's end."""
        end: int = _TIME_PREFIX.unpack_from(binary)[1]
        return end

    @staticmethod
    def extract_start_timestamp(binary: bytes) -> int:
        """The session's start."""
        start: int = _TIME_PREFIX.unpack_from(binary)[2]
        return start

    @staticmethod
    def from_binary(binary: bytes) -> Windowed[bytes]:
        """The record key with its session."""
        _, end, start = _TIME_PREFIX.unpack_from(binary)
        return Windowed(binary[_PREFIX_AND_TIMES_SIZE:], SessionWindow(start, end))

    @staticmethod
    def from_changelog_key(binary: bytes) -> bytes:
        return BASE_PREFIX + binary[-SUFFIX_SIZE:] + binary[:-SUFFIX_SIZE]

    @staticmethod
    def to_changelog_key(binary: bytes) -> bytes:
        return binary[_PREFIX_AND_TIMES_SIZE:] + binary[1:_PREFIX_AND_TIMES_SIZE]
