"""What aggregations over windows and sessions share that take batches: rows without keys, and results on close.

With results on close, what has closed is looked for after the first record of a turn, as with single records: the clock does not
move within a turn, and it is looked for once in an interval of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batches.batch_processor import BatchProcessor
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.skipped import skip_record
from penstock.operators.time_tracker import EmitThrottle
from penstock.record import Record


class ResultsOnClose(BatchProcessor):
    """Processes single records while results on close are due."""

    _context: OperatorContext
    _emit_final: bool
    _throttle: EmitThrottle
    process: Callable[[Record[Any, Any]], None]
    _emitting: tuple[RecordBatch, int] | None = None
    """The row that results on close come behind, while they are looked for."""

    def _rest(self, batch: RecordBatch, needs_value: bool = False) -> RecordBatch:
        """The rows with a key, and where it is needed a value, that are left when results on close have been looked for."""
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
        """Process records one by one while what has closed is due to be looked for; returns how many."""
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
        """Forward results on close at once, behind the row that is being processed."""
        assert self._emitting is not None
        batch, row = self._emitting
        source = row if batch.sources is None else batch.sources[row]
        headers = [record.headers] * len(keys) if record.headers else None
        self._context.forward_batch(RecordBatch(keys, changes, times, headers, batch.origin, [source] * len(keys)))
