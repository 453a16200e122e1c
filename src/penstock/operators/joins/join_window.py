"""Keeps one side of a stream-stream join, for the other side to look into."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.record import Record
from penstock.state.value_timestamp_headers import ValueTimestampHeaders


class KStreamJoinWindow(Operator):
    """Makes the processor that keeps a stream in a window store."""

    keeps_join_side = True

    def __init__(self, store_name: str) -> None:
        self.store_name = store_name

    def __call__(self) -> KStreamJoinWindowProcessor:
        return KStreamJoinWindowProcessor(self.store_name)


class KStreamJoinWindowProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    """Forwards each record before it is stored: it must not meet itself in a join of a stream with itself."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def set_up(self, context: OperatorContext) -> None:
        self._forward = context.forward
        self.store = context.get_state_store(self._store_name)
        self._put = self.store.put
        self.arrived: RecordBatch | None = None
        self.takes_batches = self.store.takes_duplicates

    def process_batch(self, batch: RecordBatch) -> None:
        """Let rows wait for those of the other side, to be joined with them in the order in which they came."""
        self.arrived = batch

    def process(self, record: Record[Any, Any]) -> None:
        """Join and keep one record; one without a key can never be found."""
        self._forward(record)
        if record.key is not None:
            value, timestamp = record.value, record.timestamp
            # The engine keeps the value alone; timestamp and headers are those of the changelog record.
            kept = None if value is None else ValueTimestampHeaders(value, timestamp, record.headers)
            self._put(record.key, kept, timestamp)
