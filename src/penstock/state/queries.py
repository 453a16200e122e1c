"""How a typed store answers the queries of `penstock.query`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from penstock.errors import InvalidStateStoreError
from penstock.query.custom_queries import decode_query, encode_result
from penstock.query.position import Position, PositionBound
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
from penstock.query.result import FailureReason, QueryConfig, QueryResult
from penstock.state.capabilities import innermost, layers
from penstock.state.iterators import PeekingIterator
from penstock.state.store import StateStore
from penstock.state.value_conversion import converter

_MIN, _MAX = -(2**63), 2**63 - 1


class UnknownQueryError(Exception):
    """The store knows the type of the query, but not this form of it; the message says why."""


def query_handler(store: Any, query: Query[Any]) -> Callable[[Any], Any] | None:
    """The function that reads the answer from a typed store; None if the store does not know the type of the query.

    The function raises `UnknownQueryError` if the store does not know this form of the query.
    """
    if store.query_kind is None:
        return None
    kind, values = store.query_kind
    run = _HANDLERS.get((kind, type(query)))
    return None if run is None else lambda typed: run(typed, query, values)


def answer_query(store: Any, query: Query[Any], bound: PositionBound, config: QueryConfig) -> QueryResult[Any]:
    """Answer `query()` of an open typed store with what its task has put so far.

    As in Kafka Streams, only a query for a key reads the record cache; all others see what the cache has written.
    """
    started = time.perf_counter_ns()
    _refuse_unsupported(store, query)
    run = query_handler(store, query)
    result: QueryResult[Any]
    if run is None:
        result = store.wrapped.query(query, bound, config)
    elif (partition := store.partition) is None or not bound.permits(store.get_position(), partition):
        result = QueryResult.not_up_to_bound(store.get_position(), bound, partition)
    else:
        reads_cache = getattr(query, "is_skip_cache", True) is False
        try:
            result = QueryResult.for_result(run(store if reads_cache else store.past_cache()))
        except UnknownQueryError as exc:
            result = QueryResult.for_failure(FailureReason.UNKNOWN_QUERY_TYPE, str(exc))
        except Exception as exc:  # noqa: BLE001 - the result tells of every failure of the store
            result = store_failure(store, query, exc)
    if config.collect_execution_info:
        result.add_execution_info(f"Handled in {type(store).__name__} in {time.perf_counter_ns() - started}ns")
    if result.position is None:
        result.position = store.get_position()
    return result


def answer_custom_query(store: Any, query: Any, bound: str, collect_execution_info: bool) -> tuple[Any, ...] | None:
    """Return the answer of a custom store as plain data; None if no class of the user's implements `query`."""
    answers = getattr(store, "query", None)
    engine = innermost(store) if isinstance(store, StateStore) else store
    if answers is None or getattr(type(engine), "query", None) is StateStore.query:
        return None
    result = answers(decode_query(query), PositionBound.at(Position.from_json(bound)), QueryConfig(collect_execution_info))
    if not isinstance(result, QueryResult):
        raise InvalidStateStoreError(
            f"{type(store).__name__}.query() returned {result!r}: it must return QueryResult.for_result(…) or for_failure(…)"
        )
    return encode_result(result)


def store_failure(store: Any, query: Query[Any], exc: Exception) -> QueryResult[Any]:
    """The result of a query whose store raised `exc`."""
    text = f"{type(store).__name__} failed to handle query {query}: {exc}\n{traceback.format_exc()}"
    return QueryResult.for_failure(FailureReason.STORE_EXCEPTION, text)


def _refuse_unsupported(store: Any, query: Query[Any]) -> None:
    if store.query_kind[0] != "versioned":
        return
    if isinstance(query, (KeyQuery, RangeQuery)):
        raise NotImplementedError(f"Versioned stores do not support {type(query).__name__} queries at this time.")
    if isinstance(query, MultiVersionedKeyQuery):
        low, high = _time_range(query)
        if low > high:
            raise ValueError(
                f"the from_time of a MultiVersionedKeyQuery is after its to_time: {low} > {high}. Give a from_time up to to_time"
            )


def _key(store: Any, query: KeyQuery[Any, Any], values: str) -> Any:
    return converter(values, "plain", "key_value")(_get(store, query.key))


