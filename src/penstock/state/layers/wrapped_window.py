"""A window store around another, everything passed through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.record import Headers
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.ranges import WindowRanges
from penstock.state.store import StoreIterator

WindowKey = tuple[bytes, int]
"""The bytes of a key, and the start of one of its windows."""

Entry = tuple[int, bytes]
"""A time, and the bytes of a value that was put at it."""

_Values = StoreIterator[tuple[int, Any]]
_Windows = StoreIterator[tuple[Any, Any]]


class WrappedWindowStore(WrappedStateStore, WindowRanges[Any, Any]):
    """The base of the window layers."""

    def put(self, key: Any, value: Any, window_start: int) -> None:
        self._wrapped.put(key, value, window_start)

    def fetch(self, key: Any, time: int) -> Any:  # type: ignore[override]  # single windows: see WindowStore
        return self._wrapped.fetch(key, time)

    def fetch_windows(self, places: Sequence[WindowKey]) -> list[bytes | None]:
        """The values of many keys and window starts; where `takes_rows`."""
        values: list[bytes | None] = self._wrapped.fetch_windows(places)
        return values

    def windows_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, bytes]]]:
        """What `fetch_range` finds for many keys, each with bounds of its own; keys without any are left out.

        Where `takes_rows`.
        """
        found: dict[bytes, list[tuple[int, bytes]]] = self._wrapped.windows_of(bounds)
        return found

    def put_windows(self, places: Sequence[WindowKey], values: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the values of many keys and window starts, by records of these times, without waiting in a cache.

        No flush listener hears of it: the caller tells of the changes itself. Where `takes_rows`.
        """
        self._wrapped.put_windows(places, values, record_times)

    def oldest_after(self, window_start: int) -> int:
        """The earliest window that can be found when one that starts then has been put; where `takes_rows`."""
        return int(self._wrapped.oldest_after(window_start))

    def windows_between(self, time_from: int, time_to: int) -> tuple[list[WindowKey], list[bytes]]:
        """Key, window start and value of all windows that start in a range of time; where `takes_rows`."""
        found: tuple[list[WindowKey], list[bytes]] = self._wrapped.windows_between(time_from, time_to)
        return found

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        logged: bool = False,
    ) -> list[bytes]:
        """Add the values of many records in their order; returns the bytes of their keys with time and sequence number.

        A value is put alone, without time and headers, which only its changelog record has. One that is None changes nothing,
        but has a number of its own where the puts are logged. Where `takes_duplicates`.
        """
        store_keys: list[bytes] = self._wrapped.put_duplicates(keys, values, timestamps, headers, logged)
        return store_keys

    def fetch_duplicates(self, keys: Iterable[bytes], time_from: int, time_to: int) -> dict[bytes, list[Entry]]:
        """All values of many keys in a range of time, in the order of times and of puts; where `takes_duplicates`.

        Keys that have none are left out.
        """
        found: dict[bytes, list[Entry]] = self._wrapped.fetch_duplicates(keys, time_from, time_to)
        return found

    @property
    def observed_stream_time(self) -> int:
        """The latest time that was put, -1 before the first; where `takes_duplicates`."""
        return int(self._wrapped.observed_stream_time)

    def oldest(self, stream_time: int) -> int:
        """The lowest time that can be found when stream time has come this far; where `takes_duplicates`."""
        return int(self._wrapped.oldest(stream_time))

    def is_kept(self, timestamp: int, stream_time: int) -> bool:
        """Whether a put at a time is kept when stream time has come this far; where `takes_duplicates`."""
        return bool(self._wrapped.is_kept(timestamp, stream_time))

    def fetch_range(self, key: Any, time_from: int, time_to: int, forward: bool = True) -> _Values:
        entries: _Values = self._wrapped.fetch_range(key, time_from, time_to, forward)
        return entries

    def fetch_key_range(self, key_from: Any, key_to: Any, time_from: int, time_to: int, forward: bool = True) -> _Windows:
        entries: _Windows = self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, forward)
        return entries

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> _Windows:
        entries: _Windows = self._wrapped.fetch_all(time_from, time_to, forward)
        return entries
