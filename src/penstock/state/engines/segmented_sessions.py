"""The face of the session stores on RocksDB, whatever their keys look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from penstock.state.engines.segmented_face import SegmentedFace
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed_session import TimeFirstSessionKeySchema
from penstock.state.keys.session import SessionKeySchema
from penstock.state.ranges import SessionRanges
from penstock.windows import Windowed


class SegmentedSessionStore(SegmentedFace, SessionRanges[bytes, bytes]):
    """Aggregates per key and session, in segments of the sessions' ends."""

    _keys: ClassVar[type[SessionKeySchema | TimeFirstSessionKeySchema]]
    takes_rows = True

    def sessions_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, int, bytes]]]:
        """Start, end and aggregate of the sessions that `find_sessions` finds for many keys."""
        times = self._keys.times
        found = self._wrapped.fetch_ranges(bounds)
        return {key: [(*times(binary), aggregate) for binary, aggregate in entries] for key, entries in found.items()}

    def put_sessions(
        self, sessions: Sequence[tuple[bytes, int, int]], aggregates: Sequence[bytes | None], record_times: Sequence[int]
    ) -> None:
        """Set (None removes) the aggregates of many sessions, in their order."""
        self._wrapped.put_all(zip(self._keys.store_keys(sessions), aggregates, [end for _, _, end in sessions]))

    def discard_sessions(self, sessions: Sequence[tuple[bytes, int, int]]) -> None:
        """Take out sessions that have expired."""
        for binary in self._keys.store_keys(sessions):
            self._wrapped.remove(binary)

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        self._wrapped.put(self._binary(session_key), aggregate)

    def remove(self, session_key: Windowed[bytes]) -> None:
        self._wrapped.remove(self._binary(session_key))

    def fetch_session(self, key: bytes, session_start: int, session_end: int) -> bytes | None:
        return self._wrapped.get(self._keys.to_binary(key, session_start, session_end))

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        return self._wrapped.fetch(key, earliest_session_end, latest_session_start, forward, self._keys.from_binary)

    def find_sessions_key_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
        forward: bool = True,
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        return self._wrapped.fetch_key_range(
            key_from, key_to, earliest_session_end, latest_session_start, forward, self._keys.from_binary
        )

    def _binary(self, session_key: Windowed[bytes]) -> bytes:
        window = session_key.window
        return self._keys.to_binary(session_key.key, window.start, window.end)
