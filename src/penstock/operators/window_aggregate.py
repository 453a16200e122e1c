"""Aggregation over time windows and unlimited windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.errors import TopologyError
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.time_window_processor import TimeWindowAggregateProcessor, WindowAggregateValueGetter
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetterSupplier
from penstock.operators.window_columns import WindowColumns
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, StrategyType, TimeWindows, Windows


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
        """Each task gets a processor of its own."""
        return KStreamWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        """Access to the results as a table."""
        return KTableMaterializedValueGetterSupplier(self.store_name, WindowAggregateValueGetter)


class KStreamWindowAggregateProcessor(WindowColumns, TimeWindowAggregateProcessor):
    """Updates every window that a record falls into and that has not closed."""

    def __init__(self, supplier: KStreamWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.time_name, supplier.emit_strategy, supplier.send_old_values)
        self._windows = supplier.windows
        self._windows_for = supplier.windows.windows_for
        self._grace_ms = supplier.windows.grace_period_ms
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator

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
