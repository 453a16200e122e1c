"""Views of stores without timestamps or headers, for tests that only need the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from penstock.query.position import Position, PositionBound
from penstock.query.queries import Query
from penstock.query.result import QueryConfig, QueryResult
from penstock.record import NO_TIMESTAMP
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.ranges import KeyValueRanges, SessionRanges, WindowRanges
from penstock.state.store import StateStore, StateStoreContext, StoreIterator, ValueAndTimestamp
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.windows import Windowed


class _Face(NamedTuple):
    """Conversions of a store's values: stored to shown, and shown to stored."""

    shown: Callable[[Any], Any]
    kept: Callable[[Any], Any]


class _Values(StoreIterator[tuple[Any, Any]]):
    """The entries of a store with converted values."""

    def __init__(self, inner: StoreIterator[tuple[Any, Any]], shown: Callable[[Any], Any]) -> None:
        self._inner = inner
        self._shown = shown

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self

    def __next__(self) -> tuple[Any, Any]:
        key, value = next(self._inner)
        return key, self._shown(value)

    def has_next(self) -> bool:
        """Return True if another entry follows. False after `close`."""
        return self._inner.has_next()

    def peek_next_key(self) -> Any:
        """Return the key of the next entry without moving. Raises StopIteration after the last."""
        return self._inner.peek_next_key()

    def close(self) -> None:
        self._inner.close()


class _Facade:
    """Forwards calls without values to the store."""

    def __init__(self, inner: Any, face: _Face | None = None) -> None:
        self._inner = inner
        self._face = face or PLAIN

    def _values(self, entries: StoreIterator[tuple[Any, Any]]) -> _Values:
        return _Values(entries, self._show)

    def _show(self, value: Any) -> Any:
        return None if value is None else self._face.shown(value)

    def _keep(self, value: Any) -> Any:
        return None if value is None else self._face.kept(value)

    @property
    def name(self) -> str:
        name: str = self._inner.name
        return name

    @property
    def persistent(self) -> bool:
        """True if the contents survive `close`."""
        return bool(self._inner.persistent)

    @property
    def is_open(self) -> bool:
        """True if the store can be used now."""
        return bool(self._inner.is_open)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._inner.init(context, root)

    def close(self) -> None:
        self._inner.close()

    def query(self, query: Query[Any], position_bound: PositionBound, config: QueryConfig) -> QueryResult[Any]:
        """Forward the query to the store."""
        result: QueryResult[Any] = self._inner.query(query, position_bound, config)
        return result

    def get_position(self) -> Position:
        """Return the store's position."""
        position: Position = self._inner.get_position()
        return position


class KeyValueStoreFacade(_Facade, KeyValueRanges[Any, Any]):
    """A key-value store with converted values. `put` stores no timestamp (-1) and no headers if they are missing."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return self._show(self._inner.get(key))

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key. None deletes it."""
        self._inner.put(key, self._keep(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set the value of a missing key. Returns the previous value."""
        return self._show(self._inner.put_if_absent(key, self._keep(value)))

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Set several values."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Delete a key and return its value."""
        return self._show(self._inner.delete(key))

    def range(self, key_from: Any, key_to: Any, forward: bool = True) -> StoreIterator[tuple[Any, Any]]:
        return self._values(self._inner.range(key_from, key_to, forward))

    def all(self, forward: bool = True) -> StoreIterator[tuple[Any, Any]]:
        return self._values(self._inner.all(forward))

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[Any, Any]]:
        """Return entries whose key bytes start with the serialized prefix."""
        return self._values(self._inner.prefix_scan(prefix, prefix_serializer))

    def approximate_num_entries(self) -> int:
        """Return the approximate number of entries."""
        count: int = self._inner.approximate_num_entries()
        return count


def _shown(method: str) -> Callable[..., StoreIterator[tuple[Any, Any]]]:
    def read(self: Any, *args: Any) -> StoreIterator[tuple[Any, Any]]:
        values: StoreIterator[tuple[Any, Any]] = self._values(getattr(self._inner, method)(*args))
        return values

    read.__name__ = method
    read.__doc__ = f"`{method}` of the store, with values as they are shown."
    return read


class WindowStoreFacade(_Facade, WindowRanges[Any, Any]):
    """A window store with converted values. `put` stores no timestamp (-1) and no headers if they are missing."""

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Set the value of a key's window. None deletes it."""
        self._inner.put(key, self._keep(value), window_start)

    def fetch(self, key: Any, time: int, time_to: int | None = None) -> Any:
        """Return the value of the window that starts at a time, or None. With `time_to` the same as `fetch_range`."""
        if time_to is not None:
            return self.fetch_range(key, time, time_to)
        return self._show(self._inner.fetch(key, time))

    fetch_range = _shown("fetch_range")
    fetch_key_range = _shown("fetch_key_range")
    fetch_all = _shown("fetch_all")


class SessionStoreFacade(_Facade, SessionRanges[Any, Any]):
    """A session store with headers, shown without them."""

    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        """Set the aggregate of a session. None deletes it."""
        self._inner.put(session_key, self._keep(aggregate))

    def remove(self, session_key: Windowed[Any]) -> None:
        self._inner.remove(session_key)

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        """Return the aggregate of exactly this session, or None."""
        return self._show(self._inner.fetch_session(key, session_start, session_end))

    find_sessions = _shown("find_sessions")
    find_sessions_key_range = _shown("find_sessions_key_range")


PLAIN = _Face(lambda stored: stored.value, lambda value: ValueAndTimestamp(value, NO_TIMESTAMP))
"""A timestamped store, shown with plain values."""
PLAIN_OF_HEADERS = _Face(lambda stored: stored.value, lambda value: ValueTimestampHeaders(value, NO_TIMESTAMP))
"""A store with headers, shown with plain values."""
STAMPED_OF_HEADERS = _Face(
    lambda stored: ValueAndTimestamp(stored.value, stored.timestamp),
    lambda stamped: ValueTimestampHeaders(stamped.value, stamped.timestamp),
)
"""A store with headers, shown as a timestamped store."""
AGGREGATE_OF_HEADERS = _Face(lambda stored: stored.aggregation, AggregationWithHeaders)
"""A session store with headers, shown with plain aggregates."""
