"""All entries of a store as one kind of thing, whatever the store: key, window, value, timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.query.table_read import TableRead, as_key, key_format_of, ranges_of
from penstock.runtime.queries.opening import ReadableStore, kind_of

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


def entries_for(store: ReadableStore, typed: Any, read: TableRead) -> Iterator[Entry]:
    """What is asked for of a typed store, and what could not be left out."""
    first, last = max(0, read.start_low or 0), MAX_TIME if read.start_high is None else read.start_high
    if last < 0 and store.kind in ("window", "session"):
        return
    if read.keys is not None:
        key_format = key_format_of(store.key_serde)
        for key in read.keys:
            yield from _of_key(store, typed, as_key(key, key_format), first, last)
    elif store.kind == "key_value" and (read.low is not None or read.high is not None):
        for low, high in ranges_of(read.low, read.high, str(key_format_of(store.key_serde))):
            yield from _keyed(typed.range(low, high), store.values)
    elif store.kind == "window" and (first, last) != (0, MAX_TIME):
        yield from windowed(typed.fetch_all(first, last), store.values) if first <= last else ()
    elif store.kind == "session" and (first, last) != (0, MAX_TIME):
        # Sessions that start in a range of time end in it or behind it.
        yield from windowed(typed.find_sessions_key_range(None, None, first, last), store.values, session=True)
    else:
        yield from all_entries(typed)


def _of_key(store: ReadableStore, typed: Any, key: Any, first: int, last: int) -> Iterator[Entry]:
    if store.kind == "key_value":
        value = typed.get(key)
        if value is not None:
            yield entry(key, value, store.values)
    elif store.kind == "versioned":
        record = typed.get(key)
        if record is not None:
            yield Entry(key, record.value, record.timestamp)
    elif store.kind == "session":
        yield from windowed(typed.find_sessions(key, first, last), store.values, session=True)
    elif first <= last:
        size = store.window_size or 0
        with typed.fetch_range(key, first, last) as windows:
            for start, value in windows:
                found = entry(key, value, store.values)
                yield found._replace(window_start=start, window_end=min(start + size, MAX_TIME))


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
