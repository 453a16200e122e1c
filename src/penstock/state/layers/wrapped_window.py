"""A window store around another, everything passed through."""

from __future__ import annotations

from typing import Any

from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import StoreIterator, WindowStore

_Values = StoreIterator[tuple[int, Any]]
_Windows = StoreIterator[tuple[Any, Any]]


class WrappedWindowStore(WrappedStateStore, WindowStore[Any, Any]):
    """The base of the window layers."""

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Set the value of a key's window; None deletes."""
        self._wrapped.put(key, value, window_start)

    def fetch(self, key: Any, time: int) -> Any:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`, or None."""
        return self._wrapped.fetch(key, time)

    def fetch_range(self, key: Any, time_from: int, time_to: int) -> _Values:
        """`(window_start, value)` of one key's windows, oldest first."""
        entries: _Values = self._wrapped.fetch_range(key, time_from, time_to)
        return entries

    def backward_fetch_range(self, key: Any, time_from: int, time_to: int) -> _Values:
        """The same, newest first."""
        entries: _Values = self._wrapped.backward_fetch_range(key, time_from, time_to)
        return entries

    def fetch_key_range(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> _Windows:
        """Windows of the keys in a range."""
        entries: _Windows = self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to)
        return entries

    def backward_fetch_key_range(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> _Windows:
        """The same, backwards."""
        entries: _Windows = self._wrapped.backward_fetch_key_range(key_from, key_to, time_from, time_to)
        return entries

    def fetch_all(self, time_from: int, time_to: int) -> _Windows:
        """Windows of all keys that start in a range of time."""
        entries: _Windows = self._wrapped.fetch_all(time_from, time_to)
        return entries

    def backward_fetch_all(self, time_from: int, time_to: int) -> _Windows:
        """The same, backwards."""
        entries: _Windows = self._wrapped.backward_fetch_all(time_from, time_to)
        return entries

    def all(self) -> _Windows:
        """All windows that are still kept."""
        entries: _Windows = self._wrapped.all()
        return entries

    def backward_all(self) -> _Windows:
        """The same, backwards."""
        entries: _Windows = self._wrapped.backward_all()
        return entries


class InMemoryTimestampedWindowMarker(WrappedWindowStore):
    """Says of an in-memory store that its values carry their timestamp."""

    timestamped = True
