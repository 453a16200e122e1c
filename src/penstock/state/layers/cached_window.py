"""Caching of window stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from penstock.state.iterators import PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.prefixed_window import TimeFirstWindowKeySchema
from penstock.state.keys.schema import KeySchema
from penstock.state.keys.window import WindowKeySchema, time_window_for_size
from penstock.state.layers.cached_segments import SEGMENT_ID_SIZE, CachedEntry
from penstock.state.layers.cached_window_batches import CachedWindowBatches
from penstock.state.layers.wrapped_window import WindowKey
from penstock.state.ranges import WindowRanges
from penstock.state.store import StateStore, StoreIterator
from penstock.windows import Windowed

_Below = StoreIterator[tuple[Windowed[bytes], bytes]]


class CachingWindowStore(CachedWindowBatches, WindowRanges[bytes, bytes]):
    """Later puts of a window replace earlier ones until they are flushed."""

    _keys: ClassVar[type[WindowKeySchema | TimeFirstWindowKeySchema]] = WindowKeySchema

    def __init__(self, wrapped: StateStore, window_size: int, segment_interval: int) -> None:
        super().__init__(wrapped, segment_interval)
        self._window_size = window_size
        self._schema: KeySchema = self._keys()
        self._key_schema: KeySchema = self._schema
        """Of the cached entries that are looked through for keys."""

    def _binary_keys(self, places: Iterable[WindowKey]) -> list[bytes]:
        return self._keys.store_keys(places)

    def _places_of(self, binary_keys: Iterable[bytes]) -> list[WindowKey]:
        return self._keys.places(binary_keys)

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self._put_cached(self._keys.to_store_key_binary(key, window_start, 0), window_start, value)

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        entry = self._get_cached(self._keys.to_store_key_binary(key, time, 0), time)
        if entry is not None:
            return entry.value
        value: bytes | None = self._wrapped.fetch(key, time)
        return value

    def fetch_range(self, key: bytes, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[int, bytes]:
        below = self._wrapped.fetch_range(key, time_from, time_to, forward)
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
        times = ((segment_timestamp(cache_key[SEGMENT_ID_SIZE:]), value) for cache_key, value in self._with_values(cached))
        return self._merged(times, below, _same, _same, forward)

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool = True
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Return the windows of the keys in a range, in the order of the store below."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        below = self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, forward)
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
        return self._windows_of_keys(cached, below, forward)

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[Windowed[bytes], bytes]:
        below = self._wrapped.fetch_all(time_from, time_to, forward)
        self.validate_store_open()
        match = self._schema.matcher(None, None, time_from, time_to, forward)
        return self._windows(self._cached_between(time_from, time_to, match, forward), below, forward)

    def _with_values(self, cached: Iterable[CachedEntry]) -> Iterable[CachedEntry]:
        """What was found by key in the cache, with its values."""
        return cached

    def _windows_of_keys(
        self, cached: Iterable[CachedEntry], below: _Below, forward: bool
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        return self._windows(cached, below, forward)

    def _windows(self, cached: Iterable[CachedEntry], below: _Below, forward: bool) -> PeekingIterator[Windowed[bytes], bytes]:
        if self.persistent:
            return self._merged(cached, below, self._cache_key_of, self._windowed_of, forward)
        # A store in memory orders windows by start and key, where bytes of key and start together can be ordered otherwise.
        found = list(cached)
        places = self._keys.places(key[SEGMENT_ID_SIZE:] for key, _ in found)
        entries = [((start, key), value) for (key, start), (_, value) in zip(places, found)]
        entries.sort(key=_first, reverse=not forward)
        return self._merged(entries, below, _start_and_key, self._windowed_of_start_and_key, forward)

    def _cache_key_of(self, windowed: Windowed[bytes]) -> bytes:
        start = windowed.window.start
        return self._cache_key(self._keys.to_store_key_binary(windowed.key, start, 0), start)

    def _windowed_of(self, cache_key: bytes) -> Windowed[bytes]:
        return self._keys.from_store_bytes_key(cache_key[SEGMENT_ID_SIZE:], self._window_size)

    def _windowed_of_start_and_key(self, start_and_key: tuple[int, bytes]) -> Windowed[bytes]:
        start, key = start_and_key
        return Windowed(key, time_window_for_size(start, self._window_size))

    def _fetch_below(self, binary_key: bytes) -> bytes | None:
        keys = self._keys
        value: bytes | None = self._wrapped.fetch(
            keys.extract_store_key_bytes(binary_key), keys.extract_store_timestamp(binary_key)
        )
        return value

    def _put_below(self, binary_key: bytes, value: bytes | None) -> None:
        keys = self._keys
        self._wrapped.put(keys.extract_store_key_bytes(binary_key), value, keys.extract_store_timestamp(binary_key))


def _same(key: Any) -> Any:
    return key


def _first(entry: tuple[Any, Any]) -> Any:
    return entry[0]


def _start_and_key(windowed: Windowed[bytes]) -> tuple[int, bytes]:
    return windowed.window.start, windowed.key
