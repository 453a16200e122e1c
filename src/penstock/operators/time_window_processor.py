"""What the aggregations over time windows and over sliding windows share: forwarding updates, and emitting final results.

With `EmitStrategy.on_window_close()` nothing is forwarded while a window changes. Once its end and the grace period have passed,
its result is read from the store; how far that went is committed with the task's offsets.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

from penstock.change import Change
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.forwarding import TimestampedCacheFlushListener, TimestampedTupleForwarder
from penstock.operators.node_metrics import EmitFinalMetrics
from penstock.operators.time_tracker import EMIT_INTERVAL_WINDOWED_AGGREGATION, EmitThrottle, StreamTime
from penstock.operators.untouched import old_value_keeper
from penstock.operators.value_getters import KTableValueGetter
from penstock.record import NO_TIMESTAMP, Record
from penstock.windows import EmitStrategy, StrategyType, Window, Windowed


class TimeWindowAggregateProcessor(OperatorProcessor[Any, Any, "Windowed[Any]", "Change[Any]"]):
    """The common part; subclasses say which windows a record belongs to and which have closed."""

    def __init__(self, store_name: str, time_name: str, emit_strategy: EmitStrategy, send_old_values: bool) -> None:
        self._store_name = store_name
        self._time_name = time_name
        self._emit_final = emit_strategy.type is StrategyType.ON_WINDOW_CLOSE
        self._send_old_values = send_old_values
        self._last_emit_window_close_time = NO_TIMESTAMP

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the store; pick up where the last final results were emitted."""
        self._context = context
        self._store = context.get_state_store(self._store_name)
        self._stream_time = StreamTime(context, self._time_name)
        if self._emit_final:
            emitted_until = context.processor_metadata_for_key(self._store_name)
            if emitted_until is not None:
                self._last_emit_window_close_time = emitted_until
            self._throttle = EmitThrottle(context.app_configs, EMIT_INTERVAL_WINDOWED_AGGREGATION)
            self._emit_metrics = EmitFinalMetrics(context)
            self._forwarder = TimestampedTupleForwarder(None, context, None, self._send_old_values)
        else:
            self._forwarder = TimestampedTupleForwarder(
                self._store, context, TimestampedCacheFlushListener(context), self._send_old_values
            )
        sends_at_once = self._send_old_values and not self._emit_final and not self._forwarder.caching_enabled
        self._kept = old_value_keeper(self._store, sends_at_once)

    def _maybe_forward_update(self, record: Record[Any, Any], window: Window, old: Any, new: Any, timestamp: int) -> None:
        if not self._emit_final:
            change = Change(new, old if self._send_old_values else None)
            self._forwarder.maybe_forward(Record(Windowed(record.key, window), change, timestamp, record.headers))

    def _maybe_forward_final_result(self, record: Record[Any, Any], window_close_time: int) -> None:
        if not self._emit_final or not self._throttle.may_emit(self._context.current_system_time_ms()):
            return
        if self._last_emit_window_close_time != NO_TIMESTAMP and self._last_emit_window_close_time >= window_close_time:
            return
        upper = self._emit_range_upper_bound(window_close_time)
        if upper < 0:
            return
        lower = self._emit_range_lower_bound()
        if self._should_range_fetch(lower, upper):
            self._fetch_and_emit(record, window_close_time, lower, upper)

    def _fetch_and_emit(self, record: Record[Any, Any], window_close_time: int, lower: int, upper: int) -> None:
        started = time.monotonic()
        emitted = 0
        with self._store.fetch_all(lower, upper) as closed:
            for windowed, result in closed:
                emitted += 1
                self._forwarder.maybe_forward(Record(windowed, Change(result.value, None), result.timestamp, record.headers))
        self._emitted(emitted, time.monotonic() - started, window_close_time)

    def _emitted(self, windows: int, seconds: float, window_close_time: int) -> None:
        """Remember how far results have been emitted."""
        self._emit_metrics.record(windows, seconds)
        self._last_emit_window_close_time = window_close_time
        self._context.add_processor_metadata_key_value(self._store_name, window_close_time)

    @abstractmethod
    def _emit_range_lower_bound(self) -> int:
        """The earliest window start that may not have been emitted."""

    @abstractmethod
    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        """The latest window start that has closed; negative where none has."""

    def _should_range_fetch(self, lower: int, upper: int) -> bool:
        """Whether a window can lie between the bounds."""
        return True


class WindowAggregateValueGetter(KTableValueGetter):
    """Looks up the result of a window."""

    is_versioned = False

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def init(self, context: OperatorContext) -> None:
        """Take the store."""
        self._fetch = context.get_state_store(self._store_name).fetch

    def get(self, key: Windowed[Any], as_of: int | None = None) -> Any:
        """The result of a window with its timestamp, or None."""
        return self._fetch(key.key, key.window.start)
