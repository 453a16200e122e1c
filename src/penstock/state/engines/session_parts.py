"""Ranges over a session store in memory, read in parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any

from penstock.state.engines.segment_parts import SegmentParts
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.iterators import is_inverted
from penstock.state.parts import Part, PartReader, upper_bound
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed


class _Sessions(SegmentParts):
    """Sessions of a range of keys that start no later than a time, in the order of their ends."""

    def __init__(
        self,
        store: InMemorySessionStore,
        keys: tuple[bytes | None, bytes | None],
        period: tuple[int, int],
        latest_start: int,
        forward: bool,
    ) -> None:
        ends, segments, _, orders = store.contents
        super().__init__(ends, segments, orders, keys, period, forward)
        self._store, self._latest_start = store, latest_start

    def earliest(self) -> int:
        """The earliest end that is still kept."""
        return self._store.min_live_time()

    def entries_of(self, time: int, segment: Mapping[bytes, Any], keys: list[bytes]) -> list[Any]:
        """The sessions of these keys that end at a time."""
        return [
            (Windowed(key, SessionWindow(start, time)), starts[start])
            for key in keys
            if (starts := segment.get(key)) is not None
            for start in sorted(starts, reverse=self._forward)
            if start <= self._latest_start
        ]


class _SessionsOfKey(PartReader):
    """Sessions of one key, in the order of their ends."""

    def __init__(self, store: InMemorySessionStore, key: bytes, earliest_end: int, latest_start: int, forward: bool) -> None:
        self._store, self._key, self._forward = store, key, forward
        self._earliest_end, self._latest_start = earliest_end, latest_start
        self._last: tuple[int, int] | None = None

    def read(self, budget: int) -> Part:
        _, segments, sessions_of_key, _ = self._store.contents
        sessions = sessions_of_key.get(self._key, [])
        first = bisect_left(sessions, (max(self._earliest_end, self._store.min_live_time()), -MAX_TIMESTAMP))
        if self._forward:
            if self._last is not None:
                first = max(first, bisect_right(sessions, self._last))
            found = sessions[first : first + budget]
        else:
            last = len(sessions) if self._last is None else bisect_left(sessions, self._last)
            found = sessions[max(first, last - budget) : last][::-1] if last > first else []
        if found:
            self._last = found[-1]
        key = self._key
        entries = [
            (Windowed(key, SessionWindow(-negated, end)), segments[end][key][-negated])
            for end, negated in found
            if -negated <= self._latest_start
        ]
        return Part(entries, len(found) < budget)


def session_parts(store: InMemorySessionStore, method: str, arguments: tuple[Any, ...]) -> PartReader | None:
    """A reader for a method of a session store that gives a range; None for others."""
    if method == "find_sessions":
        key, earliest_end, latest_start, forward = arguments
        return _SessionsOfKey(store, key, earliest_end, latest_start, forward)
    if method == "find_sessions_key_range":
        key_from, key_to, earliest_end, latest_start, forward = arguments
        if is_inverted(key_from, key_to):
            return _Sessions(store, (None, None), (1, 0), latest_start, forward)
        return _Sessions(store, (key_from, upper_bound(key_to)), (earliest_end, MAX_TIMESTAMP), latest_start, forward)
    return None
