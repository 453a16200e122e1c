"""A left or outer stream-stream join of batches: records that have found no partner wait.

The partners of each row are known before (`joined_rows.py`), and so are the rows that may wait. Each row then goes through
`KStreamKStreamJoinProcessor.join`, like a single record. The lists of waiting records are read at once before the first row, and
written at once behind the last row, or before closed windows are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.joins.joined_rows import Matches, Rows, Side, match_rows, partners_of, results_of
from penstock.operators.joins.outer_join_store import (
    LeftOrRightValue,
    TimestampedKeyAndJoinSide,
    raw_record_keys,
    raw_waiting_values,
    waiting_key,
)
from penstock.operators.joins.stream_stream_join import ArrivingRecord, Partners, WaitingRecords
from penstock.state.layers.list_value import MeteredListValueStore, appended

_NOBODY: Partners = nullcontext(())


def join_waiting_batches(left: Side, right: Side, context: OperatorContext) -> RecordBatch:
    """Join and keep the rows of both sides of a left or outer join; returns the joined rows."""
    sides = Rows(left), Rows(right)
    arrivals = _BatchRow(sides, match_rows(*sides), context)
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
        self._change(self.store.raw_key(key), None, time)

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


class _BatchRow(ArrivingRecord):
    """The rows of both sides, one after the other; those of the right are numbered behind those of the left."""

    def __init__(self, sides: tuple[Rows, Rows], matches: Matches, context: OperatorContext) -> None:
        left, right = self._sides = sides
        self._context = context
        self._waiting = _Waiting(left.processor.outer_store)
        self._keys = [*left.all.keys, *right.all.keys]
        self._values = [*left.all.values, *right.all.values]
        self._times = [*left.all.timestamps, *right.all.timestamps]
        self._first_right = first = len(left.all)
        numbers = [*left.with_key, *(first + row for row in right.with_key)]
        typed_keys = [*left.batch.keys, *right.batch.keys]
        self._raw_keys = raw_keys = dict(zip(numbers, raw_record_keys(self._waiting.store, typed_keys)))
        self._partners: dict[int, list[tuple[int, Any, bytes]]] = {}
        for row, time, other in zip(matches.rows, matches.times, partners_of(sides, matches)):
            row = numbers[row]
            waited_at = waiting_key(raw_keys[row], time, row >= first)
            self._partners.setdefault(row, []).append((time, other, waited_at))
        self._may_wait = self._rows_that_may_wait()
        self._row = 0
        self._is_right = False
        self._partner_waits_at = b""
        self._rows: list[int] = []
        self._joined_keys: list[Any] = []
        self._joined_values: list[Any] = []
        self._joined_times: list[int] = []

    def join_all(self) -> None:
        """Join all rows in their common order."""
        partners_at = [waited_at for partners in self._partners.values() for _, _, waited_at in partners]
        self._waiting.read([*dict.fromkeys([*partners_at, *(at for at, _ in self._may_wait.values())])])
        left, right = self._sides
        order = np.argsort(np.concatenate((left.all_places, right.all_places)), kind="stable")
        joins = left.processor.join, right.processor.join
        keys, values, times, first = self._keys, self._values, self._times, self._first_right
        for row in order.tolist():
            is_right = row >= first
            self._row, self._is_right = row, is_right
            try:
                joins[is_right](keys[row], values[row], times[row], self)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                side = self._sides[is_right]
                self._context.row_failed(side.all, self._row_of_side(), exc, side.node)
        self._waiting.write()

    def results(self) -> RecordBatch:
        """The joined rows."""
        left, right = self._sides
        return results_of(left.all, right.all, self._rows, self._joined_keys, self._joined_values, self._joined_times)

    def _rows_that_may_wait(self) -> dict[int, tuple[bytes, bytes | None]]:
        """Those that find no partner, where their side waits for one: the key and value under which they would."""
        first, times, values, partners = self._first_right, self._times, self._values, self._partners
        may_wait: dict[int, tuple[bytes, bytes | None]] = {}
        for is_left, side in ((True, self._sides[0]), (False, self._sides[1])):
            if not side.processor.outer:
                continue
            rows = [row for row in self._raw_keys if (row < first) is is_left and row not in partners and values[row] is not None]
            raw_values = raw_waiting_values(self._waiting.store, [values[row] for row in rows], is_left)
            for row, raw_value in zip(rows, raw_values):
                may_wait[row] = waiting_key(self._raw_keys[row], times[row], is_left), raw_value
        return may_wait

    def _row_of_side(self) -> int:
        return self._row - self._first_right if self._is_right else self._row

    # -- what a side asks for and says ---------------------------------------------------------------------------------

    def skip(self) -> None:
        side = self._sides[self._is_right]
        with self._context.at(side.node, None):
            self._context.rows_dropped(side.all, [self._row_of_side()], "null key or value")

    def emit(self, key: Any, value: Any, timestamp: int) -> None:
        self._rows.append(self._row)
        self._joined_keys.append(key)
        self._joined_values.append(value)
        self._joined_times.append(timestamp)

    def partners(self, key: Any, time_from: int, time_to: int) -> Partners:
        found = self._partners.get(self._row)
        return _NOBODY if found is None else nullcontext(self._each(found))

    def _each(self, found: list[tuple[int, Any, bytes]]) -> Iterator[tuple[int, Any]]:
        for time, other, self._partner_waits_at in found:
            yield time, other

    def wait(self, key: TimestampedKeyAndJoinSide, value: LeftOrRightValue) -> None:
        at, raw_value = self._may_wait[self._row]
        self._waiting.add(at, raw_value, self._times[self._row])

    def stop_waiting(self, key: TimestampedKeyAndJoinSide) -> None:
        self._waiting.remove_if_there(self._partner_waits_at, self._times[self._row])

    def waiting(self) -> WaitingRecords:
        self._waiting.write()
        records: WaitingRecords = self._waiting.store.all()
        return records

    def remove(self, key: TimestampedKeyAndJoinSide) -> None:
        self._waiting.remove(key, self._times[self._row])
