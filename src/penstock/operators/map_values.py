"""KStream.map_values: one record in, one with the same key and a new value out."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.change_column import ChangeColumn
from penstock.operators.context import OperatorContext, OperatorFixedKeyProcessor
from penstock.operators.functions import new_value
from penstock.operators.rows import each_row
from penstock.operators.types import ValueMapperWithKey
from penstock.processor import FixedKeyProcessor
from penstock.record import FixedKeyRecord


class KStreamMapValues(Operator):
    """Supplies processors that give each record the value `mapper(key, value)` returns."""

    def __init__(self, mapper: ValueMapperWithKey) -> None:
        self.mapper = mapper

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        return _KStreamMapValuesProcessor(self.mapper)


class _KStreamMapValuesProcessor(BatchProcessor, OperatorFixedKeyProcessor[Any, Any, Any]):
    def __init__(self, mapper: ValueMapperWithKey) -> None:
        self._mapper = mapper

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self._forward(record.with_value(self._mapper(record.key, record.value)))

    def process_batch(self, batch: RecordBatch) -> None:
        if self._mapper is new_value and isinstance(batch.values, ChangeColumn):
            self._context.forward_batch(batch.with_values(batch.values.new_values))
            return
        values, batch = each_row(self._context, batch, self._mapper)
        self._context.forward_batch(batch.with_values(values))
