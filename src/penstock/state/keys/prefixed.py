"""Stores that results are emitted from when a window or session closes have two layouts of keys, told apart by their first byte.

The base layout (`0x00`) has time before the record key and holds the values, so that all windows that have closed lie together.
The index layout (`0x01`) is a key of the changelog behind that byte: it finds the windows of one key.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from penstock.state.keys.schema import STOP, KeySchema, Matcher

BASE_PREFIX: Final = b"\x00"
INDEX_PREFIX: Final = b"\x01"
_AFTER_INDEX: Final = b"\x02"


class BaseKeySchema(KeySchema):
    """A base layout."""

    __slots__ = ()

    @staticmethod
    @abstractmethod
    def from_changelog_key(binary: bytes) -> bytes:
        """Return the base key of a key of the changelog."""

    @staticmethod
    @abstractmethod
    def to_changelog_key(binary: bytes) -> bytes:
        """Return the key of the changelog of a base key."""

    def to_index_key(self, base_key: bytes) -> bytes:
        """Return the index key that stands for a base key."""
        return INDEX_PREFIX + self.to_changelog_key(base_key)

    def from_index_key(self, index_key: bytes) -> bytes:
        """Return the base key that an index key stands for."""
        return self.from_changelog_key(index_key[1:])


class IndexKeySchema(KeySchema):
    """The index layout of a schema of changelog keys.

    >>> from penstock.state.keys.window import WindowKeySchema
    >>> IndexKeySchema(WindowKeySchema()).lower_range_fixed_size(b"key", 50).hex()
    '016b6579000000000000003200000000'
    """

    __slots__ = ("_changelog_schema",)

    def __init__(self, changelog_schema: KeySchema) -> None:
        self._changelog_schema = changelog_schema

    def upper_range(self, key: bytes | None, to: int) -> bytes:
        bound = self._changelog_schema.upper_range(key, to)
        return _AFTER_INDEX if bound is None else INDEX_PREFIX + bound

    def lower_range(self, key: bytes | None, from_: int) -> bytes:
        return INDEX_PREFIX + (self._changelog_schema.lower_range(key, from_) or b"")

    def upper_range_fixed_size(self, key: bytes, to: int) -> bytes:
        return INDEX_PREFIX + self._changelog_schema.upper_range_fixed_size(key, to)

    def lower_range_fixed_size(self, key: bytes, from_: int) -> bytes:
        return INDEX_PREFIX + self._changelog_schema.lower_range_fixed_size(key, from_)

    def segment_timestamp(self, key: bytes) -> int:
        return self._changelog_schema.segment_timestamp(key[1:])

    def matcher(self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool) -> Matcher:
        match_changelog_key = self._changelog_schema.matcher(key_from, key_to, from_, to, forward)
        return lambda binary: match_changelog_key(binary[1:]) if binary[:1] == INDEX_PREFIX else STOP

    def segments_to_search(self, from_: int, to: int) -> tuple[int, int]:
        return self._changelog_schema.segments_to_search(from_, to)


def is_base_key(binary: bytes) -> bool:
    """Return whether a key is of a base layout."""
    return binary[:1] == BASE_PREFIX
