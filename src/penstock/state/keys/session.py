"""Keys of session stores and their changelogs: `key + int64 session END + int64 session START`.

The end comes first so that the sessions a record can fall into, those that end no earlier than its gap allows and begin no
later, lie next to each other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.state.keys.schema import ACCEPT, SKIP, ChangelogKeySchema, Matcher
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed

SUFFIX_SIZE: Final = 16

_SUFFIX: Final = struct.Struct(">qq")

_pack = _SUFFIX.pack
_unpack_from = _SUFFIX.unpack_from


class SessionKeySchema(ChangelogKeySchema):
    """The key first, then the session's end, then its start.

    >>> SessionKeySchema.to_binary(b"key", 50, 100).hex()
    '6b657900000000000000640000000000000032'
    """

    __slots__ = ()
    suffix = _SUFFIX

    def _highest_suffix(self, to: int) -> bytes:
        # Nothing bounds how late a session ends; `to` is the latest start.
        return _pack(MAX_TIMESTAMP, to)

    def segment_timestamp(self, key: bytes) -> int:
        return self.extract_end_timestamp(key)

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        def match(binary: bytes) -> int:
            end, start = _unpack_from(binary, len(binary) - SUFFIX_SIZE)
            if end < from_ or start > to:
                return SKIP
            if key_from is None and key_to is None:
                return ACCEPT
            key = binary[:-SUFFIX_SIZE]
            return ACCEPT if (key_from is None or key >= key_from) and (key_to is None or key <= key_to) else SKIP

        return match

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        return from_, MAX_TIMESTAMP

    @staticmethod
    def to_binary(key: bytes, start: int, end: int) -> bytes:
        """The bytes of a key in a store, in its changelog and on a topic."""
        return key + _pack(end, start)

    @staticmethod
    def windowed_to_binary(windowed: Windowed[bytes]) -> bytes:
        """The same of a windowed key."""
        window = windowed.window
        return windowed.key + _pack(window.end, window.start)

    @staticmethod
    def store_keys(places: Iterable[tuple[bytes, int, int]]) -> list[bytes]:
        """The bytes of many keys with the start and end of a session."""
        return [key + _pack(end, start) for key, start, end in places]

    @staticmethod
    def times(binary: bytes) -> tuple[int, int]:
        """The session's start and end."""
        end, start = _unpack_from(binary, len(binary) - SUFFIX_SIZE)
        return start, end

    @staticmethod
    def extract_key_bytes(binary: bytes) -> bytes:
        """The record key."""
        return binary[:-SUFFIX_SIZE]

    @staticmethod
    def extract_end_timestamp(binary: bytes) -> int:
        """The session's end."""
        end: int = _unpack_from(binary, len(binary) - SUFFIX_SIZE)[0]
        return end

    @staticmethod
    def extract_start_timestamp(binary: bytes) -> int:
        """The session's start."""
        start: int = _unpack_from(binary, len(binary) - SUFFIX_SIZE)[1]
        return start

    @staticmethod
    def from_binary(binary: bytes) -> Windowed[bytes]:
        """The record key with its session."""
        end, start = _unpack_from(binary, len(binary) - SUFFIX_SIZE)
        return Windowed(binary[:-SUFFIX_SIZE], SessionWindow(start, end))
