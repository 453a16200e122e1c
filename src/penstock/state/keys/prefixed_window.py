"""Keys of the window stores that results are emitted from when a window closes.

Two layouts share a store, told apart by their first byte. The base holds the values in the order of time, so that all windows
that have closed lie together: `0x00 + int64 start + key + int32 seq`. The index, kept for sliding windows, finds the windows of
one key: `0x01 + key + int64 start + int32 seq`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.state.keys.schema import ACCEPT, SKIP, STOP, KeySchema, Matcher, in_key_range
from penstock.state.keys.window import MAX_SEQNUM, SEQNUM_SIZE, SUFFIX_SIZE, WindowKeySchema, time_window_for_size
from penstock.windows import Windowed

TIME_FIRST_PREFIX: Final = b"\x00"
KEY_FIRST_PREFIX: Final = b"\x01"

_TIME_PREFIX: Final = struct.Struct(">bq")
_SEQNUM: Final = struct.Struct(">i")
_PREFIX_AND_TIME_SIZE: Final = 9

_WINDOW_SCHEMA = WindowKeySchema()


def is_time_first_schema_key(binary: bytes) -> bool:
    """Whether a key is of the base layout."""
    return binary[:1] == TIME_FIRST_PREFIX


class TimeFirstWindowKeySchema(KeySchema):
    """The base layout: time before the key.

    >>> TimeFirstWindowKeySchema.to_store_key_binary(b"key", 50, 0).hex()
    '0000000000000000326b657900000000'
    """

    __slots__ = ()

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        """See `KeySchema.upper_range`."""
        if key is None:
            # The next prefix, so that a scan backwards begins at the end of this one.
            return KEY_FIRST_PREFIX
        return _TIME_PREFIX.pack(0, to) + b"\xff" * len(key) + _SEQNUM.pack(MAX_SEQNUM)

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        """See `KeySchema.lower_range`."""
        # No sequence number behind the key: a longer key that goes on with zeros would sort before it.
        return _TIME_PREFIX.pack(0, max(0, from_)) + (key or b"")

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        """See `KeySchema.upper_range_fixed_size`."""
        return self.to_store_key_binary(key, to, MAX_SEQNUM)

    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        """See `KeySchema.lower_range_fixed_size`."""
        return self.to_store_key_binary(key, max(0, from_), 0)

    def segment_timestamp(self, key: bytes) -> int:
        """See `KeySchema.segment_timestamp`."""
        return self.extract_store_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        """See `KeySchema.matcher`."""

        def match(binary: bytes) -> int:
            prefix, time = _TIME_PREFIX.unpack_from(binary)
            if prefix != 0:
                return STOP
            # Keys come in the order of time: past the far end there is nothing more.
            if time > to if forward else time < from_:
                return STOP
            if not from_ <= time <= to:
                return SKIP
            return ACCEPT if in_key_range(binary[_PREFIX_AND_TIME_SIZE:-SEQNUM_SIZE], key_from, key_to) else SKIP

        return match

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        """See `KeySchema.segments_to_search`."""
        return from_, to

    @staticmethod
    def to_store_key_binary(key: bytes, timestamp: int, seqnum: int) -> bytes:
        """The bytes of a key in the store."""
        return _TIME_PREFIX.pack(0, timestamp) + key + _SEQNUM.pack(seqnum)

    @staticmethod
    def store_keys(places: Iterable[tuple[bytes, int]]) -> list[bytes]:
        """The bytes of many keys and window starts, where duplicates are not kept."""
        pack, no_seqnum = _TIME_PREFIX.pack, bytes(SEQNUM_SIZE)
        return [pack(0, start) + key + no_seqnum for key, start in places]

    @staticmethod
    def time_prefix(timestamp: int) -> bytes:
        """What the keys of all windows begin with that start at a time."""
        return _TIME_PREFIX.pack(0, timestamp)

    @staticmethod
    def places(store_keys: Iterable[bytes]) -> list[tuple[bytes, int]]:
        """The key and window start of each: what `store_keys` made them of."""
        unpack = _TIME_PREFIX.unpack_from
        return [(binary[_PREFIX_AND_TIME_SIZE:-SEQNUM_SIZE], unpack(binary)[1]) for binary in store_keys]

    @staticmethod
    def extract_store_key_bytes(binary: bytes) -> bytes:
        """The record key."""
        return binary[_PREFIX_AND_TIME_SIZE:-SEQNUM_SIZE]

    @staticmethod
    def extract_store_timestamp(binary: bytes) -> int:
        """The window's start."""
        timestamp: int = _TIME_PREFIX.unpack_from(binary)[1]
        return timestamp

    @staticmethod
    def extract_store_sequence(binary: bytes) -> int:
        """The sequence number."""
        seqnum: int = _SEQNUM.unpack_from(binary, len(binary) - SEQNUM_SIZE)[0]
        return seqnum

    @staticmethod
    def from_store_bytes_key(binary: bytes, window_size: int) -> Windowed[bytes]:
        """The record key with its window."""
        start: int = _TIME_PREFIX.unpack_from(binary)[1]
        return Windowed(binary[_PREFIX_AND_TIME_SIZE:-SEQNUM_SIZE], time_window_for_size(start, window_size))

    @staticmethod
    def from_non_prefix_window_key(binary: bytes) -> bytes:
        """The base key of a key in the layout of changelogs."""
        return TIME_FIRST_PREFIX + binary[-SUFFIX_SIZE:-SEQNUM_SIZE] + binary[:-SUFFIX_SIZE] + binary[-SEQNUM_SIZE:]


