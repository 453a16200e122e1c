"""A session store around another, everything passed through."""

from __future__ import annotations

from typing import Any

from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import SessionStore, StoreIterator
from penstock.windows import Windowed

_Sessions = StoreIterator[tuple[Any, Any]]


class WrappedSessionStore(WrappedStateStore, SessionStore[Any, Any]):
    """The base of the session layers."""

    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        """Set the aggregate of a session; None deletes."""
        self._wrapped.put(session_key, aggregate)

    def remove(self, session_key: Windowed[Any]) -> None:
        """Remove a session."""
        self._wrapped.remove(session_key)

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        """The aggregate of exactly this session, or None."""
        return self._wrapped.fetch_session(key, session_start, session_end)

    def fetch(self, key: Any) -> _Sessions:
        """All sessions of a key, oldest first."""
        entries: _Sessions = self._wrapped.fetch(key)
        return entries

    def backward_fetch(self, key: Any) -> _Sessions:
        """All sessions of a key, newest first."""
        entries: _Sessions = self._wrapped.backward_fetch(key)
        return entries

    def fetch_key_range(self, key_from: Any, key_to: Any) -> _Sessions:
        """All sessions of the keys in a range."""
        entries: _Sessions = self._wrapped.fetch_key_range(key_from, key_to)
        return entries

    def backward_fetch_key_range(self, key_from: Any, key_to: Any) -> _Sessions:
        """The same, backwards."""
        entries: _Sessions = self._wrapped.backward_fetch_key_range(key_from, key_to)
        return entries

    def find_sessions(self, key: Any, earliest_session_end: int, latest_session_start: int) -> _Sessions:
        """Sessions of a key with end >= the first and start <= the second bound."""
        entries: _Sessions = self._wrapped.find_sessions(key, earliest_session_end, latest_session_start)
        return entries

    def backward_find_sessions(self, key: Any, earliest_session_end: int, latest_session_start: int) -> _Sessions:
        """The same, newest first."""
        entries: _Sessions = self._wrapped.backward_find_sessions(key, earliest_session_end, latest_session_start)
        return entries

    def find_sessions_key_range(
        self, key_from: Any, key_to: Any, earliest_session_end: int, latest_session_start: int
    ) -> _Sessions:
        """The same for a range of keys."""
        entries: _Sessions = self._wrapped.find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start)
        return entries

    def backward_find_sessions_key_range(
        self, key_from: Any, key_to: Any, earliest_session_end: int, latest_session_start: int
    ) -> _Sessions:
        """The same for a range of keys, backwards."""
        entries: _Sessions = self._wrapped.backward_find_sessions_key_range(
            key_from, key_to, earliest_session_end, latest_session_start
        )
        return entries

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> _Sessions:
        """Sessions of all keys that end in a range of time; only stores that results are emitted from at close can do it."""
        find = getattr(self._wrapped, "find_sessions_by_end", None)
        if find is None:
            raise NotImplementedError(
                f"store {self._name} cannot find sessions by their end: it is not kept in the order of time. "
                "Sessions that emit on window close need a time-ordered or an in-memory store without caching"
            )
        entries: _Sessions = find(earliest_session_end, latest_session_end)
        return entries
