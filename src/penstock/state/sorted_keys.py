"""Keys in order, sorted only when someone asks for a range.

Most stores are only read and written by key, where a dict is all that is needed; a sorted structure that is kept up to
date on every put would cost each of them several microseconds a record. So the owner of the dict makes a `SortedKeys`
at its first range and tells it of added and removed keys from then on; they are worked in at the next range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

_CHUNK = 1024


class SortedKeys:
    """A set of byte strings that gives ranges in order.

    Keys lie in chunks of about a thousand: an insert moves at most one chunk, so a store with millions of keys that is
    written and ranged in turn stays fast.

    >>> keys = SortedKeys([b"b", b"a"])
    >>> keys.add(b"c")
    >>> keys.range(b"b", None)
    [b'b', b'c']
    """

    __slots__ = ("_added", "_chunks", "_lasts", "_removed", "_size")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._added: set[bytes] = set()
        self._removed: set[bytes] = set()
        self._rebuild(sorted(keys))

    def add(self, key: bytes) -> None:
        """A key that was not there before."""
        if key in self._removed:
            self._removed.remove(key)
        else:
            self._added.add(key)

    def remove(self, key: bytes) -> None:
        """A key that was there before."""
        if key in self._added:
            self._added.remove(key)
        else:
            self._removed.add(key)

    def range(self, key_from: bytes | None, key_to: bytes | None, to_inclusive: bool = True) -> list[bytes]:
        """The keys between two bounds in ascending order, as they are now; None leaves an end open."""
        if self._added or self._removed:
            self._merge_changes()
        chunks = self._chunks
        if not chunks:
            return []
        first, start = 0, 0
        if key_from is not None:
            first = bisect_left(self._lasts, key_from)
            if first == len(chunks):
                return []
            start = bisect_left(chunks[first], key_from)
        last, end = len(chunks) - 1, None
        if key_to is not None:
            # The chunk that holds the bound, or the last one where all keys are below it.
            last = min(bisect_left(self._lasts, key_to), last)
            end = bisect_right(chunks[last], key_to) if to_inclusive else bisect_left(chunks[last], key_to)
        if first > last:
            return []
        if first == last:
            return chunks[first][start:end]
        found = chunks[first][start:]
        for chunk in chunks[first + 1 : last]:
            found += chunk
        found += chunks[last][:end]
        return found

    def _rebuild(self, keys: list[bytes]) -> None:
        self._chunks = [keys[at : at + _CHUNK] for at in range(0, len(keys), _CHUNK)]
        self._lasts = [chunk[-1] for chunk in self._chunks]
        self._size = len(keys)

    def _merge_changes(self) -> None:
        # Sorting again beats single steps once a fair part of the keys changed: timsort merges sorted runs in one pass.
        if (len(self._added) + len(self._removed)) * 16 > self._size:
            removed = self._removed
            keys = [key for chunk in self._chunks for key in chunk if key not in removed]
            keys.extend(self._added)
            keys.sort()
            self._rebuild(keys)
        else:
            for key in self._removed:
                self._drop(key)
            for key in self._added:
                self._insert(key)
        self._added.clear()
        self._removed.clear()

    def _insert(self, key: bytes) -> None:
        self._size += 1
        if not self._chunks:
            self._chunks.append([key])
            self._lasts.append(key)
            return
        at = bisect_left(self._lasts, key)
        if at == len(self._chunks):
            at -= 1
            self._chunks[at].append(key)
            self._lasts[at] = key
        else:
            insort(self._chunks[at], key)
        chunk = self._chunks[at]
        if len(chunk) > 2 * _CHUNK:
            half = len(chunk) // 2
            self._chunks[at : at + 1] = [chunk[:half], chunk[half:]]
            self._lasts[at : at + 1] = [chunk[half - 1], chunk[-1]]

    def _drop(self, key: bytes) -> None:
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        self._size -= 1
        if not chunk:
            del self._chunks[at]
            del self._lasts[at]
        else:
            self._lasts[at] = chunk[-1]
