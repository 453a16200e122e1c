"""Looking through the layers of a store, for those who read it beside the task that owns it."""

from __future__ import annotations

from typing import Any

from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.layers.cached_key_value import CachingKeyValueStore
from penstock.state.layers.cached_segments import CachingSegmentedStore
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.logged_session import ChangeLoggingSessionStore
from penstock.state.layers.logged_versioned import ChangeLoggingVersionedStore
from penstock.state.layers.logged_window import ChangeLoggingWindowStore
from penstock.state.layers.wrapped import WrappedStateStore

_ABOVE_ENGINES = (
    CachingKeyValueStore,
    CachingSegmentedStore,
    ChangeLoggingKeyValueStore,
    ChangeLoggingSessionStore,
    ChangeLoggingVersionedStore,
    ChangeLoggingWindowStore,
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
