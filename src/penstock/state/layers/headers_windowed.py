"""The layers of window and session stores that keep the headers of a record with what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar

from penstock.record import Headers
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.keys.session import SessionKeySchema
from penstock.state.layers.entries_with_headers import EntriesWithHeaders
from penstock.state.layers.logged_session import ChangeLoggingSessionStore
from penstock.state.layers.logged_window import ChangeLoggingWindowStore
from penstock.state.layers.metered_session import MeteredSessionStore
from penstock.state.layers.metered_window import MeteredWindowStore
from penstock.state.layers.wrapped_session import WrappedSessionStore
from penstock.state.layers.wrapped_window import Entry, WrappedWindowStore
from penstock.state.store import StateStoreContext, StoreIterator
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, timestamp
from penstock.state.value_timestamp_headers import (
    ValueTimestampHeaders,
    serialize_headers,
    split_headers,
    with_timestamp_and_headers,
)
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")


class InMemoryHeadersWindowMarker(WrappedWindowStore):
    """Says of an in-memory store that its values carry their timestamp and headers."""

    passes_bytes = True
    timestamped = True
    with_headers = True

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        logged: bool = False,
    ) -> list[bytes]:
        """Add the values of many records, each with its timestamp and headers in front."""
        fronts = repeat(serialize_headers(())) if headers is None else map(serialize_headers, headers)
        carried = [
            None if value is None else front + time.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + value
            for value, time, front in zip(values, timestamps, fronts)
        ]
        return super().put_duplicates(keys, carried, timestamps, headers, logged)

    def fetch_duplicates(self, keys: Iterable[bytes], time_from: int, time_to: int) -> dict[bytes, list[Entry]]:
        """The values alone of many keys in a range of time."""
        found = super().fetch_duplicates(keys, time_from, time_to)
        return {
            key: [(time, split_headers(carried)[1][TIMESTAMP_SIZE:]) for time, carried in entries]
            for key, entries in found.items()
        }


class InMemoryHeadersSessionMarker(WrappedSessionStore):
    """Says of an in-memory store that its aggregates carry their headers."""

    passes_bytes = True
    with_headers = True


class ChangeLoggingWindowStoreWithHeaders(ChangeLoggingWindowStore):
    """Logs the value alone, with its own timestamp and headers as the record's; deletions with those being processed."""

    def _log(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            record_context = self._context.record_context
            headers = () if record_context is None else record_context.headers
            self._log_change(self._name, key, None, self._record_timestamp(), headers)
        else:
            headers, rest = split_headers(value)
            self._log_change(self._name, key, rest[TIMESTAMP_SIZE:], timestamp(rest), headers)

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        logged: bool = False,
    ) -> list[bytes]:
        """Add the values of many records and log them; one that is None is logged with time and headers of its record too."""
        store_keys = super().put_duplicates(keys, values, timestamps, headers, logged=True)
        self._seqnum = None  # the engine has counted on meanwhile
        if headers is None:
            self._context.log_columns(self._name, list(store_keys), list(values), list(timestamps))
        else:
            for key, value, time, some in zip(store_keys, values, timestamps, headers):
                self._log_change(self._name, key, value, time, some)
        return store_keys


