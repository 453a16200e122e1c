"""KGroupedStream.reduce: the values of each key folded into one of the same kind."""

from __future__ import annotations

from typing import Any

from penstock.operators.aggregation import AggregationSupplier
from penstock.operators.stream_aggregation import StreamAggregationProcessor
from penstock.operators.types import Reducer
from penstock.processor import Processor
from penstock.state.value_and_timestamp import Row


class KStreamReduce(AggregationSupplier):
    """Supplies processors that keep `reducer(aggregate, value)`; records without key or value are dropped."""

    def __init__(self, store_name: str, reducer: Reducer) -> None:
        super().__init__(store_name)
        self.reducer = reducer

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KStreamReduceProcessor(self.store_name, self.send_old_values, self.reducer)


class _KStreamReduceProcessor(StreamAggregationProcessor):
    def __init__(self, store_name: str, send_old_values: bool, reducer: Reducer) -> None:
        super().__init__(store_name, send_old_values)
        self._reducer = reducer

    def _folded(self, key: Any, value: Any, row: Row | None) -> tuple[Any, Any]:
        if row is None:
            return value, None
        kept = self._kept(row[0])
        return self._reducer(row[0], value), kept
