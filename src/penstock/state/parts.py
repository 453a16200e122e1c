"""Reading an in-memory store in parts, for readers beside its task: the turn is held for one part at a time.

A part is what the store holds between two turns, so it is of one commit. The next part goes on behind the last key and is of
that commit or a later one: what was there when the first part was read and is not deleted since is found, with the value it
has then; what was added since may be found. Kafka Streams' iterators over memory promise no more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.state.read_order import ReadOrder

THE_ONLY = 0
"""The segment of stores that have none."""


class Part(NamedTuple):
    """Entries; whether there are no more; and what has to be done before the next, without holding the turn."""

    entries: list[Any]
    ended: bool
    to_do: Callable[[], None] | None = None


class PartReader(ABC):
    """One range over a store, read from where the last part ended."""

    @abstractmethod
    def read(self, budget: int) -> Part:
        """The next part: looks at about so many entries."""


class Orders(dict[int, ReadOrder]):
    """The orders of a store's keys that readers have had made: one for each of its segments, if it has any.

    A dict itself, so that a store whose every put asks whether there are any does not notice.
    """

    def of(self, segment: int, keys: Callable[[], list[bytes]]) -> ReadOrder:
        """The order of a segment; a new one, which has to be built, where there is none that is of use."""
        order = self.get(segment)
        if order is None or order.is_outgrown:
            order = self[segment] = ReadOrder(keys())
        return order

    def added(self, segment: int, key: bytes) -> None:
        """A key has come."""
        order = self.get(segment)
        if order is not None:
            order.add(key)

    def removed(self, segment: int, key: bytes) -> None:
        """A key has gone."""
        order = self.get(segment)
        if order is not None:
            order.remove(key)

    def forget(self, segment: int) -> None:
        """A segment has gone."""
        self.pop(segment, None)


def upper_bound(key_to: bytes | None, inclusive: bool = True) -> bytes | None:
    """The lowest key that is no more part of a range."""
    return key_to + b"\0" if key_to is not None and inclusive else key_to
