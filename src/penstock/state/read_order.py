"""The order of an in-memory store's keys for readers beside its task, made without holding the task up.

A task that asks for ranges itself keeps its keys in order (`sorted_keys.py`); most do not, and a reader's first range would
have them sorted between two turns: a second for a million keys in which no record is processed. So what is done between turns
is a copy of the list of keys; it is put in order meanwhile, in pieces so small that the task's thread is not held up, and what
the task adds from the copy on is looked at beside it. An order from which too many keys differ by now is made anew by the
next reader.
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_left, bisect_right
from itertools import chain, islice

_CHUNK = 1024
_FEW_CHANGES = 4096


class ReadOrder:
    """Keys in order, as of now with what was told since. All but `build` is called between turns.

    >>> order = ReadOrder([b"b", b"a"])
    >>> order.build()
    >>> order.add(b"aa")
    >>> order.keys(None, None, 2)
    ([b'a', b'aa', b'b'], False)
    """

    __slots__ = ("_added", "_building", "_chunks", "_copied", "_lasts", "_removed", "_size", "is_awaited", "is_outgrown")

    def __init__(self, keys: list[bytes]) -> None:
        self._copied: list[bytes] | None = keys
        self._size = len(keys)
        self._chunks: list[list[bytes]] = []
        self._lasts: list[bytes] = []
        self._added: set[bytes] = set()
        self._removed = 0
        self._building = threading.Lock()
        self.is_awaited = True
        """Somebody has had it made and not read from it yet: it is kept up to date until then."""
        self.is_outgrown = False
        """Too much has changed: it is of no more use."""

    @property
    def is_built(self) -> bool:
        """Whether it can be read from."""
        return self._copied is None

    def add(self, key: bytes) -> None:
        """A key that was not there before."""
        if not self.is_outgrown:
            self._added.add(key)
            self._check_size()

    def remove(self, key: bytes) -> None:
        """A key that was there before. Readers find no value for it and pass it over."""
        if not self.is_outgrown:
            if key in self._added:
                self._added.discard(key)
            else:
                self._removed += 1
                self._check_size()

    def build(self) -> None:
        """Put the keys in order; called without holding anybody up, by as many readers as want to."""
        with self._building:
            copied = self._copied
            if copied is None:
                return
            chunks = [chunk for chunk in _dealt(copied) if chunk]
            for chunk in chunks:
                chunk.sort()
            self._chunks, self._lasts = chunks, [chunk[-1] for chunk in chunks]
            self._copied = None

    def keys(self, low: bytes | None, high: bytes | None, limit: int, forward: bool = True) -> tuple[list[bytes], bool]:
        """About so many keys from `low` on, or below `high` where it goes backwards, and whether these are the last.

        `high` itself is not part of it. There are more than `limit` by those that were added since; some may be gone.
        """
        self.is_awaited = False
        known = self._upwards(low, high, limit) if forward else self._downwards(low, high, limit)
        ended = len(known) < limit
        if not ended:
            low, high = (low, known[-1] + b"\0") if forward else (known[-1], high)
        added = [k for k in self._added if (low is None or low <= k) and (high is None or k < high)]
        if added:
            known = sorted({*known, *added}, reverse=not forward)  # one that went and came again is in both
        return known, ended

    def _upwards(self, low: bytes | None, high: bytes | None, limit: int) -> list[bytes]:
        first = 0 if low is None else bisect_left(self._lasts, low)
        if first == len(self._chunks):
            return []
        start = 0 if low is None else bisect_left(self._chunks[first], low)
        following = chain(self._chunks[first][start : start + limit], chain.from_iterable(islice(self._chunks, first + 1, None)))
        found = list(islice(following, limit))
        if high is not None and found and found[-1] >= high:
            del found[bisect_left(found, high) :]
        return found

    def _downwards(self, low: bytes | None, high: bytes | None, limit: int) -> list[bytes]:
        found: list[bytes] = []
        at = len(self._chunks) - 1 if high is None else min(bisect_left(self._lasts, high), len(self._chunks) - 1)
        while at >= 0 and len(found) < limit:
            chunk = self._chunks[at]
            end = len(chunk) if high is None else bisect_left(chunk, high)
            found += chunk[max(0, end - limit + len(found)) : end][::-1]
            if low is not None and chunk[0] < low:
                break
            at -= 1
        if low is not None and found and found[-1] < low:
            found = [key for key in found if key >= low]
        return found

    def _check_size(self) -> None:
        if not self.is_awaited and len(self._added) + self._removed > max(_FEW_CHANGES, self._size // 8):
            self.is_outgrown = True
            self._chunks, self._lasts, self._added = [], [], set()


def _dealt(keys: list[bytes]) -> list[list[bytes]]:
    """The keys in lists of about a thousand, each with lower keys than the next.

    One sort of a million keys would keep all other threads of the process waiting: Python does not interrupt it.
    """
    count = len(keys) // _CHUNK
    if not count:
        return [list(keys)]
    # Drawn at random, so that no order in which keys come makes the lists uneven.
    bounds = sorted(random.sample(keys, count * 4))[::4]
    lists: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
    for key in keys:
        lists[bisect_right(bounds, key)].append(key)
    return lists
