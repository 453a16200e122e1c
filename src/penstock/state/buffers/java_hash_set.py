"""The order in which Java's `HashSet<Bytes>` hands out what was put in.

A commit logs the changed keys of a suppress buffer in that order; the changelog is the same record for record.
"""

from __future__ import annotations

from collections.abc import Iterator

_INITIAL_CAPACITY = 16


class JavaHashSet:
    """A set of byte strings; clearing it keeps the size of its table, as in Java."""

    __slots__ = ("_capacity", "_keys")

    def __init__(self) -> None:
        self._keys: dict[bytes, None] = {}
        self._capacity = _INITIAL_CAPACITY

    def add(self, key: bytes) -> None:
        """Put a key in; a key that is there stays where it is."""
        self._keys[key] = None
        if len(self._keys) * 4 > self._capacity * 3:
            self._capacity *= 2

    def clear(self) -> None:
        """Take everything out."""
        self._keys.clear()

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[bytes]:
        if len(self._keys) < 2:
            return iter(tuple(self._keys))
        # Within a bucket of the table the order is that of insertion, and a stable sort keeps it.
        last = self._capacity - 1
        return iter(sorted(self._keys, key=lambda key: _spread_hash(key) & last))


def _spread_hash(key: bytes) -> int:
    value = 1
    for byte in key:
        value = value * 31 + (byte if byte < 128 else byte - 256) & 0xFFFFFFFF
    return value ^ value >> 16
