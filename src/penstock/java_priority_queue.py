"""A binary heap with the tie-breaking of java.util.PriorityQueue.

Written by hand because `heapq` breaks ties in another way. Two results of Kafka Streams show how ties are broken: which input
partition goes first at equal timestamps, and the order in which logical nodes become nodes of the topology.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_HIGHEST = 2**63 - 1


class JavaPriorityQueue(Generic[T]):
    """Entries by rank, the lowest first; `lowest` is the rank of the head (the highest long where there is none).

    >>> queue = JavaPriorityQueue()
    >>> for rank, name in [(2, "b"), (1, "a"), (3, "c")]:
    ...     queue.offer(rank, name)
    >>> queue.lowest, queue.poll(), queue.poll(), len(queue)
    (1, 'a', 'b', 1)
    """

    __slots__ = ("_entries", "_ranks", "lowest")

    def __init__(self) -> None:
        self._ranks: list[int] = []
        self._entries: list[T] = []
        self.lowest = _HIGHEST

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[T]:
        """All entries, in the order of the heap."""
        return iter(self._entries)

    def offer(self, rank: int, entry: T) -> None:
        """Add an entry."""
        ranks, entries = self._ranks, self._entries
        ranks.append(rank)
        entries.append(entry)
        position = len(ranks) - 1
        while position > 0:
            parent = (position - 1) >> 1
            if rank >= ranks[parent]:
                break
            ranks[position], entries[position] = ranks[parent], entries[parent]
            position = parent
        ranks[position], entries[position] = rank, entry
        self.lowest = ranks[0]

    def poll(self) -> T:
        """Take the entry with the lowest rank; IndexError where there is none."""
        ranks, entries = self._ranks, self._entries
        rank, entry = ranks.pop(), entries.pop()
        if not ranks:
            self.lowest = _HIGHEST
            return entry
        head = entries[0]
        size = len(ranks)
        position, half = 0, size >> 1
        while position < half:
            child = 2 * position + 1
            right = child + 1
            if right < size and ranks[child] > ranks[right]:
                child = right
            if rank <= ranks[child]:
                break
            ranks[position], entries[position] = ranks[child], entries[child]
            position = child
        ranks[position], entries[position] = rank, entry
        self.lowest = ranks[0]
        return head

    @property
    def only(self) -> T | None:
        """The entry, if there is exactly one."""
        return self._entries[0] if len(self._entries) == 1 else None

    def rerank_only(self, rank: int) -> None:
        """Change the rank of the only entry."""
        self._ranks[0] = self.lowest = rank

    def copy(self) -> JavaPriorityQueue[T]:
        """Return a queue with the same entries in the same order."""
        other = JavaPriorityQueue[T]()
        other._ranks, other._entries, other.lowest = self._ranks.copy(), self._entries.copy(), self.lowest
        return other

    def clear(self) -> None:
        """Take everything out."""
        self._ranks.clear()
        self._entries.clear()
        self.lowest = _HIGHEST
