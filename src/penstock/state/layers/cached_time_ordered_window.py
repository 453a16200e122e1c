"""Caching of the window stores that results are emitted from when a window closes.

The cache holds what the store below holds: an entry in the order of time with the value, and where the store has an index, an
empty one in the order of keys that points to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.record import RecordContext
from penstock.state.cache import CacheEntry, DirtyEntry
from penstock.state.engines.window_time_ordered import RocksDBTimeOrderedWindowStore
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed import INDEX_PREFIX, IndexKeySchema, is_base_key
from penstock.state.keys.prefixed_window import TimeFirstWindowKeySchema
from penstock.state.keys.window import WindowKeySchema
from penstock.state.layers.cached_segments import SEGMENT_ID_SIZE, CachedEntry
from penstock.state.layers.cached_window import CachingWindowStore
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import StateStore, StoreIterator
from penstock.windows import MAX_TIMESTAMP, Windowed

_from_index_key = TimeFirstWindowKeySchema().from_index_key
_timestamp_of = TimeFirstWindowKeySchema.extract_store_timestamp

_Below = StoreIterator[tuple[Windowed[bytes], bytes]]


class TimeOrderedCachingWindowStore(CachingWindowStore):
    """Later puts of a window replace earlier ones until they are flushed."""

    _keys = TimeFirstWindowKeySchema

    def __init__(self, wrapped: StateStore, window_size: int, segment_interval: int) -> None:
        super().__init__(wrapped, window_size, segment_interval)
        engine = find_time_ordered_store(wrapped)
        if engine is None:
            raise ValueError("TimeOrderedCachingWindowStore only supports RocksDBTimeOrderedWindowStore backed store")
        self._has_index = engine.has_index
        if self._has_index:
            self._key_schema = IndexKeySchema(WindowKeySchema())

    @property
    def takes_rows(self) -> bool:
        """Whether the cache has one entry of a window."""
        return super().takes_rows and not self._has_index

    def _cached_range(self, time_from: int, time_to: int) -> tuple[bytes, bytes | None]:
        if time_to >= MAX_TIMESTAMP:
            return super()._cached_range(time_from, time_to)
        # Entries of a segment lie in the order of their times; an index, if there is one, in the order of keys.
        lower, upper = (TimeFirstWindowKeySchema.time_prefix(max(0, time)) for time in (time_from, time_to + 1))
        return self._cache_key(lower, time_from), self._cache_key(upper, time_to)

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        # The base first: an index entry that is evicted on the way finds its value in the cache.
        context = self._put_cached(self._keys.to_store_key_binary(key, window_start, 0), window_start, value)
        if self._has_index:
            pointer = RecordContext(
                context.timestamp, context.offset, context.partition, "", (), context.source_raw_key, context.source_raw_value
            )
            cache_key = self._cache_key(_to_index_key(key, window_start), window_start)
            self._cache.put(self._cache_name, cache_key, CacheEntry(b"", pointer, True))

    def _windows_of_keys(
        self, cached: Iterable[CachedEntry], below: _Below, forward: bool
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        if not self._has_index:
            return self._windows(cached, below, forward)
        return self._merged(self._with_values(cached), below, self._index_cache_key_of, self._windowed_of_index, forward)

    def _with_values(self, cached: Iterable[CachedEntry]) -> Iterator[CachedEntry]:
        if not self._has_index:
            yield from cached
            return
        for cache_key, _ in cached:
            base_key = cache_key[:SEGMENT_ID_SIZE] + _from_index_key(cache_key[SEGMENT_ID_SIZE:])
            entry = self._cache.get(self._cache_name, base_key)
            # Without it the value was evicted, and so is in the store below.
            if entry is not None:
                yield cache_key, entry.value

    def _index_cache_key_of(self, windowed: Windowed[bytes]) -> bytes:
        start = windowed.window.start
        return self._cache_key(_to_index_key(windowed.key, start), start)

    def _windowed_of_index(self, cache_key: bytes) -> Windowed[bytes]:
        return WindowKeySchema.from_store_bytes_key(cache_key[SEGMENT_ID_SIZE + len(INDEX_PREFIX) :], self._window_size)

    def _write_and_forward_all(self, entries: list[DirtyEntry]) -> None:
        if self._goes_past and entries:  # not with an index
            self._keep_what_goes(max(_timestamp_of(key[SEGMENT_ID_SIZE:]) for key, _, _ in entries))
        # An entry and its index may both be among them: whichever comes first is written, the other skipped.
        written: set[bytes] = set()
        for key, new_value, entry in entries:
            binary_key = key[SEGMENT_ID_SIZE:]
            if not is_base_key(binary_key):
                binary_key = _from_index_key(binary_key)
                found = self._cache.get(self._cache_name, key[:SEGMENT_ID_SIZE] + binary_key)
                if found is None or binary_key in written:
                    continue
                new_value, entry = found.value, found
            elif binary_key in written:
                continue
            written.add(binary_key)
            self._write_and_forward(binary_key, new_value, entry)

    def _listener_key(self, binary_key: bytes) -> bytes:
        return self._keys.to_changelog_key(binary_key)


def _to_index_key(key: bytes, window_start: int) -> bytes:
    return INDEX_PREFIX + WindowKeySchema.to_store_key_binary(key, window_start, 0)


def find_time_ordered_store(store: StateStore) -> RocksDBTimeOrderedWindowStore | None:
    """The time-ordered engine at the bottom of a stack of layers; None where there is another."""
    if isinstance(store, RocksDBTimeOrderedWindowStore):
        return store
    return store.find_inner(RocksDBTimeOrderedWindowStore) if isinstance(store, WrappedStateStore) else None
