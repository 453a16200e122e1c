"""The face for columns of a left or outer join of two streams: records that have found no partner wait.

Who meets whom is known before (`joined_columns.py`). Then each row is joined by the processor of its side in the order in which
the records came, as a single one would be, but for what it asks of stores: the lists of the records that wait are read at once
before the first row, and written at once behind the last one, or before somebody looks at all of them.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from penstock.columns.columns import Columns
from penstock.operators.context import OperatorContext
from penstock.operators.joins.joined_columns import Met, Rows, Side, meet, partners_of, results_of
from penstock.operators.joins.outer_join_store import (
    LeftOrRightValue,
    TimestampedKeyAndJoinSide,
    raw_record_keys,
    waiting_key,
)
from penstock.operators.joins.stream_stream_join import Arrival, Partners, WaitingRecords
from penstock.state.layers.list_value import MeteredListValueStore, appended

_NOBODY: Partners = nullcontext(())


def join_waiting_columns(left: Side, right: Side, context: OperatorContext) -> Columns:
    """Join and keep the rows of both sides of a left or outer join; returns the joined rows."""
    sides = Rows(left), Rows(right)
    arrivals = _RowArrivals(sides, meet(*sides), context)
    arrivals.join_all()
    for side in sides:
        side.keep()
    return arrivals.results()


class _Waiting:
    """The lists of the shared store that rows may change, and the changes that have not been written."""

    def __init__(self, store: MeteredListValueStore[Any, Any]) -> None:
        self.store = store
        self._lists: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._times: list[int] = []

    def read(self, keys: list[bytes]) -> None:
        """Read the lists that rows may change."""
        found = zip(keys, self.store.lists_of(keys)) if keys else ()
        self._lists = {key: values for key, values in found if values is not None}

    def add(self, key: bytes, value: bytes | None, time: int) -> None:
        """Add to a list, by a record of this time; None deletes it."""
        self._change(key, None if value is None else appended(self._lists.get(key), value), time)

    def remove_if_there(self, key: bytes, time: int) -> None:
        """Delete a list if there is one."""
        if key in self._lists:
            self._change(key, None, time)

    def remove(self, key: TimestampedKeyAndJoinSide, time: int) -> None:
        """Delete a list, by its typed key."""
        self._change(self.store.raw_keys([key])[0], None, time)

    def _change(self, key: bytes, values: bytes | None, time: int) -> None:
        if values is None:
            self._lists.pop(key, None)
        else:
            self._lists[key] = values
        self._keys.append(key)
        self._values.append(values)
        self._times.append(time)

    def write(self) -> None:
        """Write what has changed."""
        if self._keys:
            self.store.write_lists(self._keys, self._values, self._times)
            self._keys, self._values, self._times = [], [], []


class _RowArrivals(Arrival):
    """The rows of both sides, one after the other; those of the right are numbered behind those of the left."""

    def __init__(self, sides: tuple[Rows, Rows], met: Met, context: OperatorContext) -> None:
        left, right = self._sides = sides
        self._context = context
        self._waiting = _Waiting(left.processor.outer_store)
        self._keys = [*left.all.keys, *right.all.keys]
        self._values = [*left.all.values, *right.all.values]
        self._times = [*left.all.timestamps, *right.all.timestamps]
        self._first_right = first = len(left.all)
        numbers = [*left.with_key, *(first + row for row in right.with_key)]
        self._partners: dict[int, list[tuple[int, Any]]] = {}
        for row, time, other in zip(met.rows, met.times, partners_of(sides, met)):
            self._partners.setdefault(numbers[row], []).append((time, other))
        typed_keys = [*left.columns.keys, *right.columns.keys]
        self._raw_keys = dict(zip(numbers, raw_record_keys(self._waiting.store, typed_keys)))
        self._row = 0
        self._is_right = False
        self._rows: list[int] = []
        self._joined_keys: list[Any] = []
        self._joined_values: list[Any] = []
        self._joined_times: list[int] = []

    def join_all(self) -> None:
        """Join all rows in their common order."""
        self._waiting.read(self._lists_that_may_change())
        left, right = self._sides
        order = np.argsort(np.concatenate((left.all_places, right.all_places)), kind="stable")
        joins = left.processor.join, right.processor.join
        for row in order.tolist():
            self._row, self._is_right = row, row >= self._first_right
            try:
                joins[self._is_right](self._keys[row], self._values[row], self._times[row], self)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                side = self._sides[self._is_right]
                self._context.current_node = side.node
                self._context.row_failed(side.all, self._row_of_side(), exc)
        self._waiting.write()

    def results(self) -> Columns:
        """The joined rows."""
        left, right = self._sides
        return results_of(left.all, right.all, self._rows, self._joined_keys, self._joined_values, self._joined_times)

    def _lists_that_may_change(self) -> list[bytes]:
        """Where partners may wait, and where rows without a partner would."""
        first, times, raw_keys, values = self._first_right, self._times, self._raw_keys, self._values
        keys: dict[bytes, None] = {}
        for row, partners in self._partners.items():
            for time, _ in partners:
                keys[waiting_key(raw_keys[row], time, row >= first)] = None
        outer = [side.processor.outer for side in self._sides]
        for row, raw_key in raw_keys.items():
            if outer[row >= first] and row not in self._partners and values[row] is not None:
                keys[waiting_key(raw_key, times[row], row < first)] = None
        return list(keys)

    def _row_of_side(self) -> int:
        return self._row - self._first_right if self._is_right else self._row

    # -- what a side asks for and says ---------------------------------------------------------------------------------

    def skip(self) -> None:
        side = self._sides[self._is_right]
        self._context.current_node = side.node
        self._context.rows_dropped(side.all, [self._row_of_side()], "null key or value")

    def emit(self, key: Any, value: Any, timestamp: int) -> None:
        self._rows.append(self._row)
        self._joined_keys.append(key)
        self._joined_values.append(value)
        self._joined_times.append(timestamp)

    def partners(self, key: Any, time_from: int, time_to: int) -> Partners:
        found = self._partners.get(self._row)
        return _NOBODY if found is None else nullcontext(found)

    def wait(self, key: TimestampedKeyAndJoinSide, value: LeftOrRightValue) -> None:
        at = waiting_key(self._raw_keys[self._row], key.timestamp, key.is_left_side)
        self._waiting.add(at, self._waiting.store.raw_value(value), self._times[self._row])

    def stop_waiting(self, key: TimestampedKeyAndJoinSide) -> None:
        at = waiting_key(self._raw_keys[self._row], key.timestamp, key.is_left_side)
        self._waiting.remove_if_there(at, self._times[self._row])

    def waiting(self) -> WaitingRecords:
        self._waiting.write()
        records: WaitingRecords = self._waiting.store.all()
        return records

    def remove(self, key: TimestampedKeyAndJoinSide) -> None:
        self._waiting.remove(key, self._times[self._row])
