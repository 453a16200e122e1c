"""KGroupedTable.reduce: the values of each group folded into one of the same kind."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators.aggregation import AggregationProcessor, AggregationSupplier
from penstock.operators.types import Reducer
from penstock.processor import Processor
from penstock.record import Record


class KTableReduce(AggregationSupplier):
    """Supplies processors that apply `remove(aggregate, old_value)`, then `add(aggregate, new_value)`."""

    def __init__(self, store_name: str, add: Reducer, remove: Reducer) -> None:
        super().__init__(store_name)
        self.add = add
        self.remove = remove

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KTableReduceProcessor(self)


class _KTableReduceProcessor(AggregationProcessor):
    def __init__(self, supplier: KTableReduce) -> None:
        super().__init__(supplier.store_name, supplier.send_old_values)
        self._add = supplier.add
        self._remove = supplier.remove

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, change, timestamp = record.key, record.value, record.timestamp
        if key is None:
            raise StreamsError(f"the key of a record for the table reduction with store {self._store_name} must not be null")
        stored = self._get(key)
        aggregate = None if stored is None else stored.value
        old = self._kept(aggregate)
        if change.old_value is not None and stored is not None:
            aggregate = self._remove(aggregate, change.old_value)
            timestamp = max(timestamp, stored.timestamp)
        if change.new_value is not None:
            if aggregate is None:
                aggregate = change.new_value
            else:
                aggregate = self._add(aggregate, change.new_value)
                timestamp = max(timestamp, stored.timestamp)
        self._put_and_forward(record, aggregate, old, timestamp)
