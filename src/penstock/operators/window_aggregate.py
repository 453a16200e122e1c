"""Aggregation over time windows and unlimited windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from penstock.columns import Columns
from penstock.errors import TopologyError
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.table_columns import LIKE_THEIR_BYTES, Row
from penstock.operators.time_window_processor import TimeWindowAggregateProcessor, WindowAggregateValueGetterSupplier
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.layers.metered_window import MeteredTimestampedWindowStore
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, StrategyType, TimeWindows, Windows


class KStreamWindowAggregate:
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
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.send_old_values = False

    def __call__(self) -> KStreamWindowAggregateProcessor:
        """A new processor."""
        return KStreamWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> WindowAggregateValueGetterSupplier:
        """Access to the results as a table."""
        return WindowAggregateValueGetterSupplier(self.store_name)


class KStreamWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """Updates every window that a record falls into and that has not closed."""

    def __init__(self, supplier: KStreamWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.emit_strategy, supplier.send_old_values)
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
            if found is None or found.value is None:
                old, new_timestamp = self._initializer(), timestamp
            else:
                old, new_timestamp = found.value, max(timestamp, found.timestamp)
            new = self._aggregator(key, record.value, old)
            self._store.put(key, None if new is None else ValueAndTimestamp(new, new_timestamp), start)
            self._maybe_forward_update(record, window, old, new, new_timestamp)
        self._maybe_forward_final_result(record, window_close_time)

    def init(self, context: Any) -> None:
        """Keep the context and the store."""
        super().init(context)
        if type(self._store) is MeteredTimestampedWindowStore and (self._emit_final or self._forwarder.waits_for_flush):
            self.process_columns = self._process_columns

    def _process_columns(self, columns: Columns) -> None:
        """The same for many records: each window is read once and put once, at its last record, which is what a cache keeps.

        With results on close, closed windows are looked for after the first record of a turn, as with single records: the clock
        does not move within a turn, and they are looked for once in an interval of it.
        """
        context, first = self._context, 0
        node = context.current_node
        while self._emit_final and first < len(columns) and self._throttle.is_due(context.current_system_time_ms()):
            context.record_context = columns.context(first)
            try:
                self.process(columns.record(first))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.current_node = node
                context.row_failed(columns, first, exc)
            first += 1
        rows: dict[tuple[Any, int], Row | None] = {}
        last: dict[tuple[Any, int], int] = {}
        keys = self._identities(columns.keys)
        for number in range(first, len(columns)):
            try:
                self._fold(columns, number, keys[number], rows, last)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(columns, number, exc)
        for (identity, start), number in sorted(last.items(), key=itemgetter(1)):
            row = rows[identity, start]
            context.record_context = columns.context(number)
            self._store.put(columns.keys[number], None if row is None else ValueAndTimestamp(*row), start)

    def _identities(self, keys: Sequence[Any]) -> Sequence[Any]:
        """What stands for each key: itself, or its bytes where keys may be equal and differ in bytes."""
        kinds = set(map(type, keys)) - {type(None)}
        if len(kinds) < 2 and kinds <= LIKE_THEIR_BYTES:
            return keys
        return [None if key is None else self._store.raw_keys((key,))[0] for key in keys]

    def _fold(
        self,
        columns: Columns,
        number: int,
        identity: Any,
        rows: dict[tuple[Any, int], Row | None],
        last: dict[tuple[Any, int], int],
    ) -> None:
        key, value, timestamp = columns.keys[number], columns.values[number], columns.timestamps[number]
        if key is None:
            self._context.record_context = columns.context(number)
            skip_record(self._context, "null key")
            return
        stream_time = self._stream_time.observe(timestamp)
        window_close_time = stream_time - self._grace_ms
        for start, window in self._windows_for(timestamp).items():
            if window.end <= window_close_time:
                self._context.record_context = columns.context(number)
                skip_expired(self._context, timestamp, f"[{start},{window.end})", window_close_time, stream_time)
                continue
            place = (identity, start)
            if place in rows:
                row = rows[place]
            else:
                found = self._store.fetch(key, start)
                row = None if found is None or found.value is None else (found.value, found.timestamp)
            if row is None:
                new, latest = self._aggregator(key, value, self._initializer()), timestamp
            else:
                new, latest = self._aggregator(key, value, row[0]), row[1] if row[1] > timestamp else timestamp
            if new is None:
                rows[place] = None
            else:
                rows[place] = (new if type(new) is self._store.exact_type else self._store.through_bytes(new), latest)
            last[place] = number

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
