"""The record cache of a task: recent entries of its stores, written and forwarded when they are flushed or evicted.

One `RecordCache` has one bound in bytes and a `NamedCache` for each caching store. A put may evict the eldest entries
of the same store; a dirty one among them flushes all dirty entries of that store, evicted first, the others in the order
of their last update. Sizes are counted as Kafka Streams counts them, so that the same bound evicts at the same record.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from typing import NamedTuple

from penstock.metrics.registry import Sensor
from penstock.record import RecordContext
from penstock.state.sorted_keys import SortedKeys

_NO_CONTEXT = RecordContext(-1, -1, -1, "")
_NODE_OVERHEAD = 24
_ENTRY_OVERHEAD = 1 + 8 + 8 + 4


class CacheEntry:
    """A value with the context of the record that wrote it; clean entries were only read."""

    __slots__ = ("context", "dirty", "size", "value")

    def __init__(self, value: bytes | None, context: RecordContext = _NO_CONTEXT, dirty: bool = False) -> None:
        self.value = value
        self.context = context
        self.dirty = dirty
        size = _ENTRY_OVERHEAD
        if value is not None:
            size += len(value)
        if context.topic is not None:
            size += len(context.topic)
        for key, header in context.headers:
            size += len(key) + (0 if header is None else len(header))
        self.size = size

    def __repr__(self) -> str:
        return f"CacheEntry({self.value!r}, {self.context!r}, dirty={self.dirty})"


class DirtyEntry(NamedTuple):
    """An entry as a flush hands it over."""

    key: bytes
    new_value: bytes | None
    entry: CacheEntry


DirtyEntryFlushListener = Callable[[list[DirtyEntry]], None]


class NamedCache:
    """The entries of one store, least recently used first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size_in_bytes = 0
        self.counted_bytes = 0
        self.hits = 0
        self.misses = 0
        self.overwrites = 0
        self.flushes = 0
        self.hit_ratio: Sensor | None = None
        self._listener: DirtyEntryFlushListener | None = None
        self._entries: OrderedDict[bytes, CacheEntry] = OrderedDict()
        # A dict as an ordered set: deleting and setting again moves a key to the end, the order of last updates.
        self._dirty: dict[bytes, None] = {}
        self._sorted: SortedKeys | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def set_listener(self, listener: DirtyEntryFlushListener) -> None:
        """Who gets the dirty entries when they are flushed."""
        self._listener = listener

    def get(self, key: bytes) -> CacheEntry | None:
        """The entry of a key, which becomes the most recently used."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        if self.hit_ratio is not None:
            self.hit_ratio.record(self.hits / (self.hits + self.misses))
        self._entries.move_to_end(key)
        return entry

    def get_all(self, keys: Iterable[bytes]) -> list[CacheEntry | None]:
        """The entries of many keys, which become the most recently used."""
        found = list(map(self._entries.get, keys))
        there = [key for key, entry in zip(keys, found) if entry is not None]
        for key in there:
            self._entries.move_to_end(key)
        self.hits += len(there)
        self.misses += len(found) - len(there)
        if there and self.hit_ratio is not None:
            self.hit_ratio.record(self.hits / (self.hits + self.misses))
        return found

    def put(self, key: bytes, entry: CacheEntry) -> None:
        """Set the entry of a key, which becomes the most recently used."""
        if entry.dirty:
            self._dirty.pop(key, None)
            self._dirty[key] = None
        elif key in self._dirty:
            raise RuntimeError(
                f"Attempting to put a clean entry for key [{key!r}] into NamedCache [{self.name}] "
                "when it already contains a dirty entry for the same key"
            )
        old = self._entries.get(key)
        if old is not None:
            self.overwrites += 1
            self.size_in_bytes += entry.size - old.size
            self._entries[key] = entry
            self._entries.move_to_end(key)
        else:
            self.size_in_bytes += _NODE_OVERHEAD + len(key) + entry.size
            self._entries[key] = entry
            if self._sorted is not None:
                self._sorted.add(key)

    def delete(self, key: bytes) -> CacheEntry | None:
        """Take an entry out without flushing it; returns it."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._dirty.pop(key, None)
        self._forget(key, entry)
        return entry

    def evict(self) -> None:
        """Take out the least recently used entry; a dirty one flushes."""
        if not self._entries:
            return
        key, entry = self._entries.popitem(last=False)
        self._forget(key, entry)
        if entry.dirty:
            self._flush(DirtyEntry(key, entry.value, entry))

    def flush(self) -> None:
        """Hand all dirty entries to the listener; they stay as clean ones, except deletions."""
        self._flush(None)

    def _flush(self, evicted: DirtyEntry | None) -> None:
        self.flushes += 1
        if self._listener is None:
            raise RuntimeError(f"No listener for namespace {self.name} registered with cache")
        if not self._dirty:
            return
        flushed: list[DirtyEntry] = []
        deleted: list[bytes] = []
        if evicted is not None:
            flushed.append(evicted)
            self._dirty.pop(evicted.key, None)
        for key in self._dirty:
            self.hits += 1
            entry = self._entries[key]
            flushed.append(DirtyEntry(key, entry.value, entry))
            entry.dirty = False
            if entry.value is None:
                deleted.append(key)
        # Cleared before the listener runs: what it forwards may come back and put into this cache again.
        self._dirty.clear()
        self._listener(flushed)
        for key in deleted:
            self.delete(key)

    def keys(
        self, key_from: bytes | None = None, key_to: bytes | None = None, to_inclusive: bool = True, forward: bool = True
    ) -> list[bytes]:
        """The keys of a range in order, as they are now."""
        if key_from is not None and key_to is not None and key_from > key_to:
            return []
        if self._sorted is None:
            self._sorted = SortedKeys(self._entries)
        keys = self._sorted.range(key_from, key_to, to_inclusive)
        if not forward:
            keys.reverse()
        return keys

    def clear(self) -> None:
        """Drop everything, dirty or not."""
        self.size_in_bytes = 0
        self._dirty.clear()
        self._entries.clear()
        self._sorted = None

    def close(self) -> None:
        """Drop everything and the listener."""
        self.clear()
        self._listener = None

    def _forget(self, key: bytes, entry: CacheEntry) -> None:
        self.size_in_bytes -= _NODE_OVERHEAD + len(key) + entry.size
        if self._sorted is not None:
            self._sorted.remove(key)


