"""How old records are when their results are committed, measured with a few records of each batch."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.runtime.flow import MOST_AGES

# About so many records of each partition are looked at in a batch.
_SOME = 8


class RecordAges:
    """The end-to-end latency of a stream thread, from the timestamp of a record to the commit of its results."""

    def __init__(self) -> None:
        self._read: list[int] = []
        self._ages: list[int] = []

    def read(self, columns: Mapping[TopicPartition, RawBatch]) -> None:
        """Note the timestamps of some of the records of a batch."""
        for found in columns.values():
            self._read += found.timestamps[:: max(1, len(found) // _SOME)]

    def committed(self, now_ms: int) -> None:
        """The batch is committed: note how old its records are now."""
        self._ages += [max(0, now_ms - timestamp) for timestamp in self._read if timestamp >= 0]
        self._read.clear()
        del self._ages[:-MOST_AGES]

    def take(self) -> list[int]:
        """The ages since this was last asked, in milliseconds."""
        found, self._ages = self._ages, []
        return found
