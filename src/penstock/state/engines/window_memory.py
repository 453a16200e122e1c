"""The window store in memory: a dict of keys for each window start, and for each key the starts it has.

The second index is what Kafka Streams does not have: a join asks for the windows of one key, and finds them without looking
at every start in the range.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from penstock.record import Headers, RawRecord
from penstock.state.engines.base import InMemorySegments
from penstock.state.iterators import PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.schema import in_key_range
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema, time_window_for_size, window_suffix
from penstock.state.parts import Orders
from penstock.state.ranges import WindowRanges
from penstock.state.value_formats import format_of
from penstock.windows import Windowed

_pack_seqnum = struct.Struct(">i").pack

# One value, or with duplicates the values with their sequence numbers in the order they came.
_Segment = dict[bytes, Any]


class InMemoryWindowStore(InMemorySegments, WindowRanges[bytes, bytes]):
    """Values per key and window start, dropped once they are older than the retention."""

    def __init__(self, name: str, retention_period: int, window_size: int, retain_duplicates: bool) -> None:
        super().__init__(name, retention_period)
        self._window_size = window_size
        self._retain_duplicates = retain_duplicates
        self._times_of_key: dict[bytes, list[int]] = {}
        self._seqnum = 0
        self.changelog_seqnum = 0
        """The sequence number of the last change in the changelog, which counts on from there."""

    def close(self) -> None:
        super().close()
        self._times_of_key.clear()
        self._seqnum = self.changelog_seqnum = 0

    def num_entries(self) -> int:
        """How many entries there are; those of one key and start count once."""
        return sum(len(segment) for segment in self._segments.values())

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is not None and self._retain_duplicates:
            self.changelog_seqnum = (self.changelog_seqnum + 1) & MAX_SEQNUM
        if window_start > self._observed_stream_time:
            self._observed_stream_time = window_start
            self._remove_expired_segments()
        if window_start <= self._observed_stream_time - self._retention_period:
            self._expired.record("Skipping record for expired segment.")
        elif self._retain_duplicates:
            if value is not None:
                self._seqnum = (self._seqnum + 1) & MAX_SEQNUM
                self._segment_for(key, window_start).setdefault(key, []).append((self._seqnum, value))
        elif value is not None:
            self._segment_for(key, window_start)[key] = value
        else:
            self._delete(key, window_start)

    @property
    def takes_duplicates(self) -> bool:
        return self._retain_duplicates

    @property
    def observes_deletions(self) -> bool:
        """True: the time of whatever is put counts."""
        return True

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        logged: bool = False,
    ) -> list[bytes]:
        """Add the values of many records in their order; returns the bytes of their keys with time and sequence number."""
        put, join, store_keys = self.put, format_of(self).join, []
        for key, value, timestamp, of_record in zip(keys, values, timestamps, headers or repeat(())):
            put(key, None if value is None else join(value, timestamp, of_record), timestamp)
            if value is None and logged:
                self.changelog_seqnum = (self.changelog_seqnum + 1) & MAX_SEQNUM
            store_keys.append(key + window_suffix(timestamp, self.changelog_seqnum))
        return store_keys

    def fetch_duplicates(self, keys: Iterable[bytes], time_from: int, time_to: int) -> dict[bytes, list[tuple[int, bytes]]]:
        """All values of many keys in a range of time, in the order of times and of puts; keys without any are left out."""
        found = {}
        split = format_of(self).split
        for key in self._times_of_key.keys() & keys:
            if entries := self._of_key(key, time_from, time_to):
                found[key] = [(time, split(raw)[0]) for time, raw in entries]
        return found

    def oldest(self, stream_time: int) -> int:
        """The lowest time that can be found when stream time has come this far."""
        return stream_time - self._retention_period + 1

    def is_kept(self, timestamp: int, stream_time: int) -> bool:
        """Whether a put at a time is kept when stream time has come this far."""
        return timestamp >= self.oldest(stream_time)

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`; with duplicates there is no such single value."""
        if self._retain_duplicates or time <= self._observed_stream_time - self._retention_period:
            return None
        segment = self._segments.get(time)
        return None if segment is None else segment.get(key)

    def fetch_range(self, key: bytes, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[int, bytes]:
        found = self._of_key(key, time_from, time_to)
        if not forward:
            found.reverse()
            return PeekingIterator(found, self._name)
        later = self._later_of_key(key, found[-1][0] + 1 if found else time_from, time_to)
        return PeekingIterator(chain(found, later), self._name)

    def _later_of_key(self, key: bytes, time_from: int, time_to: int) -> Iterator[tuple[int, bytes]]:
        """The windows that were put behind all others while an iterator was open, as Kafka Streams' iterators see them."""
        while found := self._of_key(key, time_from, time_to):
            yield from found
            time_from = found[-1][0] + 1

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool = True
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Return the windows of the keys in a range, in the order of their starts."""
        return self._range(key_from, key_to, time_from, time_to, forward)

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[Windowed[bytes], bytes]:
        return self._range(None, None, time_from, time_to, forward)

    @property
    def contents(self) -> tuple[list[int], dict[int, _Segment], dict[bytes, list[int]], Orders]:
        """The starts in order, the keys of each, the starts of each key, and the orders of keys: for those who read in parts."""
        return self._times, self._segments, self._times_of_key, self._orders

    @property
    def window_size(self) -> int:
        """How long a window is."""
        return self._window_size

    @property
    def retain_duplicates(self) -> bool:
        """Whether one key and start can have many values."""
        return self._retain_duplicates

    def _of_key(self, key: bytes, time_from: int, time_to: int) -> list[tuple[int, bytes]]:
        times = self._times_of_key.get(key)
        if times is None:
            return []
        first = bisect_left(times, max(time_from, self.min_live_time()))
        found = times[first : bisect_right(times, time_to)]
        segments = self._segments
        if self._retain_duplicates:
            return [(time, value) for time in found for _, value in segments[time][key]]
        return [(time, segments[time][key]) for time in found]

    def _range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        found = self._segments_from_now(max(time_from, self.min_live_time()), time_to, forward)
        return PeekingIterator(self._windows(found, key_from, key_to, forward), self._name)

    def _windows(
        self, segments: Iterable[tuple[int, _Segment]], key_from: bytes | None, key_to: bytes | None, forward: bool
    ) -> Iterator[tuple[Windowed[bytes], bytes]]:
        for time, segment in segments:
            keys = [key for key in segment if in_key_range(key, key_from, key_to)]
            for key, value in self.entries_of(segment, keys, forward):
                yield Windowed(key, time_window_for_size(time, self._window_size)), value

    def entries_of(self, segment: Mapping[bytes, Any], keys: list[bytes], forward: bool) -> list[tuple[bytes, bytes]]:
        """The entries of these keys of a segment, in order."""
        if not self._retain_duplicates:
            keys.sort(reverse=not forward)
            return [(key, segment[key]) for key in keys]
        # The order of Kafka Streams: by the bytes of key and sequence number together.
        duplicates = [(key + _pack_seqnum(seqnum), key, value) for key in keys for seqnum, value in segment[key]]
        duplicates.sort(key=lambda entry: entry[0], reverse=not forward)
        return [(key, value) for _, key, value in duplicates]

    def _segment_for(self, key: bytes, window_start: int) -> _Segment:
        segment = self._segment_of(window_start)
        if key not in segment:
            if self._orders:
                self._orders.added(window_start, key)
            times = self._times_of_key.get(key)
            if times is None:
                self._times_of_key[key] = [window_start]
            else:
                insort(times, window_start)
        return segment

    def _delete(self, key: bytes, window_start: int) -> None:
        segment = self._segments.get(window_start)
        if segment is None or key not in segment:
            return
        self._remove_key(window_start, key)
        self._forget_time(key, window_start)

    def _forget_time(self, key: bytes, window_start: int) -> None:
        times = self._times_of_key[key]
        if len(times) == 1:
            del self._times_of_key[key]
        else:
            del times[bisect_left(times, window_start)]

    def _forget_segment(self, time: int, segment: Mapping[bytes, Any]) -> None:
        for key in segment:
            self._forget_time(key, time)

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back; its sequence numbers go on from the last of them."""
        extract_key = WindowKeySchema.extract_store_key_bytes
        extract_timestamp = WindowKeySchema.extract_store_timestamp
        for record in records:
            key = record.key
            assert key is not None  # every record of a changelog has one
            self.put(extract_key(key), record.value, extract_timestamp(key))
            self.changelog_seqnum = WindowKeySchema.extract_store_sequence(key)
