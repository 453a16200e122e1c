"""A store of one value format below a typed store of another: it loses what its format does not keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.state.iterators import PeekingIterator
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.layers.wrapped_key_value import WrappedKeyValueStore
from penstock.state.layers.wrapped_session import WrappedSessionStore
from penstock.state.layers.wrapped_window import WrappedWindowStore
from penstock.state.store import StateStore
from penstock.state.value_formats import ValueFormat, value_converter
from penstock.windows import Windowed

_Entries = PeekingIterator[Any, bytes]


class ConvertedValues(WrappedStateStore):
    """Converts values on their way into the wrapped store and out of it."""

    takes_rows = False  # what the format below does not keep does not come back

    def __init__(self, wrapped: StateStore, held: ValueFormat, shown: ValueFormat) -> None:
        super().__init__(wrapped)
        self.keeps_timestamps = held.keeps_timestamps or not shown.keeps_timestamps
        self._in = _with_none(value_converter(shown, held))
        self._from_held = value_converter(held, shown)
        self._out = _with_none(self._from_held)

    def _entries(self, entries: Any) -> _Entries:
        convert = self._from_held
        return PeekingIterator(((key, convert(value)) for key, value in entries), self._name, lambda _: entries.close())


class ConvertedKeyValueStore(ConvertedValues, WrappedKeyValueStore):
    """A key-value store with converted values."""

    def get(self, key: bytes) -> bytes | None:
        return self._out(self._wrapped.get(key))

    def put(self, key: bytes, value: bytes | None) -> None:
        self._wrapped.put(key, self._in(value))

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        return self._out(self._wrapped.put_if_absent(key, self._in(value)))

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._wrapped.put_all([(key, self._in(value)) for key, value in entries])

    def delete(self, key: bytes) -> bytes | None:
        return self._out(self._wrapped.delete(key))

    def range(self, key_from: bytes | None, key_to: bytes | None, forward: bool = True) -> _Entries:
        return self._entries(self._wrapped.range(key_from, key_to, forward))

    def all(self, forward: bool = True) -> _Entries:
        return self._entries(self._wrapped.all(forward))

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> _Entries:
        return self._entries(self._wrapped.prefix_scan(prefix, prefix_serializer))


class ConvertedWindowStore(ConvertedValues, WrappedWindowStore):
    """A window store with converted values."""

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self._wrapped.put(key, self._in(value), window_start)

    def fetch(self, key: bytes, time: int) -> bytes | None:  # type: ignore[override]  # single windows: see WindowStore
        return self._out(self._wrapped.fetch(key, time))

    def fetch_range(self, key: bytes, time_from: int, time_to: int, forward: bool = True) -> _Entries:
        return self._entries(self._wrapped.fetch_range(key, time_from, time_to, forward))

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, forward: bool = True
    ) -> _Entries:
        return self._entries(self._wrapped.fetch_key_range(key_from, key_to, time_from, time_to, forward))

    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> _Entries:
        return self._entries(self._wrapped.fetch_all(time_from, time_to, forward))


class ConvertedSessionStore(ConvertedValues, WrappedSessionStore):
    """A session store with converted aggregates."""

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        self._wrapped.put(session_key, self._in(aggregate))

    def fetch_session(self, key: bytes, session_start: int, session_end: int) -> bytes | None:
        return self._out(self._wrapped.fetch_session(key, session_start, session_end))

    def find_sessions(self, key: bytes, earliest_session_end: int, latest_session_start: int, forward: bool = True) -> _Entries:
        return self._entries(super().find_sessions(key, earliest_session_end, latest_session_start, forward))

    def find_sessions_key_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
        forward: bool = True,
    ) -> _Entries:
        return self._entries(
            super().find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start, forward)
        )

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> _Entries:
        return self._entries(super().find_sessions_by_end(earliest_session_end, latest_session_end))


def _with_none(convert: Callable[[bytes], bytes]) -> Callable[[bytes | None], bytes | None]:
    return lambda raw: None if raw is None else convert(raw)
