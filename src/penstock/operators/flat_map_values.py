"""KStream.flat_map_values: one record in, any number with the same key out."""

from __future__ import annotations

from itertools import chain
from operator import sub
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorFixedKeyProcessor
from penstock.operators.pairs import as_many
from penstock.operators.rows import each_row, spread
from penstock.operators.types import FlatValueMapperWithKey
from penstock.processor import FixedKeyProcessor
from penstock.record import FixedKeyRecord

# Nothing of the user's runs when these are read, so they can be read all at once.
_LISTS = frozenset({list, tuple})


class KStreamFlatMapValues(Operator):
    """Supplies processors that forward one record for each value `mapper(key, value)` yields."""

    def __init__(self, mapper: FlatValueMapperWithKey) -> None:
        self.mapper = mapper

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        return _KStreamFlatMapValuesProcessor(self.mapper)


class _KStreamFlatMapValuesProcessor(BatchProcessor, OperatorFixedKeyProcessor[Any, Any, Any]):
    def __init__(self, mapper: FlatValueMapperWithKey) -> None:
        self._mapper = mapper

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        forward = self._forward
        for value in as_many(self._mapper(record.key, record.value), "flat_map_values", "values"):
            forward(record.with_value(value))

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many records; what a record gave before it failed stays."""
        results, batch = each_row(self._context, batch, self._mapper)
        if _LISTS.issuperset(map(type, results)):
            values, counts = list(chain.from_iterable(results)), list(map(len, results))
        else:
            values, counts = self._collected(batch, results)
        self._context.forward_batch(spread(batch, None, values, counts))

    def _collected(self, batch: RecordBatch, results: list[Any]) -> tuple[list[Any], list[int]]:
        """What generators and the like give, and how much each; one may fail on the way."""
        values: list[Any] = []
        ends: list[int] = []
        for row, some in enumerate(results):
            try:
                values.extend(as_many(some, "flat_map_values", "values"))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc)
            ends.append(len(values))
        return values, list(map(sub, ends, [0, *ends]))
