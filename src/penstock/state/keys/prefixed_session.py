"""Keys of the session stores that results are emitted from when a session closes.

As with windows, two layouts share a store. The base holds the aggregates in the order of the sessions' ends:
`0x00 + int64 END + int64 START + key`. The index finds the sessions of one key: `0x01 + key + int64 END + int64 START`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.state.keys.prefixed_window import KEY_FIRST_PREFIX, TIME_FIRST_PREFIX
from penstock.state.keys.schema import ACCEPT, SKIP, STOP, KeySchema, Matcher, in_key_range
from penstock.state.keys.session import SUFFIX_SIZE, SessionKeySchema
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed

_TIME_PREFIX: Final = struct.Struct(">bqq")
_PREFIX_AND_TIMES_SIZE: Final = 17
_TIMESTAMP: Final = struct.Struct(">q")

_SESSION_SCHEMA = SessionKeySchema()


class TimeFirstSessionKeySchema(KeySchema):
    """The base layout: the session's end and start before the key.

    >>> TimeFirstSessionKeySchema.to_binary(b"key", 50, 100).hex()
    '00000000000000006400000000000000326b6579'
    """

    __slots__ = ()

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        """See `KeySchema.upper_range`."""
        return KEY_FIRST_PREFIX if key is None else _TIME_PREFIX.pack(0, MAX_TIMESTAMP, to) + key

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        """See `KeySchema.lower_range`."""
        if key is None:
            return TIME_FIRST_PREFIX + _TIMESTAMP.pack(max(0, from_))
        return _TIME_PREFIX.pack(0, max(0, from_), 0) + key

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        """See `KeySchema.upper_range_fixed_size`."""
        return self.to_binary(key, to, MAX_TIMESTAMP)

    def lower_range_fixed_size(self, key: bytes | None, from_: int) -> bytes:
        """See `KeySchema.lower_range_fixed_size`."""
        return self.to_binary(key or b"", 0, max(0, from_))

    def segment_timestamp(self, key: bytes) -> int:
        """See `KeySchema.segment_timestamp`."""
        return self.extract_end_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        """See `KeySchema.matcher`."""

        def match(binary: bytes) -> int:
            if binary[:1] != TIME_FIRST_PREFIX:
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
        """See `KeySchema.segments_to_search`."""
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
    def from_non_prefix_session_key(binary: bytes) -> bytes:
        """The base key of a key in the layout of changelogs."""
        return TIME_FIRST_PREFIX + binary[-SUFFIX_SIZE:] + binary[:-SUFFIX_SIZE]


class KeyFirstSessionKeySchema(KeySchema):
    """The index layout: the key before the session's end and start.

    >>> KeyFirstSessionKeySchema.to_binary(b"key", 50, 100).hex()
    '016b657900000000000000640000000000000032'
    """

    __slots__ = ()

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        """See `KeySchema.upper_range`."""
        bound = _SESSION_SCHEMA.upper_range(key, to)
        return b"\x02" if bound is None else KEY_FIRST_PREFIX + bound

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        """See `KeySchema.lower_range`."""
        return KEY_FIRST_PREFIX + (_SESSION_SCHEMA.lower_range(key, from_) or b"")

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        """See `KeySchema.upper_range_fixed_size`."""
        return KEY_FIRST_PREFIX + _SESSION_SCHEMA.upper_range_fixed_size(key, to)

    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        """See `KeySchema.lower_range_fixed_size`."""
        return KEY_FIRST_PREFIX + _SESSION_SCHEMA.lower_range_fixed_size(key, from_)

    def segment_timestamp(self, key: bytes) -> int:
        """See `KeySchema.segment_timestamp`."""
        return SessionKeySchema.extract_end_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        """See `KeySchema.matcher`."""
        inner = _SESSION_SCHEMA.matcher(None, None, from_, to, forward)

        def match(binary: bytes) -> int:
            if binary[:1] != KEY_FIRST_PREFIX:
                return STOP
            if inner(binary) == SKIP:
                return SKIP
            return ACCEPT if in_key_range(binary[1:-SUFFIX_SIZE], key_from, key_to) else SKIP

        return match

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        """See `KeySchema.segments_to_search`."""
        return from_, MAX_TIMESTAMP

    @staticmethod
    def to_binary(key: bytes, start: int, end: int) -> bytes:
        """The bytes of a key in the store."""
        return KEY_FIRST_PREFIX + SessionKeySchema.to_binary(key, start, end)

    @staticmethod
    def extract_end_timestamp(binary: bytes) -> int:
        """The session's end."""
        return SessionKeySchema.extract_end_timestamp(binary)

    @staticmethod
    def extract_start_timestamp(binary: bytes) -> int:
        """The session's start."""
        return SessionKeySchema.extract_start_timestamp(binary)

    @staticmethod
    def from_binary(binary: bytes) -> Windowed[bytes]:
        """The record key with its session."""
        return SessionKeySchema.from_binary(binary[1:])

    @staticmethod
    def from_non_prefix_session_key(binary: bytes) -> bytes:
        """The index key of a key in the layout of changelogs."""
        return KEY_FIRST_PREFIX + binary


def index_key_to_base_key(index_key: bytes) -> bytes:
    """The base key that an index key stands for."""
    return TimeFirstSessionKeySchema.from_non_prefix_session_key(index_key[1:])


def base_key_to_index_key(base_key: bytes) -> bytes:
    """The index key that stands for a base key."""
    return KEY_FIRST_PREFIX + base_key[_PREFIX_AND_TIMES_SIZE:] + base_key[1:_PREFIX_AND_TIMES_SIZE]
