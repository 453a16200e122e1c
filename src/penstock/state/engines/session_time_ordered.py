"""The session store on RocksDB that results are emitted from when a session closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.state.engines.time_ordered import TimeOrderedSegmentedBytesStore
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed_session import (
    KeyFirstSessionKeySchema,
    TimeFirstSessionKeySchema,
    base_key_to_index_key,
    index_key_to_base_key,
)
from penstock.state.keys.schema import ACCEPT, SKIP
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import SessionStore
from penstock.windows import MAX_TIMESTAMP, Windowed

_to_base_key = TimeFirstSessionKeySchema.to_binary
_from_base_key = TimeFirstSessionKeySchema.from_binary
_end_of = TimeFirstSessionKeySchema.extract_end_timestamp


class TimeOrderedSessionSegmentedBytesStore(TimeOrderedSegmentedBytesStore):
    """Sessions in the order of their ends."""

    def __init__(self, name: str, retention_period: int, segment_interval: int, with_index: bool) -> None:
        index_schema = KeyFirstSessionKeySchema() if with_index else None
        super().__init__(name, retention_period, segment_interval, TimeFirstSessionKeySchema(), index_schema, min_age=1)

    def to_index_key(self, base_key: bytes) -> bytes:
        """The index key that stands for a base key."""
        return base_key_to_index_key(base_key)

    def to_base_key(self, index_key: bytes) -> bytes:
        """The base key that an index key stands for."""
        return index_key_to_base_key(index_key)

    def changelog_to_base_key(self, changelog_key: bytes) -> bytes:
        """The base key of a key of the changelog."""
        return TimeFirstSessionKeySchema.from_non_prefix_session_key(changelog_key)

    def fetch_sessions(self, earliest_session_end: int, latest_session_end: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """All sessions that end in a range of time; those that expired count until their segment is dropped."""

        def match(base_key: bytes) -> int:
            return ACCEPT if earliest_session_end <= _end_of(base_key) <= latest_session_end else SKIP

        # The end of the range is one moment later: nothing says how high the keys of its last moment go.
        lower = _to_base_key(b"", 0, max(0, earliest_session_end))
        upper = _to_base_key(b"", 0, min(max(0, latest_session_end + 1), MAX_TIMESTAMP))
        prefixes = self._segments.search(earliest_session_end, latest_session_end)
        return self._scan(prefixes, lower, upper, match, True, _from_base_key)


class RocksDBTimeOrderedSessionStore(WrappedStateStore, SessionStore[bytes, bytes]):
    """Aggregates per session end, start and key."""

    _wrapped: TimeOrderedSessionSegmentedBytesStore

    def __init__(self, bytes_store: TimeOrderedSessionSegmentedBytesStore) -> None:
        super().__init__(bytes_store)

    @property
    def has_index(self) -> bool:
        """Whether there is an index by key."""
        return self._wrapped.has_index

    @property
    def observed_stream_time(self) -> int:
        """The latest session end that was put; -1 before the first."""
        return self._wrapped.observed_stream_time

    @property
    def expired_records(self) -> int:
        """How many puts came too late."""
        return self._wrapped.expired_records

    @property
    def retention_period(self) -> int:
        """How long sessions can be found after their end, in milliseconds of stream time."""
        return self._wrapped.retention_period

    @property
    def takes_rows(self) -> bool:
        """Whether many sessions can be put and found at once."""
        return True

    def sessions_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, int, bytes]]]:
        """Start, end and aggregate of the sessions that `find_sessions` finds for many keys."""
        found = {}
        for key, (earliest_end, latest_start) in bounds.items():
            with self.find_sessions(key, earliest_end, latest_start) as entries:
                of_key = [(session.window.start, session.window.end, aggregate) for session, aggregate in entries]
            if of_key:
                found[key] = of_key
        return found

    def put_sessions(
        self, sessions: Sequence[tuple[bytes, int, int]], aggregates: Sequence[bytes | None], record_times: Sequence[int]
    ) -> None:
        """Set (None removes) the aggregates of many sessions, in their order."""
        base_keys = [_to_base_key(*session) for session in sessions]
        self._wrapped.put_all(zip(base_keys, aggregates, [end for _, _, end in sessions]))

    def discard_sessions(self, sessions: Sequence[tuple[bytes, int, int]]) -> None:
        """Take out sessions that have expired."""
        for session in sessions:
            self._wrapped.remove(_to_base_key(*session))

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        """Set the aggregate of a session; None deletes."""
        self._wrapped.put(_to_base_key(session_key.key, session_key.window.start, session_key.window.end), aggregate)

    def remove(self, session_key: Windowed[bytes]) -> None:
        """Remove a session."""
        self._wrapped.remove(_to_base_key(session_key.key, session_key.window.start, session_key.window.end))

    def fetch_session(self, key: bytes, session_start: int, session_end: int) -> bytes | None:
        """The aggregate of exactly this session, or None."""
        return self._wrapped.get(_to_base_key(key, session_start, session_end))

    def fetch(self, key: bytes) -> PeekingIterator[Windowed[bytes], bytes]:
        """All sessions of a key, oldest first."""
        return self.find_sessions(key, 0, MAX_TIMESTAMP)

    def backward_fetch(self, key: bytes) -> PeekingIterator[Windowed[bytes], bytes]:
        """All sessions of a key, newest first."""
        return self.backward_find_sessions(key, 0, MAX_TIMESTAMP)

    def fetch_key_range(self, key_from: bytes | None, key_to: bytes | None) -> PeekingIterator[Windowed[bytes], bytes]:
        """All sessions of the keys in a range."""
        return self.find_sessions_key_range(key_from, key_to, 0, MAX_TIMESTAMP)

    def backward_fetch_key_range(self, key_from: bytes | None, key_to: bytes | None) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self.backward_find_sessions_key_range(key_from, key_to, 0, MAX_TIMESTAMP)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Sessions of a key with end >= the first and start <= the second bound."""
        return self._wrapped.fetch(key, earliest_session_end, latest_session_start, True, _from_base_key)

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, newest first."""
        return self._wrapped.fetch(key, earliest_session_end, latest_session_start, False, _from_base_key)

    def find_sessions_key_range(
        self, key_from: bytes | None, key_to: bytes | None, earliest_session_end: int, latest_session_start: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same for a range of keys."""
        return self._wrapped.fetch_key_range(key_from, key_to, earliest_session_end, latest_session_start, True, _from_base_key)

    def backward_find_sessions_key_range(
        self, key_from: bytes | None, key_to: bytes | None, earliest_session_end: int, latest_session_start: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same for a range of keys, backwards."""
        return self._wrapped.fetch_key_range(key_from, key_to, earliest_session_end, latest_session_start, False, _from_base_key)

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Sessions of all keys that end in a range of time, in the order of their ends."""
        return self._wrapped.fetch_sessions(earliest_session_end, latest_session_end)
