"""What the faces of windows and of sessions on RocksDB share."""

from __future__ import annotations

from penstock.state.engines.segmented import AbstractSegmentedBytesStore
from penstock.state.layers.wrapped import WrappedStateStore


class SegmentedFace(WrappedStateStore):
    """A store of windows or sessions over a store of bytes in segments of time, which knows what has expired."""

    _wrapped: AbstractSegmentedBytesStore

    @property
    def observed_stream_time(self) -> int:
        """The latest window start, or session end, that was put; -1 before the first."""
        return self._wrapped.observed_stream_time

    @property
    def retention_period(self) -> int:
        """How long windows can be found after their start, and sessions after their end, in milliseconds of stream time."""
        return self._wrapped.retention_period

    @property
    def expired_records(self) -> int:
        """How many puts came too late."""
        return self._wrapped.expired_records
