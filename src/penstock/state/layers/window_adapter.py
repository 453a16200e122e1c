"""A window or session store of a simpler format under a builder of a richer one: what it cannot keep comes back as unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.aggregation_with_headers import from_plain_aggregation, plain_aggregation
from penstock.state.iterators import PeekingIterator
from penstock.state.layers.wrapped_session import WrappedSessionStore
from penstock.state.layers.wrapped_window import WrappedWindowStore
from penstock.state.value_and_timestamp import UNKNOWN_TIMESTAMP, raw_value
from penstock.state.value_timestamp_headers import from_plain_value, from_timestamped_value, plain_value, timestamped_value
from penstock.windows import Windowed

ToWrapped = Callable[["bytes | None"], "bytes | None"]
FromWrapped = Callable[[bytes], bytes]


class ConvertingWindowStore(WrappedWindowStore):
    """Converts values on their way into the wrapped store and out of it."""

    takes_rows = False  # what it takes off does not come back

    def __init__(self, wrapped: Any, to_wrapped: ToWrapped, from_wrapped: FromWrapped) -> None:
        super().__init__(wrapped)
        self.to_wrapped = to_wrapped
        self._from_wrapped = from_wrapped

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of a key's window; None deletes."""
        self._wrapped.put(key, self.to_wrapped(value), window_start)

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        """The value of the window that starts at `time`, or None."""
        value: bytes | None = self._wrapped.fetch(key, time)
        return None if value is None else self._from_wrapped(value)

    def fetch_range(self, key: bytes, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[Any, bytes]:
        return self._converted(self._wrapped.fetch_range(key, time_from, time_to, forward))

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool = True
    ) -> PeekingIterator[Any, bytes]:
        return self._converted(self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, forward))

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> PeekingIterator[Any, bytes]:
        return self._converted(self._wrapped.fetch_all(time_from, time_to, forward))

    def _converted(self, entries: Any) -> PeekingIterator[Any, bytes]:
        from_wrapped = self._from_wrapped
        return PeekingIterator(((key, from_wrapped(value)) for key, value in entries), self._name, lambda _: entries.close())


class SessionToHeadersAdapter(WrappedSessionStore):
    """A plain store for `AggregationWithHeaders`: headers come back as none."""

    takes_rows = False  # what it takes off does not come back

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        """Set the aggregate of a session; None deletes."""
        self._wrapped.put(session_key, plain_aggregation(aggregate))

    def fetch_session(self, key: bytes, session_start: int, session_end: int) -> bytes | None:
        """The aggregate of exactly this session, or None."""
        aggregate: bytes | None = self._wrapped.fetch_session(key, session_start, session_end)
        return None if aggregate is None else from_plain_aggregation(aggregate)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> PeekingIterator[Any, bytes]:
        return self._converted(super().find_sessions(key, earliest_session_end, latest_session_start, forward))

    def find_sessions_key_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
        forward: bool = True,
    ) -> PeekingIterator[Any, bytes]:
        found = super().find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start, forward)
        return self._converted(found)

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> PeekingIterator[Any, bytes]:
        """Sessions of all keys that end in a range of time."""
        return self._converted(super().find_sessions_by_end(earliest_session_end, latest_session_end))

    def _converted(self, entries: Any) -> PeekingIterator[Any, bytes]:
        converted = ((key, from_plain_aggregation(value)) for key, value in entries)
        return PeekingIterator(converted, self._name, lambda _: entries.close())


def plain_under_timestamped(store: Any) -> ConvertingWindowStore:
    """A plain store for `ValueAndTimestamp`: timestamps come back as -1."""
    return ConvertingWindowStore(store, raw_value, UNKNOWN_TIMESTAMP.__add__)


def plain_under_headers(store: Any) -> ConvertingWindowStore:
    """A plain store for `ValueTimestampHeaders`: timestamps come back as -1 and headers as none."""
    adapter = ConvertingWindowStore(store, plain_value, from_plain_value)
    adapter.keeps_timestamps = False
    return adapter


def timestamped_under_headers(store: Any) -> ConvertingWindowStore:
    """A timestamped store for `ValueTimestampHeaders`: headers come back as none."""
    return ConvertingWindowStore(store, timestamped_value, from_timestamped_value)
