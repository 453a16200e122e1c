"""KStream.peek: look at each record and pass it on."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorFixedKeyProcessor
from penstock.operators.rows import each_row
from penstock.operators.types import ForeachAction
from penstock.processor import FixedKeyProcessor
from penstock.record import FixedKeyRecord


class KStreamPeek(Operator):
    """Supplies processors that call the action for each record, then forward it."""

    def __init__(self, action: ForeachAction) -> None:
        self.action = action

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        return _KStreamPeekProcessor(self.action)


class _KStreamPeekProcessor(BatchProcessor, OperatorFixedKeyProcessor[Any, Any, Any]):
    def __init__(self, action: ForeachAction) -> None:
        self._action = action

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self._action(record.key, record.value)
        self._forward(record)

    def process_batch(self, batch: RecordBatch) -> None:
        _, batch = each_row(self._context, batch, self._action)
        self._context.forward_batch(batch)
