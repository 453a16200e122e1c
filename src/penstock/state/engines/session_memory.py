"""The session store in memory: for each session end its keys and their starts, and for each key the sessions it has.

Among sessions of one key that end together, those that start later come first, as in Kafka Streams.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.record import RawRecord
from penstock.state.engines.base import InMemorySegments
from penstock.state.iterators import PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.schema import in_key_range
from penstock.state.keys.session import SessionKeySchema
from penstock.state.parts import Orders
from penstock.state.ranges import SessionRanges
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed

_Entry = tuple[Windowed[bytes], bytes]
# Key -> start -> aggregate, of the sessions that end together.
_Segment = dict[bytes, dict[int, bytes]]


class InMemorySessionStore(InMemorySegments, SessionRanges[bytes, bytes]):
    """Aggregates per key and session, dropped once the session's end is older than the retention."""

    def __init__(self, name: str, retention_period: int) -> None:
        super().__init__(name, retention_period)
        # (end, -start) of each key: in ascending order that is the order of a forward fetch.
        self._sessions_of_key: dict[bytes, list[tuple[int, int]]] = {}

    def close(self) -> None:
        super().close()
        self._sessions_of_key.clear()

    def num_entries(self) -> int:
        """How many sessions there are."""
        return sum(len(sessions) for sessions in self._sessions_of_key.values())

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        start, end = session_key.window.start, session_key.window.end
        if end > self._observed_stream_time:
            self._observed_stream_time = end
            self._remove_expired_segments()
        if end <= self._observed_stream_time - self._retention_period:
            self._expired.record("Skipping record for expired segment.")
        elif aggregate is None:
            self.remove(session_key)
        else:
            self._set(session_key.key, start, end, aggregate)

    def remove(self, session_key: Windowed[bytes]) -> None:
        key, start, end = session_key.key, session_key.window.start, session_key.window.end
        segment = self._segments.get(end)
        starts = None if segment is None else segment.get(key)
        if starts is None or start not in starts:
            return
        del starts[start]
        self._forget_session(key, start, end)
        if not starts:
            self._remove_key(end, key)

    def fetch_session(self, key: bytes, session_start: int, session_end: int) -> bytes | None:
        if session_end <= self._observed_stream_time - self._retention_period:
            return None
        starts = self._segments.get(session_end, {}).get(key)
        return None if starts is None else starts.get(session_start)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        found = self._of_key(key, earliest_session_end, latest_session_start)
        if not forward:
            found.reverse()
        return PeekingIterator(found, self._name)

    def find_sessions_key_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
        forward: bool = True,
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Return the sessions of the keys in a range, in the order of the sessions' ends."""
        return self._range(key_from, key_to, earliest_session_end, MAX_TIMESTAMP, latest_session_start, forward)

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Sessions of all keys that end in a range of time."""
        return self._range(None, None, earliest_session_end, latest_session_end, MAX_TIMESTAMP, forward=True)

    @property
    def contents(self) -> tuple[list[int], dict[int, _Segment], dict[bytes, list[tuple[int, int]]], Orders]:
        """The ends in order, the keys of each, (end, -start) of each key, and the orders of keys: for those who read in parts."""
        return self._times, self._segments, self._sessions_of_key, self._orders

    def _of_key(self, key: bytes, earliest_session_end: int, latest_session_start: int) -> list[_Entry]:
        sessions = self._sessions_of_key.get(key)
        if sessions is None:
            return []
        # Of all pairs with this end, the one with the latest start sorts first; nothing sorts before minus infinity.
        first = bisect_left(sessions, (max(earliest_session_end, self.min_live_time()), -MAX_TIMESTAMP))
        segments = self._segments
        return [
            (Windowed(key, SessionWindow(-negated, end)), segments[end][key][-negated])
            for end, negated in sessions[first:]
            if -negated <= latest_session_start
        ]

    def _range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_end: int,
        latest_end: int,
        latest_start: int,
        forward: bool,
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        found = self._segments_from_now(max(earliest_end, self.min_live_time()), latest_end, forward)
        return PeekingIterator(_sessions(found, key_from, key_to, latest_start, forward), self._name)

    def _set(self, key: bytes, start: int, end: int, aggregate: bytes) -> None:
        segment = self._segment_of(end)
        if self._orders and key not in segment:
            self._orders.added(end, key)
        starts = segment.setdefault(key, {})
        if start not in starts:
            insort(self._sessions_of_key.setdefault(key, []), (end, -start))
        starts[start] = aggregate

    def _forget_session(self, key: bytes, start: int, end: int) -> None:
        sessions = self._sessions_of_key[key]
        if len(sessions) == 1:
            del self._sessions_of_key[key]
        else:
            del sessions[bisect_left(sessions, (end, -start))]

    def _forget_segment(self, time: int, segment: Mapping[bytes, Any]) -> None:
        for key, starts in segment.items():
            for start in starts:
                self._forget_session(key, start, time)

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        for record in records:
            assert record.key is not None  # every record of a changelog has one
            self.put(SessionKeySchema.from_binary(record.key), record.value)


def _sessions(
    segments: Iterable[tuple[int, _Segment]], key_from: bytes | None, key_to: bytes | None, latest_start: int, forward: bool
) -> Iterator[_Entry]:
    for end, segment in segments:
        for key in sorted((key for key in segment if in_key_range(key, key_from, key_to)), reverse=not forward):
            # A snapshot: a session may be removed while an iterator stands on its segment.
            starts = dict(segment.get(key, ()))
            for start in sorted(starts, reverse=forward):
                if start <= latest_start:
                    yield Windowed(key, SessionWindow(start, end)), starts[start]
