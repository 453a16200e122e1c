"""What aggregations over windows and sessions share: their store, rows without keys, and results on close.

With `EmitStrategy.on_window_close()` nothing is forwarded while a window changes. Once its end and the grace period have passed,
its result is read from the store; how far that went is committed with the task's offsets. Closed windows are looked for once in
an interval of wall-clock time, behind a record. The clock does not move within a batch, so its first record is processed alone.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

from penstock.batches.batch_processor import BatchProcessor
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.forwarding import FlushListener, TimestampedTupleForwarder
from penstock.operators.node_metrics import EmitFinalMetrics
from penstock.operators.old_values import old_value_keeper
from penstock.operators.skipped import skip_record
from penstock.operators.time_tracker import EMIT_INTERVAL_WINDOWED_AGGREGATION, EmitThrottle, StreamTime
from penstock.record import NO_TIMESTAMP, Record
from penstock.windows import EmitStrategy, StrategyType


class WindowedAggregateProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    """The common part; subclasses fold records into windows, and name the windows that have closed."""

    def __init__(self, store_name: str, time_name: str, emit_strategy: EmitStrategy, send_old_values: bool) -> None:
        self._store_name = store_name
        self._time_name = time_name
        self._emit_final = emit_strategy.type is StrategyType.ON_WINDOW_CLOSE
        self._send_old_values = send_old_values
        self._last_emit_window_close_time = NO_TIMESTAMP
        self._emitting: tuple[RecordBatch, int] | None = None
        """The row behind which results on close are forwarded, while they are looked for."""

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the store; resume where the last final results were emitted."""
        self._context = context
        self._store = self._store_of(context.get_state_store(self._store_name))
        self._stream_time = StreamTime(context, self._time_name)
        if self._emit_final:
            emitted_until = context.processor_metadata_for_key(self._store_name)
            if emitted_until is not None:
                self._last_emit_window_close_time = emitted_until
            self._throttle = EmitThrottle(context.app_configs, EMIT_INTERVAL_WINDOWED_AGGREGATION)
            self._emit_metrics = EmitFinalMetrics(context)
            self._forwarder = TimestampedTupleForwarder(None, context, None, self._send_old_values)
        else:
            self._forwarder = TimestampedTupleForwarder(self._store, context, self._flush_listener(), self._send_old_values)
        sends_at_once = self._send_old_values and not self._emit_final and not self._forwarder.caching_enabled
        self._kept = old_value_keeper(self._store, sends_at_once)

    def _store_of(self, store: Any) -> Any:
        """The view of its store that the processor works on."""
        return store

    @abstractmethod
    def _flush_listener(self) -> FlushListener:
        """The listener that forwards what a flush of the store's cache has changed."""

    # -- results on close ----------------------------------------------------------------------------------------------

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
            started = time.monotonic()
            emitted = self._forward_all_closed(record, lower, upper)
            self._emitted(emitted, time.monotonic() - started, window_close_time)

    @abstractmethod
    def _emit_range_lower_bound(self) -> int:
        """The earliest window that may not have been emitted, as a bound of the store."""

    @abstractmethod
    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        """The latest window that has closed; negative if none has."""

    def _should_range_fetch(self, lower: int, upper: int) -> bool:
        """Whether a window can lie between the bounds."""
        return True

    @abstractmethod
    def _forward_all_closed(self, record: Record[Any, Any], lower: int, upper: int) -> int:
        """Forward the windows between the bounds; return how many there were."""

    def _emitted(self, windows: int, seconds: float, window_close_time: int) -> None:
        """Remember how far results have been emitted."""
        self._emit_metrics.record(windows, seconds)
        self._last_emit_window_close_time = window_close_time
        self._context.add_processor_metadata_key_value(self._store_name, window_close_time)

    # -- batches -------------------------------------------------------------------------------------------------------

    def _rest(self, batch: RecordBatch, needs_value: bool = False) -> RecordBatch:
        """Look for closed windows, then return the rows that are left: those with a key and, if it is needed, a value."""
        first = self._until_emitted(batch) if self._emit_final else 0
        if first:
            batch = batch.rows(first, len(batch))
        if None not in batch.keys and not (needs_value and None in batch.values):
            return batch
        whole = [key is not None and not (needs_value and value is None) for key, value in zip(batch.keys, batch.values)]
        for row, is_whole in enumerate(whole):
            if not is_whole:
                self._context.enter_row(batch, row)
                skip_record(self._context, "null key or value" if needs_value else "null key")
        return batch.take([row for row, is_whole in enumerate(whole) if is_whole])

    def _until_emitted(self, batch: RecordBatch) -> int:
        """Process rows one by one while closed windows are due to be looked for; return how many rows."""
        context, first = self._context, 0
        node = context.current_node
        while first < len(batch) and self._throttle.is_due(context.current_system_time_ms()):
            context.enter_row(batch, first)
            self._emitting = batch, first
            try:
                self.process(batch.record(first))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(batch, first, exc, node)
            finally:
                self._emitting = None
            first += 1
        return first

    def _forward_closed(self, keys: list[Any], changes: list[Any], times: list[int], record: Record[Any, Any]) -> None:
        """Forward results on close as a batch, behind the row that is being processed."""
        assert self._emitting is not None
        batch, row = self._emitting
        source = row if batch.sources is None else batch.sources[row]
        headers = [record.headers] * len(keys) if record.headers else None
        self._context.forward_batch(RecordBatch(keys, changes, times, headers, batch.origin, [source] * len(keys)))
