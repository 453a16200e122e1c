"""KStream.filter: records for which the predicate holds, or does not."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorFixedKeyProcessor
from penstock.operators.functions import has_key
from penstock.operators.rows import each_row
from penstock.operators.types import Predicate
from penstock.processor import FixedKeyProcessor
from penstock.record import FixedKeyRecord


class KStreamFilter(Operator):
    """Supplies processors that forward some records and drop the others."""

    def __init__(self, predicate: Predicate, filter_not: bool) -> None:
        self.predicate = predicate
        self.filter_not = filter_not

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        return _KStreamFilterProcessor(self.predicate, self.filter_not)


class _KStreamFilterProcessor(BatchProcessor, OperatorFixedKeyProcessor[Any, Any, Any]):
    def __init__(self, predicate: Predicate, filter_not: bool) -> None:
        self._predicate = predicate
        self._filter_not = filter_not

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        # The predicate may return anything truthy.
        if (not self._predicate(record.key, record.value)) is self._filter_not:
            self._forward(record)

    def process_batch(self, batch: RecordBatch) -> None:
        if self._predicate is has_key and not self._filter_not and None not in batch.keys:
            self._context.forward_batch(batch)
            return
        answers, batch = each_row(self._context, batch, self._predicate)
        refused = self._filter_not
        kept = [row for row, answer in enumerate(answers) if (not answer) is refused]
        self._context.forward_batch(batch if len(kept) == len(batch) else batch.take(kept))
