"""KStream.flat_map: one record in, any number out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.pairs import as_many, as_pair
from penstock.operators.rows import spread
from penstock.operators.types import FlatMapper
from penstock.processor import Processor
from penstock.record import Record


class KStreamFlatMap(Operator):
    """Supplies processors that forward one record for each `(key, value)` the mapper yields."""

    def __init__(self, mapper: FlatMapper) -> None:
        self.mapper = mapper

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KStreamFlatMapProcessor(self.mapper)


class _KStreamFlatMapProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    def __init__(self, mapper: FlatMapper) -> None:
        self._mapper = mapper

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        forward, timestamp, headers = self._forward, record.timestamp, record.headers
        for pair in self._pairs(record.key, record.value):
            key, value = pair if type(pair) is tuple and len(pair) == 2 else as_pair(pair, "flat_map")
            forward(Record(key, value, timestamp, headers))

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many records; what a record gave before it failed stays."""
        keys: list[Any] = []
        values: list[Any] = []
        counts: list[int] = []
        for key, value in zip(batch.keys, batch.values):
            before = len(values)
            try:
                for pair in self._pairs(key, value):
                    new_key, new_value = pair if type(pair) is tuple and len(pair) == 2 else as_pair(pair, "flat_map")
                    keys.append(new_key)
                    values.append(new_value)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, len(counts), exc)
            counts.append(len(values) - before)
        self._context.forward_batch(spread(batch, keys, values, counts))

    def _pairs(self, key: Any, value: Any) -> Iterable[tuple[Any, Any]]:
        return as_many(self._mapper(key, value), "flat_map", "pairs (key, value)")
