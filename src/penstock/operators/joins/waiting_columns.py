"""A left or outer stream-stream join of batches: records that have found no partner wait.

Who meets whom is known before (`joined_rows.py`), and so is who may have to wait. Then the rows are joined in the order in
which their records came, as single ones would be (`KStreamKStreamJoinProcessor.join`), but for what they ask of stores: the lists
of the records that wait are read at once before the first row, and written at once behind the last one, or before somebody looks
at all of them. A row without key or value, and one with which windows may close, is left to the processor of its side.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.joins.joined_rows import Met, Rows, Side, meet, partners_of, results_of
from penstock.operators.joins.outer_join_store import (
    LeftOrRightValue,
    TimestampedKeyAndJoinSide,
    raw_record_keys,
    raw_waiting_values,
    waiting_key,
)
from penstock.operators.joins.shared_times import NOTHING_SEEN
from penstock.operators.joins.stream_stream_join import Arrival, Partners, WaitingRecords
from penstock.state.layers.list_value import MeteredListValueStore, appended

_NOBODY: Partners = nullcontext(())


def join_waiting_batches(left: Side, right: Side, context: OperatorContext) -> RecordBatch:
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
        typed_keys = [*left.batch.keys, *right.batch.keys]
        self._raw_keys = raw_keys = dict(zip(numbers, raw_record_keys(self._waiting.store, typed_keys)))
        self._partners: dict[int, list[tuple[int, Any, bytes]]] = {}
        for row, time, other in zip(met.rows, met.times, partners_of(sides, met)):
            row = numbers[row]
            waited_at = waiting_key(raw_keys[row], time, row >= first)
            self._partners.setdefault(row, []).append((time, other, waited_at))
        self._may_wait = self._rows_that_may_wait()
        self._row = 0
        self._is_right = False
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
        processors = left.processor, right.processor
        joiners = left.processor.joiner, right.processor.joiner
        waits_ms, after_ms = [one.wait_ms for one in processors], [one.after_ms for one in processors]
        tracker, now, first = left.processor.times, self._context.current_system_time_ms(), self._first_right
        stream_time, min_time, may_emit = tracker.stream_time, tracker.min_time, tracker.throttle.is_due(now)
        keys, values, times, partners, may_wait = self._keys, self._values, self._times, self._partners, self._may_wait
        add, remove_if_there, emit = self._waiting.add, self._waiting.remove_if_there, self.emit
        for row in order.tolist():
            key, value, time = keys[row], values[row], times[row]
            is_right = row >= first
            self._row, self._is_right = row, is_right
            stream_time = max(stream_time, time)
            try:
                if (
                    key is None
                    or value is None
                    or (
                        may_emit
                        and time == stream_time
                        and (min_time == NOTHING_SEEN or min_time + waits_ms[is_right] < stream_time)
                    )
                ):
                    tracker.advance_stream_time(stream_time)
                    tracker.set_min_time(min_time)
                    try:
                        processors[is_right].join(key, value, time, self)
                    finally:
                        min_time, may_emit = tracker.min_time, tracker.throttle.is_due(now)
                elif (found := partners.get(row)) is not None:
                    for other_time, other, waited_at in found:
                        remove_if_there(waited_at, time)
                        emit(key, joiners[is_right](key, value, other), max(time, other_time))
                elif (waits := may_wait.get(row)) is not None:
                    if max(0, time + after_ms[is_right]) < stream_time:
                        # Too late for a partner that stream time has passed: there is nothing to wait for.
                        emit(key, joiners[is_right](key, value, None), time)
                    else:
                        min_time = min(min_time, time)
                        add(*waits, time)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                side = self._sides[is_right]
                self._context.row_failed(side.all, self._row_of_side(), exc, side.node)
        tracker.advance_stream_time(stream_time)
        tracker.set_min_time(min_time)
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
        return _NOBODY if found is None else nullcontext([(time, other) for time, other, _ in found])

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
