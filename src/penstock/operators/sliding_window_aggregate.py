"""Aggregation over sliding windows.

A record at time t belongs to every window of length d that contains t. Windows are only kept where their content differs: each
record has a left window [t - d, t], which ends with it, and a right window [t + 1, t + 1 + d], which begins just after it and
exists as soon as it holds a record. The timestamp kept with an aggregate is that of the latest record in its window, and tells
whether a window that was found also serves a neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.operators.context import OperatorContext
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.sliding_columns import Aggregate, SlidingColumns, WindowsOfKey
from penstock.operators.time_window_processor import WindowAggregateValueGetter
from penstock.operators.untouched import keeper
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetterSupplier
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, SlidingWindows, TimeWindow


class KStreamSlidingWindowAggregate(Operator):
    """Makes the processor that aggregates the records of each key over sliding windows."""

    def __init__(
        self,
        windows: SlidingWindows,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
    ) -> None:
        self.windows = windows
        self.store_name = store_name
        self.time_name = store_name
        """The name that its stream time is committed under; operators that share a store have one each."""
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.send_old_values = False

    def __call__(self) -> KStreamSlidingWindowAggregateProcessor:
        """Each task gets a processor of its own."""
        return KStreamSlidingWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        """Access to the results as a table."""
        return KTableMaterializedValueGetterSupplier(self.store_name, WindowAggregateValueGetter)


class _StoredWindows:
    """The windows of a record's key in the store; what is put is forwarded where no cache waits."""

    __slots__ = ("_processor", "_record", "_store")

    def __init__(self, processor: KStreamSlidingWindowAggregateProcessor, store: Any, record: Record[Any, Any]) -> None:
        self._processor = processor
        self._store = store
        self._record = record

    def oldest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        with self._store.fetch_range(self._record.key, time_from, time_to) as windows:
            yield from windows

    def newest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        with self._store.backward_fetch_range(self._record.key, time_from, time_to) as windows:
            yield from windows

    def put(self, start: int, old: Any, new: Any, timestamp: int) -> None:
        self._store.put(self._record.key, None if new is None else ValueAndTimestamp(new, timestamp), start)
        self._processor.updated(self._record, start, old, new, timestamp)


class _Fold:
    """A record on its way into windows, and what those that were already there mean for the ones it still needs."""

    __slots__ = (
        "close_time",
        "key",
        "left_aggregate",
        "left_exists",
        "previous_timestamp",
        "right_aggregate",
        "right_exists",
        "starts",
        "timestamp",
        "value",
        "windows",
    )

    def __init__(self, windows: WindowsOfKey, key: Any, value: Any, timestamp: int, close_time: int) -> None:
        self.windows = windows
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.close_time = close_time
        self.starts: set[int] = set()
        self.left_aggregate: Aggregate | None = None
        self.right_aggregate: Aggregate | None = None
        self.left_exists = False
        self.right_exists = False
        self.previous_timestamp: int | None = None


