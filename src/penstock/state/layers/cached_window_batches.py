"""Many windows at a time of a caching window store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from penstock.state.cache import DirtyEntry
from penstock.state.layers.cached_segments import SEGMENT_ID_SIZE, CachingSegmentedStore
from penstock.state.layers.wrapped_window import WindowKey
from penstock.state.store import StateStore, StoreIterator
from penstock.windows import MAX_TIMESTAMP


class CachedWindowBatches(CachingSegmentedStore):
    """Reads see what waits in the cache; writes go past it.

    A cache still has the windows that the store below has let go since they were put, and results on close are found in it. What
    goes past it has to be found as well: so before the store lets windows go that somebody may ask for, they go into the cache.
    Where somebody listens for flushes, results have left already, and the cache forgets them.
    """

    takes_duplicates = False  # a cache keeps one value of a window

    def __init__(self, wrapped: StateStore, segment_interval: int) -> None:
        super().__init__(wrapped, segment_interval)
        self._goes_past = False
        self._kept_before = 0  # all windows that may be asked for, are not below, and start before this are in the cache

    @abstractmethod
    def _binary_keys(self, places: Iterable[WindowKey]) -> list[bytes]:
        """The keys of windows in the order of the store below."""

    @abstractmethod
    def _places_of(self, binary_keys: Iterable[bytes]) -> list[WindowKey]:
        """The windows of such keys."""

    def fetch_windows(self, places: Sequence[WindowKey]) -> list[bytes | None]:
        """The values of many keys and window starts; they are not put into the cache."""
        if not self._open:
            self.validate_store_open()
        below: list[bytes | None]
        if not len(self._entries):
            below = self._wrapped.fetch_windows(places)
            return below
        entries = self._entries.get_all(self._cache_keys(places))
        missing = [place for place, entry in zip(places, entries) if entry is None]
        below = self._wrapped.fetch_windows(missing) if missing else []
        found = iter(below)
        return [next(found) if entry is None else entry.value for entry in entries]

    def windows_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, bytes]]]:
        """What `fetch_range` finds for many keys, cached windows over those below."""
        if not self._open:
            self.validate_store_open()
        found: dict[bytes, list[tuple[int, bytes]]]
        if not len(self._entries):
            found = self._wrapped.windows_of(bounds)
            return found
        found = {}
        for key, (time_from, time_to) in bounds.items():
            with self.fetch_range(key, time_from, time_to) as entries:
                of_key = list(entries)
            if of_key:
                found[key] = of_key
        return found

    @abstractmethod
    def fetch_range(self, key: bytes, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[int, bytes]]:
        """Return `(window_start, value)` of one key's windows, oldest first."""

    def put_windows(self, places: Sequence[WindowKey], values: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set many at once in the store below; what waits in the cache goes first."""
        if not self._open:
            self.validate_store_open()
        if len(self._entries):
            self.flush_cache()
        if self._flush_listener is not None:
            self.clear_cache()
            self._wrapped.put_windows(places, values, record_times)
            return
        self._goes_past = True
        oldest = self._keep_what_goes(max(start for _, start in places))
        self._wrapped.put_windows(places, values, record_times)
        self._forget(places)
        going = [(place, value) for place, value in zip(places, values) if place[1] < oldest]
        if going:
            self._keep([place for place, _ in going], [value for _, value in going])

    def forget_before(self, time: int) -> None:
        self._kept_before = max(self._kept_before, time)

    def _write_and_forward_all(self, entries: list[DirtyEntry]) -> None:
        if self._goes_past and entries:
            self._keep_what_goes(max(start for _, start in self._places_of(key[SEGMENT_ID_SIZE:] for key, _, _ in entries)))
        super()._write_and_forward_all(entries)

    def _keep_what_goes(self, window_start: int) -> int:
        """Keep the windows that the store below lets go when this one is put; returns the earliest that it does not."""
        oldest: int = self._wrapped.oldest_after(window_start)
        if oldest > self._kept_before:
            places, values = self._wrapped.windows_between(self._kept_before, oldest - 1)
            cached = self._entries.get_all(self._cache_keys(places))
            new = [number for number, entry in enumerate(cached) if entry is None]
            self._keep([places[number] for number in new], [values[number] for number in new])
            self._kept_before = oldest
        return oldest

    def windows_between(self, time_from: int, time_to: int) -> tuple[list[WindowKey], list[bytes]]:
        """Key, window start and value of all windows that start in a range of time, cached ones over those below."""
        places: list[WindowKey]
        values: list[bytes]
        places, values = self._wrapped.windows_between(time_from, time_to)
        cached = self._cached_window_entries(time_from, time_to)
        if not cached:
            return places, values
        merged: dict[bytes, tuple[WindowKey, bytes | None]] = dict(zip(self._cache_keys(places), zip(places, values)))
        merged.update(cached)
        there = [(place, value) for _, (place, value) in sorted(merged.items()) if value is not None]
        return [place for place, _ in there], [value for _, value in there]

    def _cached_window_entries(self, time_from: int, time_to: int) -> dict[bytes, tuple[WindowKey, bytes | None]]:
        if not len(self._entries):
            return {}
        keys = self._entries.keys(*self._cached_range(time_from, time_to), to_inclusive=False)
        places = self._places_of(key[SEGMENT_ID_SIZE:] for key in keys)
        entries = self._entries.get_all(keys)
        return {
            key: (place, entry.value)
            for key, place, entry in zip(keys, places, entries)
            if entry is not None and time_from <= place[1] <= time_to
        }

    def _cached_range(self, time_from: int, time_to: int) -> tuple[bytes, bytes | None]:
        """Where in the cache the windows lie that start in a range of time: in these segments."""
        return self._cache_key(b"", time_from), None if time_to >= MAX_TIMESTAMP else self._segment_end(time_to)

    def _keep(self, places: Sequence[WindowKey], values: Sequence[bytes | None]) -> None:
        if self._segment_ids is not None:
            for segment in {self._segment_id(start) for _, start in places} - self._segment_ids:
                self._track_segment(segment)
        self._cache.keep_all(self._cache_name, zip(self._cache_keys(places), values))

    def _forget(self, places: Sequence[WindowKey]) -> None:
        if len(self._entries):
            self._cache.keep_all(self._cache_name, ((key, None) for key in self._cache_keys(places)))

    def _cache_keys(self, places: Sequence[WindowKey]) -> list[bytes]:
        prefixes = {start: self._cache_key(b"", start) for start in {start for _, start in places}}
        return [prefixes[start] + key for (_, start), key in zip(places, self._binary_keys(places))]
