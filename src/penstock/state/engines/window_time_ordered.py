"""The window store on RocksDB that results are emitted from when a window closes."""

from __future__ import annotations

from penstock.state.engines.segmented_windows import SegmentedWindowStore
from penstock.state.engines.time_ordered import TimeOrderedSegmentedBytesStore
from penstock.state.keys.prefixed import IndexKeySchema
from penstock.state.keys.prefixed_window import TimeFirstWindowKeySchema
from penstock.state.keys.window import WindowKeySchema


class RocksDBTimeOrderedWindowStore(SegmentedWindowStore):
    """Values, with their timestamps in front, per window start and key; all scans run in the order of time.

    With an index (for sliding windows) those over keys run in the order of keys within each segment.
    """

    _keys = TimeFirstWindowKeySchema
    _wrapped: TimeOrderedSegmentedBytesStore

    @classmethod
    def create(
        cls,
        name: str,
        retention_period: int,
        segment_interval: int,
        window_size: int,
        retain_duplicates: bool,
        with_index: bool,
    ) -> RocksDBTimeOrderedWindowStore:
        """Return a new store, not opened yet."""
        index = IndexKeySchema(WindowKeySchema()) if with_index else None
        base = TimeFirstWindowKeySchema()
        return cls(
            TimeOrderedSegmentedBytesStore(name, retention_period, segment_interval, base, index, True, retain_duplicates),
            retain_duplicates,
            window_size,
        )

    @property
    def has_index(self) -> bool:
        """Whether there is an index by key."""
        return self._wrapped.has_index