class ChangeLoggingSessionStoreWithHeaders(ChangeLoggingSessionStore):
    """Logs the aggregate alone with its headers; deletions with those of the record being processed."""

    def _log(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        record_context = self._context.record_context
        time = self._context.current_system_time_ms() if record_context is None else record_context.timestamp
        headers: Headers = () if record_context is None else record_context.headers
        if aggregate is not None:
            headers, aggregate = split_headers(aggregate)
        self._log_change(self._name, SessionKeySchema.windowed_to_binary(session_key), aggregate, time, headers)


class MeteredWindowStoreWithHeaders(MeteredWindowStore[K, ValueTimestampHeaders[V]], Generic[K, V]):
    """Values come and go as `ValueTimestampHeaders`."""

    query_kind = ("window", "headers")
    _entries: EntriesWithHeaders

    def _find_serdes(self, context: StateStoreContext) -> None:
        super()._find_serdes(context)
        if self._serdes.take_headers:
            # Chosen once: stores whose serdes take no headers pay nothing for those that do.
            self._entries = EntriesWithHeaders(context, self._serdes)
            self.put = self._put_with_headers  # type: ignore[method-assign]
            self._value_from_raw = self._value_from_raw_with_headers  # type: ignore[method-assign]
            self._windows = self._windows_with_headers  # type: ignore[method-assign]

    def _put_with_headers(self, key: K, value: ValueTimestampHeaders[V] | None, window_start: int) -> None:
        if key is None:
            self._refuse_none_key()
        if value is None:
            with self._entries.deleting():
                self._wrapped.put(self._raw_key(key), None, window_start)
        else:
            raw = self._entries.write(key, value.value, getattr(value, "headers", None))
            self._wrapped.put(raw.key, with_timestamp_and_headers(raw.value, value.timestamp, raw.headers), window_start)

    def _value_from_raw_with_headers(self, raw: bytes | None) -> ValueTimestampHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        value = self._entries.value(rest[TIMESTAMP_SIZE:], headers)
        return None if value is None else ValueTimestampHeaders(value, timestamp(rest), headers)

    def _windows_with_headers(self, entries: Any) -> StoreIterator[tuple[Windowed[K], ValueTimestampHeaders[V]]]:
        read_key = self._entries.key
        typed = (
            (Windowed(read_key(windowed.key, split_headers(raw)[0]), windowed.window), self._value_from_raw(raw))
            for windowed, raw in entries
        )
        return self._metered(typed, entries)

    def _raw_from_value(self, value: ValueTimestampHeaders[Any] | None) -> bytes | None:
        if value is None or value.value is None:
            return None
        # The operators of tables put a value and its timestamp only: their results have no headers of their own.
        return with_timestamp_and_headers(self._serdes.raw_value(value.value), value.timestamp, getattr(value, "headers", ()))

    def _value_from_raw(self, raw: bytes | None) -> ValueTimestampHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        value = self._serdes.value_from(rest[TIMESTAMP_SIZE:])
        return None if value is None else ValueTimestampHeaders(value, timestamp(rest), headers)

    def raw_keys(self, keys: Sequence[K]) -> list[bytes]:
        """Many keys as bytes."""
        return self._serdes.raw_keys(keys)

    def raw_values(self, values: Sequence[V | None]) -> list[bytes | None]:
        """The bytes of many values alone; None stays None."""
        return self._serdes.raw_values(values)

    def values_from(self, raw: list[bytes]) -> list[V]:
        """Many values from their bytes alone."""
        return self._serdes.values_from(raw)

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


class MeteredSessionStoreWithHeaders(MeteredSessionStore[K, AggregationWithHeaders[V]], Generic[K, V]):
    """Aggregates come and go as `AggregationWithHeaders`."""

    takes_rows = False  # aggregates come and go with their headers, one by one
    gives_headers = True
    query_kind = ("session", "headers")
    _entries: EntriesWithHeaders

    def _find_serdes(self, context: StateStoreContext) -> None:
        super()._find_serdes(context)
        if self._serdes.take_headers:
            # Chosen once: stores whose serdes take no headers pay nothing for those that do.
            self._entries = EntriesWithHeaders(context, self._serdes)
            self.put = self._put_with_headers  # type: ignore[method-assign]
            self.remove = self._remove_with_headers  # type: ignore[method-assign]
            self._value_from_raw = self._value_from_raw_with_headers  # type: ignore[method-assign]
            self._typed = self._typed_with_headers  # type: ignore[method-assign]

    def _put_with_headers(self, session_key: Windowed[K], aggregate: AggregationWithHeaders[V] | None) -> None:
        if aggregate is None:
            with self._entries.deleting():
                self._wrapped.put(self._raw_session(session_key), None)
            return
        if session_key is None or session_key.window is None or session_key.key is None:
            self._raw_session(session_key)  # raises with the reason
        raw = self._entries.write(session_key.key, aggregate.aggregation, aggregate.headers)
        value = None if raw.value is None else serialize_headers(raw.headers) + raw.value
        self._wrapped.put(Windowed(raw.key, session_key.window), value)

    def _remove_with_headers(self, session_key: Windowed[K]) -> None:
        with self._entries.deleting():
            self._wrapped.remove(self._raw_session(session_key))

    def _value_from_raw_with_headers(self, raw: bytes | None) -> AggregationWithHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        aggregation = self._entries.value(rest, headers)
        return None if aggregation is None else AggregationWithHeaders(aggregation, headers)

    def _typed_with_headers(self, entries: Any) -> StoreIterator[tuple[Windowed[K], AggregationWithHeaders[V]]]:
        read_key = self._entries.key
        typed = (
            (Windowed(read_key(session.key, split_headers(raw)[0]), session.window), self._value_from_raw(raw))
            for session, raw in entries
        )
        return self._metered(typed, entries)

    def _raw_from_value(self, value: AggregationWithHeaders[Any] | None) -> bytes | None:
        if value is None or value.aggregation is None:
            return None
        raw = self._serdes.raw_value(value.aggregation)
        return None if raw is None else serialize_headers(value.headers) + bytes(raw)

    def _value_from_raw(self, raw: bytes | None) -> AggregationWithHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        aggregation = self._serdes.value_from(rest)
        return None if aggregation is None else AggregationWithHeaders(aggregation, headers)
