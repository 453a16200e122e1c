"""The window store on RocksDB."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.segmented_windows import SegmentedWindowStore
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema

_to_store_key = WindowKeySchema.to_store_key_binary


class RocksDBWindowStore(SegmentedWindowStore):
    """Windows in the order of their keys within each segment."""

    _keys = WindowKeySchema
    _wrapped: SegmentedBytesStore

    def __init__(self, bytes_store: SegmentedBytesStore, retain_duplicates: bool, window_size: int) -> None:
        super().__init__(bytes_store, retain_duplicates, window_size)
        self.with_headers = bytes_store.with_headers

    def put_all(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int], trace: bool
    ) -> list[bytes]:
        """Put many in their order where duplicates are kept; returns their keys with time and sequence number.

        With `trace` a put of None uses up a number too, as it does in the changelog.
        """
        store, seqnum, store_keys = self._wrapped, self._wrapped.seqnum, []
        for key, value, timestamp in zip(keys, values, timestamps):
            if value is not None or trace:
                seqnum = (seqnum + 1) & MAX_SEQNUM
            if value is not None:
                self._last_put_seqnum = seqnum
            store_keys.append(_to_store_key(key, timestamp, seqnum))
        store.seqnum = seqnum
        store.put_all([entry for entry in zip(store_keys, values, timestamps) if entry[1] is not None])
        return store_keys

    def find_expired(self) -> None:
        """From now on find windows of single keys also when they have expired since, until their segment goes."""
        self._wrapped.find_expired()
