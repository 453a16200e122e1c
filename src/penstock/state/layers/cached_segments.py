"""What the caching layers of window and session stores share: a cache in the order of segments, its flush, and the merge.

Entries lie in the cache under `segment id + key`, so that they come in the order in which the store below scans its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from penstock.record import RecordContext
from penstock.state.cache import CacheEntry, DirtyEntry
from penstock.state.iterators import PeekingIterator, overlay
from penstock.state.keys.schema import ACCEPT, STOP, Matcher
from penstock.state.layers.cached import CachingStore
from penstock.state.store import StateStore, StoreIterator
from penstock.windows import MAX_TIMESTAMP

CachedEntry = tuple[bytes, "bytes | None"]

SEGMENT_ID_SIZE: Final = 8
_pack_segment_id = struct.Struct(">q").pack
_MAX_TRACKED_SEGMENTS = 64


class CachingSegmentedStore(CachingStore):
    """A cache whose keys begin with the id of their segment."""

    def __init__(self, wrapped: StateStore, segment_interval: int) -> None:
        super().__init__(wrapped)
        self._segment_interval = segment_interval
        # Which segments the cache may have entries of. An in-memory store has a segment for every ms: they are not counted.
        self._segment_ids: set[int] | None = set() if segment_interval > 1 else None

    def _segment_id(self, timestamp: int) -> int:
        return max(0, timestamp) // self._segment_interval

    def _cache_key(self, binary_key: bytes, timestamp: int) -> bytes:
        return _pack_segment_id(max(0, timestamp) // self._segment_interval) + binary_key

    def _segment_end(self, timestamp: int) -> bytes:
        return _pack_segment_id(self._segment_id(timestamp) + 1)

    def _put_cached(self, binary_key: bytes, timestamp: int, value: bytes | None) -> RecordContext:
        if not self._open:
            self.validate_store_open()
        context = self._record()
        segment_id = max(0, timestamp) // self._segment_interval
        if self._segment_ids is not None and segment_id not in self._segment_ids:
            self._track_segment(segment_id)
        self._cache.put(self._cache_name, _pack_segment_id(segment_id) + binary_key, CacheEntry(value, context, True))
        return context

    def _get_cached(self, binary_key: bytes, timestamp: int) -> CacheEntry | None:
        if not self._open:
            self.validate_store_open()
        return self._entries.get(_pack_segment_id(max(0, timestamp) // self._segment_interval) + binary_key)

    def _track_segment(self, segment_id: int) -> None:
        ids = self._segment_ids
        assert ids is not None
        if len(ids) >= _MAX_TRACKED_SEGMENTS:
            # Most are of the past: start again from what the cache still has.
            ids.clear()
            ids.update(int.from_bytes(key[:SEGMENT_ID_SIZE], "big") for key, _ in self._cache.range(self._cache_name))
        ids.add(segment_id)

    def _cached_of_keys(
        self, lower: bytes | None, upper: bytes | None, time_from: int, time_to: int, match: Matcher, forward: bool
    ) -> Iterator[CachedEntry]:
        """The cached entries between two keys, segment by segment."""
        if self._segment_ids is None:
            yield from self._cached_between(time_from, time_to, match, forward)
            return
        first, last = self._segment_id(time_from), self._segment_id(time_to)
        for segment_id in sorted((at for at in self._segment_ids if first <= at <= last), reverse=not forward):
            prefix = _pack_segment_id(segment_id)
            key_from = prefix if lower is None else prefix + lower
            key_to = _pack_segment_id(segment_id + 1) if upper is None else prefix + upper
            entries = self._cache.range(self._cache_name, key_from, key_to, upper is not None, forward)
            yield from _matching(entries, match)

    def _cached_between(self, time_from: int, time_to: int, match: Matcher | None, forward: bool) -> Iterator[CachedEntry]:
        """The cached entries of the segments of a range of time; all of them without a matcher."""
        key_from = _pack_segment_id(self._segment_id(time_from))
        key_to = None if time_to >= MAX_TIMESTAMP else self._segment_end(time_to)
        entries = self._cache.range(self._cache_name, key_from, key_to, False, forward)
        if match is None:
            return ((key, entry.value) for key, entry in entries)
        # A STOP ends one segment; here several come in one range.
        return ((key, entry.value) for key, entry in entries if match(key[SEGMENT_ID_SIZE:]) == ACCEPT)

    def _merged(
        self,
        cached: Iterable[tuple[Any, bytes | None]],
        below: StoreIterator[tuple[Any, bytes]],
        sort_key: Callable[[Any], Any],
        from_sort_key: Callable[[Any], Any],
        forward: bool,
    ) -> PeekingIterator[Any, bytes]:
        """The cache over the store: both as (sort key, value), the result with the keys of the store."""
        lower = ((sort_key(key), value) for key, value in below)
        merged = ((from_sort_key(key), value) for key, value in overlay(cached, lower, forward))
        return PeekingIterator(merged, self._name, lambda _: below.close())

    def _write_and_forward_all(self, entries: list[DirtyEntry]) -> None:
        for key, new_value, entry in entries:
            self._write_and_forward(key[SEGMENT_ID_SIZE:], new_value, entry)


def _matching(entries: Iterator[tuple[bytes, CacheEntry]], match: Matcher) -> Iterator[CachedEntry]:
    for key, entry in entries:
        verdict = match(key[SEGMENT_ID_SIZE:])
        if verdict == ACCEPT:
            yield key, entry.value
        elif verdict == STOP:
            return
