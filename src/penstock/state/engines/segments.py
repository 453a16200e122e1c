"""Segments: the contents of a store cut by time, so that what is too old can be dropped at once.

Kafka Streams opens one RocksDB for each segment of a window or session store. Here a store has ONE RocksDB and a segment is
a prefix of eight bytes, its id, before each key (what Kafka Streams does itself for versioned stores). That way a commit, which
may touch several segments, is one atomic write together with the changelog position; a segment is dropped by one range delete
inside that write; and a task with many stores holds fewer files open. Scans of the segments in the order of their ids, each in
the order of its keys, give the order of Kafka Streams.

The id is a time divided by the segment interval, which follows from the retention. The interval is part of the format that is
saved in the RocksDB: state that was written with another interval is moved to the segments of this one when it is opened.

What a store has to know again after it was closed, the stream time it had observed and the last sequence number it gave out,
is saved with each commit. Kafka Streams forgets it; here tasks move between commits, and must go on as if they had not.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from penstock.state.engines.rocksdb import RocksDBStore

PREFIX_SIZE: Final = 8
LATEST_VALUES_PREFIX: Final = b"\xff" * PREFIX_SIZE
"""Of the reserved segment -1: the latest value of each key of a versioned store."""

_PREFIX: Final = struct.Struct(">q")
_PROGRESS: Final = struct.Struct(">qi")
_META_PREFIX: Final = _PREFIX.pack(-2)
_PROGRESS_KEY: Final = _META_PREFIX + b"progress"
# Reserved ids are negative, and so sort behind all segments.
_END_OF_SEGMENTS: Final = b"\x80"


class Progress(NamedTuple):
    """How far a store has come: the stream time it observed, and the last sequence number it gave to a duplicate."""

    observed_stream_time: int
    seqnum: int


def next_prefix(prefix: bytes) -> bytes:
    """The prefix of the following segment."""
    return _PREFIX.pack(_PREFIX.unpack(prefix)[0] + 1)


class Segments:
    """The live segments of one store.

    A segment is live while its id is not below the one of `stream time - retention`.
    """

    def __init__(self, db: RocksDBStore, retention_period: int, segment_interval: int) -> None:
        self._db = db
        self._retention_period = retention_period
        self._segment_interval = segment_interval
        self._ids: list[int] = []
        self._prefixes: dict[int, bytes] = {}
        self._dropped: tuple[int, int] | None = None
        self._saved = Progress(-1, 0)

    @property
    def segment_interval(self) -> int:
        """How much time one segment covers."""
        return self._segment_interval

    @property
    def ids(self) -> list[int]:
        """The ids of all live segments in ascending order."""
        return list(self._ids)

    def open_existing(self) -> Progress:
        """Find the segments of an opened RocksDB; returns what was saved with its last commit."""
        self._ids, self._prefixes, self._dropped = [], {}, None
        start = _PREFIX.pack(0)
        while True:
            with self._db.scan(start, _END_OF_SEGMENTS, to_inclusive=False) as entries:
                entry = next(entries, None)
            if entry is None:
                break
            segment_id = _PREFIX.unpack_from(entry[0])[0]
            self._add(segment_id)
            start = _PREFIX.pack(segment_id + 1)
        saved = self._db.get(_PROGRESS_KEY)
        self._saved = Progress(-1, 0) if saved is None else Progress(*_PROGRESS.unpack(saved))
        self.cleanup_expired(self._saved.observed_stream_time)
        return self._saved

    def close(self) -> None:
        """Forget the segments."""
        self._ids, self._prefixes, self._dropped = [], {}, None

    def prepare_commit(self, progress: Progress) -> None:
        """Add to the next commit what the store's own puts do not: the deletion of dropped segments, and the progress."""
        if self._dropped is not None:
            first, min_live = self._dropped
            self._db.delete_range(_PREFIX.pack(first), _PREFIX.pack(min_live))
            self._dropped = None
        if progress != self._saved:
            self._db.put(_PROGRESS_KEY, _PROGRESS.pack(*progress))
            self._saved = progress

    def segment_id(self, timestamp: int) -> int:
        """The id of the segment that a time falls into; rounds towards zero, as Java divides."""
        return timestamp // self._segment_interval if timestamp >= 0 else -(-timestamp // self._segment_interval)

    def prefix(self, timestamp: int) -> bytes:
        """The prefix of the segment of a time, whether or not there is such a segment."""
        return _PREFIX.pack(self.segment_id(timestamp))

    def for_timestamp(self, timestamp: int) -> bytes | None:
        """The prefix of the segment of a time; None where there is no such segment."""
        return self._prefixes.get(self.segment_id(timestamp))

    def get_or_create_if_live(self, segment_id: int, stream_time: int) -> bytes | None:
        """The prefix of a segment; None where it is too old."""
        min_live = self._min_live(stream_time)
        if segment_id < min_live:
            return None
        prefix = self._prefixes.get(segment_id)
        if prefix is None:
            prefix = self._add(segment_id)
        if self._ids[0] < min_live:
            self._drop_below(min_live)
        return prefix

    def is_live(self, segment_id: int, stream_time: int) -> bool:
        """Whether a segment is not too old."""
        return segment_id >= self._min_live(stream_time)

    def search(self, time_from: int, time_to: int, forward: bool = True) -> list[bytes]:
        """The prefixes of the segments of a range of time, in the order of a scan."""
        first = bisect_left(self._ids, self.segment_id(time_from))
        last = bisect_right(self._ids, self.segment_id(time_to))
        found = [self._prefixes[segment_id] for segment_id in self._ids[first:last]]
        if not forward:
            found.reverse()
        return found

    def all(self, forward: bool = True) -> list[bytes]:
        """The prefixes of all live segments, in the order of a scan."""
        found = [self._prefixes[segment_id] for segment_id in self._ids]
        if not forward:
            found.reverse()
        return found

    def cleanup_expired(self, stream_time: int) -> None:
        """Drop the segments that are too old; no read sees them from now on, the next commit deletes them."""
        if self._ids:
            min_live = self._min_live(stream_time)
            if self._ids[0] < min_live:
                self._drop_below(min_live)

    def _min_live(self, stream_time: int) -> int:
        return self.segment_id(stream_time - self._retention_period)

    def _drop_below(self, min_live: int) -> None:
        first = self._ids[0] if self._dropped is None else min(self._ids[0], self._dropped[0])
        expired = bisect_left(self._ids, min_live)
        for segment_id in self._ids[:expired]:
            del self._prefixes[segment_id]
        del self._ids[:expired]
        self._dropped = (first, min_live)

    def _add(self, segment_id: int) -> bytes:
        prefix = self._prefixes[segment_id] = _PREFIX.pack(segment_id)
        self._ids.insert(bisect_left(self._ids, segment_id), segment_id)
        return prefix