class KStreamSlidingWindowAggregateProcessor(SlidingColumns):
    """Updates the windows a record falls into and creates those that it makes necessary."""

    def __init__(self, supplier: KStreamSlidingWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.time_name, supplier.emit_strategy, supplier.send_old_values)
        self._difference_ms = supplier.windows.time_difference_ms
        self._grace_ms = supplier.windows.grace_period_ms
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the store."""
        super().set_up(context)
        self._copy = keeper(self._store)

    def process(self, record: Record[Any, Any]) -> None:
        """Aggregate one record; unlike other windows, these drop null values."""
        timestamp = record.timestamp
        if record.key is None or record.value is None:
            skip_record(self._context, "null key or value")
            return
        self._fold(_StoredWindows(self, self._store, record), record.key, record.value, timestamp)
        close_time = self._stream_time.now - self._grace_ms
        # Final results wait for a record that is not late, and whose left window does not begin before time 0.
        if timestamp >= self._difference_ms and timestamp + self._difference_ms >= close_time:
            self._maybe_forward_final_result(record, close_time)

    def updated(self, record: Record[Any, Any], start: int, old: Any, new: Any, timestamp: int) -> None:
        """Forward what a single record has changed, unless a cache or the end of the window is waited for."""
        self._maybe_forward_update(record, TimeWindow(start, start + self._difference_ms), old, new, timestamp)

    def _fold(self, windows: WindowsOfKey, key: Any, value: Any, timestamp: int) -> None:
        """Fold a record into the windows of its key."""
        close_time = self._stream_time.observe(timestamp) - self._grace_ms
        if timestamp + self._difference_ms < close_time:
            self._skip_expired(timestamp, timestamp, close_time)
            return
        fold = _Fold(windows, key, value, timestamp, close_time)
        if timestamp < self._difference_ms:
            self._fold_early(fold)
        else:
            self._fold_full(fold)

    def _fold_full(self, fold: _Fold) -> None:
        timestamp, difference = fold.timestamp, self._difference_ms
        # One past the record's own time, to see its right window as well.
        for start, aggregate in fold.windows.newest_first(max(0, timestamp - 2 * difference), timestamp + 1):
            fold.starts.add(start)
            end = start + difference
            latest_timestamp = aggregate.timestamp
            if start == timestamp + 1:
                fold.right_exists = True
            elif end > timestamp:
                if fold.right_aggregate is None:
                    fold.right_aggregate = self._copied(aggregate)
                self._update_window(fold, start, aggregate)
            elif end == timestamp:
                fold.left_exists = True
                self._update_window(fold, start, aggregate)
                if latest_timestamp >= timestamp:
                    # A record of this very time was here before: every window it makes necessary exists.
                    return
                fold.previous_timestamp = latest_timestamp
            else:
                fold.left_aggregate = aggregate
                fold.previous_timestamp = latest_timestamp
                break
        self._create_windows(fold)

    def _fold_early(self, fold: _Fold) -> None:
        """Records of before the first full window share the window [0, d], as their left windows cannot begin before 0."""
        timestamp = fold.timestamp
        combined: Aggregate | None = None
        for start, aggregate in fold.windows.oldest_first(0, timestamp + 1):
            fold.starts.add(start)
            if start == 0:
                combined = aggregate
                if aggregate.timestamp < timestamp:
                    fold.previous_timestamp = aggregate.timestamp
            elif start <= timestamp:
                fold.right_aggregate = self._copied(aggregate)
                self._update_window(fold, start, aggregate)
            else:
                fold.right_exists = True
        if fold.right_aggregate is None and combined is not None and combined.timestamp > timestamp:
            # Without a window in between, all that [0, d] holds came after this record.
            fold.right_aggregate = self._copied(combined)
        self._maybe_create_right_window(fold)
        if fold.previous_timestamp is not None and fold.previous_timestamp + 1 not in fold.starts:
            self._update_window(fold, fold.previous_timestamp + 1, self._initial(timestamp))
        self._update_window(fold, 0, self._initial(timestamp) if combined is None else combined)

    def _create_windows(self, fold: _Fold) -> None:
        timestamp, difference = fold.timestamp, self._difference_ms
        previous = fold.previous_timestamp
        if previous is not None and previous + 1 not in fold.starts and previous + 1 + difference >= timestamp:
            self._update_window(fold, previous + 1, self._initial(timestamp))
        if not fold.left_exists:
            if previous is not None and timestamp - difference <= previous:
                assert fold.left_aggregate is not None
                aggregate: Aggregate | None = ValueAndTimestamp(fold.left_aggregate.value, timestamp)
            else:
                aggregate = self._initial(timestamp)
            self._update_window(fold, timestamp - difference, aggregate)
        self._maybe_create_right_window(fold)

    def _maybe_create_right_window(self, fold: _Fold) -> None:
        right = fold.right_aggregate
        if not fold.right_exists and right is not None and right.timestamp > fold.timestamp:
            fold.windows.put(fold.timestamp + 1, None, right.value, right.timestamp)

    def _initial(self, timestamp: int) -> Aggregate | None:
        value = self._initializer()
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def _copied(self, aggregate: Aggregate) -> Aggregate:
        """What another window begins with, before the function that may change it in place gets it for this one."""
        return ValueAndTimestamp(self._copy(aggregate.value), aggregate.timestamp)

    def _update_window(self, fold: _Fold, start: int, aggregate: Aggregate | None) -> None:
        if start + self._difference_ms < fold.close_time:
            self._skip_expired(fold.timestamp, start, fold.close_time)
            return
        timestamp = fold.timestamp
        old = None if aggregate is None else aggregate.value
        kept = self._kept(old)
        new = self._aggregator(fold.key, fold.value, old)
        if old is not None and aggregate is not None and aggregate.timestamp > timestamp:
            timestamp = aggregate.timestamp
        fold.windows.put(start, kept, new, timestamp)

    def _skip_expired(self, timestamp: int, start: int, close_time: int) -> None:
        if self._row is not None:
            batch, row = self._row
            self._context.enter_row(batch, row)
        window = f"[{start},{start + self._difference_ms}]"
        skip_expired(self._context, timestamp, window, close_time, self._stream_time.now)

    def _emit_range_lower_bound(self) -> int:
        if self._last_emit_window_close_time == NO_TIMESTAMP:
            return 0
        return max(0, self._last_emit_window_close_time - self._difference_ms)

    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        # Both ends belong to a sliding window: it closes after its end.
        return window_close_time - self._difference_ms - 1
