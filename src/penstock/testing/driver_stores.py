"""The stores of a topology under test."""

from __future__ import annotations

import logging
from typing import Any, TypeVar, overload

from penstock.dsl.options import Materialized
from penstock.java_names import JavaNames
from penstock.record import RecordContext
from penstock.runtime.global_state import GlobalStateUpdateTask
from penstock.runtime.task import StreamTask
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.store import (
    KeyValueStore,
    SessionStore,
    StateStore,
    ValueAndTimestamp,
    VersionedKeyValueStore,
    WindowStore,
)
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.testing.store_facades import (
    AGGREGATE_OF_HEADERS,
    PLAIN_OF_HEADERS,
    STAMPED_OF_HEADERS,
    KeyValueStoreFacade,
    SessionStoreFacade,
    WindowStoreFacade,
)

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger(__name__)


class DriverStores(JavaNames):
    """The test driver's getters of stores. Each returns None if there is no such store.

    A store is given by name, or by its `Materialized`, which types its keys and values.
    """

    _task: StreamTask | None
    _global_task: GlobalStateUpdateTask | None
    _store_names: tuple[str, ...]

    def get_all_state_stores(self) -> dict[str, StateStore | None]:
        """Return all stores of the topology by name, including global ones. None for a store without a connected processor."""
        return {name: self._store(name) for name in self._store_names}

    def get_state_store(self, name: str) -> Any:
        """Return a user's custom store. Built-in kinds have their own getters."""
        store = self._store(name)
        for kind, getter in _GETTERS:
            if isinstance(store, kind):
                if _holds(store, "key_value", "timestamped") or _holds(store, "window", "timestamped"):
                    getter = getter.replace("get_", "get_timestamped_")
                raise ValueError(f"Store {name} is a built-in store ({kind.__name__}) and should be accessed via {getter}()")
        return store

    @overload
    def get_key_value_store(self, name: Materialized[K, V]) -> KeyValueStore[K, V]: ...

    @overload
    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]: ...

    def get_key_value_store(self, name: Any) -> Any:
        """Return a key-value store with plain values, also if it stores timestamps or headers."""
        store = self._store(name)
        if _holds(store, "key_value", "headers"):
            return KeyValueStoreFacade(store, PLAIN_OF_HEADERS)
        if _holds(store, "key_value", "timestamped"):
            _log.info("get_timestamped_key_value_store() returns store %s with its timestamps", name)
            return KeyValueStoreFacade(store)
        return store if isinstance(store, KeyValueStore) else None

    @overload
    def get_timestamped_key_value_store(self, name: Materialized[K, V]) -> KeyValueStore[K, ValueAndTimestamp[V]]: ...

    @overload
    def get_timestamped_key_value_store(self, name: str) -> KeyValueStore[Any, ValueAndTimestamp[Any]]: ...

    def get_timestamped_key_value_store(self, name: Any) -> Any:
        """Return a key-value store whose values are `ValueAndTimestamp`."""
        store = self._store(name)
        if _holds(store, "key_value", "headers"):
            return KeyValueStoreFacade(store, STAMPED_OF_HEADERS)
        return store if _holds(store, "key_value", "timestamped") else None

    @overload
    def get_timestamped_key_value_store_with_headers(
        self, name: Materialized[K, V]
    ) -> KeyValueStore[K, ValueTimestampHeaders[V]]: ...

    @overload
    def get_timestamped_key_value_store_with_headers(self, name: str) -> KeyValueStore[Any, ValueTimestampHeaders[Any]]: ...

    def get_timestamped_key_value_store_with_headers(self, name: Any) -> Any:
        """Return a key-value store whose values are `ValueTimestampHeaders`."""
        store = self._store(name)
        return store if _holds(store, "key_value", "headers") else None

    @overload
    def get_versioned_key_value_store(self, name: Materialized[K, V]) -> VersionedKeyValueStore[K, V]: ...

    @overload
    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]: ...

    def get_versioned_key_value_store(self, name: Any) -> Any:
        """Return a versioned store."""
        store = self._store(name)
        return store if isinstance(store, VersionedKeyValueStore) else None

    @overload
    def get_window_store(self, name: Materialized[K, V]) -> WindowStore[K, V]: ...

    @overload
    def get_window_store(self, name: str) -> WindowStore[Any, Any]: ...

    def get_window_store(self, name: Any) -> Any:
        """Return a window store with plain values, also if it stores timestamps or headers, or belongs to a stream-stream
        join.
        """
        store = self._store(name)
        if _holds(store, "window", "headers"):
            return WindowStoreFacade(store, PLAIN_OF_HEADERS)
        if _holds(store, "window", "timestamped"):
            _log.info("get_timestamped_window_store() returns store %s with its timestamps", name)
            return WindowStoreFacade(store)
        return store if isinstance(store, WindowStore) else None

    @overload
    def get_timestamped_window_store(self, name: Materialized[K, V]) -> WindowStore[K, ValueAndTimestamp[V]]: ...

    @overload
    def get_timestamped_window_store(self, name: str) -> WindowStore[Any, ValueAndTimestamp[Any]]: ...

    def get_timestamped_window_store(self, name: Any) -> Any:
        """Return a window store whose values are `ValueAndTimestamp`."""
        store = self._store(name)
        if _holds(store, "window", "headers"):
            return WindowStoreFacade(store, STAMPED_OF_HEADERS)
        return store if _holds(store, "window", "timestamped") else None

    @overload
    def get_timestamped_window_store_with_headers(self, name: Materialized[K, V]) -> WindowStore[K, ValueTimestampHeaders[V]]: ...

    @overload
    def get_timestamped_window_store_with_headers(self, name: str) -> WindowStore[Any, ValueTimestampHeaders[Any]]: ...

    def get_timestamped_window_store_with_headers(self, name: Any) -> Any:
        """Return a window store whose values are `ValueTimestampHeaders`."""
        store = self._store(name)
        return store if _holds(store, "window", "headers") else None

    @overload
    def get_session_store(self, name: Materialized[K, V]) -> SessionStore[K, V]: ...

    @overload
    def get_session_store(self, name: str) -> SessionStore[Any, Any]: ...

    def get_session_store(self, name: Any) -> Any:
        """Return a session store with plain aggregates, also if it stores headers."""
        store = self._store(name)
        if _holds(store, "session", "headers"):
            return SessionStoreFacade(store, AGGREGATE_OF_HEADERS)
        return store if isinstance(store, SessionStore) else None

    @overload
    def get_session_store_with_headers(self, name: Materialized[K, V]) -> SessionStore[K, AggregationWithHeaders[V]]: ...

    @overload
    def get_session_store_with_headers(self, name: str) -> SessionStore[Any, AggregationWithHeaders[Any]]: ...

    def get_session_store_with_headers(self, name: Any) -> Any:
        """Return a session store whose aggregates are `AggregationWithHeaders`."""
        store = self._store(name)
        return store if _holds(store, "session", "headers") else None

    def _store(self, named: str | Materialized[Any, Any]) -> Any:
        name = _name_of(named)
        if self._task is not None:
            # A test's writes to the store belong to no record.
            self._task.context.set_record_context(RecordContext(0, -1, -1, None))
            store = self._task.state_manager.store(name)
            if store is not None:
                return store
        return None if self._global_task is None else self._global_task.state_manager.store(name)


def _name_of(named: Any) -> str:
    if not isinstance(named, Materialized):
        return named  # type: ignore[no-any-return]
    name: str | None = named.store_name if named.supplier is None else named.supplier.name
    if name is None:
        raise ValueError('the Materialized has no store name: give it one, as in Materialized("counts", …)')
    return name


def _holds(store: Any, kind: str, values: str) -> bool:
    return isinstance(store, StateStore) and store.query_kind == (kind, values)


_GETTERS = (
    (VersionedKeyValueStore, "get_versioned_key_value_store"),
    (KeyValueStore, "get_key_value_store"),
    (WindowStore, "get_window_store"),
    (SessionStore, "get_session_store"),
)
