"""What was put since the last commit, over an engine that only changes at commits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from penstock.state.iterators import ByteEntry
from penstock.state.sorted_keys import SortedKeys

_NONE: tuple[tuple[bytes, bytes | None], ...] = ()


class Overlay:
    """Uncommitted puts and deletes (None) by key, and deleted ranges of what lies below."""

    __slots__ = ("_by_stem", "_ending", "_sorted", "deleted_ranges", "entries")

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes | None] = {}
        self.deleted_ranges: list[tuple[bytes, bytes]] = []
        self._sorted: SortedKeys | None = None
        self._by_stem: dict[bytes, list[bytes]] | None = None
        self._ending = 0

    def __bool__(self) -> bool:
        return bool(self.entries or self.deleted_ranges)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set or (None) delete a key."""
        entries, by_stem = self.entries, self._by_stem
        if key not in entries:
            if self._sorted is not None:
                self._sorted.add(key)
            if by_stem is not None:
                self._add_to_stem(by_stem, key)
        entries[key] = value

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set or (None) delete many keys."""
        self.entries.update(entries)
        self._sorted = self._by_stem = None

    def delete_range(self, key_from: bytes, key_to: bytes) -> None:
        """Delete all keys from one (included) to another (not included), here and below."""
        for key in self._keys(key_from, key_to, to_inclusive=False):
            self.entries[key] = None
        self.deleted_ranges.append((key_from, key_to))

    def hides(self, key: bytes) -> bool:
        """Whether a deleted range covers a key of the engine below."""
        return any(key_from <= key < key_to for key_from, key_to in self.deleted_ranges)

    def visible(self, below: Iterable[ByteEntry]) -> Iterable[ByteEntry]:
        """The engine's entries without those of deleted ranges."""
        if not self.deleted_ranges:
            return below
        return _outside(below, list(self.deleted_ranges))

    def scan(self, key_from: bytes | None, key_to: bytes | None, to_inclusive: bool) -> list[tuple[bytes, bytes | None]]:
        """The entries of a range as they are now, deletes included."""
        entries = self.entries
        return [(key, entries[key]) for key in self._keys(key_from, key_to, to_inclusive)]

    def scan_stem(self, stem: bytes, first: bytes, last: bytes) -> Sequence[tuple[bytes, bytes | None]]:
        """Ending and value, deletes included, of the keys that are `stem` and an ending between two others of the same length.

        Single windows of a key are asked for so: to sort all keys after every put would cost more than all the rest.
        """
        entries, by_stem = self.entries, self._by_stem
        if by_stem is None or self._ending != len(first):
            by_stem, self._by_stem, self._ending = {}, None, len(first)
            for key in entries:
                self._add_to_stem(by_stem, key)
            self._by_stem = by_stem
        endings = by_stem.get(stem)
        if endings is None:
            return _NONE
        return [(ending, entries[stem + ending]) for ending in endings[bisect_left(endings, first) : bisect_right(endings, last)]]

    def _add_to_stem(self, by_stem: dict[bytes, list[bytes]], key: bytes) -> None:
        stem, ending = key[: -self._ending], key[-self._ending :]
        endings = by_stem.get(stem)
        if endings is None:
            by_stem[stem] = [ending]
        else:
            insort(endings, ending)

    def clear(self) -> None:
        """Forget everything, after it was written or to discard it."""
        self.entries.clear()
        self.deleted_ranges.clear()
        self._sorted = self._by_stem = None

    def _keys(self, key_from: bytes | None, key_to: bytes | None, to_inclusive: bool) -> list[bytes]:
        if not self.entries:
            return []
        if self._sorted is None:
            self._sorted = SortedKeys(self.entries)
        return self._sorted.range(key_from, key_to, to_inclusive)


def _outside(below: Iterable[ByteEntry], ranges: list[tuple[bytes, bytes]]) -> Iterator[ByteEntry]:
    for entry in below:
        key = entry[0]
        if not any(key_from <= key < key_to for key_from, key_to in ranges):
            yield entry
