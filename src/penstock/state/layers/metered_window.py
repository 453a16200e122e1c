"""The typed layer of window stores: serdes, null checks, metrics and open iterators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from penstock.change import Change
from penstock.record import Record
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.iterators import FewEntries, MeteredIterator, PeekingIterator
from penstock.state.keys.window import WindowKeySchema
from penstock.state.layers.metrics import StoreMetrics
from penstock.state.layers.serdes import StoreSerdes
from penstock.state.layers.timestamped import TimestampedValues
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.layers.wrapped_window import Place
from penstock.state.ranges import WindowRanges
from penstock.state.store import StateStore, StateStoreContext, StoreIterator, ValueAndTimestamp
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, Row
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")
L = TypeVar("L", bound="MeteredWindowStore[Any, Any]")

_METERED = ("put", "fetch", "commit")


class MeteredWindowStore(WrappedStateStore, WindowRanges[K, V], Generic[K, V]):
    """What a processor gets: keys and values of the user's types over a store of bytes."""

    query_kind = ("window", "plain")
    keeps_rows = False
    """Whether values are pairs of a value and its timestamp, which come and go many at a time."""
    _serdes: StoreSerdes
    _metrics: StoreMetrics

    def __init__(self, wrapped: Any, window_size: int, metrics_scope: str, key_serde: Any, value_serde: Any) -> None:
        super().__init__(wrapped)
        self._window_size = window_size
        self._metrics_scope = metrics_scope
        self._key_serde = key_serde
        self._value_serde = value_serde

    @property
    def window_size(self) -> int:
        """The length of each window in milliseconds."""
        return self._window_size

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Find the serdes and open the wrapped store."""
        self._find_serdes(context)
        self._metrics = StoreMetrics(context, self._metrics_scope, self._name)
        self._metrics.time_calls(self, _METERED)
        if not self.persistent:
            self._metrics.gauge("num-keys", "The current number of keys in the in-memory store", self._num_entries)
        with self._metrics.restoring():
            super().init(context, root)
        self._few = self._wrapped.few_windows
        self._context = context
        self._times_iterators = self._metrics.times_iterators

    def _find_serdes(self, context: StateStoreContext) -> None:
        self._serdes = StoreSerdes(context, self._name, self._key_serde, self._value_serde)
        self._raw_key = self._serdes.raw_key
        self._key_from = self._serdes.key_from
        self.serdes_take_headers = self._serdes.take_headers

    def past_cache(self: L) -> L:
        """A view of this store that reads what the record cache has written, and not what it still holds."""
        view = super().past_cache()
        view._few = view._wrapped.few_windows
        return view

    def close(self) -> None:
        """Close the wrapped store; what was not committed is gone."""
        try:
            super().close()
        finally:
            self._metrics.close()

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Call `listener(record)` with the typed change of each entry the cache flushes; False where there is no cache."""
        key_from, value_from = self._key_from, self._value_from_raw
        window_size = self._window_size

        def typed(record: Record[bytes, Change[bytes]]) -> None:
            windowed = WindowKeySchema.from_store_bytes_key(record.key, window_size)
            change = record.value
            listener(
                Record(
                    Windowed(key_from(windowed.key), windowed.window),
                    Change(value_from(change.new_value), value_from(change.old_value), change.is_latest),
                    record.timestamp,
                    record.headers,
                )
            )

        return super().set_flush_listener(typed, send_old_values)

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """Set the value of a key's window; None deletes."""
        if key is None:
            self._refuse_none_key()
        self._wrapped.put(self._raw_key(key), self._raw_from_value(value), window_start)

    @overload
    def fetch(self, key: K, time: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time: int, time_to: int) -> StoreIterator[tuple[int, V]]: ...

    def fetch(self, key: K, time: int, time_to: int | None = None) -> Any:
        """The value of the window that starts at `time`, or None; with `time_to` the same as `fetch_range`."""
        if key is None:
            self._refuse_none_key()
        if time_to is not None:
            # As `fetch_range` does it, without another call for each record that asks.
            raw = self._raw_key(key)
            few = self._few(raw, time, time_to)
            return self._values(self._wrapped.fetch_range(raw, time, time_to, True)) if few is None else self._read_already(few)
        value: V | None = self._value_from_raw(self._wrapped.fetch(self._raw_key(key), time))
        return value

    def fetch_range(self, key: K, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[int, V]]:
        if key is None:
            self._refuse_none_key()
        raw = self._raw_key(key)
        few = self._few(raw, time_from, time_to) if forward else None
        return (
            self._values(self._wrapped.fetch_range(raw, time_from, time_to, forward)) if few is None else self._read_already(few)
        )

    def _read_already(self, few: list[tuple[int, bytes]]) -> StoreIterator[tuple[int, V]]:
        if self._times_iterators:
            return self._values(PeekingIterator(few, self._name))
        return FewEntries(few, self._value_from_raw, self._name, self._metrics.opened, self._context.current_system_time_ms())

    def fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        raw_from, raw_to = self._raw_bound(key_from), self._raw_bound(key_to)
        return self._windows(self._wrapped.fetch_key_range(raw_from, raw_to, time_from, time_to, forward))

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[Windowed[K], V]]:
        return self._windows(self._wrapped.fetch_all(time_from, time_to, forward))

    def _num_entries(self) -> int:
        engine = self.find_inner(InMemoryWindowStore)
        return -1 if engine is None else engine.num_entries()

    def _raw_bound(self, key: K | None) -> bytes | None:
        raw: bytes | None = None if key is None else self._raw_key(key)
        return raw

    def _raw_from_value(self, value: Any) -> bytes | None:
        raw: bytes | None = None if value is None else self._serdes.raw_value(value)
        return raw

    def _value_from_raw(self, raw: bytes | None) -> Any:
        return None if raw is None else self._serdes.value_from(raw)

    def _values(self, entries: Any) -> StoreIterator[tuple[int, V]]:
        value_from = self._value_from_raw
        return self._metered(((start, value_from(value)) for start, value in entries), entries)

    def _windows(self, entries: Any) -> StoreIterator[tuple[Windowed[K], V]]:
        key_from, value_from = self._key_from, self._value_from_raw
        typed = ((Windowed(key_from(windowed.key), windowed.window), value_from(value)) for windowed, value in entries)
        return self._metered(typed, entries)

    def _metered(self, typed: Any, entries: Any) -> PeekingIterator[Any, Any]:
        return MeteredIterator(typed, self._name, entries, self._metrics.opened, self._metrics.iterator_opened("fetch"))

    def _refuse_none_key(self) -> None:
        raise ValueError(f"key cannot be None in store {self._name}")


