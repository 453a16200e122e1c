"""A query with all that is to be said about where and how it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from penstock.query.position import PositionBound
from penstock.query.queries import Query

R = TypeVar("R")


@dataclass(frozen=True)
class InStore:
    """The first half of a request: the store."""

    store_name: str

    def with_query(self, query: Query[R]) -> StateQueryRequest[R]:
        """The whole request, on all local partitions."""
        if not isinstance(query, Query):
            raise TypeError(f"with_query() takes a query such as KeyQuery(key), not {query!r}")
        return StateQueryRequest(self.store_name, query)


@dataclass(frozen=True)
class StateQueryRequest(Generic[R]):
    """What `KafkaStreams.query` is given.

    >>> from penstock.query.queries import KeyQuery
    >>> request = StateQueryRequest.in_store("counts").with_query(KeyQuery("alice")).with_partitions({0}).require_active()
    >>> request.partitions, request.is_require_active
    (frozenset({0}), True)
    """

    store_name: str
    query: Query[R]
    position_bound: PositionBound = field(default_factory=PositionBound.unbounded)
    partitions: frozenset[int] | None = None
    execution_info_enabled: bool = False
    is_require_active: bool = False

    @staticmethod
    def in_store(name: str) -> InStore:
        """The store to ask; go on with `with_query`."""
        return InStore(name)

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest[R]:
        """Answer only from partitions that reflect at least this much input."""
        return replace(self, position_bound=bound)

    def with_all_partitions(self) -> StateQueryRequest[R]:
        """All partitions that are local, which is the default."""
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest[R]:
        """These partitions; one that is not local gets the failure NOT_PRESENT."""
        return replace(self, partitions=frozenset(partitions))

    def enable_execution_info(self) -> StateQueryRequest[R]:
        """Tell with each result how it came about."""
        return replace(self, execution_info_enabled=True)

    def require_active(self) -> StateQueryRequest[R]:
        """Only running active tasks may answer; the position bound does not count then."""
        return replace(self, is_require_active=True)

    @property
    def is_all_partitions(self) -> bool:
        """Whether all local partitions are asked."""
        return self.partitions is None

    def asks(self, partition: Any) -> bool:
        """Whether a partition is asked."""
        return self.partitions is None or partition in self.partitions
