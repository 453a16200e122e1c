"""Many rows at a time of a timestamped window store, as an aggregation over time windows keeps one.

It is the same store with the same bytes: reads and writes go past the layers in one step, and what the layers would have done
on the way is done for all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.state.engines.window_rocksdb import RocksDBWindowStore
from penstock.state.engines.window_time_ordered import RocksDBTimeOrderedWindowStore
from penstock.state.keys.window import WindowKeySchema
from penstock.state.layers.cached_segments import CachingSegmentedStore
from penstock.state.layers.cached_time_ordered_window import TimeOrderedCachingWindowStore
from penstock.state.layers.cached_window import CachingWindowStore
from penstock.state.layers.logged_window import ChangeLoggingTimestampedWindowStore
from penstock.state.layers.metered_window import MeteredTimestampedWindowStore
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, Row

Place = tuple[bytes, int]
"""The bytes of a key, and the start of one of its windows."""


class WindowTable:
    """Reads and writes rows by key and window; `of` gives it where the store is of a kind that it knows."""

    def __init__(self, store: Any, cached: CachingSegmentedStore | None, logged: Any, engine: Any) -> None:
        self._store = store
        self._cached = cached
        self._logged = logged
        self._engine = engine
        self._serdes = store._serdes

    @classmethod
    def of(cls, store: Any) -> WindowTable | None:
        """The rows of a store; None where it is of another kind, or where every call of it is measured."""
        if type(store) is not MeteredTimestampedWindowStore or "put" in vars(store):
            return None
        below, cached, logged = store.wrapped, None, None
        if type(below) in (CachingWindowStore, TimeOrderedCachingWindowStore):
            below, cached = below.wrapped, below
        if type(below) is ChangeLoggingTimestampedWindowStore:
            below, logged = below.wrapped, below
        if type(below) not in (RocksDBWindowStore, RocksDBTimeOrderedWindowStore) or not below.has_one_entry_a_window:
            return None
        return cls(store, cached, logged, below)

    def settle(self) -> None:
        """Let the cache write and forward what it has; to be called before rows are read and written past it."""
        if self._cached is not None:
            self._cached.settle()

    def rows(self, places: Sequence[Place]) -> list[Row | None]:
        """What windows hold; None where there is nothing, or nothing any more."""
        rows: list[Row | None] = self._store.rows_from(self._engine.fetch_places(places))
        return rows

    def write(self, places: Sequence[Place], rows: Sequence[Row | None], record_times: Sequence[int]) -> None:
        """Set what windows hold; no flush listener hears of it, the caller tells of the changes itself.

        A row has its own timestamp; one that is deleted goes at the time of the record that did it.
        """
        times = [at if row is None else row[1] for row, at in zip(rows, record_times)]
        raw = self._store.raw_from_rows([None if row is None else row[0] for row in rows], times)
        self._engine.put_places(places, raw)
        if self._logged is not None:
            self._logged.log_all(
                WindowKeySchema.store_keys(places),
                [None if one is None else one[TIMESTAMP_SIZE:] for one in raw],
                [at if one is None else time for one, time, at in zip(raw, times, record_times)],
            )

    def between(self, time_from: int, time_to: int) -> tuple[list[Place], list[Row | None]]:
        """The windows of all keys that start in a range of time, in the order of the store."""
        places, raw = self._engine.places_between(time_from, time_to)
        return places, self._store.rows_from(raw)

    def keys_of(self, places: Iterable[Place]) -> list[Any]:
        """The typed keys of windows."""
        known: dict[bytes, Any] = {}
        keys = []
        for raw, _ in places:
            if raw not in known:
                known[raw] = self._serdes.key_from(raw)
            keys.append(known[raw])
        return keys
