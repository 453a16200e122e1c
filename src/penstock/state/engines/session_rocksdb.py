"""The session store on RocksDB."""

from __future__ import annotations

from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.segmented_sessions import SegmentedSessionStore
from penstock.state.keys.session import SessionKeySchema


class RocksDBSessionStore(SegmentedSessionStore):
    """Sessions in the order of their keys within each segment."""

    _keys = SessionKeySchema
    _wrapped: SegmentedBytesStore

    def __init__(self, bytes_store: SegmentedBytesStore) -> None:
        super().__init__(bytes_store)
        self.with_headers = bytes_store.with_headers

    def find_expired(self) -> None:
        """From now on find sessions of single keys also when they have expired since, until their segment goes."""
        self._wrapped.find_expired()
