"""What the aggregations over time windows and over sliding windows share: writing windows and forwarding their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.forwarding import FlushListener, TimestampedCacheFlushListener
from penstock.operators.value_getters import KTableValueGetter
from penstock.operators.windowed_processor import WindowedAggregateProcessor
from penstock.record import Record
from penstock.state.keys.window import time_window_for_size
from penstock.state.layers.wrapped_window import WindowKey
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import Row
from penstock.windows import Window, Windowed


class Changed(NamedTuple):
    """Windows in the order of their last changes: the row that made it, the window, what it holds now and what it held."""

    last: list[int]
    places: list[WindowKey]
    rows: list[Row | None]
    stored: list[Row | None]


class TimeWindowAggregateProcessor(WindowedAggregateProcessor):
    """Keeps its windows in a window store."""

    def _flush_listener(self) -> FlushListener:
        return TimestampedCacheFlushListener(self._context)

    def _maybe_forward_update(self, record: Record[Any, Any], window: Window, old: Any, new: Any, timestamp: int) -> None:
        if not self._emit_final:
            change = Change(new, old if self._send_old_values else None)
            self._forwarder.maybe_forward(Record(Windowed(record.key, window), change, timestamp, record.headers))

    def _forward_all_closed(self, record: Record[Any, Any], lower: int, upper: int) -> int:
        if self._emitting is not None and self._store.takes_rows:
            places, rows = self._store.rows_between(lower, upper)
            changes = [Change(None if held is None else held[0], None) for held in rows]
            times = [record.timestamp if held is None else held[1] for held in rows]
            self._forward_closed(self._windowed(None, places), changes, times, record)
            return len(places)
        emitted = 0
        with self._store.fetch_all(lower, upper) as closed:
            for windowed, result in closed:
                emitted += 1
                self._forwarder.maybe_forward(Record(windowed, Change(result.value, None), result.timestamp, record.headers))
        return emitted

    def _emitted(self, windows: int, seconds: float, window_close_time: int) -> None:
        super()._emitted(windows, seconds, window_close_time)
        if self.takes_batches:
            self._store.forget_before(self._emit_range_lower_bound())

    def _write(self, batch: RecordBatch, keys: DistinctKeys, changed: Changed) -> None:
        if not changed.places:  # every row has failed
            return
        if not self._store.takes_rows or not self._context.is_only_run:
            for number, (_, start), row in zip(changed.last, changed.places, changed.rows):
                self._context.enter_row(batch, number)
                self._store.put(batch.keys[number], None if row is None else ValueAndTimestamp(*row), start)
            return
        if not self._emit_final and None in changed.rows:
            changed = self._that_were_there(changed)
        taken = batch.take(changed.last)
        self._store.write_rows_around(changed.places, changed.rows, taken.timestamps)
        if not self._emit_final:
            self._forward(taken, self._windowed(taken.keys if keys.are_keys else None, changed.places), changed)

    def _that_were_there(self, changed: Changed) -> Changed:
        """Without those that came and went between two commits: they were never there for anybody."""
        stored = self._store.rows_at(changed.places)
        kept = [window for window, rows in enumerate(zip(changed.rows, stored)) if rows != (None, None)]
        return Changed(*([column[window] for window in kept] for column in changed))  # type: ignore[arg-type]

    def _forward(self, rows: RecordBatch, keys: list[Windowed[Any]], changed: Changed) -> None:
        send_old = self._send_old_values
        changes = [
            Change(None if new is None else new[0], old[0] if send_old and old is not None else None)
            for new, old in zip(changed.rows, changed.stored)
        ]
        times = [at if new is None else new[1] for new, at in zip(changed.rows, rows.timestamps)]
        self._context.forward_batch(RecordBatch(keys, changes, times, rows.headers, rows.origin, rows.sources))

    def _windowed(self, keys: Sequence[Any] | None, places: list[WindowKey]) -> list[Windowed[Any]]:
        size: int = self._store.window_size
        windows: dict[int, Window] = {start: time_window_for_size(start, size) for start in {start for _, start in places}}
        typed = self._store.keys_of(places) if keys is None else keys
        return [Windowed(key, windows[start]) for key, (_, start) in zip(typed, places)]


class WindowAggregateValueGetter(KTableValueGetter):
    """Looks up the result of a window."""

    is_versioned = False

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def init(self, context: OperatorContext) -> None:
        self._fetch = context.get_state_store(self._store_name).fetch

    def get(self, key: Windowed[Any], as_of: int | None = None) -> Any:
        return self._fetch(key.key, key.window.start)
