"""The face of the window stores on RocksDB, whatever their keys look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from penstock.state.engines.segmented import AbstractSegmentedBytesStore
from penstock.state.engines.segmented_face import SegmentedFace
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.prefixed_window import TimeFirstWindowKeySchema
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema
from penstock.state.ranges import WindowRanges
from penstock.windows import Windowed


class SegmentedWindowStore(SegmentedFace, WindowRanges[bytes, bytes]):
    """Values per key and window start, in segments of time.

    With `retain_duplicates` every put adds a value, told apart by a sequence number; a put of None does nothing.
    """

    _keys: ClassVar[type[WindowKeySchema | TimeFirstWindowKeySchema]]

    def __init__(self, bytes_store: AbstractSegmentedBytesStore, retain_duplicates: bool, window_size: int) -> None:
        super().__init__(bytes_store)
        self.retain_duplicates = retain_duplicates
        self._window_size = window_size
        self._last_put_seqnum: int | None = None

    @property
    def changelog_seqnum(self) -> int:
        """The sequence number of the last change, which the changelog counts on from."""
        return self._wrapped.seqnum

    @changelog_seqnum.setter
    def changelog_seqnum(self, seqnum: int) -> None:
        self._wrapped.seqnum = seqnum

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        store = self._wrapped
        if not self.retain_duplicates:
            store.put_at(window_start, self._keys.to_store_key_binary(key, window_start, 0), value)
        elif value is not None:
            store.seqnum = self._last_put_seqnum = (store.seqnum + 1) & MAX_SEQNUM
            store.put_at(window_start, self._keys.to_store_key_binary(key, window_start, store.seqnum), value)

    @property
    def takes_rows(self) -> bool:
        """Whether a window has one value, and so can be put and found among many."""
        return not self.retain_duplicates

    def put_windows(
        self, places: Sequence[tuple[bytes, int]], values: Sequence[bytes | None], record_times: Sequence[int]
    ) -> None:
        """Set the values of many keys and window starts, in their order."""
        starts = [start for _, start in places]
        self._wrapped.put_all(zip(self._keys.store_keys(places), values, starts))

    def fetch_windows(self, places: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
        """The values of many keys and window starts."""
        starts = [start for _, start in places]
        store = self._wrapped
        return store.get_all(zip(self._keys.store_keys(places), starts), store.oldest(store.observed_stream_time))

    def windows_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, bytes]]]:
        """`(window_start, value)` that `fetch_range` finds for many keys."""
        timestamp_of = self._keys.extract_store_timestamp
        found = self._wrapped.fetch_ranges(bounds)
        return {key: [(timestamp_of(binary), value) for binary, value in entries] for key, entries in found.items()}

    def oldest_after(self, window_start: int) -> int:
        """The earliest window that can be found when one that starts then has been put."""
        return self._wrapped.oldest(max(window_start, self._wrapped.observed_stream_time))

    def windows_between(self, time_from: int, time_to: int) -> tuple[list[tuple[bytes, int]], list[bytes]]:
        """Key, window start and value of all windows that start in a range of time."""
        with self._wrapped.fetch_all(time_from, time_to, True, bytes) as found:
            entries = list(found)
        return self._keys.places(key for key, _ in entries), [value for _, value in entries]

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`; with duplicates only the last one put can be found."""
        seqnum = 0
        if self.retain_duplicates:
            # A deletion takes a number in the changelog, but none here.
            seqnum = self._wrapped.seqnum if self._last_put_seqnum is None else self._last_put_seqnum
        return self._wrapped.get(self._keys.to_store_key_binary(key, time, seqnum))

    def fetch_range(self, key: bytes, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[int, bytes]:
        return self._wrapped.fetch(key, time_from, time_to, forward, self._keys.extract_store_timestamp)

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool = True
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        return self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, forward, self._windowed_of)

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[Windowed[bytes], bytes]:
        return self._wrapped.fetch_all(time_from, time_to, forward, self._windowed_of)

    def _windowed_of(self, key: bytes) -> Windowed[bytes]:
        return self._keys.from_store_bytes_key(key, self._window_size)
