"""Aggregation over session windows: a record joins the sessions it is close to into one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.change import Change
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.forwarding import TimestampedTupleForwarder
from penstock.operators.node_metrics import EmitFinalMetrics
from penstock.operators.session_columns import SessionColumns
from penstock.operators.session_view import plain_sessions, session_flush_listener
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.time_tracker import EMIT_INTERVAL_WINDOWED_AGGREGATION, EmitThrottle, StreamTime
from penstock.operators.untouched import old_value_keeper
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetter, KTableValueGetterSupplier
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, SessionWindow, SessionWindows, StrategyType, Windowed


class KStreamSessionWindowAggregate(Operator):
    """Makes the processor that aggregates the records of each key and session."""

    def __init__(
        self,
        windows: SessionWindows,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        session_merger: Callable[[Any, Any, Any], Any],
    ) -> None:
        self.windows = windows
        self.store_name = store_name
        self.time_name = store_name
        """The name that its stream time is committed under; operators that share a store have one each."""
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.session_merger = session_merger
        self.send_old_values = False

    def __call__(self) -> KStreamSessionWindowAggregateProcessor:
        """Each task gets a processor of its own."""
        return KStreamSessionWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        """Access to the results as a table."""
        return KTableMaterializedValueGetterSupplier(self.store_name, SessionWindowValueGetter)


class KStreamSessionWindowAggregateProcessor(SessionColumns, OperatorProcessor[Any, Any, "Windowed[Any]", "Change[Any]"]):
    """Merges sessions, forwards each change or, with `EmitStrategy.on_window_close()`, the final results."""

    def __init__(self, supplier: KStreamSessionWindowAggregate) -> None:
        self._store_name = supplier.store_name
        self._time_name = supplier.time_name
        self._gap_ms = supplier.windows.inactivity_gap_ms
        self._grace_and_gap_ms = supplier.windows.grace_period_ms + supplier.windows.inactivity_gap_ms
        self._emit_final = supplier.emit_strategy.type is StrategyType.ON_WINDOW_CLOSE
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator
        self._merger = supplier.session_merger
        self._send_old_values = supplier.send_old_values
        self._last_emit_window_close_time = NO_TIMESTAMP

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the store; pick up where the last final results were emitted."""
        self._context = context
        self._store = plain_sessions(context.get_state_store(self._store_name))
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
                self._store, context, session_flush_listener(self._store, context), self._send_old_values
            )
        sends_at_once = self._send_old_values and not self._emit_final and not self._forwarder.caching_enabled
        self._kept = old_value_keeper(self._store, sends_at_once)
        self._take_batches(self._forwarder.waits_for_flush)

    def process(self, record: Record[Any, Any]) -> None:
        """Aggregate one record; a null value is aggregated like any other."""
        key, timestamp = record.key, record.timestamp
        if key is None:
            skip_record(self._context, "null key")
            return
        stream_time = self._stream_time.observe(timestamp)
        close_time = stream_time - self._grace_and_gap_ms
        with self._store.find_sessions(key, timestamp - self._gap_ms, timestamp + self._gap_ms) as sessions:
            merged = list(sessions)
        old_values = [self._kept(value) for _, value in merged]
        found = ((session.window.start, session.window.end, value) for session, value in merged)
        start, end, aggregate = self._merged(key, timestamp, found)
        if end < close_time:
            skip_expired(self._context, timestamp, f"[{start},{end}]", close_time, stream_time)
        else:
            # A session of this record's time alone keeps its key, so its old aggregate is not taken back.
            if start != timestamp or end != timestamp:
                for (session, _), old in zip(merged, old_values):
                    self._store.remove(session)
                    self._maybe_forward_update(session, old, None)
            aggregate = self._aggregator(key, record.value, aggregate)
            session_key = Windowed(key, SessionWindow(start, end))
            self._store.put(session_key, aggregate)
            self._maybe_forward_update(session_key, None, aggregate)
        self._maybe_forward_final_result(record, close_time)

    def _merged(self, key: Any, timestamp: int, sessions: Iterable[tuple[int, int, Any]]) -> tuple[int, int, Any]:
        """Start, end and aggregate of the sessions that a record brings together."""
        start = end = timestamp
        aggregate = self._initializer()
        for session_start, session_end, value in sessions:
            aggregate = self._merger(key, aggregate, value)
            if session_start < start:
                start = session_start
            if session_end > end:
                end = session_end
        return start, end, aggregate

    def _maybe_forward_update(self, session: Windowed[Any], old: Any, new: Any) -> None:
        if not self._emit_final:
            change = Change(new, old if self._send_old_values else None)
            self._forwarder.maybe_forward(Record(session, change, session.window.end))

    def _maybe_forward_final_result(self, record: Record[Any, Any], close_time: int) -> None:
        if not self._emit_final or not self._throttle.may_emit(self._context.current_system_time_ms()):
            return
        if self._last_emit_window_close_time != NO_TIMESTAMP and self._last_emit_window_close_time >= close_time:
            return
        # Both ends belong to a session: it closes after its end.
        upper = close_time - 1
        lower = max(0, self._last_emit_window_close_time)
        if upper < 0 or upper < lower:
            return
        started = time.monotonic()
        emitted = self._forward_all_closed(record, lower, upper)
        self._emit_metrics.record(emitted, time.monotonic() - started)
        self._last_emit_window_close_time = close_time
        self._context.add_processor_metadata_key_value(self._store_name, close_time)

    def _forward_all_closed(self, record: Record[Any, Any], lower: int, upper: int) -> int:
        """Forward the sessions that end between two times; returns how many."""
        with self._store.find_sessions_by_end(lower, upper) as found:
            if self._emitting is not None:
                closed = list(found)
                keys, times = [session for session, _ in closed], [session.window.end for session, _ in closed]
                self._forward_closed(keys, [Change(aggregate, None) for _, aggregate in closed], times, record)
                return len(keys)
            emitted = 0
            for session, aggregate in found:
                emitted += 1
                self._forwarder.maybe_forward(Record(session, Change(aggregate, None), session.window.end, record.headers))
        return emitted


class SessionWindowValueGetter(KTableValueGetter):
    """Looks up the result of a session; its timestamp is the session's end."""

    is_versioned = False

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def init(self, context: OperatorContext) -> None:
        """Take the store."""
        self._fetch_session = plain_sessions(context.get_state_store(self._store_name)).fetch_session

    def get(self, key: Windowed[Any], as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """The result of a session, or None."""
        window = key.window
        aggregate = self._fetch_session(key.key, window.start, window.end)
        return None if aggregate is None else ValueAndTimestamp(aggregate, window.end)
