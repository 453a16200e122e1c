"""KStream.map and select_key: one record in, one with a new key and value out."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.functions import SelectKey
from penstock.operators.pairs import as_pair
from penstock.operators.rows import each_row
from penstock.operators.types import KeyValuePairMapper
from penstock.processor import Processor
from penstock.record import Record


class KStreamMap(Operator):
    """Supplies processors that give each record the key and value the mapper returns as `(key, value)`."""

    def __init__(self, mapper: KeyValuePairMapper) -> None:
        self.mapper = mapper

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KStreamMapProcessor(self.mapper)


class _KStreamMapProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    def __init__(self, mapper: KeyValuePairMapper) -> None:
        self._mapper = mapper

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        key, value = self._pair(record.key, record.value)
        self._forward(Record(key, value, record.timestamp, record.headers))

    def process_batch(self, batch: RecordBatch) -> None:
        if type(self._mapper) is SelectKey:
            keys, batch = each_row(self._context, batch, self._mapper.selector)
            self._context.forward_batch(batch.with_keys(keys))
            return
        pairs, batch = each_row(self._context, batch, self._pair)
        if pairs:
            keys, values = map(list, zip(*pairs))
            self._context.forward_batch(batch.with_keys_and_values(keys, values))

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any]:
        pair = self._mapper(key, value)
        return pair if type(pair) is tuple and len(pair) == 2 else as_pair(pair, "map")
