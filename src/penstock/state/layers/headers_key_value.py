"""The layers of key-value stores that keep the headers of a record with its value and timestamp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from penstock.record import Headers
from penstock.state.layers.entries_with_headers import EntriesWithHeaders
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore
from penstock.state.store import StateStoreContext, StoreIterator
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, timestamp, timestamped_column
from penstock.state.value_timestamp_headers import (
    NO_HEADERS,
    ValueTimestampHeaders,
    serialize_headers,
    split_headers,
    with_timestamp_and_headers,
)

K = TypeVar("K")
V = TypeVar("V")


class ChangeLoggingKeyValueStoreWithHeaders(ChangeLoggingKeyValueStore):
    """Logs the value alone, with its own timestamp and headers as the record's; deletions with those being processed."""

    def _log(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            record_context = self._context.record_context
            headers = () if record_context is None else record_context.headers
            self._log_change(self._name, key, None, self._record_timestamp(), headers)
        else:
            headers, rest = split_headers(value)
            self._log_change(self._name, key, rest[TIMESTAMP_SIZE:], timestamp(rest), headers)

    def write_rows_through(
        self, raw_keys: Sequence[bytes], rows: Sequence[RawRow], timestamps: Sequence[int], headers: list[Headers] | None
    ) -> None:
        """Set many at once, and log them at once: each with the time and headers of the record that wrote or deleted it."""
        self._wrapped.put_all([(key, whole) for key, (whole, _) in zip(raw_keys, rows)])
        self._context.log_columns(self._name, list(raw_keys), [value for _, value in rows], list(timestamps), headers)


RawRow = tuple["bytes | None", "bytes | None"]
"""The bytes of a value, and before it with its headers and timestamp; None for both where it is deleted."""


class MeteredKeyValueStoreWithHeaders(MeteredKeyValueStore[K, ValueTimestampHeaders[V]], Generic[K, V]):
    """Values come and go as `ValueTimestampHeaders`."""

    query_kind = ("key_value", "headers")
    _entries: EntriesWithHeaders

    def _find_serdes(self, context: StateStoreContext) -> None:
        super()._find_serdes(context)
        if self._serdes.take_headers:
            # Chosen once: stores whose serdes take no headers pay nothing for those that do.
            self._entries = EntriesWithHeaders(context, self._serdes)
            self.put = self._put_with_headers  # type: ignore[method-assign]
            self.put_if_absent = self._put_if_absent_with_headers  # type: ignore[method-assign]
            self.put_all = self._put_all_with_headers  # type: ignore[method-assign]
            self.delete = self._delete_with_headers  # type: ignore[method-assign]
            self._value_from_raw = self._value_from_raw_with_headers  # type: ignore[method-assign]
            self._typed = self._typed_with_headers  # type: ignore[method-assign]

    def _put_with_headers(self, key: K, value: ValueTimestampHeaders[V] | None) -> None:
        if key is None:
            self._refuse_none_key()
        if value is None:
            with self._entries.deleting():
                self._wrapped.put(self._raw_key(key), None)
        else:
            self._wrapped.put(*self._raw_entry(key, value))

    def _put_if_absent_with_headers(self, key: K, value: ValueTimestampHeaders[V] | None) -> ValueTimestampHeaders[V] | None:
        if key is None:
            self._refuse_none_key()
        if value is None:
            with self._entries.deleting():
                return self._value_from_raw(self._wrapped.put_if_absent(self._raw_key(key), None))
        return self._value_from_raw(self._wrapped.put_if_absent(*self._raw_entry(key, value)))

    def _put_all_with_headers(self, entries: Iterable[tuple[K, ValueTimestampHeaders[V] | None]]) -> None:
        given = list(entries)
        if any(key is None for key, _ in given):
            self._refuse_none_key()
        if any(value is None for _, value in given):
            for key, value in given:
                self._put_with_headers(key, value)
        else:
            self._wrapped.put_all([self._raw_entry(key, value) for key, value in given])

    def _delete_with_headers(self, key: K) -> ValueTimestampHeaders[V] | None:
        if key is None:
            self._refuse_none_key()
        with self._entries.deleting():
            return self._value_from_raw(self._wrapped.delete(self._raw_key(key)))

    def _raw_entry(self, key: K, value: Any) -> tuple[bytes, bytes | None]:
        raw = self._entries.write(key, value.value, getattr(value, "headers", None))
        return raw.key, with_timestamp_and_headers(raw.value, value.timestamp, raw.headers)

    def _value_from_raw_with_headers(self, raw: bytes | None) -> ValueTimestampHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        value = self._entries.value(rest[TIMESTAMP_SIZE:], headers)
        return None if value is None else ValueTimestampHeaders(value, timestamp(rest), headers)

    def _typed_with_headers(self, entries: Any, operation: str) -> StoreIterator[tuple[K, ValueTimestampHeaders[V]]]:
        read_key = self._entries.key
        typed: Any = ((read_key(key, split_headers(raw)[0]), self._value_from_raw(raw)) for key, raw in entries)
        return self._metered(typed, entries, operation)

    def _raw_from_value(self, value: ValueTimestampHeaders[Any] | None) -> bytes | None:
        if value is None or value.value is None:
            return None
        # The operators of tables put a value and its timestamp only: their results have no headers of their own.
        return with_timestamp_and_headers(self._serdes.raw_value(value.value), value.timestamp, getattr(value, "headers", ()))

    @property
    def writes_rows(self) -> bool:
        """Whether `write_rows_through` can be called: nothing but the log is on the way to the engine."""
        return isinstance(self._wrapped, ChangeLoggingKeyValueStoreWithHeaders) and self._wrapped.writes_rows

    def raw_from_rows(self, values: Sequence[V | None], timestamps: Sequence[int], headers: list[Headers] | None) -> list[RawRow]:
        """The bytes of many entries, whole and the value alone; None stays None."""
        raw = self._serdes.raw_values(values)
        whole = timestamped_column(raw, timestamps)
        if headers is None:
            return [(None if one is None else NO_HEADERS + one, value) for one, value in zip(whole, raw)]
        fronts = map(serialize_headers, headers)
        return [(None if one is None else front + one, value) for front, one, value in zip(fronts, whole, raw)]

    def write_rows_through(
        self, raw_keys: Sequence[bytes], rows: Sequence[RawRow], timestamps: Sequence[int], headers: list[Headers] | None
    ) -> None:
        """Set many rows at once, which a store without a cache is asked for; where `writes_rows`."""
        self._wrapped.write_rows_through(raw_keys, rows, timestamps, headers)

    def _value_from_raw(self, raw: bytes | None) -> ValueTimestampHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        value = self._serdes.value_from(rest[TIMESTAMP_SIZE:])
        return None if value is None else ValueTimestampHeaders(value, timestamp(rest), headers)
