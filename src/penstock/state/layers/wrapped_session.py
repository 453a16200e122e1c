"""A session store around another, everything passed through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.ranges import SessionRanges
from penstock.state.store import StoreIterator
from penstock.windows import Windowed

Session = tuple[bytes, int, int]
"""The bytes of a key, and start and end of one of its sessions."""

FoundSession = tuple[int, int, bytes]
"""Start, end and aggregate of a session."""

_Sessions = StoreIterator[tuple[Any, Any]]


class WrappedSessionStore(WrappedStateStore, SessionRanges[Any, Any]):
    """The base of the session layers."""

    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        self._wrapped.put(session_key, aggregate)

    def remove(self, session_key: Windowed[Any]) -> None:
        self._wrapped.remove(session_key)

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        return self._wrapped.fetch_session(key, session_start, session_end)

    def sessions_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[FoundSession]]:
        """What `find_sessions` finds for many keys, each with bounds of its own; keys without any are left out.

        Where `takes_rows`.
        """
        found: dict[bytes, list[FoundSession]] = self._wrapped.sessions_of(bounds)
        return found

    def put_sessions(self, sessions: Sequence[Session], aggregates: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set (None removes) the aggregates of many sessions, by records of these times, without waiting in a cache.

        No flush listener hears of it: the caller tells of the changes itself. Where `takes_rows`.
        """
        self._wrapped.put_sessions(sessions, aggregates, record_times)

    def discard_sessions(self, sessions: Sequence[Session]) -> None:
        """Take out sessions that have expired, without a trace; where `takes_rows`."""
        self._wrapped.discard_sessions(sessions)

    @property
    def observed_stream_time(self) -> int:
        """The latest session end that was put; -1 before the first."""
        return int(self._wrapped.observed_stream_time)

    @property
    def retention_period(self) -> int:
        """How long sessions can be found after their end, in milliseconds of stream time."""
        return int(self._wrapped.retention_period)

    def find_sessions(self, key: Any, earliest_session_end: int, latest_session_start: int, forward: bool = True) -> _Sessions:
        entries: _Sessions = self._wrapped.find_sessions(key, earliest_session_end, latest_session_start, forward)
        return entries

    def find_sessions_key_range(
        self, key_from: Any, key_to: Any, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> _Sessions:
        entries: _Sessions = self._wrapped.find_sessions_key_range(
            key_from, key_to, earliest_session_end, latest_session_start, forward
        )
        return entries

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> _Sessions:
        entries: _Sessions = self._wrapped.find_sessions_by_end(earliest_session_end, latest_session_end)
        return entries
