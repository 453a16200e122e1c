"""The typed layer of key-value stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from penstock.record import Headers, RecordContext
from penstock.serdes.serde import as_serializer
from penstock.state.capabilities import rocksdb_of
from penstock.state.layers.logged_key_value import RawRow
from penstock.state.layers.rows import RowValues
from penstock.state.ranges import KeyValueRanges
from penstock.state.store import StateStore, StateStoreContext, StoreIterator
from penstock.state.value_and_timestamp import Row, timestamped_column
from penstock.state.value_formats import TIMESTAMPED, WITH_HEADERS
from penstock.state.value_timestamp_headers import NO_HEADERS, serialize_headers

K = TypeVar("K")
V = TypeVar("V")


class MeteredKeyValueStore(RowValues[K, V], KeyValueRanges[K, V], Generic[K, V]):
    """Keys to values."""

    kind = "key_value"
    timed_methods = ("get", "put", "put_if_absent", "put_all", "delete", "commit")

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.iterators_raise_if_closed = rocksdb_of(self) is not None
        super().init(context, root)

    def _use_headers(self) -> None:
        self.put = self._put_with_headers  # type: ignore[method-assign]
        self.put_if_absent = self._put_if_absent_with_headers  # type: ignore[method-assign]
        self.put_all = self._put_all_with_headers  # type: ignore[method-assign]
        self.delete = self._delete_with_headers  # type: ignore[method-assign]

    def get(self, key: K) -> V | None:
        if key is None:
            self._refuse_none_key()
        value: V | None = self._value_from_raw(self._wrapped.get(self._raw_key(key)))
        return value

    def put(self, key: K, value: V | None) -> None:
        if key is None:
            self._refuse_none_key()
        self._wrapped.put(self._raw_key(key), self._raw_from_value(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        if key is None:
            self._refuse_none_key()
        found: V | None = self._value_from_raw(self._wrapped.put_if_absent(self._raw_key(key), self._raw_from_value(value)))
        return found

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        given = list(entries)
        if any(key is None for key, _ in given):
            self._refuse_none_key()
        self._wrapped.put_all([(self._raw_key(key), self._raw_from_value(value)) for key, value in given])

    def delete(self, key: K) -> V | None:
        if key is None:
            self._refuse_none_key()
        found: V | None = self._value_from_raw(self._wrapped.delete(self._raw_key(key)))
        return found

    def _put_with_headers(self, key: K, value: V | None) -> None:
        if key is None:
            self._refuse_none_key()
        if value is None:
            with self._deleting():
                self._wrapped.put(self._raw_key(key), None)
        else:
            self._wrapped.put(*self._raw_entry(key, value))

    def _put_if_absent_with_headers(self, key: K, value: V | None) -> V | None:
        if key is None:
            self._refuse_none_key()
        found: V | None
        if value is None:
            with self._deleting():
                found = self._value_from_raw(self._wrapped.put_if_absent(self._raw_key(key), None))
        else:
            found = self._value_from_raw(self._wrapped.put_if_absent(*self._raw_entry(key, value)))
        return found

    def _put_all_with_headers(self, entries: Iterable[tuple[K, V | None]]) -> None:
        given = list(entries)
        if any(key is None for key, _ in given):
            self._refuse_none_key()
        if any(value is None for _, value in given):
            for key, value in given:
                self._put_with_headers(key, value)
        else:
            self._wrapped.put_all([self._raw_entry(key, value) for key, value in given])

    def _delete_with_headers(self, key: K) -> V | None:
        if key is None:
            self._refuse_none_key()
        with self._deleting():
            found: V | None = self._value_from_raw(self._wrapped.delete(self._raw_key(key)))
        return found

    def range(self, key_from: K | None, key_to: K | None, forward: bool = True) -> StoreIterator[tuple[K, V]]:
        return self._typed(self._wrapped.range(self._raw_bound(key_from), self._raw_bound(key_to), forward), "range")

    def all(self, forward: bool = True) -> StoreIterator[tuple[K, V]]:
        return self._typed(self._wrapped.all(forward), "all")

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[K, V]]:
        """Return the entries whose key bytes start with the serialized prefix; the serializer may be a serde."""
        if prefix is None:
            raise ValueError(f"prefix cannot be None in a prefix scan of store {self._name}")
        if prefix_serializer is None:
            raise ValueError(f"prefix_serializer cannot be None in a prefix scan of store {self._name}")
        return self._typed(self._wrapped.prefix_scan(prefix, as_serializer(prefix_serializer)), "prefix-scan")

    def approximate_num_entries(self) -> int:
        return int(self._wrapped.approximate_num_entries())

    def _flushed_key(self, raw: bytes) -> K:
        return self._key_from(raw)

    def _num_entries(self) -> int:
        return self.approximate_num_entries() if self.is_open else 0

    @property
    def takes_table_rows(self) -> bool:
        return self.value_format is TIMESTAMPED and self.takes_rows

    def rows_of(self, raw_keys: Sequence[bytes]) -> list[tuple[Any, int] | None]:
        """Return the rows of many keys."""
        return self.rows_from(self._wrapped.multi_get(raw_keys))

    def kept_rows_of(self, raw_keys: Sequence[bytes]) -> list[tuple[Any, int] | None]:
        """Return the kept rows of many keys."""
        return self.kept_rows_from(self._wrapped.multi_get(raw_keys))

    def put_rows(self, raw_keys: Sequence[bytes], rows: Sequence[Row | None], contexts: Iterable[RecordContext]) -> None:
        """Put many kept rows into the cache, each with the context of its record."""
        values = self.raw_from_kept([row and row[0] for row in rows], [-1 if row is None else row[1] for row in rows])
        self._wrapped.put_as(zip(raw_keys, values, contexts))

    def write_rows_around(
        self, raw_keys: Sequence[bytes], kept: Sequence[Any], timestamps: Sequence[int], record_times: Sequence[int]
    ) -> None:
        """Write many kept rows around the cache. No flush listener is called: the caller forwards the changes.

        A row has its own timestamp; a deletion has the time of its record.
        """
        self._wrapped.write_around(list(zip(raw_keys, self.raw_from_kept(kept, timestamps))), record_times)

    def hold(self, forward: Callable[[], None]) -> None:
        """Call `forward` with the next flush of the cache; it forwards changes that were written around the cache."""
        self._wrapped.hold(forward)

    @property
    def writes_rows_with_headers(self) -> bool:
        changelog_below = self.value_format is WITH_HEADERS and self._wrapped.is_changelog
        return bool(changelog_below and self._wrapped.writes_rows)

    def raw_rows_with_headers(
        self, values: Sequence[Any], timestamps: Sequence[int], headers: list[Headers] | None
    ) -> list[RawRow]:
        """Return the bytes of many entries, whole and the value alone; None stays None."""
        raw = self._serdes.raw_values(values)
        whole = timestamped_column(raw, timestamps)
        if headers is None:
            return [(None if one is None else NO_HEADERS + one, value) for one, value in zip(whole, raw)]
        fronts = map(serialize_headers, headers)
        return [(None if one is None else front + one, value) for front, one, value in zip(fronts, whole, raw)]

    def write_rows_with_headers(
        self, raw_keys: Sequence[bytes], rows: Sequence[RawRow], timestamps: Sequence[int], headers: list[Headers] | None
    ) -> None:
        """Write many rows at once; where `writes_rows_with_headers`."""
        self._wrapped.write_rows_with_headers(raw_keys, rows, timestamps, headers)
