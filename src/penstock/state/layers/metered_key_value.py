"""The typed layer of key-value stores: serdes, null checks, metrics and open iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from penstock.change import Change
from penstock.record import Record, RecordContext
from penstock.serdes.serde import as_serializer
from penstock.state.capabilities import rocksdb_of
from penstock.state.iterators import MeteredIterator
from penstock.state.layers.metrics import StoreMetrics
from penstock.state.layers.serdes import StoreSerdes
from penstock.state.layers.timestamped import TimestampedValues
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.ranges import KeyValueRanges
from penstock.state.store import StateStore, StateStoreContext, StoreIterator, ValueAndTimestamp
from penstock.state.value_and_timestamp import Row

K = TypeVar("K")
V = TypeVar("V")

_METERED = ("get", "put", "put_if_absent", "put_all", "delete", "commit")


class MeteredKeyValueStore(WrappedStateStore, KeyValueRanges[K, V], Generic[K, V]):
    """What a processor gets: keys and values of the user's types over a store of bytes."""

    query_kind = ("key_value", "plain")
    _serdes: StoreSerdes
    _metrics: StoreMetrics

    def __init__(self, wrapped: Any, metrics_scope: str, key_serde: Any, value_serde: Any) -> None:
        super().__init__(wrapped)
        self._metrics_scope = metrics_scope
        self._key_serde = key_serde
        self._value_serde = value_serde

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Find the serdes and open the wrapped store."""
        self._find_serdes(context)
        self._metrics = StoreMetrics(context, self._metrics_scope, self._name)
        self._metrics.time_calls(self, _METERED)
        if not self.persistent:
            self._metrics.gauge("num-keys", "The current number of keys in the in-memory store", self._num_keys)
        self._on_rocksdb = rocksdb_of(self) is not None
        with self._metrics.restoring():
            super().init(context, root)

    def _find_serdes(self, context: StateStoreContext) -> None:
        self._serdes = StoreSerdes(context, self._name, self._key_serde, self._value_serde)
        self._raw_key = self._serdes.raw_key
        self._key_from = self._serdes.key_from
        self.serdes_take_headers = self._serdes.take_headers

    def close(self) -> None:
        """Close the wrapped store; what was not committed is gone."""
        try:
            super().close()
        finally:
            self._metrics.close()

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Call `listener(record)` with the typed change of each entry the cache flushes; False where there is no cache."""
        key_from = self._key_from
        value_from = self._value_from_raw

        def typed(record: Record[bytes, Change[bytes]]) -> None:
            change = record.value
            listener(
                Record(
                    key_from(record.key),
                    Change(value_from(change.new_value), value_from(change.old_value), change.is_latest),
                    record.timestamp,
                    record.headers,
                )
            )

        return super().set_flush_listener(typed, send_old_values)

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        if key is None:
            self._refuse_none_key()
        return self._value_from_raw(self._wrapped.get(self._raw_key(key)))

    def put(self, key: K, value: V | None) -> None:
        """Set the value of a key; None deletes."""
        if key is None:
            self._refuse_none_key()
        self._wrapped.put(self._raw_key(key), self._raw_from_value(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set only where there is none; returns what was there."""
        if key is None:
            self._refuse_none_key()
        return self._value_from_raw(self._wrapped.put_if_absent(self._raw_key(key), self._raw_from_value(value)))

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Set many at once."""
        given = list(entries)
        if any(key is None for key, _ in given):
            self._refuse_none_key()
        self._wrapped.put_all([(self._raw_key(key), self._raw_from_value(value)) for key, value in given])

    def delete(self, key: K) -> V | None:
        """Remove a key; returns what was there."""
        if key is None:
            self._refuse_none_key()
        return self._value_from_raw(self._wrapped.delete(self._raw_key(key)))

    def range(self, key_from: K | None, key_to: K | None, forward: bool = True) -> StoreIterator[tuple[K, V]]:
        return self._typed(self._wrapped.range(self._raw_bound(key_from), self._raw_bound(key_to), forward), "range")

    def all(self, forward: bool = True) -> StoreIterator[tuple[K, V]]:
        return self._typed(self._wrapped.all(forward), "all")

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[K, V]]:
        """Entries whose key bytes start with the serialized prefix; the serializer may be a serde."""
        if prefix is None:
            raise ValueError(f"prefix cannot be None in a prefix scan of store {self._name}")
        if prefix_serializer is None:
            raise ValueError(f"prefix_serializer cannot be None in a prefix scan of store {self._name}")
        return self._typed(self._wrapped.prefix_scan(prefix, as_serializer(prefix_serializer)), "prefix-scan")

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""
        return int(self._wrapped.approximate_num_entries())

    def _raw_bound(self, key: K | None) -> bytes | None:
        raw: bytes | None = None if key is None else self._raw_key(key)
        return raw

    def _raw_from_value(self, value: Any) -> bytes | None:
        raw: bytes | None = None if value is None else self._serdes.raw_value(value)
        return raw

    def _value_from_raw(self, raw: bytes | None) -> V | None:
        value: V | None = None if raw is None else self._serdes.value_from(raw)
        return value

    def _typed(self, entries: Any, operation: str) -> StoreIterator[tuple[K, V]]:
        key_from, value_from = self._key_from, self._value_from_raw
        typed: Any = ((key_from(key), value_from(value)) for key, value in entries)
        return self._metered(typed, entries, operation)

    def _metered(self, typed: Any, entries: Any, operation: str) -> StoreIterator[Any]:
        finished = self._metrics.iterator_opened(operation)
        return MeteredIterator(typed, self._name, entries, self._metrics.opened, finished, self._on_rocksdb)

    def _num_keys(self) -> int:
        return self.approximate_num_entries() if self.is_open else 0

    def _refuse_none_key(self) -> None:
        raise ValueError(f"key cannot be None in store {self._name}")


class MeteredTimestampedKeyValueStore(TimestampedValues[K, V], MeteredKeyValueStore[K, ValueAndTimestamp[V]], Generic[K, V]):
    """Values come and go as `ValueAndTimestamp`; the bytes are eight of timestamp and then the value's own."""

    query_kind = ("key_value", "timestamped")

    @property
    def takes_table_rows(self) -> bool:
        """Whether the store below takes many rows at once."""
        return self.takes_rows

    def rows_of(self, raw_keys: Sequence[bytes]) -> list[tuple[V, int] | None]:
        """Value and timestamp of many keys, as plain pairs."""
        return self.rows_from(self._wrapped.multi_get(raw_keys))

    def kept_rows_of(self, raw_keys: Sequence[bytes]) -> list[tuple[Any, int] | None]:
        """The same with each value as `keep` keeps it."""
        return self.kept_rows_from(self._wrapped.multi_get(raw_keys))

    def put_rows(self, raw_keys: Sequence[bytes], rows: Sequence[Row | None], contexts: Iterable[RecordContext]) -> None:
        """Leave many rows, whose values were kept, in the cache, each as its record, which is told by its context, would have."""
        values = self.raw_from_kept([row and row[0] for row in rows], [-1 if row is None else row[1] for row in rows])
        self._wrapped.put_as(zip(raw_keys, values, contexts))

    def write_rows_through(
        self, raw_keys: Sequence[bytes], kept: Sequence[Any], timestamps: Sequence[int], record_times: Sequence[int]
    ) -> None:
        """Set many rows, whose values were kept, past the cache; no flush listener hears of it, the caller tells of the changes.

        A row has its own timestamp; one that is deleted goes at the time of the record that did it.
        """
        self._wrapped.write_through(list(zip(raw_keys, self.raw_from_kept(kept, timestamps))), record_times)

    def hold(self, forward: Callable[[], None]) -> None:
        """Call `forward` with the next flush of the cache: it tells of changes that were written past it."""
        self._wrapped.hold(forward)
