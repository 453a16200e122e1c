"""Caching of the window stores that results are emitted from when a window closes.

The cache holds what the store below holds: an entry in the order of time with the value, and where the store has an index, an
empty one in the order of keys that points to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.record import RecordContext
from penstock.state.cache import CacheEntry, DirtyEntry
from penstock.state.engines.window_time_ordered import RocksDBTimeOrderedWindowStore
from penstock.state.iterators import PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.prefixed_window import (
    KeyFirstWindowKeySchema,
    TimeFirstWindowKeySchema,
    index_key_to_base_key,
    is_time_first_schema_key,
)
from penstock.state.keys.schema import KeySchema
from penstock.state.keys.window import WindowKeySchema
from penstock.state.layers.cached_places import CachedPlaces
from penstock.state.layers.cached_segments import SEGMENT_ID_SIZE, CachedEntry
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.layers.wrapped_window import Place
from penstock.state.store import StoreIterator, WindowStore
from penstock.windows import MAX_TIMESTAMP, Windowed

_to_base_key = TimeFirstWindowKeySchema.to_store_key_binary
_to_index_key = KeyFirstWindowKeySchema.to_store_key_binary
_key_of = TimeFirstWindowKeySchema.extract_store_key_bytes
_timestamp_of = TimeFirstWindowKeySchema.extract_store_timestamp

_Below = StoreIterator[tuple[Windowed[bytes], bytes]]


class TimeOrderedCachingWindowStore(CachedPlaces, WindowStore[bytes, bytes]):
    """Later puts of a window replace earlier ones until they are flushed."""

    def __init__(self, wrapped: Any, window_size: int, segment_interval: int) -> None:
        super().__init__(wrapped, segment_interval)
        engine = find_time_ordered_store(wrapped)
        if engine is None:
            raise ValueError("TimeOrderedCachingWindowStore only supports RocksDBTimeOrderedWindowStore backed store")
        self._has_index = engine.has_index
        self._window_size = window_size
        self._base = TimeFirstWindowKeySchema()
        self._key_schema: KeySchema = KeyFirstWindowKeySchema() if self._has_index else self._base

    @property
    def takes_rows(self) -> bool:
        """Whether the cache has one entry of a window."""
        return super().takes_rows and not self._has_index

    def _binary_keys(self, places: Iterable[Place]) -> list[bytes]:
        return TimeFirstWindowKeySchema.store_keys(places)

    def _places_of(self, binary_keys: Iterable[bytes]) -> list[Place]:
        return TimeFirstWindowKeySchema.places(binary_keys)

    def _cached_range(self, time_from: int, time_to: int) -> tuple[bytes, bytes | None]:
        if time_to >= MAX_TIMESTAMP:
            return super()._cached_range(time_from, time_to)
        # Entries of a segment lie in the order of their times; an index, if there is one, in the order of keys.
        lower, upper = (TimeFirstWindowKeySchema.time_prefix(max(0, time)) for time in (time_from, time_to + 1))
        return self._cache_key(lower, time_from), self._cache_key(upper, time_to)

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of a key's window; None waits as a deletion."""
        # The base first: an index entry that is evicted on the way finds its value in the cache.
        context = self._put_cached(_to_base_key(key, window_start, 0), window_start, value)
        if self._has_index:
            pointer = RecordContext(
                context.timestamp, context.offset, context.partition, "", (), context.source_raw_key, context.source_raw_value
            )
            cache_key = self._cache_key(_to_index_key(key, window_start, 0), window_start)
            self._cache.put(self._cache_name, cache_key, CacheEntry(b"", pointer, True))

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`, or None."""
        entry = self._get_cached(_to_base_key(key, time, 0), time)
        if entry is not None:
            return entry.value
        value: bytes | None = self._wrapped.fetch(key, time)
        return value

    def fetch_range(self, key: bytes, time_from: int, time_to: int) -> PeekingIterator[int, bytes]:
        """`(window_start, value)` of one key's windows, oldest first."""
        return self._of_key(self._wrapped.fetch_range(key, time_from, time_to), key, time_from, time_to, forward=True)

    def backward_fetch_range(self, key: bytes, time_from: int, time_to: int) -> PeekingIterator[int, bytes]:
        """The same, newest first."""
        return self._of_key(self._wrapped.backward_fetch_range(key, time_from, time_to), key, time_from, time_to, forward=False)

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Windows of the keys in a range, in the order of the store below."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        below = self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to)
        return self._of_keys(below, key_from, key_to, time_from, time_to, forward=True)

    def backward_fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        below = self._wrapped.backward_fetch_key_range(key_from, key_to, time_from, time_to)
        return self._of_keys(below, key_from, key_to, time_from, time_to, forward=False)

    def fetch_all(self, time_from: int, time_to: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Windows of all keys that start in a range of time, in the order of time."""
        return self._of_all(self._wrapped.fetch_all(time_from, time_to), time_from, time_to, forward=True)

    def backward_fetch_all(self, time_from: int, time_to: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._of_all(self._wrapped.backward_fetch_all(time_from, time_to), time_from, time_to, forward=False)

    def all(self) -> PeekingIterator[Windowed[bytes], bytes]:
        """All windows that are still kept, in the order of time."""
        return self._of_all(self._wrapped.all(), 0, MAX_TIMESTAMP, forward=True)

    def backward_all(self) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._of_all(self._wrapped.backward_all(), 0, MAX_TIMESTAMP, forward=False)

    def _of_key(
        self, below: StoreIterator[tuple[int, bytes]], key: bytes, time_from: int, time_to: int, forward: bool
    ) -> PeekingIterator[int, bytes]:
        self.validate_store_open()
        schema = self._key_schema
        cached = self._cached_of_keys(
            schema.lower_range_fixed_size(key, time_from),
            schema.upper_range_fixed_size(key, time_to),
            time_from,
            time_to,
            schema.matcher(key, key, time_from, time_to, forward),
            forward,
        )
        segment_timestamp = schema.segment_timestamp
        times = ((segment_timestamp(key[SEGMENT_ID_SIZE:]), value) for key, value in self._through_index(cached))
        return self._merged(times, below, _same, _same, forward)

    def _of_keys(
        self, below: _Below, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        self.validate_store_open()
        schema = self._key_schema
        cached = self._cached_of_keys(
            schema.lower_range(key_from, time_from),
            schema.upper_range(key_to, time_to),
            time_from,
            time_to,
            schema.matcher(key_from, key_to, time_from, time_to, forward),
            forward,
        )
        if self._has_index:
            entries = self._through_index(cached)
            return self._merged(entries, below, self._index_cache_key_of, self._windowed_of_index, forward)
        return self._merged(cached, below, self._base_cache_key_of, self._windowed_of_base, forward)

    def _of_all(self, below: _Below, time_from: int, time_to: int, forward: bool) -> PeekingIterator[Windowed[bytes], bytes]:
        self.validate_store_open()
        match = self._base.matcher(None, None, time_from, time_to, forward)
        cached = self._cached_between(time_from, time_to, match, forward)
        return self._merged(cached, below, self._base_cache_key_of, self._windowed_of_base, forward)

    def _through_index(self, cached: Iterable[CachedEntry]) -> Iterator[CachedEntry]:
        if not self._has_index:
            yield from cached
            return
        for cache_key, _ in cached:
            base_key = cache_key[:SEGMENT_ID_SIZE] + index_key_to_base_key(cache_key[SEGMENT_ID_SIZE:])
            entry = self._cache.get(self._cache_name, base_key)
            # Without it the value was evicted, and so is in the store below.
            if entry is not None:
                yield cache_key, entry.value

    def _base_cache_key_of(self, windowed: Windowed[bytes]) -> bytes:
        start = windowed.window.start
        return self._cache_key(_to_base_key(windowed.key, start, 0), start)

    def _index_cache_key_of(self, windowed: Windowed[bytes]) -> bytes:
        start = windowed.window.start
        return self._cache_key(_to_index_key(windowed.key, start, 0), start)

    def _windowed_of_base(self, cache_key: bytes) -> Windowed[bytes]:
        return TimeFirstWindowKeySchema.from_store_bytes_key(cache_key[SEGMENT_ID_SIZE:], self._window_size)

    def _windowed_of_index(self, cache_key: bytes) -> Windowed[bytes]:
        return KeyFirstWindowKeySchema.from_store_bytes_key(cache_key[SEGMENT_ID_SIZE:], self._window_size)

    def _write_and_forward_all(self, entries: list[DirtyEntry]) -> None:
        if self._goes_past and entries:  # not with an index
            self._keep_what_goes(max(_timestamp_of(key[SEGMENT_ID_SIZE:]) for key, _, _ in entries))
        # An entry and its index may both be among them: whichever comes first is written, the other skipped.
        written: set[bytes] = set()
        for key, new_value, entry in entries:
            binary_key = key[SEGMENT_ID_SIZE:]
            if not is_time_first_schema_key(binary_key):
                binary_key = index_key_to_base_key(binary_key)
                found = self._cache.get(self._cache_name, key[:SEGMENT_ID_SIZE] + binary_key)
                if found is None or binary_key in written:
                    continue
                new_value, entry = found.value, found
            elif binary_key in written:
                continue
            written.add(binary_key)
            self._write_and_forward(binary_key, new_value, entry)

    def _listener_key(self, binary_key: bytes) -> bytes:
        return WindowKeySchema.to_store_key_binary(_key_of(binary_key), _timestamp_of(binary_key), 0)

    def _fetch_below(self, binary_key: bytes) -> bytes | None:
        value: bytes | None = self._wrapped.fetch(_key_of(binary_key), _timestamp_of(binary_key))
        return value

    def _put_below(self, binary_key: bytes, value: bytes | None) -> None:
        self._wrapped.put(_key_of(binary_key), value, _timestamp_of(binary_key))


def find_time_ordered_store(store: Any) -> RocksDBTimeOrderedWindowStore | None:
    """The time-ordered engine at the bottom of a stack of layers; None where there is another."""
    if isinstance(store, RocksDBTimeOrderedWindowStore):
        return store
    return store.find_inner(RocksDBTimeOrderedWindowStore) if isinstance(store, WrappedStateStore) else None


def _same(key: Any) -> Any:
    return key
