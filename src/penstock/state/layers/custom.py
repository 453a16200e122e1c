"""Adapters for byte stores of the user's own, which have a second method for ranges that run backward."""

from __future__ import annotations

from typing import Any

from penstock.state.layers.wrapped_key_value import WrappedKeyValueStore
from penstock.state.layers.wrapped_session import WrappedSessionStore
from penstock.state.layers.wrapped_window import WrappedWindowStore
from penstock.state.store import KeyValueStore, SessionStore, StoreIterator, WindowStore

_Entries = StoreIterator[tuple[Any, Any]]


class CustomKeyValueStore(WrappedKeyValueStore):
    """A key-value store of the user's own."""

    def range(self, key_from: Any, key_to: Any, forward: bool = True) -> _Entries:
        read = self._wrapped.range if forward else self._wrapped.reverse_range
        entries: _Entries = read(key_from, key_to)
        return entries

    def all(self, forward: bool = True) -> _Entries:
        entries: _Entries = self._wrapped.all() if forward else self._wrapped.reverse_all()
        return entries


class CustomWindowStore(WrappedWindowStore):
    """A window store of the user's own."""

    def fetch_range(self, key: Any, time_from: int, time_to: int, forward: bool = True) -> _Entries:
        read = self._wrapped.fetch_range if forward else self._wrapped.backward_fetch_range
        entries: _Entries = read(key, time_from, time_to)
        return entries

    def fetch_key_range(self, key_from: Any, key_to: Any, time_from: int, time_to: int, forward: bool = True) -> _Entries:
        read = self._wrapped.fetch_key_range if forward else self._wrapped.backward_fetch_key_range
        entries: _Entries = read(key_from, key_to, time_from, time_to)
        return entries

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> _Entries:
        read = self._wrapped.fetch_all if forward else self._wrapped.backward_fetch_all
        entries: _Entries = read(time_from, time_to)
        return entries


class CustomSessionStore(WrappedSessionStore):
    """A session store of the user's own."""

    def find_sessions(self, key: Any, earliest_session_end: int, latest_session_start: int, forward: bool = True) -> _Entries:
        read = self._wrapped.find_sessions if forward else self._wrapped.backward_find_sessions
        entries: _Entries = read(key, earliest_session_end, latest_session_start)
        return entries

    def find_sessions_key_range(
        self, key_from: Any, key_to: Any, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> _Entries:
        read = self._wrapped.find_sessions_key_range if forward else self._wrapped.backward_find_sessions_key_range
        entries: _Entries = read(key_from, key_to, earliest_session_end, latest_session_start)
        return entries


def directed(store: Any) -> Any:
    """Return a byte store whose methods for ranges take the direction: the store itself, or an adapter around it."""
    if store.takes_direction:
        return store
    if isinstance(store, WindowStore):
        return CustomWindowStore(store)
    if isinstance(store, SessionStore):
        return CustomSessionStore(store)
    return CustomKeyValueStore(store) if isinstance(store, KeyValueStore) else store
