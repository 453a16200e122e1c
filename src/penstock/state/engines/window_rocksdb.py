"""The window store on RocksDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.record import Headers
from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.iterators import PeekingIterator
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import WindowStore
from penstock.windows import Windowed

_to_store_key = WindowKeySchema.to_store_key_binary
_timestamp_of = WindowKeySchema.extract_store_timestamp


class RocksDBWindowStore(WrappedStateStore, WindowStore[bytes, bytes]):
    """Values per key and window start, in segments of time.

    With `retain_duplicates` every put adds a value, told apart by a sequence number; a put of None does nothing.
    """

    _wrapped: SegmentedBytesStore

    def __init__(self, bytes_store: SegmentedBytesStore, retain_duplicates: bool, window_size: int) -> None:
        super().__init__(bytes_store)
        self.timestamped = bytes_store.timestamped
        self.with_headers = bytes_store.with_headers
        self.retain_duplicates = retain_duplicates
        self._window_size = window_size
        self._last_put_seqnum: int | None = None

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
        if not self.retain_duplicates:
            store.put(_to_store_key(key, window_start, 0), value)
        elif value is not None:
            store.seqnum = (store.seqnum + 1) & MAX_SEQNUM
            self._last_put_seqnum = store.seqnum
            store.put(_to_store_key(key, window_start, store.seqnum), value)

    @property
    def takes_duplicates(self) -> bool:
        """Whether several values of a window are kept, and nothing but the values."""
        return self.retain_duplicates and not self.timestamped and not self.with_headers

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        logged: bool = False,
    ) -> list[bytes]:
        """Add the values of many records in their order; returns the bytes of their keys with time and sequence number.

        Where puts are logged one of None uses up a number too, as it does in the changelog.
        """
        store, seqnum, store_keys = self._wrapped, self._wrapped.seqnum, []
        for key, value, timestamp in zip(keys, values, timestamps):
            if value is not None or logged:
                seqnum = (seqnum + 1) & MAX_SEQNUM
            if value is not None:
                self._last_put_seqnum = seqnum
            store_keys.append(_to_store_key(key, timestamp, seqnum))
        store.seqnum = seqnum
        store.put_all([entry for entry in zip(store_keys, values, timestamps) if entry[1] is not None])
        return store_keys

    def fetch_duplicates(self, keys: Iterable[bytes], time_from: int, time_to: int) -> dict[bytes, list[tuple[int, bytes]]]:
        """All values of many keys in a range of time, in the order of times and of puts; keys without any are left out."""
        return self._wrapped.fetch_many(keys, time_from, time_to)

    def oldest(self, stream_time: int) -> int:
        """The lowest time that can be found when stream time has come this far."""
        return self._wrapped.oldest(stream_time)

    def is_kept(self, timestamp: int, stream_time: int) -> bool:
        """Whether a put at a time is kept when stream time has come this far."""
        return self._wrapped.is_live(timestamp, stream_time)

    @property
    def takes_rows(self) -> bool:
        """Whether a window is one entry of the RocksDB, and so can be put and found among many."""
        return not self.retain_duplicates

    def oldest_after(self, window_start: int) -> int:
        """The earliest window that can be found when one that starts then has been put."""
        return self._wrapped.oldest(max(window_start, self._wrapped.observed_stream_time))

    def put_places(
        self, places: Sequence[tuple[bytes, int]], values: Sequence[bytes | None], record_times: Sequence[int]
    ) -> None:
        """Set the values of many keys and window starts, in their order."""
        starts = [start for _, start in places]
        self._wrapped.put_all(zip(WindowKeySchema.store_keys(places), values, starts))

    def fetch_places(self, places: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
        """The values of many keys and window starts."""
        store, starts = self._wrapped, [start for _, start in places]
        return store.get_all(zip(WindowKeySchema.store_keys(places), starts), store.oldest(store.observed_stream_time))

    def places_between(self, time_from: int, time_to: int) -> tuple[list[tuple[bytes, int]], list[bytes]]:
        """Key, window start and value of all windows that start in a range of time."""
        with self._wrapped.fetch_all(time_from, time_to, True, bytes) as found:
            entries = list(found)
        return WindowKeySchema.places(key for key, _ in entries), [value for _, value in entries]

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`; with duplicates only the last one put can be found."""
        if not self.retain_duplicates:
            return self._wrapped.get(_to_store_key(key, time, 0))
        # A deletion takes a number in the changelog, but none here.
        last = self._wrapped.seqnum if self._last_put_seqnum is None else self._last_put_seqnum
        return self._wrapped.get(_to_store_key(key, time, last))

    def fetch_range(self, key: bytes, time_from: int, time_to: int) -> PeekingIterator[int, bytes]:
        """`(window_start, value)` of one key's windows, oldest first."""
        return self._wrapped.fetch(key, time_from, time_to, True, _timestamp_of)

    def backward_fetch_range(self, key: bytes, time_from: int, time_to: int) -> PeekingIterator[int, bytes]:
        """The same, newest first."""
        return self._wrapped.fetch(key, time_from, time_to, False, _timestamp_of)

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """Windows of the keys in a range: segment by segment, in a segment in the order of keys."""
        return self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, True, self._windowed_of)

    def backward_fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, False, self._windowed_of)

    def fetch_all(self, time_from: int, time_to: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """Windows of all keys that start in a range of time."""
        return self._wrapped.fetch_all(time_from, time_to, True, self._windowed_of)

    def backward_fetch_all(self, time_from: int, time_to: int) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._wrapped.fetch_all(time_from, time_to, False, self._windowed_of)

    def all(self) -> PeekingIterator[Windowed[bytes], bytes]:
        """All windows that are still kept."""
        return self._wrapped.all(True, self._windowed_of)

    def backward_all(self) -> PeekingIterator[Windowed[bytes], bytes]:
        """The same, backwards."""
        return self._wrapped.all(False, self._windowed_of)

    def _windowed_of(self, key: bytes) -> Windowed[bytes]:
        return WindowKeySchema.from_store_bytes_key(key, self._window_size)
