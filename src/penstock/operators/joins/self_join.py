"""The join of a stream with itself, from a single store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.skipped import skip_record
from penstock.operators.time_tracker import StreamTime
from penstock.record import Record
from penstock.windows import JoinWindows


class KStreamKStreamSelfJoin(Operator):
    """Makes the processor that takes the place of both sides of a join."""

    def __init__(
        self,
        window_store_name: str,
        windows: JoinWindows,
        joiner_this: Callable[[Any, Any, Any], Any],
        retention_period_ms: int,
    ) -> None:
        self.window_store_name = window_store_name
        self.windows = windows
        self.joiner_this = joiner_this
        self.retention_period_ms = retention_period_ms

    def __call__(self) -> KStreamKStreamSelfJoinProcessor:
        return KStreamKStreamSelfJoinProcessor(self)


class KStreamKStreamSelfJoinProcessor(OperatorProcessor[Any, Any, Any, Any]):
    """Gives the results of an inner join in its order: as the left side, as the right side, and with itself between them."""

    def __init__(self, supplier: KStreamKStreamSelfJoin) -> None:
        self._store_name = supplier.window_store_name
        self._before_ms = supplier.windows.before_ms
        self._after_ms = supplier.windows.after_ms
        self._joiner = supplier.joiner_this
        self._retention_ms = supplier.retention_period_ms

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward
        self._fetch_range = context.get_state_store(self._store_name).fetch_range
        self._stream_time = StreamTime(context, self._store_name)

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record with those before it and with itself."""
        key, value, timestamp, headers = record.key, record.value, record.timestamp, record.headers
        if key is None or value is None:
            skip_record(self._context, "null key or value")
            return
        forward, joiner = self._forward, self._joiner
        self_record: Record[Any, Any] | None = Record(key, joiner(key, value, value), timestamp, headers)
        if timestamp <= self._stream_time.observe(timestamp) - self._retention_ms + 1:
            # Too old to be found in a store.
            self_record = None
        with self._fetch_range(key, max(0, timestamp - self._before_ms), max(0, timestamp + self._after_ms)) as others:
            for other_timestamp, other in others:
                forward(Record(key, joiner(key, value, other.value), max(timestamp, other_timestamp), headers))
        with self._fetch_range(key, max(0, timestamp - self._after_ms), max(0, timestamp + self._before_ms)) as others:
            for other_timestamp, other in others:
                if other_timestamp > timestamp and self_record is not None:
                    forward(self_record)
                    self_record = None
                forward(Record(key, joiner(key, other.value, value), max(timestamp, other_timestamp), headers))
        if self_record is not None:
            forward(self_record)
