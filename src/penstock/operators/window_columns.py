"""Batches in an aggregation over time windows: count, aggregate and reduce of many records at once.

1. Which windows the rows fall into, and which of these have closed, is arithmetic on the column of timestamps.
2. What the windows hold is read at once, the rows are folded into it, and each window is put once, at its last record, which is
   what a cache keeps.
3. Where the rows are all there is until the commit, windows are written past the cache and their changes forwarded as batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.context import OperatorContext
from penstock.operators.functions import count_aggregator, count_initializer
from penstock.operators.results_on_close import ResultsOnClose
from penstock.operators.skipped import skip_expired
from penstock.operators.table_columns import DistinctKeys
from penstock.operators.time_window_processor import TimeWindowAggregateProcessor
from penstock.record import Record
from penstock.state.keys.window import time_window_for_size
from penstock.state.layers.wrapped_window import Place
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import Row
from penstock.windows import MAX_TIMESTAMP, TimeWindows, Window, Windowed, Windows

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]


class _Cells(NamedTuple):
    """The open windows that rows fall into: row, its time and window start of each, in the order of rows and then of starts."""

    rows: Numbers
    times: Numbers
    starts: Numbers


class Changed(NamedTuple):
    """Windows in the order of their last changes: the row that made it, the window, what it holds now and what it held."""

    last: list[int]
    places: list[Place]
    rows: list[Row | None]
    stored: list[Row | None]


class WindowResults(ResultsOnClose, TimeWindowAggregateProcessor):
    """Writes and forwards what a turn has made of windows."""

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
        self._store.write_rows_through(changed.places, changed.rows, taken.timestamps)
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

    def _windowed(self, keys: Sequence[Any] | None, places: list[Place]) -> list[Windowed[Any]]:
        size: int = self._store.window_size
        windows: dict[int, Window] = {start: time_window_for_size(start, size) for start in {start for _, start in places}}
        typed = self._store.keys_of(places) if keys is None else keys
        return [Windowed(key, windows[start]) for key, (_, start) in zip(typed, places)]

    def _fetch_and_emit(self, record: Record[Any, Any], window_close_time: int, lower: int, upper: int) -> None:
        if self._emitting is None or not self._store.takes_rows:
            super()._fetch_and_emit(record, window_close_time, lower, upper)
            return
        started = time.monotonic()
        places, rows = self._store.rows_between(lower, upper)
        changes = [Change(None if held is None else held[0], None) for held in rows]
        times = [record.timestamp if held is None else held[1] for held in rows]
        self._forward_closed(self._windowed(None, places), changes, times, record)
        self._emitted(len(places), time.monotonic() - started, window_close_time)

    def _emitted(self, windows: int, seconds: float, window_close_time: int) -> None:
        super()._emitted(windows, seconds, window_close_time)
        if self.takes_batches:
            self._store.forget_before(self._emit_range_lower_bound())


class WindowColumns(WindowResults):
    """Folds records into windows, many at a time."""

    _windows: Windows
    _grace_ms: int
    _initializer: Callable[[], Any]
    _aggregator: Callable[[Any, Any, Any], Any]

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the store."""
        super().set_up(context)
        self.takes_batches = self._store.keeps_rows and (self._emit_final or self._forwarder.waits_for_flush)
        if self.takes_batches:
            self._store.forget_before(self._emit_range_lower_bound())

    def process_batch(self, batch: RecordBatch) -> None:
        """Fold many records."""
        batch = self._rest(batch)
        if not len(batch):
            return
        cells = self._open_windows(batch)
        if not len(cells.rows):
            return
        keys = DistinctKeys(batch.keys, self._store.raw_keys)
        if self._aggregator is count_aggregator and self._initializer is count_initializer and self._store.exact_type is int:
            changed = self._count(batch, keys, cells)
        else:
            changed = self._fold(batch, keys, cells)
        self._write(batch, keys, changed)

    # -- which windows -------------------------------------------------------------------------------------------------

    def _open_windows(self, batch: RecordBatch) -> _Cells:
        """The windows of all rows that have not closed when their row comes; the others are counted as dropped."""
        timestamps = np.array(batch.timestamps, np.int64)
        stream_times = np.maximum.accumulate(np.maximum(timestamps, self._stream_time.now))
        self._stream_time.observe(int(stream_times[-1]))
        rows, starts, ends = _windows_of(self._windows, timestamps)
        closed = ends <= stream_times[rows] - self._grace_ms
        if not closed.any():
            return _Cells(rows, timestamps[rows], starts)
        for cell in np.flatnonzero(closed).tolist():
            row, stream_time = int(rows[cell]), int(stream_times[rows[cell]])
            self._context.enter_row(batch, row)
            window = f"[{starts[cell]},{ends[cell]})"
            skip_expired(self._context, batch.timestamps[row], window, stream_time - self._grace_ms, stream_time)
        rows = rows[~closed]
        return _Cells(rows, timestamps[rows], starts[~closed])

    # -- folding -------------------------------------------------------------------------------------------------------

    def _count(self, batch: RecordBatch, keys: DistinctKeys, cells: _Cells) -> Changed:
        """A count needs to know of a window how many rows it got and which were the latest."""
        numbers = {identity: number for number, identity in enumerate(keys.distinct)}
        key_numbers = np.fromiter(map(numbers.__getitem__, keys.identities), np.int64, len(batch))[cells.rows]
        starts, start_numbers = np.unique(cells.starts, return_inverse=True)
        windows = key_numbers * len(starts) + start_numbers
        by_window = np.argsort(windows, kind="stable")
        ordered = windows[by_window]
        begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        ends = np.r_[begins[1:], len(ordered)]
        latest = np.maximum.reduceat(cells.times[by_window], begins)
        last_cells = by_window[ends - 1]
        by_last = np.argsort(last_cells)
        window_keys, window_starts = np.divmod(ordered[begins[by_last]], len(starts))
        places = list(zip(map(keys.raw.__getitem__, window_keys.tolist()), starts[window_starts].tolist()))
        last = cells.rows[last_cells[by_last]].tolist()
        stored = self._store.rows_at(places)
        counted = zip(stored, (ends - begins)[by_last].tolist(), latest[by_last].tolist())
        rows: list[Row | None] = [
            (count, at) if row is None else (row[0] + count, row[1] if row[1] > at else at) for row, count, at in counted
        ]
        return Changed(last, places, rows, stored)

    def _folded(self, key: Any, value: Any, timestamp: int, row: Row | None) -> tuple[Any, Any, int]:
        """A window's new aggregate, the old one as a change shows it, and the new one's time."""
        if row is None:
            old = self._initializer()
        else:
            old = row[0]
            timestamp = max(timestamp, row[1])
        kept = self._kept(old)
        return self._aggregator(key, value, old), kept, timestamp

    def _fold(self, batch: RecordBatch, keys: DistinctKeys, cells: _Cells) -> Changed:
        """Call the aggregator row by row; one that fails leaves out the rest of its row's windows.

        An aggregate is kept as it would come back from the store, unless its serde is known to give back what it got: the next
        record must not see what a store would not have kept, nor share an object with an earlier change.
        """
        identities, fold = keys.identities, self._folded
        exact, through = self._store.exact_type, self._store.through_bytes
        found = dict.fromkeys((identities[row], start) for row, start in zip(cells.rows.tolist(), cells.starts.tolist()))
        raw = keys.raw_by_identity
        held = self._store.rows_at([(raw[identity], start) for identity, start in found])
        rows = dict(zip(found, held))
        last: dict[tuple[Any, int], tuple[int, int]] = {}
        failed = -1
        for cell, (row, start) in enumerate(zip(cells.rows.tolist(), cells.starts.tolist())):
            if row == failed:
                continue
            window = identities[row], start
            before, key, at = rows[window], batch.keys[row], batch.timestamps[row]
            try:
                new, _, at = fold(key, batch.values[row], at, before)
                rows[window] = None if new is None else (new if type(new) is exact else through(new), at)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc)
                failed = row
            else:
                last[window] = cell, row
        ordered = sorted(last.items(), key=itemgetter(1))
        last_rows = [row for _, (_, row) in ordered]
        places = [(raw[identity], start) for (identity, start), _ in ordered]
        stored: list[Row | None] = [None] * len(ordered)
        if self._send_old_values:
            stored = self._store.rows_at(places)  # again: the function may have changed them in place
        return Changed(last_rows, places, [rows[window] for window, _ in ordered], stored)


def _windows_of(windows: Windows, timestamps: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Row, start and end of the windows that timestamps fall into."""
    if type(windows) is TimeWindows and int(timestamps.max()) <= MAX_TIMESTAMP - windows.size_ms:
        size, advance = windows.size_ms, windows.advance_ms
        first = np.maximum(0, timestamps - size + advance) // advance * advance
        if size == advance:
            return np.arange(len(timestamps)), first, first + size
        counts = (timestamps - first) // advance + 1
        rows = np.repeat(np.arange(len(timestamps)), counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = first[rows] + nth * advance
        return rows, starts, starts + size
    cells = [
        (row, start, min(window.end, MAX_TIMESTAMP))
        for row, timestamp in enumerate(timestamps.tolist())
        for start, window in windows.windows_for(timestamp).items()
    ]
    rows, starts, ends = np.array(cells, np.int64).reshape(-1, 3).T
    return rows, starts, ends
