"""The session store on RocksDB that results are emitted from when a session closes."""

from __future__ import annotations

from penstock.state.engines.segmented_sessions import SegmentedSessionStore
from penstock.state.engines.time_ordered import TimeOrderedSegmentedBytesStore
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed import IndexKeySchema
from penstock.state.keys.prefixed_session import TimeFirstSessionKeySchema
from penstock.state.keys.schema import ACCEPT, SKIP
from penstock.state.keys.session import SessionKeySchema
from penstock.windows import MAX_TIMESTAMP, Windowed

_to_base_key = TimeFirstSessionKeySchema.to_binary
_from_base_key = TimeFirstSessionKeySchema.from_binary
_end_of = TimeFirstSessionKeySchema.extract_end_timestamp


class RocksDBTimeOrderedSessionStore(SegmentedSessionStore):
    """Aggregates per session end, start and key."""

    _keys = TimeFirstSessionKeySchema
    _wrapped: TimeOrderedSegmentedBytesStore

    @classmethod
    def create(cls, name: str, retention_period: int, segment_interval: int, with_index: bool) -> RocksDBTimeOrderedSessionStore:
        """Return a new store, not opened yet."""
        index = IndexKeySchema(SessionKeySchema()) if with_index else None
        base = TimeFirstSessionKeySchema()
        return cls(TimeOrderedSegmentedBytesStore(name, retention_period, segment_interval, base, index, is_window=False))

    @property
    def has_index(self) -> bool:
        """Whether there is an index by key."""
        return self._wrapped.has_index

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Sessions of all keys that end in a range of time, in the order of their ends, expired ones too while they are there."""

        def match(base_key: bytes) -> int:
            return ACCEPT if earliest_session_end <= _end_of(base_key) <= latest_session_end else SKIP

        # The end of the range is one moment later: nothing says how high the keys of its last moment go.
        lower = _to_base_key(b"", 0, max(0, earliest_session_end))
        upper = _to_base_key(b"", 0, min(max(0, latest_session_end + 1), MAX_TIMESTAMP))
        return self._wrapped.scan_base((earliest_session_end, latest_session_end), lower, upper, match, _from_base_key)
