"""Passes records on unchanged: where streams merge, and where a branch begins."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.processor import Processor
from penstock.record import Record


class PassThrough(Operator):
    """Supplies processors that forward each record."""

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _PassThroughProcessor()


class _PassThroughProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        self._forward(record)

    def process_batch(self, batch: RecordBatch) -> None:
        self._context.forward_batch(batch)
