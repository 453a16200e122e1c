"""The window store on RocksDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.record import Headers
from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.segmented_windows import SegmentedWindowStore
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema
from penstock.state.value_formats import PLAIN

_to_store_key = WindowKeySchema.to_store_key_binary


class RocksDBWindowStore(SegmentedWindowStore):
    """Windows in the order of their keys within each segment."""

    _keys = WindowKeySchema
    _wrapped: SegmentedBytesStore

    def __init__(self, bytes_store: SegmentedBytesStore, retain_duplicates: bool, window_size: int) -> None:
        super().__init__(bytes_store, retain_duplicates, window_size)
        self._keeps_values_alone = bytes_store.value_format is PLAIN
        # Each window that is asked for, or put, goes here.
        self.fetch_small_windows = bytes_store.fetch_small_windows  # type: ignore[method-assign]
        if not retain_duplicates:
            self.put_at = bytes_store.put_at

    @property
    def takes_duplicates(self) -> bool:
        """Whether several values of a window are kept, and nothing but the values."""
        return self.retain_duplicates and self._keeps_values_alone

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
