"""The face for columns of an inner join of two streams: the rows of both sides at once.

One side after the other would not do: a record meets what the other side has kept before it, and nothing later. So both sides
first run up to their windows, and here their rows are joined in the order in which their records came.

1. Read from both stores what the rows of the other side may meet: one pass each, over all their keys.
2. Go through the rows in order: each finds its partners, and is found by those that follow.
3. Put the rows of each side into its store and changelog, and call the joiner for the pairs.
"""

from __future__ import annotations

from bisect import insort_right
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from penstock.columns import Columns, RawColumns, TwoOrigins
from penstock.record import Headers
from penstock.state.layers.window_rows import Entry, WindowRows

_time = itemgetter(0)


class Side(NamedTuple):
    """One side of a join: the rows that came to its window with their places in the common order, its store, its processor."""

    columns: Columns
    places: list[int]
    store: WindowRows
    processor: Any
    node: Any


class _Rows:
    """The rows of one side that have a key, and are kept; those without a value meet nobody."""

    def __init__(self, side: Side, context: Any) -> None:
        columns, places, self.store, self.processor, self.node = side
        if None in columns.keys or None in columns.values:
            without = [row for row, both in enumerate(zip(columns.keys, columns.values)) if None in both]
            context.current_node = self.node
            context.rows_dropped(columns, without, "null key or value")
            with_key = [row for row, key in enumerate(columns.keys) if key is not None]
            columns, places = columns.take(with_key), [places[row] for row in with_key]
        self.columns, self.places = columns, places
        self.keys = self.store.serdes.raw_keys(columns.keys)
        self.raw_values: list[bytes | None] = self.store.serdes.raw_values(columns.values)

    def __len__(self) -> int:
        return len(self.keys)

    def sources(self) -> range | list[int]:
        """The row of the input that each was made of."""
        return range(len(self)) if self.columns.sources is None else self.columns.sources

    def entries_for(self, others: _Rows) -> dict[bytes, list[Entry]]:
        """What the store has that rows of the other side may meet; an empty list for each key that may still come."""
        if not len(others):
            return {}
        times, keys, seeker = others.columns.timestamps, set(others.keys), others.processor
        found = self.store.entries(keys, max(0, min(times) - seeker.before_ms), max(0, max(times) + seeker.after_ms))
        for key in keys.intersection(self.keys):
            found.setdefault(key, [])
        return found

    def keep(self) -> None:
        """Put all rows into the store."""
        columns = self.columns
        self.store.put_all(self.keys, self.raw_values, columns.timestamps, columns.headers)


class _Met(NamedTuple):
    """Pairs in the order in which they are found: the row of the later record, the bytes of the earlier, the later time."""

    rows: list[int]
    partners: list[bytes]
    times: list[int]


def join_columns(left: Side, right: Side, context: Any) -> Columns:
    """Join and keep the rows of both sides; returns the joined rows."""
    sides = _Rows(left, context), _Rows(right, context)
    met = _meet(*sides)
    for side in sides:
        side.keep()
    return _joined(sides, met, context)


def _meet(left: _Rows, right: _Rows) -> _Met:
    """Go through the rows in their common order: each finds its partners, then it can be found by the other side.

    The rows of the right side are numbered behind those of the left.
    """
    sides, first = (left, right), len(left)
    keys, raw_values = left.keys + right.keys, left.raw_values + right.raw_values
    values = [*left.columns.values, *right.columns.values]
    times = left.columns.timestamps + right.columns.timestamps
    kept = left.entries_for(right), right.entries_for(left)
    stream_times = [left.store.stream_time, right.store.stream_time]
    before, after = [side.processor.before_ms for side in sides], [side.processor.after_ms for side in sides]
    ages = [side.store.oldest(0) for side in sides]
    met_rows, partners, met_times = met = _Met([], [], [])
    for row in np.argsort(np.concatenate((left.places, right.places)), kind="stable").tolist():
        key, raw, time = keys[row], raw_values[row], times[row]
        mine, theirs = (1, 0) if row >= first else (0, 1)
        found = kept[theirs].get(key)
        if found and values[row] is not None:
            earliest = max(0, time - before[mine], stream_times[theirs] + ages[theirs])
            latest = max(0, time + after[mine])
            for entry in found:
                if earliest <= entry[0] <= latest:
                    met_rows.append(row)
                    partners.append(entry[1])
                    met_times.append(max(time, entry[0]))
        if raw is None:
            continue
        if time > stream_times[mine]:
            stream_times[mine] = time
        elif not sides[mine].store.is_kept(time, stream_times[mine]):
            continue
        entries = kept[mine].get(key)
        if entries is None:
            continue
        if entries and entries[-1][0] > time:
            insort_right(entries, (time, raw), key=_time)
        else:
            entries.append((time, raw))
    return met


def _joined(sides: tuple[_Rows, _Rows], met: _Met, context: Any) -> Columns:
    left, right = sides
    first = len(left)
    left_origin, right_origin = left.columns.origin, right.columns.origin
    assert isinstance(left_origin, RawColumns)
    assert isinstance(right_origin, RawColumns)
    others = _partners(sides, met)
    keys = [*left.columns.keys, *right.columns.keys]
    values = [*left.columns.values, *right.columns.values]
    joiners = left.processor.joiner, right.processor.joiner
    results: list[Any] = []
    rows: list[int] = []
    times: list[int] = []
    failed = -1
    for row, other, time in zip(met.rows, others, met.times):
        if row == failed:
            continue
        is_right = row >= first
        try:
            results.append(joiners[is_right](keys[row], values[row], other))
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
            failed, side = row, sides[is_right]
            context.current_node = side.node
            context.row_failed(side.columns, row - first if is_right else row, exc)
            continue
        rows.append(row)
        times.append(time)
    sources = [*left.sources(), *(len(left_origin) + source for source in right.sources())]
    headers = _headers(sides)
    return Columns(
        [keys[row] for row in rows],
        results,
        times,
        None if headers is None else [headers[row] for row in rows],
        TwoOrigins(left_origin, right_origin),
        [sources[row] for row in rows],
    )


def _partners(sides: tuple[_Rows, _Rows], met: _Met) -> list[Any]:
    """The values of the earlier records, each by the serde of the store it was found in."""
    first = len(sides[0])
    found: list[Any] = [None] * len(met.rows)
    for is_right, store in ((False, sides[1].store), (True, sides[0].store)):
        at = [number for number, row in enumerate(met.rows) if (row >= first) is is_right]
        for number, value in zip(at, store.serdes.values_from([met.partners[number] for number in at])):
            found[number] = value
    return found


def _headers(sides: tuple[_Rows, _Rows]) -> list[Headers] | None:
    if all(side.columns.headers is None for side in sides):
        return None
    return [some for side in sides for some in side.columns.headers or [()] * len(side)]
