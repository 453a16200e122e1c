"""The typed layer of window stores: serdes, null checks, metrics and open iterators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from penstock.record import Headers
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.iterators import PeekingIterator, SmallEntries
from penstock.state.keys.window import WindowKeySchema
from penstock.state.layers.rows import RowValues
from penstock.state.layers.wrapped_window import Entry, WindowKey
from penstock.state.ranges import WindowRanges
from penstock.state.store import StateStore, StateStoreContext, StoreIterator
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, Row
from penstock.state.value_formats import TIMESTAMPED, ValueFormat
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")
L = TypeVar("L", bound="MeteredWindowStore[Any, Any]")


class MeteredWindowStore(RowValues[K, V], WindowRanges[K, V], Generic[K, V]):
    """Values per key and window start."""

    kind = "window"
    timed_methods = ("put", "fetch", "commit")

    def __init__(
        self,
        wrapped: StateStore,
        value_format: ValueFormat,
        window_size: int,
        metrics_scope: str,
        key_serde: Any,
        value_serde: Any,
    ) -> None:
        super().__init__(wrapped, value_format, metrics_scope, key_serde, value_serde)
        self._window_size = window_size

    @property
    def keeps_rows(self) -> bool:
        """Whether values are pairs of a value and its timestamp, which can be read and written many at once."""
        return self.value_format is TIMESTAMPED

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._fetch_small = self._wrapped.fetch_small_windows
        self._times_iterators = self._metrics.times_iterators

    def _use_headers(self) -> None:
        self.put = self._put_with_headers  # type: ignore[method-assign]

    def _put_with_headers(self, key: K, value: V | None, window_start: int) -> None:
        if key is None:
            self._refuse_none_key()
        if value is None:
            with self._deleting():
                self._wrapped.put(self._raw_key(key), None, window_start)
        else:
            raw_key, raw = self._raw_entry(key, value)
            self._wrapped.put(raw_key, raw, window_start)

    def _flushed_key(self, raw: bytes) -> Windowed[K]:
        found = WindowKeySchema.from_store_bytes_key(raw, self._window_size)
        return Windowed(self._key_from(found.key), found.window)

    @property
    def window_size(self) -> int:
        """The length of each window in milliseconds."""
        return self._window_size

    def past_cache(self: L) -> L:
        view = super().past_cache()
        view._fetch_small = view._wrapped.fetch_small_windows
        return view

    def put(self, key: K, value: V | None, window_start: int) -> None:
        if key is None:
            self._refuse_none_key()
        self._wrapped.put(self._raw_key(key), self._raw_from_value(value), window_start)

    @overload
    def fetch(self, key: K, time: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time: int, time_to: int) -> StoreIterator[tuple[int, V]]: ...

    def fetch(self, key: K, time: int, time_to: int | None = None) -> Any:
        if key is None:
            self._refuse_none_key()
        if time_to is not None:
            # As `fetch_range` does it, without another call for each record that asks.
            raw = self._raw_key(key)
            small = self._fetch_small(raw, time, time_to)
            return (
                self._values(self._wrapped.fetch_range(raw, time, time_to, True)) if small is None else self._read_already(small)
            )
        value: V | None = self._value_from_raw(self._wrapped.fetch(self._raw_key(key), time))
        return value

    def fetch_range(self, key: K, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[int, V]]:
        if key is None:
            self._refuse_none_key()
        raw = self._raw_key(key)
        small = self._fetch_small(raw, time_from, time_to) if forward else None
        return (
            self._values(self._wrapped.fetch_range(raw, time_from, time_to, forward))
            if small is None
            else self._read_already(small)
        )

    def _read_already(self, small: list[tuple[int, bytes]]) -> StoreIterator[tuple[int, V]]:
        if self._times_iterators:
            return self._values(PeekingIterator(small, self._name))
        return SmallEntries(small, self._value_from_raw, self._name, self._metrics.opened, self._context.current_system_time_ms())

    def fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        raw_from, raw_to = self._raw_bound(key_from), self._raw_bound(key_to)
        return self._windowed(self._wrapped.fetch_key_range(raw_from, raw_to, time_from, time_to, forward))

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[Windowed[K], V]]:
        return self._windowed(self._wrapped.fetch_all(time_from, time_to, forward))

    def _num_entries(self) -> int:
        engine = self.find_inner(InMemoryWindowStore)
        return -1 if engine is None else engine.num_entries()

    def _values(self, entries: Any) -> StoreIterator[tuple[int, V]]:
        value_from = self._value_from_raw
        return self._metered(((start, value_from(value)) for start, value in entries), entries)

    def rows_at(self, places: Sequence[WindowKey]) -> list[Row | None]:
        """What windows hold, as plain pairs; None where there is nothing, or nothing any more."""
        if self.takes_rows:
            return self.rows_from(self._wrapped.fetch_windows(places))
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

    def write_rows_around(self, places: Sequence[WindowKey], rows: Sequence[Row | None], record_times: Sequence[int]) -> None:
        """Set what windows hold past the cache; no flush listener hears of it, the caller tells of the changes itself.

        A row has its own timestamp; one that is deleted goes at the time of the record that did it. Where `takes_rows`.
        """
        times = [at if row is None else row[1] for row, at in zip(rows, record_times)]
        raw = self.raw_from_rows([None if row is None else row[0] for row in rows], times)
        self._wrapped.put_windows(places, raw, record_times)

    def rows_between(self, time_from: int, time_to: int) -> tuple[list[WindowKey], list[Row | None]]:
        """The windows of all keys that start in a range of time, in the order of the store; where `takes_rows`."""
        places, raw = self._wrapped.windows_between(time_from, time_to)
        return places, self.rows_from(raw)

    def keys_of(self, keys: Iterable[WindowKey]) -> list[K]:
        """Return the typed keys of windows."""
        return self.keys_from([raw for raw, _ in keys])

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
    ) -> None:
        """Add the values of many records in their order, as single puts would; where `takes_duplicates`."""
        self._wrapped.put_duplicates(keys, values, timestamps, headers)

    def fetch_duplicates(self, keys: Iterable[bytes], time_from: int, time_to: int) -> dict[bytes, list[Entry]]:
        """The bytes of all values of many keys in a range of time, in the order of times and of puts.

        Keys that have none are left out. Where `takes_duplicates`.
        """
        found: dict[bytes, list[Entry]] = self._wrapped.fetch_duplicates(keys, time_from, time_to)
        return found

    @property
    def observed_stream_time(self) -> int:
        """The latest time that was put, -1 before the first; where `takes_duplicates`."""
        return int(self._wrapped.observed_stream_time)

    def oldest(self, stream_time: int) -> int:
        """The lowest time that can be found when stream time has come this far; where `takes_duplicates`."""
        return int(self._wrapped.oldest(stream_time))

    def is_kept(self, timestamp: int, stream_time: int) -> bool:
        """Whether a put at a time is kept when stream time has come this far; where `takes_duplicates`."""
        return bool(self._wrapped.is_kept(timestamp, stream_time))
