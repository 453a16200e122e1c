"""Looking through the layers of a store, for those who read it beside the task that owns it."""

from __future__ import annotations

from typing import Any

from penstock.state.engines.key_value_parts import key_value_parts
from penstock.state.engines.lru import LruKeyValueStore
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.engines.session_parts import session_parts
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.engines.window_parts import window_parts
from penstock.state.layers.cached_key_value import CachingKeyValueStore
from penstock.state.layers.cached_segments import CachingSegmentedStore
from penstock.state.layers.headers_windowed import InMemoryHeadersSessionMarker, InMemoryHeadersWindowMarker
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.logged_session import ChangeLoggingSessionStore
from penstock.state.layers.logged_versioned import ChangeLoggingVersionedStore
from penstock.state.layers.logged_window import ChangeLoggingWindowStore
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.layers.wrapped_key_value import InMemoryHeadersMarker, InMemoryTimestampedMarker
from penstock.state.layers.wrapped_window import InMemoryTimestampedWindowMarker
from penstock.state.parts import PartReader

_ABOVE_ENGINES = (
    CachingKeyValueStore,
    CachingSegmentedStore,
    ChangeLoggingKeyValueStore,
    ChangeLoggingSessionStore,
    ChangeLoggingVersionedStore,
    ChangeLoggingWindowStore,
)

# Layers that only say what the values below them are.
_MARKERS = (
    InMemoryTimestampedMarker,
    InMemoryHeadersMarker,
    InMemoryTimestampedWindowMarker,
    InMemoryHeadersWindowMarker,
    InMemoryHeadersSessionMarker,
)


def innermost(store: Any) -> Any:
    """The engine below all layers and adapters."""
    while isinstance(store, WrappedStateStore):
        store = store.wrapped
    return store


def rocksdb_of(store: Any) -> RocksDBStore | None:
    """The RocksDB at the bottom of a store; None where it has none."""
    engine = innermost(store)
    if isinstance(engine, RocksDBStore):
        return engine
    for name in ("db", "_engine"):
        below = getattr(engine, name, None)
        if isinstance(below, RocksDBStore):
            return below
    return None


def bytes_below_cache(store: Any) -> Any:
    """The byte-level store below the typed layer, the cache and the changelog of an open store."""
    store = store.wrapped if isinstance(store, WrappedStateStore) else store
    while isinstance(store, _ABOVE_ENGINES):
        store = store.wrapped
    return store


def part_reader(store: Any, method: str, arguments: tuple[Any, ...]) -> PartReader | None:
    """Reads what a method of a byte-level store in memory gives, in parts; None for a single value or another kind of store."""
    while isinstance(store, _MARKERS):
        store = store.wrapped
    if isinstance(store, (InMemoryKeyValueStore, LruKeyValueStore)):
        return key_value_parts(*store.contents, method, arguments)
    if isinstance(store, InMemoryWindowStore):
        return window_parts(store, method, arguments)
    if isinstance(store, InMemorySessionStore):
        return session_parts(store, method, arguments)
    return None
