"""Aggregation over sliding windows.

A record at time t belongs to every window of length d that contains t. Windows are only kept where their content differs: each
record has a left window [t - d, t], which ends with it, and a right window [t + 1, t + 1 + d], which begins just after it and
exists as soon as it holds a record. The timestamp kept with an aggregate is that of the latest record in its window, and tells
whether a window that was found also serves a neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.columns.operator import Operator
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.time_window_processor import TimeWindowAggregateProcessor, WindowAggregateValueGetterSupplier
from penstock.operators.untouched import keeper
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, SlidingWindows, TimeWindow

_Aggregate = ValueAndTimestamp[Any]


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

    def view(self) -> WindowAggregateValueGetterSupplier:
        """Access to the results as a table."""
        return WindowAggregateValueGetterSupplier(self.store_name)


class _FoundWindows:
    """What the windows that were already there mean for the ones a record still needs."""

    __slots__ = ("left_aggregate", "left_exists", "previous_timestamp", "right_aggregate", "right_exists", "starts")

    def __init__(self) -> None:
        self.starts: set[int] = set()
        self.left_aggregate: _Aggregate | None = None
        self.right_aggregate: _Aggregate | None = None
        self.left_exists = False
        self.right_exists = False
        self.previous_timestamp: int | None = None


class KStreamSlidingWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """Updates the windows a record falls into and creates those that it makes necessary."""

    def __init__(self, supplier: KStreamSlidingWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.emit_strategy, supplier.send_old_values)
        self._difference_ms = supplier.windows.time_difference_ms
        self._grace_ms = supplier.windows.grace_period_ms
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator

    def init(self, context: Any) -> None:
        """Keep the context and the store."""
        super().init(context)
        self._copy = keeper(self._store)

    def process(self, record: Record[Any, Any]) -> None:
        """Aggregate one record; unlike other windows, these drop null values."""
        timestamp = record.timestamp
        if record.key is None or record.value is None:
            skip_record(self._context, "null key or value")
            return
        stream_time = self._stream_time.observe(timestamp)
        close_time = stream_time - self._grace_ms
        if timestamp + self._difference_ms < close_time:
            window = f"[{timestamp},{timestamp + self._difference_ms}]"
            skip_expired(self._context, timestamp, window, close_time, stream_time)
            return
        if timestamp < self._difference_ms:
            # Its left window would begin before time 0. Final results wait for a record of after that.
            self._process_early(record, close_time)
            return
        self._process(record, close_time)
        self._maybe_forward_final_result(record, close_time)

    def _process(self, record: Record[Any, Any], close_time: int) -> None:
        timestamp, difference = record.timestamp, self._difference_ms
        found = _FoundWindows()
        # One past the record's own time, to see its right window as well.
        earliest = max(0, timestamp - 2 * difference)
        with self._store.backward_fetch_range(record.key, earliest, timestamp + 1) as windows:
            for start, aggregate in windows:
                found.starts.add(start)
                end = start + difference
                latest_timestamp = aggregate.timestamp
                if start == timestamp + 1:
                    found.right_exists = True
                elif end > timestamp:
                    if found.right_aggregate is None:
                        found.right_aggregate = self._copied(aggregate)
                    self._update_window(start, aggregate, record, close_time)
                elif end == timestamp:
                    found.left_exists = True
                    self._update_window(start, aggregate, record, close_time)
                    if latest_timestamp >= timestamp:
                        # A record of this very time was here before: every window it makes necessary exists.
                        return
                    found.previous_timestamp = latest_timestamp
                else:
                    found.left_aggregate = aggregate
                    found.previous_timestamp = latest_timestamp
                    break
        self._create_windows(record, close_time, found)

    def _process_early(self, record: Record[Any, Any], close_time: int) -> None:
        """Records of before the first full window share the window [0, d], as their left windows cannot begin before 0."""
        timestamp = record.timestamp
        combined: _Aggregate | None = None
        found = _FoundWindows()
        with self._store.fetch_range(record.key, 0, timestamp + 1) as windows:
            for start, aggregate in windows:
                found.starts.add(start)
                if start == 0:
                    combined = aggregate
                    if aggregate.timestamp < timestamp:
                        found.previous_timestamp = aggregate.timestamp
                elif start <= timestamp:
                    found.right_aggregate = self._copied(aggregate)
                    self._update_window(start, aggregate, record, close_time)
                else:
                    found.right_exists = True
        if found.right_aggregate is None and combined is not None and combined.timestamp > timestamp:
            # Without a window in between, all that [0, d] holds came after this record.
            found.right_aggregate = self._copied(combined)
        self._maybe_create_right_window(record, found)
        if found.previous_timestamp is not None and found.previous_timestamp + 1 not in found.starts:
            self._update_window(found.previous_timestamp + 1, self._initial(timestamp), record, close_time)
        self._update_window(0, self._initial(timestamp) if combined is None else combined, record, close_time)

    def _create_windows(self, record: Record[Any, Any], close_time: int, found: _FoundWindows) -> None:
        timestamp, difference = record.timestamp, self._difference_ms
        previous = found.previous_timestamp
        if previous is not None and previous + 1 not in found.starts and previous + 1 + difference >= timestamp:
            self._update_window(previous + 1, self._initial(timestamp), record, close_time)
        if not found.left_exists:
            if previous is not None and timestamp - difference <= previous:
                assert found.left_aggregate is not None
                aggregate: _Aggregate | None = ValueAndTimestamp(found.left_aggregate.value, timestamp)
            else:
                aggregate = self._initial(timestamp)
            self._update_window(timestamp - difference, aggregate, record, close_time)
        self._maybe_create_right_window(record, found)

    def _maybe_create_right_window(self, record: Record[Any, Any], found: _FoundWindows) -> None:
        right, timestamp = found.right_aggregate, record.timestamp
        if found.right_exists or right is None or right.timestamp <= timestamp:
            return
        window = TimeWindow(timestamp + 1, timestamp + 1 + self._difference_ms)
        self._store.put(record.key, right, window.start)
        self._maybe_forward_update(record, window, None, right.value, right.timestamp)

    def _initial(self, timestamp: int) -> _Aggregate | None:
        value = self._initializer()
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def _copied(self, aggregate: _Aggregate) -> _Aggregate:
        """What another window begins with, before the function that may change it in place gets it for this one."""
        return ValueAndTimestamp(self._copy(aggregate.value), aggregate.timestamp)

    def _update_window(self, start: int, aggregate: _Aggregate | None, record: Record[Any, Any], close_time: int) -> None:
        window = TimeWindow(start, start + self._difference_ms)
        timestamp = record.timestamp
        if window.end < close_time:
            text = f"[{window.start},{window.end}]"
            skip_expired(self._context, timestamp, text, close_time, self._stream_time.now)
            return
        old = None if aggregate is None else aggregate.value
        kept = self._kept(old)
        new = self._aggregator(record.key, record.value, old)
        new_timestamp = timestamp if old is None or aggregate is None else max(timestamp, aggregate.timestamp)
        self._store.put(record.key, None if new is None else ValueAndTimestamp(new, new_timestamp), start)
        self._maybe_forward_update(record, window, kept, new, new_timestamp)

    def _emit_range_lower_bound(self) -> int:
        if self._last_emit_window_close_time == NO_TIMESTAMP:
            return 0
        return max(0, self._last_emit_window_close_time - self._difference_ms)

    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        # Both ends belong to a sliding window: it closes after its end.
        return window_close_time - self._difference_ms - 1
