"""The session store on RocksDB."""

from __future__ import annotations

from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.segmented_sessions import SegmentedSessionStore
from penstock.state.keys.session import SessionKeySchema


class RocksDBSessionStore(SegmentedSessionStore):
    """Sessions in the order of their keys within each segment."""

    _keys = SessionKeySchema
    _wrapped: SegmentedBytesStore
