"""KGroupedStream.aggregate and count: one aggregate per key, updated by each record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from penstock.columns.columns import Columns
from penstock.operators.aggregation import AggregationSupplier
from penstock.operators.functions import count_aggregator, count_initializer
from penstock.operators.stream_aggregation import StreamAggregationProcessor
from penstock.operators.table_columns import DistinctKeys
from penstock.operators.types import Aggregator, Initializer
from penstock.processor import Processor
from penstock.state.value_and_timestamp import Row


class KStreamAggregate(AggregationSupplier):
    """Supplies processors that update `aggregator(key, value, aggregate)`; records without key or value are dropped."""

    def __init__(self, store_name: str, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store_name)
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Each task gets a processor of its own."""
        return _KStreamAggregateProcessor(self.store_name, self.send_old_values, self.initializer, self.aggregator)

    @property
    def counts(self) -> bool:
        """Whether the aggregate is a plain count."""
        return self.aggregator is count_aggregator and self.initializer is count_initializer


class _KStreamAggregateProcessor(StreamAggregationProcessor):
    def __init__(self, store_name: str, send_old_values: bool, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store_name, send_old_values)
        self._initializer = initializer
        self._aggregator = aggregator

    def _folded(self, key: Any, value: Any, row: Row | None) -> tuple[Any, Any]:
        # As in Java, a first change carries the initial value as its old value.
        old = self._initializer() if row is None else row[0]
        kept = self._kept(old)
        return self._aggregator(key, value, old), kept

    def process_counts(self, columns: Columns, weights: list[int]) -> None:
        """Rows that stand for `weights` records each, with the time of the latest: what a count needs to know of them."""
        complete = self._complete(columns)
        if len(complete) < len(columns):
            rows = zip(columns.keys, columns.values, weights)
            weights = [weight for key, value, weight in rows if key is not None and value is not None]
            columns = complete
        if not weights:
            return
        keys = DistinctKeys(columns.keys, self._table.raw_keys)
        stored = dict(zip(keys.distinct, self._table.rows_of(keys.raw)))
        counts: dict[Any, int] = dict.fromkeys(keys.distinct, 0)
        for identity, weight in zip(keys.identities, weights):
            counts[identity] += weight
        self._write_counts(columns, keys, counts, stored)

    def _write_last(self, columns: Columns, keys: DistinctKeys, rows: dict[Any, Row | None]) -> None:
        if self._aggregator is not count_aggregator or self._table.exact_type is not int:
            super()._write_last(columns, keys, rows)
            return
        self._write_counts(columns, keys, Counter(keys.identities), rows)

    def _write_counts(
        self, columns: Columns, keys: DistinctKeys, counts: Mapping[Any, int], stored: dict[Any, Row | None]
    ) -> None:
        latest = dict.fromkeys(keys.distinct, -1)
        for identity, timestamp in zip(keys.identities, columns.timestamps):
            if timestamp > latest[identity]:
                latest[identity] = timestamp
        rows: dict[Any, Row | None] = {}
        for identity, count in counts.items():
            row, timestamp = stored[identity], latest[identity]
            if row is None:
                rows[identity] = (count, timestamp)
            else:
                rows[identity] = (row[0] + count, row[1] if row[1] > timestamp else timestamp)
        last = sorted(dict(zip(keys.identities, range(len(columns)))).values())
        self._write_rows(columns, last, keys, rows, stored)