def _timestamped_key(store: Any, query: TimestampedKeyQuery[Any, Any], values: str) -> Any:
    _needs_timestamps(query, values)
    return converter(values, "timestamped", "key_value")(_get(store, query.key))


def _get(store: Any, key: Any) -> Any:
    # Past the measuring `get` of the instance, which a view of the store shares with it.
    return type(store).get(store, key)


def _range(store: Any, query: RangeQuery[Any, Any], values: str) -> Any:
    return _converted(_entries(store, query), converter(values, "plain", "key_value"), store.name)


def _timestamped_range(store: Any, query: TimestampedRangeQuery[Any, Any], values: str) -> Any:
    _needs_timestamps(query, values)
    return _converted(_entries(store, query), converter(values, "timestamped", "key_value"), store.name)


def _entries(store: Any, query: Any) -> Any:
    return store.range(query.lower_bound, query.upper_bound, query.result_order is not ResultOrder.DESCENDING)


def _window_key(store: Any, query: WindowKeyQuery[Any, Any], values: str) -> Any:
    found = store.fetch_range(query.key, time_ms(query.time_from, "time_from"), time_ms(query.time_to, "time_to"))
    return _without_headers(store, found, values)


def _window_range(store: Any, query: WindowRangeQuery[Any, Any], values: str) -> Any:
    if query.time_from is None or query.time_to is None:
        raise UnknownQueryError(
            f"This store ({type(store).__name__}) doesn't know how to execute the given query ({query}) because window stores "
            "only support WindowRangeQuery.with_window_start_range."
        )
    found = store.fetch_all(time_ms(query.time_from, "time_from"), time_ms(query.time_to, "time_to"))
    return _without_headers(store, found, values)


def _without_headers(store: Any, found: Any, values: str) -> Any:
    """Windows of a store with headers as `ValueAndTimestamp`, or as plain values if a layer drops the timestamps."""
    if values != "headers":
        return found
    shown = "timestamped" if all(layer.keeps_timestamps for layer in layers(store)) else "plain"
    return _converted(found, converter(values, shown, "window"), store.name)


def _sessions(store: Any, query: WindowRangeQuery[Any, Any], values: str) -> Any:
    if query.key is None:
        raise UnknownQueryError(
            f"This store ({type(store).__name__}) doesn't know how to execute the given query ({query}) because session stores "
            "only support WindowRangeQuery.with_key."
        )
    found = store.fetch(query.key)
    return found if values == "plain" else _converted(found, converter(values, "plain", "session"), store.name)


def _versioned(store: Any, query: VersionedKeyQuery[Any, Any], values: str) -> Any:
    return store.get(query.key, None if query.as_of_timestamp is None else time_ms(query.as_of_timestamp, "as_of"))


def _versions(store: Any, query: MultiVersionedKeyQuery[Any, Any], values: str) -> Any:
    ascending = query.result_order is ResultOrder.ASCENDING
    return VersionedRecordIterator(list(store.get_versions(query.key, *_time_range(query), ascending)))


def _time_range(query: MultiVersionedKeyQuery[Any, Any]) -> tuple[int, int]:
    low = _MIN if query.from_timestamp is None else time_ms(query.from_timestamp, "from_time")
    high = _MAX if query.to_timestamp is None else time_ms(query.to_timestamp, "to_time")
    return low, high


class VersionedRecordIterator:
    """The versions of a key; also a context manager."""

    def __init__(self, records: list[Any]) -> None:
        records.reverse()
        self._left = records

    def __iter__(self) -> VersionedRecordIterator:
        return self

    def __next__(self) -> Any:
        if not self._left:
            raise StopIteration
        return self._left.pop()

    def has_next(self) -> bool:
        """Whether another version follows; False after `close`."""
        return bool(self._left)

    def close(self) -> None:
        """Forget the versions that were not read; a second call does nothing."""
        self._left = []

    def __enter__(self) -> VersionedRecordIterator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _needs_timestamps(query: Query[Any], values: str) -> None:
    if values == "plain":
        raise UnknownQueryError(f"the store has no timestamps: {type(query).__name__} needs a timestamped store")


def _converted(entries: Any, convert: Callable[[Any], Any], name: str) -> Any:
    return PeekingIterator(((key, convert(value)) for key, value in entries), name, lambda _: entries.close())


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
