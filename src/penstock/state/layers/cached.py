"""What all caching layers share: the store's part of the record cache, its flush, and the listener that hears of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.change import Change
from penstock.record import Record, RecordContext
from penstock.state.cache import CacheEntry, DirtyEntry, NamedCache, RecordCache
from penstock.state.layers.metrics import hit_ratio_sensor
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import StateStore, StateStoreContext

FlushListener = Callable[[Record[Any, Change[Any]]], None]


class CachingStore(WrappedStateStore):
    """Puts wait in the cache; a flush or an eviction writes them to the store below and tells the flush listener."""

    passes_bytes = True
    is_cache = True
    _context: StateStoreContext
    _cache: RecordCache
    _cache_name: str
    _entries: NamedCache

    def __init__(self, wrapped: StateStore) -> None:
        super().__init__(wrapped)
        self._flush_listener: FlushListener | None = None
        self._send_old_values = False
        self._open = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the wrapped store and the store's part of the cache."""
        self._context = context
        self._cache = context.cache
        self._cache_name = RecordCache.name_space(context.task_id, self._name)
        self._cache.add_dirty_entry_flush_listener(self._cache_name, self._write_and_forward_all)
        self._entries = self._cache.named(self._cache_name)
        self._entries.hit_ratio = hit_ratio_sensor(context, self._name)
        super().init(context, root)
        self._open = True

    def set_flush_listener(self, listener: FlushListener, send_old_values: bool) -> bool:
        """Call `listener(record)` with the change of each entry that is flushed."""
        self._flush_listener = listener
        self._send_old_values = send_old_values
        return True

    def flush_cache(self) -> None:
        """Write and forward all that waits."""
        self.validate_store_open()
        self._cache.flush(self._cache_name)

    def clear_cache(self) -> None:
        """Drop all that waits."""
        self.validate_store_open()
        self._cache.clear(self._cache_name)

    def close(self) -> None:
        """Drop all that waits and close the wrapped store."""
        self._open = False
        self._cache.close(self._cache_name)
        super().close()

    @abstractmethod
    def _fetch_below(self, binary_key: bytes) -> bytes | None:
        """The value of a cached key in the wrapped store."""

    @abstractmethod
    def _put_below(self, binary_key: bytes, value: bytes | None) -> None:
        """Put the value of a cached key into the wrapped store."""

    def _came_and_went(self, binary_key: bytes) -> None:
        """Hook: an entry is not written, since the store below has none, or none any more."""

    def _listener_key(self, binary_key: bytes) -> bytes:
        """The key of the changelog's layout, which the flush listener gets."""
        return binary_key

    def _record(self) -> RecordContext:
        """The record that an entry is put for."""
        return self._context.record_context or RecordContext(self._context.current_system_time_ms(), -1, -1, None)

    @abstractmethod
    def _write_and_forward_all(self, entries: list[DirtyEntry]) -> None:
        """Write what the cache flushes or evicts, in its order."""

    def _write_and_forward(self, binary_key: bytes, new_value: bytes | None, entry: CacheEntry) -> None:
        listener = self._flush_listener
        old_value: bytes | None = None
        if listener is not None:
            if new_value is None or self._send_old_values:
                old_value = self._fetch_below(binary_key)
            # The key was neither in the store nor is it now: it came and went between two flushes.
            if new_value is None and old_value is None:
                self._came_and_went(binary_key)
                return
        context = self._context
        current = context.record_context
        entry_context = entry.context
        context.set_record_context(entry_context)
        try:
            self._put_below(binary_key, new_value)
            if listener is not None:
                change = Change(new_value, old_value if self._send_old_values else None)
                listener(Record(self._listener_key(binary_key), change, entry_context.timestamp, tuple(entry_context.headers)))
        finally:
            context.set_record_context(current)
