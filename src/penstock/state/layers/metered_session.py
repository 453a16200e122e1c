"""The typed layer of session stores: serdes, null checks, metrics and open iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.keys.session import SessionKeySchema
from penstock.state.layers.metered import MeteredStore
from penstock.state.layers.wrapped_session import Session
from penstock.state.ranges import SessionRanges
from penstock.state.store import StoreIterator
from penstock.state.value_formats import PLAIN
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")


class MeteredSessionStore(MeteredStore[K, V], SessionRanges[K, V], Generic[K, V]):
    """Aggregates per key and session."""

    kind = "session"
    timed_methods = ("put", "remove", "fetch_session", "commit")

    @property
    def takes_rows(self) -> bool:
        return self.value_format is PLAIN and super().takes_rows

    @property
    def gives_headers(self) -> bool:
        return self.value_format.keeps_headers

    def _use_headers(self) -> None:
        self.put = self._put_with_headers  # type: ignore[method-assign]
        self.remove = self._remove_with_headers  # type: ignore[method-assign]

    def _put_with_headers(self, session_key: Windowed[K], aggregate: V | None) -> None:
        if aggregate is None:
            with self._deleting():
                self._wrapped.put(self._raw_session(session_key), None)
            return
        if session_key is None or session_key.window is None or session_key.key is None:
            self._raw_session(session_key)  # raises with the reason
        raw_key, value = self._raw_entry(session_key.key, aggregate)
        self._wrapped.put(Windowed(raw_key, session_key.window), value)

    def _remove_with_headers(self, session_key: Windowed[K]) -> None:
        with self._deleting():
            self._wrapped.remove(self._raw_session(session_key))

    def _flushed_key(self, raw: bytes) -> Windowed[K]:
        session = SessionKeySchema.from_binary(raw)
        return Windowed(self._key_from(session.key), session.window)

    @property
    def observed_stream_time(self) -> int:
        """The latest session end that was put; -1 before the first."""
        return int(self._wrapped.observed_stream_time)

    @property
    def retention_period(self) -> int:
        """How long sessions can be found after their end, in milliseconds of stream time."""
        return int(self._wrapped.retention_period)

    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        self._wrapped.put(self._raw_session(session_key), self._raw_from_value(aggregate))

    def remove(self, session_key: Windowed[K]) -> None:
        self._wrapped.remove(self._raw_session(session_key))

    def kept_sessions_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, int, Any]]]:
        """Start, end and aggregate, as `keep` keeps it, of what `find_sessions` finds for many keys; where `takes_rows`."""
        found = self._wrapped.sessions_of(bounds)
        kept = iter(self._serdes.kept_from([raw for of_key in found.values() for _, _, raw in of_key]))
        return {key: [(start, end, next(kept)) for start, end, _ in of_key] for key, of_key in found.items()}

    def write_sessions_around(self, sessions: Sequence[Session], kept: Sequence[Any], record_times: Sequence[int]) -> None:
        """Set (None removes) what `keep` has kept of many sessions past the cache; the caller tells of the changes itself."""
        self._wrapped.put_sessions(sessions, self._serdes.raw_from_kept(kept), record_times)

    def discard_sessions(self, sessions: Sequence[Session]) -> None:
        """Take out sessions that have expired, without a trace; where `takes_rows`."""
        self._wrapped.discard_sessions(sessions)

    def fetch_session(self, key: K, session_start: int, session_end: int) -> V | None:
        if key is None:
            self._refuse_none_key()
        aggregate: V | None = self._value_from_raw(self._wrapped.fetch_session(self._raw_key(key), session_start, session_end))
        return aggregate

    def find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        if key is None:
            self._refuse_none_key()
        return self._windowed(
            self._wrapped.find_sessions(self._raw_key(key), earliest_session_end, latest_session_start, forward)
        )

    def find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        raw_from, raw_to = self._raw_bound(key_from), self._raw_bound(key_to)
        return self._windowed(
            self._wrapped.find_sessions_key_range(raw_from, raw_to, earliest_session_end, latest_session_start, forward)
        )

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> StoreIterator[tuple[Windowed[K], V]]:
        return self._windowed(self._wrapped.find_sessions_by_end(earliest_session_end, latest_session_end))

    def _num_entries(self) -> int:
        engine = self.find_inner(InMemorySessionStore)
        return -1 if engine is None else engine.num_entries()

    def _raw_session(self, session_key: Windowed[K]) -> Windowed[bytes]:
        if session_key is None:
            raise ValueError(f"session key cannot be None in store {self._name}")
        if session_key.window is None:
            raise ValueError(f"the window of a session key cannot be None in store {self._name}")
        if session_key.key is None:
            self._refuse_none_key()
        return Windowed(self._raw_key(session_key.key), session_key.window)
