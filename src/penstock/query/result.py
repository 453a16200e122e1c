"""What a query gets back, partition by partition."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from penstock.html import table
from penstock.query.position import Position, PositionBound

R = TypeVar("R")


class FailureReason(enum.Enum):
    """Why a partition did not answer."""

    UNKNOWN_QUERY_TYPE = 0
    """The store does not know this query."""
    NOT_ACTIVE = 1
    """The request required a running active task."""
    NOT_UP_TO_BOUND = 2
    """The store does not reflect as much input as the request asked for; try again later."""
    NOT_PRESENT = 3
    """The partition is not here."""
    DOES_NOT_EXIST = 4
    """There is no such partition."""
    STORE_EXCEPTION = 5
    """The store raised; the message says what."""


@dataclass(frozen=True)
class QueryConfig:
    """What a store of one's own is told besides the query: whether to add lines about how the result came about."""

    collect_execution_info: bool = False

    @property
    def is_collect_execution_info(self) -> bool:
        """The same, by Java's name."""
        return self.collect_execution_info


@dataclass
class QueryResult(Generic[R]):
    """The answer of one partition: a result, or a failure with its reason."""

    _result: Any = None
    _failure_reason: FailureReason | None = None
    _failure_message: str | None = None
    position: Position | None = None
    execution_info: list[str] = field(default_factory=list)

    @classmethod
    def for_result(cls, result: Any) -> QueryResult[R]:
        """A success."""
        return cls(result)

    @classmethod
    def for_failure(cls, reason: FailureReason, message: str) -> QueryResult[R]:
        """A failure."""
        return cls(None, reason, message)

    @classmethod
    def for_unknown_query_type(cls, query: object, store: object) -> QueryResult[R]:
        """The store does not know the query."""
        message = f"This store ({_kind(store)}) doesn't know how to execute the given query ({query})."
        return cls.for_failure(FailureReason.UNKNOWN_QUERY_TYPE, message)

    @classmethod
    def not_up_to_bound(cls, position: Position, bound: PositionBound, partition: int | None) -> QueryResult[R]:
        """The store is behind the bound."""
        message = f"For store partition {partition}, the current position {position} is not yet up to the bound {bound}"
        return cls.for_failure(FailureReason.NOT_UP_TO_BOUND, message)

    @property
    def is_success(self) -> bool:
        """Whether there is a result."""
        return self._failure_reason is None

    @property
    def is_failure(self) -> bool:
        """Whether the partition did not answer."""
        return self._failure_reason is not None

    @property
    def result(self) -> Any:
        """The answer; raises where there is none."""
        if self._failure_reason is not None:
            raise ValueError(
                f"Cannot get result for failed query. Failure is {self._failure_reason.name}: {self._failure_message}"
            )
        return self._result

    @property
    def failure_reason(self) -> FailureReason:
        """Why there is no answer; raises where there is one."""
        if self._failure_reason is None:
            raise ValueError("Cannot get failure reason because this query did not fail.")
        return self._failure_reason

    @property
    def failure_message(self) -> str:
        """What went wrong, in words; raises where nothing did."""
        if self._failure_reason is None:
            raise ValueError("Cannot get failure message because this query did not fail.")
        return self._failure_message or ""

    def add_execution_info(self, message: str) -> None:
        """Add a line about how the result came about."""
        self.execution_info.append(message)


@dataclass
class StateQueryResult(Generic[R]):
    """The answers of all partitions that were asked."""

    partition_results: dict[int, QueryResult[R]] = field(default_factory=dict)
    global_result: QueryResult[R] | None = None

    @property
    def only_partition_result(self) -> QueryResult[R] | None:
        """The one success with something in it, where a key lies in one partition; None where no partition has it."""
        found = [r for r in self.partition_results.values() if r.is_success and r.result is not None]
        if len(found) > 1:
            raise ValueError(f"The query did not return exactly one partition result: {self.partition_results}")
        return found[0] if found else None

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer of each partition."""
        results = {"all": self.global_result} if self.global_result is not None else self.partition_results
        return table(["partition", "result"], [(str(partition), _told(result)) for partition, result in results.items()])

    @property
    def position(self) -> Position:
        """What all answers together reflect."""
        if self.global_result is not None:
            return self.global_result.position or Position()
        position = Position()
        for result in self.partition_results.values():
            position.merge(result.position)
        return position


def _told(result: QueryResult[Any]) -> Any:
    if result.is_failure:
        return f"{result.failure_reason.name}: {result.failure_message}"
    if hasattr(result.result, "__next__"):  # to show its entries would use them up
        return "entries: loop over .result"
    return "nothing" if result.result is None else result.result


def _kind(store: object) -> str:
    return type(store).__name__
