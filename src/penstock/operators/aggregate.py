"""KGroupedStream.aggregate and count: one aggregate per key, updated by each record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from penstock.batches.record_batch import RecordBatch
from penstock.operators.aggregation import AggregationSupplier
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.functions import count_aggregator, count_initializer
from penstock.operators.stream_aggregation import StreamAggregationProcessor
from penstock.operators.table_fold import KeptRows
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

    def process_counts(self, batch: RecordBatch, weights: list[int]) -> None:
        """Rows that stand for `weights` records each, with the time of the latest: what a count needs to know of them."""
        complete = self._complete(batch)
        if len(complete) < len(batch):
            rows = zip(batch.keys, batch.values, weights)
            weights = [weight for key, value, weight in rows if key is not None and value is not None]
            batch = complete
        if not weights:
            return
        keys = DistinctKeys(batch.keys, self._table.raw_keys)
        counts: dict[Any, int] = dict.fromkeys(keys.distinct, 0)
        for identity, weight in zip(keys.identities, weights):
            counts[identity] += weight
        self._write_counts(batch, keys, counts)

    def _write_last(self, batch: RecordBatch, keys: DistinctKeys) -> None:
        if self._aggregator is not count_aggregator or self._table.exact_type is not int:
            super()._write_last(batch, keys)
            return
        self._write_counts(batch, keys, Counter(keys.identities))

    def _write_counts(self, batch: RecordBatch, keys: DistinctKeys, counts: Mapping[Any, int]) -> None:
        stored = self._stored(keys)
        latest = dict.fromkeys(keys.distinct, -1)
        for identity, timestamp in zip(keys.identities, batch.timestamps):
            if timestamp > latest[identity]:
                latest[identity] = timestamp
        rows: KeptRows = {}
        keep, give = self._table.keep, self._table.give
        for identity, count in counts.items():
            row, timestamp = stored[identity], latest[identity]
            if row is None:
                rows[identity] = (keep(count), timestamp)
            else:
                rows[identity] = (keep(give(row[0]) + count), row[1] if row[1] > timestamp else timestamp)
        self._write_rows(batch, keys.last_of(range(len(batch))), keys, rows, stored)
