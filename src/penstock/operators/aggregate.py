"""KGroupedStream.aggregate and count: one aggregate per key, updated by each record."""

from __future__ import annotations

from typing import Any

from penstock.operators.aggregation import AggregationProcessor, AggregationSupplier
from penstock.operators.types import Aggregator, Initializer
from penstock.processor import Processor
from penstock.record import Record


class KStreamAggregate(AggregationSupplier):
    """Supplies processors that update `aggregator(key, value, aggregate)`; records without key or value are dropped."""

    def __init__(self, store_name: str, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store_name)
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """A new processor."""
        return _KStreamAggregateProcessor(self.store_name, self.send_old_values, self.initializer, self.aggregator)


class _KStreamAggregateProcessor(AggregationProcessor):
    def __init__(self, store_name: str, send_old_values: bool, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store_name, send_old_values)
        self._initializer = initializer
        self._aggregator = aggregator

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            self._context.record_dropped("Skipping record due to null key or value.")
            return
        stored = self._get(key)
        if stored is None:
            old = self._initializer()
        else:
            old = stored.value
            if stored.timestamp > timestamp:
                timestamp = stored.timestamp
        # As in Java, a first change carries the initial value as its old value.
        self._put_and_forward(record, self._aggregator(key, value, old), old, timestamp)
