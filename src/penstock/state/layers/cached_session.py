"""Caching of session stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.state.iterators import PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.session import SessionKeySchema
from penstock.state.layers.cached_segments import SEGMENT_ID_SIZE, CachedEntry, CachingSegmentedStore
from penstock.state.layers.wrapped_session import FoundSession, Session
from penstock.state.ranges import SessionRanges
from penstock.state.store import StateStore, StoreIterator
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed

_to_binary = SessionKeySchema.to_binary
_from_binary = SessionKeySchema.from_binary

_Below = StoreIterator[tuple[Windowed[bytes], bytes]]


class CachingSessionStore(CachingSegmentedStore, SessionRanges[bytes, bytes]):
    """Later puts of a session replace earlier ones until they are flushed; a removal waits too."""

    def __init__(self, wrapped: StateStore, segment_interval: int) -> None:
        super().__init__(wrapped, segment_interval)
        self._schema = SessionKeySchema()

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        window = session_key.window
        self._put_cached(_to_binary(session_key.key, window.start, window.end), window.end, aggregate)

    def remove(self, session_key: Windowed[bytes]) -> None:
        self.put(session_key, None)

    def sessions_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[FoundSession]]:
        """What `find_sessions` finds for many keys, cached sessions over those below."""
        self.validate_store_open()
        found: dict[bytes, list[FoundSession]]
        if not len(self._entries):
            found = self._wrapped.sessions_of(bounds)
            return found
        found = {}
        for key, (earliest_end, latest_start) in bounds.items():
            with self.find_sessions(key, earliest_end, latest_start) as entries:
                of_key = [(session.window.start, session.window.end, aggregate) for session, aggregate in entries]
            if of_key:
                found[key] = of_key
        return found

    def put_sessions(self, sessions: Sequence[Session], aggregates: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the aggregates of many sessions at once in the store below; what waits in the cache goes first."""
        self.validate_store_open()
        if len(self._entries):
            self.flush_cache()
            self.clear_cache()
        self._wrapped.put_sessions(sessions, aggregates, record_times)

    def discard_sessions(self, sessions: Sequence[Session]) -> None:
        """Take out sessions that have expired, without a trace."""
        self._wrapped.discard_sessions(sessions)

    @property
    def observed_stream_time(self) -> int:
        """The latest session end that was put below; -1 before the first."""
        return int(self._wrapped.observed_stream_time)

    @property
    def retention_period(self) -> int:
        """How long sessions can be found below after their end, in milliseconds of stream time."""
        return int(self._wrapped.retention_period)

    def fetch_session(self, key: bytes, session_start: int, session_end: int) -> bytes | None:
        entry = self._get_cached(_to_binary(key, session_start, session_end), session_end)
        if entry is not None:
            return entry.value
        aggregate: bytes | None = self._wrapped.fetch_session(key, session_start, session_end)
        return aggregate

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        below = self._wrapped.find_sessions(key, earliest_session_end, latest_session_start, forward)
        self.validate_store_open()
        schema = self._schema
        cached = self._cached_of_keys(
            schema.lower_range_fixed_size(key, earliest_session_end),
            schema.upper_range_fixed_size(key, latest_session_start),
            earliest_session_end,
            MAX_TIMESTAMP,
            schema.matcher(key, key, earliest_session_end, latest_session_start, forward),
            forward,
        )
        return self._sessions(cached, below, forward)

    def find_sessions_key_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
        forward: bool = True,
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Return the sessions of the keys in a range, in the order of the store below."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        below = self._wrapped.find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start, forward)
        self.validate_store_open()
        schema = self._schema
        cached = self._cached_of_keys(
            schema.lower_range(key_from, earliest_session_end),
            schema.upper_range(key_to, latest_session_start),
            earliest_session_end,
            MAX_TIMESTAMP,
            schema.matcher(key_from, key_to, earliest_session_end, latest_session_start, forward),
            forward,
        )
        return self._sessions(cached, below, forward)

    def _sessions(self, cached: Iterable[CachedEntry], below: _Below, forward: bool) -> PeekingIterator[Windowed[bytes], bytes]:
        if self.persistent:
            return self._merged(cached, below, self._cache_key_of, _windowed_of, forward)
        # A store in memory has sessions that end together in the order of keys, later starts first.
        entries = [(_end_key_start(_windowed_of(key)), value) for key, value in cached]
        entries.sort(key=_first, reverse=not forward)
        return self._merged(entries, below, _end_key_start, _windowed_of_end_key_start, forward)

    def _cache_key_of(self, windowed: Windowed[bytes]) -> bytes:
        window = windowed.window
        return self._cache_key(_to_binary(windowed.key, window.start, window.end), window.end)

    def _fetch_below(self, binary_key: bytes) -> bytes | None:
        session = _from_binary(binary_key)
        aggregate: bytes | None = self._wrapped.fetch_session(session.key, session.window.start, session.window.end)
        return aggregate

    def _came_and_went(self, binary_key: bytes) -> None:
        if self.takes_rows:
            # It may be there all the same, and be found although it has expired.
            start, end = SessionKeySchema.times(binary_key)
            self._wrapped.discard_sessions([(SessionKeySchema.extract_key_bytes(binary_key), start, end)])

    def _put_below(self, binary_key: bytes, value: bytes | None) -> None:
        self._wrapped.put(_from_binary(binary_key), value)


def _windowed_of(cache_key: bytes) -> Windowed[bytes]:
    return _from_binary(cache_key[SEGMENT_ID_SIZE:])


def _end_key_start(windowed: Windowed[bytes]) -> tuple[int, bytes, int]:
    return windowed.window.end, windowed.key, -windowed.window.start


def _windowed_of_end_key_start(sort_key: tuple[int, bytes, int]) -> Windowed[bytes]:
    end, key, negated_start = sort_key
    return Windowed(key, SessionWindow(-negated_start, end))


def _first(entry: tuple[Any, Any]) -> Any:
    return entry[0]