class KeyFirstWindowKeySchema(KeySchema):
    """The index layout: the key before time.

    >>> KeyFirstWindowKeySchema.to_store_key_binary(b"key", 50, 0).hex()
    '016b6579000000000000003200000000'
    """

    __slots__ = ()

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        """See `KeySchema.upper_range`."""
        bound = _WINDOW_SCHEMA.upper_range(key, to)
        return b"\x02" if bound is None else KEY_FIRST_PREFIX + bound

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        """See `KeySchema.lower_range`."""
        return KEY_FIRST_PREFIX + (_WINDOW_SCHEMA.lower_range(key, from_) or b"")

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        """See `KeySchema.upper_range_fixed_size`."""
        return KEY_FIRST_PREFIX + _WINDOW_SCHEMA.upper_range_fixed_size(key, to)

    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        """See `KeySchema.lower_range_fixed_size`."""
        return KEY_FIRST_PREFIX + _WINDOW_SCHEMA.lower_range_fixed_size(key, from_)

    def segment_timestamp(self, key: bytes) -> int:
        """See `KeySchema.segment_timestamp`."""
        return WindowKeySchema.extract_store_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        """See `KeySchema.matcher`."""

        def match(binary: bytes) -> int:
            if binary[:1] != KEY_FIRST_PREFIX:
                return STOP
            time = WindowKeySchema.extract_store_timestamp(binary)
            if not from_ <= time <= to:
                return SKIP
            return ACCEPT if in_key_range(binary[1:-SUFFIX_SIZE], key_from, key_to) else SKIP

        return match

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        """See `KeySchema.segments_to_search`."""
        return from_, to

    @staticmethod
    def to_store_key_binary(key: bytes, timestamp: int, seqnum: int) -> bytes:
        """The bytes of a key in the store."""
        return KEY_FIRST_PREFIX + WindowKeySchema.to_store_key_binary(key, timestamp, seqnum)

    @staticmethod
    def extract_store_key_bytes(binary: bytes) -> bytes:
        """The record key."""
        return binary[1:-SUFFIX_SIZE]

    @staticmethod
    def extract_store_timestamp(binary: bytes) -> int:
        """The window's start."""
        return WindowKeySchema.extract_store_timestamp(binary)

    @staticmethod
    def extract_store_sequence(binary: bytes) -> int:
        """The sequence number."""
        return WindowKeySchema.extract_store_sequence(binary)

    @staticmethod
    def from_store_bytes_key(binary: bytes, window_size: int) -> Windowed[bytes]:
        """The record key with its window."""
        return WindowKeySchema.from_store_bytes_key(binary[1:], window_size)

    @staticmethod
    def from_non_prefix_window_key(binary: bytes) -> bytes:
        """The index key of a key in the layout of changelogs."""
        return KEY_FIRST_PREFIX + binary


def index_key_to_base_key(index_key: bytes) -> bytes:
    """The base key that an index key stands for."""
    return TimeFirstWindowKeySchema.from_non_prefix_window_key(index_key[1:])


def base_key_to_index_key(base_key: bytes) -> bytes:
    """The index key that stands for a base key."""
    return (
        KEY_FIRST_PREFIX
        + base_key[_PREFIX_AND_TIME_SIZE:-SEQNUM_SIZE]
        + base_key[1:_PREFIX_AND_TIME_SIZE]
        + base_key[-SEQNUM_SIZE:]
    )