class MeteredTimestampedWindowStore(TimestampedValues[K, V], MeteredWindowStore[K, ValueAndTimestamp[V]], Generic[K, V]):
    """Values come and go as `ValueAndTimestamp`; the bytes are eight of timestamp and then the value's own."""

    query_kind = ("window", "timestamped")
    keeps_rows = True

    def rows_at(self, places: Sequence[Place]) -> list[Row | None]:
        """What windows hold, as plain pairs; None where there is nothing, or nothing any more."""
        if self.takes_rows:
            return self.rows_from(self._wrapped.fetch_places(places))
        return self.rows_from([self._wrapped.fetch(key, start) for key, start in places])

    def kept_rows_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, Any, int]]]:
        """Start, value as `keep` keeps it, and timestamp of what `fetch_range` finds for many keys; where `takes_rows`."""
        found = self._wrapped.windows_of(bounds)
        kept = iter(self._serdes.kept_from([raw[TIMESTAMP_SIZE:] for of_key in found.values() for _, raw in of_key]))
        read = int.from_bytes
        return {
            key: [(start, next(kept), read(raw[:TIMESTAMP_SIZE], "big", signed=True)) for start, raw in of_key]
            for key, of_key in found.items()
        }

    def oldest_after(self, window_start: int) -> int:
        """The earliest window that can be found when one that starts then has been put; where `takes_rows`."""
        return int(self._wrapped.oldest_after(window_start))

    def write_rows_through(self, places: Sequence[Place], rows: Sequence[Row | None], record_times: Sequence[int]) -> None:
        """Set what windows hold past the cache; no flush listener hears of it, the caller tells of the changes itself.

        A row has its own timestamp; one that is deleted goes at the time of the record that did it. Where `takes_rows`.
        """
        times = [at if row is None else row[1] for row, at in zip(rows, record_times)]
        raw = self.raw_from_rows([None if row is None else row[0] for row in rows], times)
        self._wrapped.put_places(places, raw, record_times)

    def rows_between(self, time_from: int, time_to: int) -> tuple[list[Place], list[Row | None]]:
        """The windows of all keys that start in a range of time, in the order of the store; where `takes_rows`."""
        places, raw = self._wrapped.places_between(time_from, time_to)
        return places, self.rows_from(raw)

    def keys_of(self, places: Iterable[Place]) -> list[K]:
        """The typed keys of windows."""
        known: dict[bytes, K] = {}
        keys = []
        for raw, _ in places:
            if raw not in known:
                known[raw] = self._key_from(raw)
            keys.append(known[raw])
        return keys
