"""One partition of a store, seen by readers: a lease gives a view that stands still until it is given back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from penstock.ids import TaskId
from penstock.query.position import Position, PositionBound
from penstock.query.queries import Query
from penstock.query.result import QueryResult


class Lease:
    """A typed store to read from, for one reader at a time; `close` gives it back, twice is fine."""

    store: Any
    position: Position

    def ask(self, query: Query[Any], bound: PositionBound, execution_info: bool) -> QueryResult[Any] | None:
        """What the store's own `query` answers; None where it has none."""
        return None

    def close(self) -> None:
        """Give the view back."""

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StorePartition(ABC):
    """The committed state of one partition of a store."""

    def __init__(self, store_name: str, task_id: TaskId) -> None:
        self.store_name = store_name
        self.task_id = task_id

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.task_id.partition

    @abstractmethod
    def lease(self) -> Lease:
        """A view of what is committed now."""

    def lease_at_once(self) -> Lease | None:
        """The same where it takes no waiting for others; None where it might."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Close what is kept open for readers."""


class LeasedIterator:
    """An iterator that gives its lease back when it is closed or has come to its end."""

    __slots__ = ("_entries", "_lease")

    def __init__(self, entries: Any, lease: Lease) -> None:
        self._entries = entries
        self._lease: Lease | None = lease

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._entries)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the view; calling it twice is fine."""
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                close = getattr(self._entries, "close", None)
                if close is not None:
                    close()
            finally:
                lease.close()

    def __enter__(self) -> LeasedIterator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
