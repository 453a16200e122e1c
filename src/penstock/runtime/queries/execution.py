"""How a query is run on one partition of a store."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from penstock.query.position import PositionBound
from penstock.query.queries import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    ResultOrder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
    time_ms,
)
from penstock.query.result import FailureReason, QueryResult
from penstock.runtime.queries.conversion import converter
from penstock.runtime.queries.opening import OwnStore, kind_of
from penstock.runtime.queries.partition import Lease, LeasedIterator, StorePartition
from penstock.state.iterators import PeekingIterator

_MIN, _MAX = -(2**63), 2**63 - 1


class _NotKnownError(Exception):
    """The store knows this kind of query, but not this one; the message says more."""


def run_query(
    partition: StorePartition, query: Query[Any], bound: PositionBound, execution_info: bool = False
) -> QueryResult[Any]:
    """Run a query on what is committed in one partition now."""
    started = time.perf_counter_ns()
    try:
        lease = partition.lease()
    except Exception as exc:  # noqa: BLE001 - every failure of a store is told as one
        return QueryResult.for_failure(FailureReason.STORE_EXCEPTION, f"store {partition.store_name} cannot be read: {exc}")
    position = lease.position
    result: QueryResult[Any]
    kept = False
    try:
        if not bound.permits(position, partition.partition):
            result = QueryResult.not_up_to_bound(position, bound, partition.partition)
        else:
            run = None if isinstance(lease.store, OwnStore) else _handler(lease.store, query)
            if run is None:
                result = lease.ask(query, bound, execution_info) or QueryResult.for_unknown_query_type(query, lease.store)
            else:
                answer = run(lease.store)
                kept = isinstance(answer, PeekingIterator)
                result = QueryResult.for_result(_holding(answer, lease) if kept else answer)
    except _NotKnownError as exc:
        result = QueryResult.for_failure(FailureReason.UNKNOWN_QUERY_TYPE, str(exc))
    except Exception as exc:  # noqa: BLE001 - every failure of a store is told as one
        text = f"{type(lease.store).__name__} failed to handle query {query}: {exc}\n{traceback.format_exc()}"
        result = QueryResult.for_failure(FailureReason.STORE_EXCEPTION, text)
    finally:
        if not kept:
            lease.close()
    if execution_info:
        took = time.perf_counter_ns() - started
        result.add_execution_info(f"Handled in {type(lease.store).__name__} of task {partition.task_id} in {took}ns")
    result.position = position.copy()
    return result


def _handler(store: Any, query: Query[Any]) -> Callable[[Any], Any] | None:
    kind, values = kind_of(store)
    run = _HANDLERS.get((kind, type(query)))
    return None if run is None else lambda typed: run(typed, query, values)


def _key(store: Any, query: KeyQuery[Any, Any], values: str) -> Any:
    return converter(values, "plain", "key_value")(store.get(query.key))


def _timestamped_key(store: Any, query: TimestampedKeyQuery[Any, Any], values: str) -> Any:
    _needs_timestamps(query, values)
    return converter(values, "timestamped", "key_value")(store.get(query.key))


def _range(store: Any, query: RangeQuery[Any, Any], values: str) -> Any:
    return _converted(_entries(store, query), converter(values, "plain", "key_value"), store.name)


def _timestamped_range(store: Any, query: TimestampedRangeQuery[Any, Any], values: str) -> Any:
    _needs_timestamps(query, values)
    return _converted(_entries(store, query), converter(values, "timestamped", "key_value"), store.name)


def _entries(store: Any, query: Any) -> Any:
    read = store.reverse_range if query.result_order is ResultOrder.DESCENDING else store.range
    return read(query.lower_bound, query.upper_bound)


def _window_key(store: Any, query: WindowKeyQuery[Any, Any], values: str) -> Any:
    return store.fetch_range(query.key, time_ms(query.time_from, "time_from"), time_ms(query.time_to, "time_to"))


def _window_range(store: Any, query: WindowRangeQuery[Any, Any], values: str) -> Any:
    if query.time_from is None or query.time_to is None:
        raise _NotKnownError(
            f"This store ({type(store).__name__}) doesn't know how to execute the given query ({query}) because window stores "
            "only support WindowRangeQuery.with_window_start_range."
        )
    return store.fetch_all(time_ms(query.time_from, "time_from"), time_ms(query.time_to, "time_to"))


def _sessions(store: Any, query: WindowRangeQuery[Any, Any], values: str) -> Any:
    if query.key is None:
        raise _NotKnownError(
            f"This store ({type(store).__name__}) doesn't know how to execute the given query ({query}) because session stores "
            "only support WindowRangeQuery.with_key."
        )
    return store.fetch(query.key)


def _versioned(store: Any, query: VersionedKeyQuery[Any, Any], values: str) -> Any:
    return store.get(query.key, None if query.as_of_timestamp is None else time_ms(query.as_of_timestamp, "as_of"))


def _versions(store: Any, query: MultiVersionedKeyQuery[Any, Any], values: str) -> Any:
    low = _MIN if query.from_timestamp is None else time_ms(query.from_timestamp, "from_time")
    high = _MAX if query.to_timestamp is None else time_ms(query.to_timestamp, "to_time")
    found = list(store.get_versions(query.key, low, high, query.result_order is ResultOrder.ASCENDING))
    return VersionedRecordIterator(found)


class VersionedRecordIterator:
    """The versions of a key; also a context manager."""

    def __init__(self, records: list[Any]) -> None:
        self._records = iter(records)

    def __iter__(self) -> VersionedRecordIterator:
        return self

    def __next__(self) -> Any:
        return next(self._records)

    def close(self) -> None:
        """Nothing is held."""
        self._records = iter(())

    def __enter__(self) -> VersionedRecordIterator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _needs_timestamps(query: Query[Any], values: str) -> None:
    if values == "plain":
        raise _NotKnownError(f"the store has no timestamps: {type(query).__name__} needs a timestamped store")


def _converted(entries: Any, convert: Callable[[Any], Any], name: str) -> Any:
    return PeekingIterator(((key, convert(value)) for key, value in entries), name, lambda _: entries.close())


def _holding(entries: Any, lease: Lease) -> Any:
    """The same iterator, which gives the lease back with its end."""
    leased = LeasedIterator(entries, lease)
    return PeekingIterator(leased, entries._store_name, lambda _: leased.close())


_HANDLERS: dict[tuple[str, type], Callable[[Any, Any, str], Any]] = {
    ("key_value", KeyQuery): _key,
    ("key_value", TimestampedKeyQuery): _timestamped_key,
    ("key_value", RangeQuery): _range,
    ("key_value", TimestampedRangeQuery): _timestamped_range,
    ("window", WindowKeyQuery): _window_key,
    ("window", WindowRangeQuery): _window_range,
    ("session", WindowRangeQuery): _sessions,
    ("versioned", VersionedKeyQuery): _versioned,
    ("versioned", MultiVersionedKeyQuery): _versions,
}
