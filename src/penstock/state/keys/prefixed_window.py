"""Keys of the window stores that results are emitted from when a window closes (`keys/prefixed.py`).

The base has windows in the order of their starts: `0x00 + int64 start + key + int32 seq`.
The index, kept for sliding windows, finds the windows of one key: `0x01 + key + int64 start + int32 seq`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.state.keys.prefixed import BASE_PREFIX, INDEX_PREFIX, BaseKeySchema
from penstock.state.keys.schema import ACCEPT, SKIP, STOP, Matcher, in_key_range
from penstock.state.keys.window import MAX_SEQNUM, SEQNUM_SIZE, SUFFIX_SIZE, time_window_for_size
from penstock.windows import Windowed

_TIME_PREFIX: Final = struct.Struct(">bq")
_SEQNUM: Final = struct.Struct(">i")
_PREFIX_AND_TIME_SIZE: Final = 9


class TimeFirstWindowKeySchema(BaseKeySchema):
    """The base layout: time before the key.

    >>> TimeFirstWindowKeySchema.to_store_key_binary(b"key", 50, 0).hex()
    '0000000000000000326b657900000000'
    """

    __slots__ = ()

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        if key is None:
            # The next prefix, so that a scan backwards begins at the end of this one.
            return INDEX_PREFIX
        return _TIME_PREFIX.pack(0, to) + b"\xff" * len(key) + _SEQNUM.pack(MAX_SEQNUM)

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        # No sequence number behind the key: a longer key that goes on with zeros would sort before it.
        return _TIME_PREFIX.pack(0, max(0, from_)) + (key or b"")

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        return self.to_store_key_binary(key, to, MAX_SEQNUM)

    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        return self.to_store_key_binary(key, max(0, from_), 0)

    def segment_timestamp(self, key: bytes) -> int:
        return self.extract_store_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:

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
    def from_changelog_key(binary: bytes) -> bytes:
        return BASE_PREFIX + binary[-SUFFIX_SIZE:-SEQNUM_SIZE] + binary[:-SUFFIX_SIZE] + binary[-SEQNUM_SIZE:]

    @staticmethod
    def to_changelog_key(binary: bytes) -> bytes:
        return binary[_PREFIX_AND_TIME_SIZE:-SEQNUM_SIZE] + binary[1:_PREFIX_AND_TIME_SIZE] + binary[-SEQNUM_SIZE:]
