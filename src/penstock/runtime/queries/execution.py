"""How a query is run on one partition of a store."""

from __future__ import annotations

import time
from typing import Any

from penstock.query.position import PositionBound
from penstock.query.queries import Query
from penstock.query.result import FailureReason, QueryResult
from penstock.runtime.queries.opening import CustomStore
from penstock.runtime.queries.partition import Lease, LeasedIterator, StorePartition
from penstock.state.iterators import PeekingIterator
from penstock.state.queries import UnknownQueryError, query_handler, store_failure


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
            run = None if isinstance(lease.store, CustomStore) else query_handler(lease.store, query)
            if run is None:
                result = lease.ask(query, bound, execution_info) or QueryResult.for_unknown_query_type(query, lease.store)
            else:
                answer = run(lease.store)
                kept = isinstance(answer, PeekingIterator)
                result = QueryResult.for_result(_holding(answer, lease) if kept else answer)
    except UnknownQueryError as exc:
        result = QueryResult.for_failure(FailureReason.UNKNOWN_QUERY_TYPE, str(exc))
    except Exception as exc:  # noqa: BLE001 - every failure of a store is told as one
        result = store_failure(lease.store, query, exc)
    finally:
        if not kept:
            lease.close()
    if execution_info:
        took = time.perf_counter_ns() - started
        result.add_execution_info(f"Handled in {type(lease.store).__name__} of task {partition.task_id} in {took}ns")
    result.position = position.copy()
    return result


def _holding(entries: Any, lease: Lease) -> Any:
    """The same iterator, which gives the lease back with its end."""
    leased = LeasedIterator(entries, lease)
    return PeekingIterator(leased, entries._store_name, lambda _: leased.close())
