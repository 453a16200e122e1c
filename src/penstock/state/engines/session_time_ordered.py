"""The session store on RocksDB that results are emitted from when a session closes."""

from __future__ import annotations

from penstock.state.engines.segmented_sessions import SegmentedSessionStore
from penstock.state.engines.time_ordered import TimeOrderedSegmentedBytesStore
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed_session import (
    KeyFirstSessionKeySchema,
    TimeFirstSessionKeySchema,
    base_key_to_index_key,
    index_key_to_base_key,
)
from penstock.state.keys.schema import ACCEPT, SKIP
from penstock.windows import MAX_TIMESTAMP, Windowed

_to_base_key = TimeFirstSessionKeySchema.to_binary
_from_base_key = TimeFirstSessionKeySchema.from_binary
_end_of = TimeFirstSessionKeySchema.extract_end_timestamp


class TimeOrderedSessionSegmentedBytesStore(TimeOrderedSegmentedBytesStore):
    """Sessions in the order of their ends."""

    def __init__(self, name: str, retention_period: int, segment_interval: int, with_index: bool) -> None:
        index_schema = KeyFirstSessionKeySchema() if with_index else None
        super().__init__(name, retention_period, segment_interval, TimeFirstSessionKeySchema(), index_schema, is_window=False)

    def to_index_key(self, base_key: bytes) -> bytes:
        """The index key that stands for a base key."""
        return base_key_to_index_key(base_key)

    def to_base_key(self, index_key: bytes) -> bytes:
        """The base key that an index key stands for."""
        return index_key_to_base_key(index_key)

    def to_store_key(self, changelog_key: bytes) -> bytes:
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


class RocksDBTimeOrderedSessionStore(SegmentedSessionStore):
    """Aggregates per session end, start and key."""

    _keys = TimeFirstSessionKeySchema
    _wrapped: TimeOrderedSessionSegmentedBytesStore

    @property
    def has_index(self) -> bool:
        """Whether there is an index by key."""
        return self._wrapped.has_index

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Sessions of all keys that end in a range of time, in the order of their ends."""
        return self._wrapped.fetch_sessions(earliest_session_end, latest_session_end)