class RecordCache:
    """The caches of one task's stores under one bound in bytes.

    >>> cache = RecordCache(1000)
    >>> cache.add_dirty_entry_flush_listener("0_0-store", lambda entries: print([entry.key for entry in entries]))
    >>> cache.put("0_0-store", b"key", CacheEntry(b"value", dirty=True))
    >>> cache.flush("0_0-store")
    [b'key']
    """

    def __init__(self, max_cache_size_bytes: int) -> None:
        self._max_size = max_cache_size_bytes
        self._caches: dict[str, NamedCache] = {}
        self.size_bytes = 0
        self.puts = 0
        self.gets = 0
        self.evicts = 0
        self.flushes = 0

    @staticmethod
    def name_space(task_id: object, store_name: str) -> str:
        """The name of a store's cache."""
        return f"{task_id}-{store_name}"

    @property
    def max_cache_size_bytes(self) -> int:
        """The bound over all caches."""
        return self._max_size

    def __len__(self) -> int:
        return sum(len(cache) for cache in self._caches.values())

    def resize(self, max_cache_size_bytes: int) -> None:
        """Set another bound; a lower one evicts from all caches in turn."""
        shrink = max_cache_size_bytes < self._max_size
        self._max_size = max_cache_size_bytes
        if not shrink or not self._caches:
            return
        for cache in cycle(list(self._caches.values())):
            if self.size_bytes <= max_cache_size_bytes:
                return
            self._evict_one(cache)

    def add_dirty_entry_flush_listener(self, namespace: str, listener: DirtyEntryFlushListener) -> None:
        """Say who writes and forwards the dirty entries of a cache; makes the cache."""
        self.named(namespace).set_listener(listener)

    def named(self, namespace: str) -> NamedCache:
        """The cache of that name, made where it is not there yet."""
        cache = self._caches.get(namespace)
        if cache is None:
            cache = self._caches[namespace] = NamedCache(namespace)
        return cache

    def flush(self, namespace: str) -> None:
        """Flush the dirty entries of one cache."""
        self.flushes += 1
        cache = self._caches.get(namespace)
        if cache is None:
            return
        cache.flush()
        self._recount(cache)

    def get(self, namespace: str, key: bytes) -> CacheEntry | None:
        """An entry, which becomes the most recently used of its cache."""
        self.gets += 1
        cache = self._caches.get(namespace)
        return None if cache is None else cache.get(key)

    def put(self, namespace: str, key: bytes, entry: CacheEntry) -> None:
        """Set an entry and evict from the same cache while the bound is exceeded."""
        self.puts += 1
        cache = self.named(namespace)
        cache.put(key, entry)
        self._recount(cache)
        if self.size_bytes > self._max_size:
            self._maybe_evict(cache)

    def put_if_absent(self, namespace: str, key: bytes, entry: CacheEntry) -> CacheEntry | None:
        """Set an entry only where there is none; returns what was there."""
        existing = self.named(namespace).get(key)
        if existing is None:
            self.put(namespace, key, entry)
        elif self.size_bytes > self._max_size:
            self._maybe_evict(self.named(namespace))
        return existing

    def put_all(self, namespace: str, entries: Iterable[tuple[bytes, CacheEntry]]) -> None:
        """Set many entries."""
        for key, entry in entries:
            self.put(namespace, key, entry)

    def keep_all(self, namespace: str, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Keep what was written past the cache, and forget what was deleted; then evict while the bound is exceeded."""
        cache = self.named(namespace)
        put, delete = cache.put, cache.delete
        for key, value in entries:
            self.puts += 1
            if value is None:
                delete(key)
            else:
                put(key, CacheEntry(value))
        self._recount(cache)
        self._maybe_evict(cache)

    def delete(self, namespace: str, key: bytes) -> CacheEntry | None:
        """Take an entry out without flushing it; returns it."""
        cache = self._caches.get(namespace)
        if cache is None:
            return None
        entry = cache.delete(key)
        self._recount(cache)
        return entry

    def range(
        self,
        namespace: str,
        key_from: bytes | None = None,
        key_to: bytes | None = None,
        to_inclusive: bool = True,
        forward: bool = True,
    ) -> Iterator[tuple[bytes, CacheEntry]]:
        """Entries of a range in order: the keys as they are now, each entry as it is when its turn comes."""
        cache = self._caches.get(namespace)
        return iter(()) if cache is None else _live_entries(cache, cache.keys(key_from, key_to, to_inclusive, forward))

    def clear(self, namespace: str) -> None:
        """Drop the entries of one cache."""
        cache = self._caches.get(namespace)
        if cache is not None:
            cache.clear()
            self._recount(cache)

    def close(self, namespace: str) -> None:
        """Drop one cache."""
        cache = self._caches.pop(namespace, None)
        if cache is not None:
            cache.close()
            self._recount(cache)

    def _maybe_evict(self, cache: NamedCache) -> None:
        # An empty cache ends the loop: what its flush put into other caches is not evicted from here.
        while self.size_bytes > self._max_size and len(cache):
            self._evict_one(cache)

    def _evict_one(self, cache: NamedCache) -> None:
        cache.evict()
        self._recount(cache)
        self.evicts += 1

    def _recount(self, cache: NamedCache) -> None:
        # After the fact, as in Kafka Streams: while a flush forwards, caches further down still see the room as taken.
        self.size_bytes += cache.size_in_bytes - cache.counted_bytes
        cache.counted_bytes = cache.size_in_bytes


def _live_entries(cache: NamedCache, keys: list[bytes]) -> Iterator[tuple[bytes, CacheEntry]]:
    for key in keys:
        entry = cache.get(key)
        if entry is not None:
            yield key, entry
