"""Many rows at a time of a window store that keeps duplicates, as each side of a stream-stream join has one.

It is the same store with the same bytes: puts go past the layers in one step, and what they would have done on the way is done
for all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.record import Headers
from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.window_rocksdb import RocksDBWindowStore
from penstock.state.layers.headers_windowed import ChangeLoggingWindowStoreWithHeaders, MeteredWindowStoreWithHeaders
from penstock.state.layers.window_adapter import ConvertingWindowStore
from penstock.state.value_timestamp_headers import plain_value

Entry = tuple[int, bytes]
"""A time and the bytes of the value that was put at it."""


class WindowRows:
    """Reads and writes rows of bytes; `of` gives it where the store is of the kind that it knows."""

    def __init__(self, store: Any, logged: Any, engine: RocksDBWindowStore) -> None:
        self._store = store
        self._logged = logged
        self._engine = engine
        self._bytes: SegmentedBytesStore = engine.wrapped
        self.serdes = store._serdes

    @classmethod
    def of(cls, store: Any) -> WindowRows | None:
        """The rows of a store; None where it is of another kind, or where every call of it is measured."""
        if type(store) is not MeteredWindowStoreWithHeaders or "put" in vars(store):
            return None
        below = store.wrapped
        logged = below if type(below) is ChangeLoggingWindowStoreWithHeaders else None
        adapter = below if logged is None else logged.wrapped
        if type(adapter) is not ConvertingWindowStore or adapter.to_wrapped is not plain_value:
            return None
        engine = adapter.wrapped
        return cls(store, logged, engine) if type(engine) is RocksDBWindowStore and engine.retain_duplicates else None

    @property
    def stream_time(self) -> int:
        """The latest time that was put; -1 before the first."""
        return self._bytes.observed_stream_time

    def oldest(self, stream_time: int) -> int:
        """The lowest time that can be found when stream time has come this far."""
        return self._bytes.oldest(stream_time)

    def is_kept(self, timestamp: int, stream_time: int) -> bool:
        """Whether a put at a time is kept when stream time has come this far."""
        return self._bytes.is_live(timestamp, stream_time)

    def entries(self, keys: Iterable[bytes], time_from: int, time_to: int) -> dict[bytes, list[Entry]]:
        """What has been put for keys in a range of time, in the order of times and of puts; keys without any are left out."""
        return self._bytes.fetch_many(keys, time_from, time_to)

    def put_all(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int], headers: Sequence[Headers] | None
    ) -> None:
        """Put rows in their order, as single puts would; one without a value only leaves its trace in the changelog."""
        store_keys = self._engine.put_all(keys, values, timestamps, trace=self._logged is not None)
        if self._logged is not None:
            self._logged.log_all(store_keys, values, timestamps, headers)
