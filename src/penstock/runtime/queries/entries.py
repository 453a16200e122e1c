"""All entries of a store as one kind of thing, whatever the store: key, window, value, timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.runtime.queries.opening import kind_of

MAX_TIME = 2**63 - 1


class Entry(NamedTuple):
    """One entry; what a store does not have is None."""

    key: Any
    value: Any
    timestamp: int | None = None
    window_start: int | None = None
    window_end: int | None = None


def all_entries(store: Any) -> Iterator[Entry]:
    """Everything in a typed store; of versions the latest."""
    kind, values = kind_of(store)
    if kind == "key_value":
        yield from _keyed(store.all(), values)
    elif kind == "window":
        yield from windowed(store.all(), values)
    elif kind == "session":
        yield from windowed(store.find_sessions_key_range(None, None, 0, MAX_TIME), values, session=True)
    else:
        yield from _latest(store)


def entry(key: Any, value: Any, values: str, session: bool = False) -> Entry:
    """One entry of a store without windows, or the part of one that has nothing to do with its window."""
    if session:
        return Entry(key, value.aggregation if values == "headers" else value)
    if values == "plain":
        return Entry(key, value)
    return Entry(key, value.value, value.timestamp)


def windowed(entries: Any, values: str, session: bool = False) -> Iterator[Entry]:
    """Entries of windows."""
    with entries:
        for key, value in entries:
            yield entry(key.key, value, values, session)._replace(window_start=key.window.start, window_end=key.window.end)


def _keyed(entries: Any, values: str) -> Iterator[Entry]:
    with entries:
        for key, value in entries:
            yield entry(key, value, values)


def _latest(store: Any) -> Iterator[Entry]:
    for key, record in store.scan_latest():
        yield Entry(key, record.value, record.timestamp)
