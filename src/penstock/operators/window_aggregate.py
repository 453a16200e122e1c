"""Aggregation over time windows and unlimited windows.

A batch is folded in three steps:

1. Which windows the rows fall into, and which of these have closed, is arithmetic on the column of timestamps.
2. What the windows hold is read at once, and the rows are folded into it. Each window is put once, at its last record, which is
   what a cache keeps.
3. If the batch has all rows until the commit, windows are written past the cache and their changes forwarded as a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.batches.batch_processor import Operator
from penstock.batches.record_batch import RecordBatch
from penstock.errors import TopologyError
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.functions import count_aggregator, count_initializer
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.time_window_processor import Changed, TimeWindowAggregateProcessor, WindowAggregateValueGetter
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetterSupplier
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import Row
from penstock.windows import MAX_TIMESTAMP, EmitStrategy, StrategyType, TimeWindows, Windows

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]


class KStreamWindowAggregate(Operator):
    """Makes the processor that aggregates the records of each key and window."""

    def __init__(
        self,
        windows: Windows,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
    ) -> None:
        if emit_strategy.type is StrategyType.ON_WINDOW_CLOSE and not isinstance(windows, TimeWindows):
            raise TopologyError(
                "EmitStrategy.on_window_close() is only supported for TimeWindows, SlidingWindows and SessionWindows, "
                f"not for {type(windows).__name__}"
            )
        self.windows = windows
        self.store_name = store_name
        self.time_name = store_name
        """The name that its stream time is committed under; operators that share a store have one each."""
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.send_old_values = False

    def __call__(self) -> KStreamWindowAggregateProcessor:
        return KStreamWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        return KTableMaterializedValueGetterSupplier(self.store_name, WindowAggregateValueGetter)


class _Cells(NamedTuple):
    """The open windows that rows fall into: row, its time and window start of each, in the order of rows and then of starts."""

    rows: Numbers
    times: Numbers
    starts: Numbers


class KStreamWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """Updates every window that a record falls into and that has not closed."""

    def __init__(self, supplier: KStreamWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.time_name, supplier.emit_strategy, supplier.send_old_values)
        self._windows = supplier.windows
        self._windows_for = supplier.windows.windows_for
        self._grace_ms = supplier.windows.grace_period_ms
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator

    def set_up(self, context: OperatorContext) -> None:
        """Take batches if no result is forwarded before a flush or the close of its window."""
        super().set_up(context)
        self.takes_batches = self._store.keeps_rows and (self._emit_final or self._forwarder.waits_for_flush)
        if self.takes_batches:
            self._store.forget_before(self._emit_range_lower_bound())

    def process(self, record: Record[Any, Any]) -> None:
        """Aggregate one record; a null value is aggregated like any other."""
        key, timestamp = record.key, record.timestamp
        if key is None:
            skip_record(self._context, "null key")
            return
        stream_time = self._stream_time.observe(timestamp)
        window_close_time = stream_time - self._grace_ms
        for start, window in self._windows_for(timestamp).items():
            if window.end <= window_close_time:
                skip_expired(self._context, timestamp, f"[{start},{window.end})", window_close_time, stream_time)
                continue
            found = self._store.fetch(key, start)
            row = None if found is None or found.value is None else (found.value, found.timestamp)
            new, kept, new_timestamp = self._folded(key, record.value, timestamp, row)
            self._store.put(key, None if new is None else ValueAndTimestamp(new, new_timestamp), start)
            self._maybe_forward_update(record, window, kept, new, new_timestamp)
        self._maybe_forward_final_result(record, window_close_time)

    def _emit_range_lower_bound(self) -> int:
        if self._last_emit_window_close_time == NO_TIMESTAMP:
            return 0
        # The end of a window does not belong to it: the window that ends there has been emitted.
        return max(0, self._last_emit_window_close_time - self._windows.size) + 1

    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        return window_close_time - self._windows.size

    def _should_range_fetch(self, lower: int, upper: int) -> bool:
        if self._last_emit_window_close_time == NO_TIMESTAMP:
            return True
        # Where both bounds lie in the same windows, none has closed in between.
        return self._windows_for(upper).keys() != self._windows_for(lower - 1).keys()

    # -- batches -------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: RecordBatch) -> None:
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
