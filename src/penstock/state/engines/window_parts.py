"""Ranges over a window store in memory, read in parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any

from penstock.state.engines.segment_parts import SegmentParts
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.iterators import is_inverted
from penstock.state.keys.window import time_window_for_size
from penstock.state.parts import Part, PartReader, upper_bound
from penstock.windows import Windowed


class _Windows(SegmentParts):
    """Windows of a range of keys, in the order of their starts."""

    def __init__(
        self, store: InMemoryWindowStore, keys: tuple[bytes | None, bytes | None], period: tuple[int, int], forward: bool
    ) -> None:
        times, segments, _, orders = store.contents
        # Duplicates come in an order that keys alone do not tell: their segments are not read in parts.
        super().__init__(times, segments, orders, keys, period, forward, whole_segments=store.retain_duplicates)
        self._store = store

    def earliest(self) -> int:
        """The earliest start that is still kept."""
        return self._store.min_live_time()

    def entries_of(self, time: int, segment: Mapping[bytes, Any], keys: list[bytes]) -> list[Any]:
        """The windows of these keys that start at a time."""
        window = time_window_for_size(time, self._store.window_size)
        if self._store.retain_duplicates:
            entries = self._store.entries_of(segment, keys, self._forward)
            return [(Windowed(key, window), value) for key, value in entries]
        get = segment.get
        return [(Windowed(key, window), value) for key in keys if (value := get(key)) is not None]


class _WindowsOfKey(PartReader):
    """`(window_start, value)` of one key's windows."""

    def __init__(self, store: InMemoryWindowStore, key: bytes, period: tuple[int, int], forward: bool) -> None:
        self._store, self._key, self._forward = store, key, forward
        self._from, self._to = period

    def read(self, budget: int) -> Part:
        _, segments, times_of_key, _ = self._store.contents
        times = times_of_key.get(self._key, [])
        first = bisect_left(times, max(self._from, self._store.min_live_time()))
        last = bisect_right(times, self._to)
        found = times[first : min(last, first + budget)] if self._forward else times[max(first, last - budget) : last][::-1]
        if found and self._forward:
            self._from = found[-1] + 1
        elif found:
            self._to = found[-1] - 1
        return Part([entry for time in found for entry in self._values(time, segments[time][self._key])], len(found) < budget)

    def _values(self, time: int, value: Any) -> list[tuple[int, bytes]]:
        if not self._store.retain_duplicates:
            return [(time, value)]
        return [(time, duplicate) for _, duplicate in (value if self._forward else value[::-1])]


def window_parts(store: InMemoryWindowStore, method: str, arguments: tuple[Any, ...]) -> PartReader | None:
    """A reader for a method of a window store that gives a range; None for others."""
    if method == "fetch_range":
        key, time_from, time_to, forward = arguments
        return _WindowsOfKey(store, key, (time_from, time_to), forward)
    if method == "fetch_all":
        time_from, time_to, forward = arguments
        return _Windows(store, (None, None), (time_from, time_to), forward)
    if method == "fetch_key_range":
        key_from, key_to, time_from, time_to, forward = arguments
        if is_inverted(key_from, key_to):
            return _Windows(store, (None, None), (1, 0), forward)
        return _Windows(store, (key_from, upper_bound(key_to)), (time_from, time_to), forward)
    return None
