"""KGroupedTable.aggregate and count: what a row leaves is subtracted from its old group, what it brings added to its new."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators.aggregation import AggregationProcessor, AggregationSupplier
from penstock.operators.types import Aggregator, Initializer
from penstock.processor import Processor
from penstock.record import Record


class KTableAggregate(AggregationSupplier):
    """Supplies processors that apply `remove(key, old_value, aggregate)`, then `add(key, new_value, aggregate)`."""

    def __init__(self, store_name: str, initializer: Initializer, add: Aggregator, remove: Aggregator) -> None:
        super().__init__(store_name)
        self.initializer = initializer
        self.add = add
        self.remove = remove

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KTableAggregateProcessor(self)


class _KTableAggregateProcessor(AggregationProcessor):
    def __init__(self, supplier: KTableAggregate) -> None:
        super().__init__(supplier.store_name, supplier.send_old_values)
        self._initializer = supplier.initializer
        self._add = supplier.add
        self._remove = supplier.remove

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, change, timestamp = record.key, record.value, record.timestamp
        if key is None:
            raise StreamsError(f"the key of a record for the table aggregation with store {self._store_name} must not be null")
        stored = self._get(key)
        aggregate = None if stored is None else stored.value
        old = self._kept(aggregate)
        if stored is not None and (change.old_value is not None or change.new_value is not None):
            timestamp = max(timestamp, stored.timestamp)
        if change.old_value is not None and aggregate is not None:
            aggregate = self._remove(key, change.old_value, aggregate)
        if change.new_value is not None:
            aggregate = self._add(key, change.new_value, self._initializer() if aggregate is None else aggregate)
        self._put_and_forward(record, aggregate, old, timestamp)
