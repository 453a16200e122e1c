"""What the engines on RocksDB share that keep their contents in segments: windows, sessions and versions."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ids import TopicPartition
from penstock.state.engines.base import ExpiringEngine
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.engines.segments import PREFIX_SIZE, Progress, Segments
from penstock.state.engines.store_format import StoreFormat
from penstock.state.store import StateStore, StateStoreContext


class SegmentedEngine(ExpiringEngine):
    """One RocksDB, its segments, and what is written with each commit: stream time and the last sequence number."""

    def __init__(self, name: str, retention_period: int, segment_interval: int, store_format: StoreFormat) -> None:
        super().__init__(name, retention_period)
        self.value_format = store_format.values
        self._db = RocksDBStore(name, store_format=store_format._replace(segment_interval=segment_interval))
        self._segments = Segments(self._db, retention_period, segment_interval)
        self.seqnum = 0
        """The last sequence number given to a duplicate, here or in the changelog."""

    @property
    def persistent(self) -> bool:
        """True: what was committed is on disk."""
        return True

    @property
    def rocksdb(self) -> RocksDBStore:
        """The one RocksDB."""
        return self._db

    @property
    def segments(self) -> Segments:
        """The live segments."""
        return self._segments

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the RocksDB, find its segments, register the restore of the changelog."""
        self._db.open_store(context, self._place)
        self._observed_stream_time, self.seqnum = self._segments.open_existing()
        self._expired.bind(context)
        context.register(root, self.restore_batch)
        self._open = True

    def _place(self, key: bytes) -> bytes:
        """The key that an entry has to have, for one that was put with another segment interval."""
        return self._segments.prefix(self._time_of(key[PREFIX_SIZE:])) + key[PREFIX_SIZE:]

    def _time_of(self, key: bytes) -> int:
        """The time that decides which segment a key belongs to."""
        raise NotImplementedError

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        self._validate_open()
        self._segments.prepare_commit(Progress(self._observed_stream_time, self.seqnum))
        self._db.commit(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._db.committed_offset(partition)

    def catch_up(self) -> None:
        """See what the writer has committed meanwhile; for a reader beside the process that writes."""
        self._db.catch_up()
        self._observed_stream_time, self.seqnum = self._segments.open_existing()

    def close(self) -> None:
        self._open = False
        self._segments.close()
        self._db.close()
