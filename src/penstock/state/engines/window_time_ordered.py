"""The window store on RocksDB that results are emitted from when a window closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.record import RawRecord
from penstock.state.engines.time_ordered import TimeOrderedSegmentedBytesStore
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed_window import (
    KeyFirstWindowKeySchema,
    TimeFirstWindowKeySchema,
    base_key_to_index_key,
    index_key_to_base_key,
)
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import WindowStore
from penstock.windows import Windowed

_to_base_key = TimeFirstWindowKeySchema.to_store_key_binary
_timestamp_of = TimeFirstWindowKeySchema.extract_store_timestamp


class TimeOrderedWindowSegmentedBytesStore(TimeOrderedSegmentedBytesStore):
    """Windows in the order of their starts."""

    def __init__(self, name: str, retention_period: int, segment_interval: int, with_index: bool) -> None:
        index_schema = KeyFirstWindowKeySchema() if with_index else None
        super().__init__(
            name,
            retention_period,
            segment_interval,
            TimeFirstWindowKeySchema(),
            index_schema,
            min_age=0,
            timestamped=True,
        )

    def to_index_key(self, base_key: bytes) -> bytes:
        """The index key that stands for a base key."""
        return base_key_to_index_key(base_key)

    def to_base_key(self, index_key: bytes) -> bytes:
        """The base key that an index key stands for."""
        return index_key_to_base_key(index_key)

    def changelog_to_base_key(self, changelog_key: bytes) -> bytes:
        """The base key of a key of the changelog."""
        return TimeFirstWindowKeySchema.from_non_prefix_window_key(changelog_key)

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back; sequence numbers go on from the last of them."""
        super().restore_batch(records)
        if records and records[-1].key is not None:
            self.seqnum = WindowKeySchema.extract_store_sequence(records[-1].key)


class RocksDBTimeOrderedWindowStore(WrappedStateStore, WindowStore[bytes, bytes]):
    """Values, with their timestamps in front, per window start and key; all scans run in the order of time.

    With an index (for sliding windows) those over keys run in the order of keys within each segment.
    """

    _wrapped: TimeOrderedWindowSegmentedBytesStore

    def __init__(self, bytes_store: TimeOrderedWindowSegmentedBytesStore, retain_duplicates: bool, window_size: int) -> None:
        super().__init__(bytes_store)
        self.timestamped = True
        self._retain_duplicates = retain_duplicates
        self._window_size = window_size

    @property
    def has_index(self) -> bool:
        """Whether there is an index by key."""
        return self._wrapped.has_index

    @property
    def observed_stream_time(self) -> int:
        """The latest window start that was put; -1 before the first."""
        return self._wrapped.observed_stream_time

    @property
    def expired_records(self) -> int:
        """How many puts came too late."""
        return self._wrapped.expired_records

    @property
    def changelog_seqnum(self) -> int:
        """The sequence number of the last change, which the changelog counts on from."""
        return self._wrapped.seqnum

    @changelog_seqnum.setter
    def changelog_seqnum(self, seqnum: int) -> None:
        self._wrapped.seqnum = seqnum

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of a key's window; None deletes, but not where duplicates are kept."""
        store = self._wrapped
        if not self._retain_duplicates:
            store.put(_to_base_key(key, window_start, 0), value)
        elif value is not None:
            store.seqnum = (store.seqnum + 1) & MAX_SEQNUM
            store.put(_to_base_key(key, window_start, store.seqnum), value)

    @property
    def takes_rows(self) -> bool:
        """Whether a window has one value, and so can be put and found among many."""
        return not self._retain_duplicates

    def windows_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, bytes]]]:
        """`(window_start, value)` that `fetch_range` finds for many keys."""
        found = {}
        for key, (time_from, time_to) in bounds.items():
            with self.fetch_range(key, time_from, time_to) as entries:
                of_key = list(entries)
            if of_key:
                found[key] = of_key
        return found

    def oldest_after(self, window_start: int) -> int:
        """The earliest window that can be found when one that starts then has been put."""
        return self._wrapped.oldest() + max(0, window_start - self._wrapped.observed_stream_time)

    def put_places(
        self, places: Sequence[tuple[bytes, int]], values: Sequence[bytes | None], record_times: Sequence[int]
    ) -> None:
        """Set the values of many keys and window starts, in their order."""
        starts = [start for _, start in places]
        self._wrapped.put_all(zip(TimeFirstWindowKeySchema.store_keys(places), values, starts))

    def fetch_places(self, places: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
        """The values of many keys and window starts."""
        store, starts = self._wrapped, [start for _, start in places]
        return store.get_all(zip(TimeFirstWindowKeySchema.store_keys(places), starts), store.oldest())

    def places_between(self, time_from: int, time_to: int) -> tuple[list[tuple[bytes, int]], list[bytes]]:
        """Key, window start and value of all windows that start in a range of time."""
        with self._wrapped.fetch_all(time_from, time_to, True, bytes) as found:
            entries = list(found)
        return TimeFirstWindowKeySchema.places(key for key, _ in entries), [value for _, value in entries]

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`; with duplicates only the last one put can be found."""
        return self._wrapped.get(_to_base_key(key, time, self._wrapped.seqnum if self._retain_duplicates else 0))

    def fetch_range(self, key: bytes, time_from: int, time_to: int) -> PeekingIterator[int, bytes]:
        """`(window_start, value)` of one key's windows, oldest first."""
        return self._wrapped.fetch(key, time_from, time_to, True, _timestamp_of)

    def backward_fetch_range(self, key: bytes, time_from: int, time_to: int) -> PeekingIterator[int, bytes]:
        """The same, newest first."""
        return self._wrapped.fetch(key, time_from, time_to, False, _timestamp_of)

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Windows of the keys in a range."""
        return self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, True, self._windowed_of)

    def backward_fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, False, self._windowed_of)

    def fetch_all(self, time_from: int, time_to: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Windows of all keys that start in a range of time, in the order of time."""
        return self._wrapped.fetch_all(time_from, time_to, True, self._windowed_of)

    def backward_fetch_all(self, time_from: int, time_to: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._wrapped.fetch_all(time_from, time_to, False, self._windowed_of)

    def all(self) -> PeekingIterator[Windowed[bytes], bytes]:
        """All windows that are still kept, in the order of time."""
        return self._wrapped.all(True, self._windowed_of)

    def backward_all(self) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._wrapped.all(False, self._windowed_of)

    def _windowed_of(self, key: bytes) -> Windowed[bytes]:
        return TimeFirstWindowKeySchema.from_store_bytes_key(key, self._window_size)
