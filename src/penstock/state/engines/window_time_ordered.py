"""The window store on RocksDB that results are emitted from when a window closes."""

from __future__ import annotations

from penstock.state.engines.segmented_windows import SegmentedWindowStore
from penstock.state.engines.time_ordered import TimeOrderedSegmentedBytesStore
from penstock.state.keys.prefixed_window import (
    KeyFirstWindowKeySchema,
    TimeFirstWindowKeySchema,
    base_key_to_index_key,
    index_key_to_base_key,
)


class TimeOrderedWindowSegmentedBytesStore(TimeOrderedSegmentedBytesStore):
    """Windows in the order of their starts."""

    def __init__(
        self, name: str, retention_period: int, segment_interval: int, with_index: bool, retain_duplicates: bool = False
    ) -> None:
        index_schema = KeyFirstWindowKeySchema() if with_index else None
        super().__init__(
            name, retention_period, segment_interval, TimeFirstWindowKeySchema(), index_schema, True, retain_duplicates
        )

    def to_index_key(self, base_key: bytes) -> bytes:
        """The index key that stands for a base key."""
        return base_key_to_index_key(base_key)

    def to_base_key(self, index_key: bytes) -> bytes:
        """The base key that an index key stands for."""
        return index_key_to_base_key(index_key)

    def to_store_key(self, changelog_key: bytes) -> bytes:
        """The base key of a key of the changelog."""
        return TimeFirstWindowKeySchema.from_non_prefix_window_key(changelog_key)


class RocksDBTimeOrderedWindowStore(SegmentedWindowStore):
    """Values, with their timestamps in front, per window start and key; all scans run in the order of time.

    With an index (for sliding windows) those over keys run in the order of keys within each segment.
    """

    _keys = TimeFirstWindowKeySchema
    _wrapped: TimeOrderedWindowSegmentedBytesStore

    @property
    def has_index(self) -> bool:
        """Whether there is an index by key."""
        return self._wrapped.has_index
