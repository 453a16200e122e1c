"""Keys of window stores and their changelogs: `key + int64 window start + int32 sequence number`."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable
from typing import Final

from penstock.state.keys.schema import ACCEPT, SKIP, ChangelogKeySchema, Matcher
from penstock.windows import MAX_TIMESTAMP, TimeWindow, Windowed

log = logging.getLogger(__name__)

SEQNUM_SIZE: Final = 4
SUFFIX_SIZE: Final = 8 + SEQNUM_SIZE
MAX_SEQNUM: Final = 2**31 - 1

_SUFFIX: Final = struct.Struct(">qi")

_pack = _SUFFIX.pack
_unpack_from = _SUFFIX.unpack_from

window_suffix = _SUFFIX.pack
"""What follows the record's key: window start and sequence number."""


def time_window_for_size(start: int, window_size: int) -> TimeWindow:
    """The window of a size that begins at `start`; one that would end after the last possible moment ends there."""
    end = start + window_size
    if end > MAX_TIMESTAMP:
        log.warning("Warning: window end time was truncated to Long.MAX")
        end = MAX_TIMESTAMP
    return TimeWindow(start, end)


class WindowKeySchema(ChangelogKeySchema):
    """The key first, then time, then the sequence number that keeps duplicates apart.

    >>> WindowKeySchema.to_store_key_binary(b"key", 50, 0).hex()
    '6b6579000000000000003200000000'
    """

    __slots__ = ()
    suffix = _SUFFIX

    def _highest_suffix(self, to: int) -> bytes:
        return _pack(to, MAX_SEQNUM)

    def segment_timestamp(self, key: bytes) -> int:
        return self.extract_store_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        def match(binary: bytes) -> int:
            time: int = _unpack_from(binary, len(binary) - SUFFIX_SIZE)[0]
            if not from_ <= time <= to:
                return SKIP
            if key_from is None and key_to is None:
                return ACCEPT
            key = binary[:-SUFFIX_SIZE]
            return ACCEPT if (key_from is None or key >= key_from) and (key_to is None or key <= key_to) else SKIP

        return match

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        return from_, to

    @staticmethod
    def to_store_key_binary(key: bytes, timestamp: int, seqnum: int) -> bytes:
        """The bytes of a key in a store and in its changelog."""
        return key + _pack(timestamp, seqnum)

    @staticmethod
    def store_keys(places: Iterable[tuple[bytes, int]]) -> list[bytes]:
        """The bytes of many keys and window starts, where duplicates are not kept."""
        return [key + _pack(start, 0) for key, start in places]

    @staticmethod
    def places(store_keys: Iterable[bytes]) -> list[tuple[bytes, int]]:
        """The key and window start of each: what `store_keys` made them of."""
        return [(binary[:-SUFFIX_SIZE], _unpack_from(binary, len(binary) - SUFFIX_SIZE)[0]) for binary in store_keys]

    @staticmethod
    def extract_store_key_bytes(binary: bytes) -> bytes:
        """The record key."""
        return binary[:-SUFFIX_SIZE]

    @staticmethod
    def extract_store_timestamp(binary: bytes) -> int:
        """The window's start."""
        timestamp: int = _unpack_from(binary, len(binary) - SUFFIX_SIZE)[0]
        return timestamp

    @staticmethod
    def extract_store_sequence(binary: bytes) -> int:
        """The sequence number; 0 where duplicates are not kept."""
        seqnum: int = _unpack_from(binary, len(binary) - SUFFIX_SIZE)[1]
        return seqnum

    @staticmethod
    def from_store_bytes_key(binary: bytes, window_size: int) -> Windowed[bytes]:
        """The record key with its window."""
        start: int = _unpack_from(binary, len(binary) - SUFFIX_SIZE)[0]
        return Windowed(binary[:-SUFFIX_SIZE], time_window_for_size(start, window_size))
