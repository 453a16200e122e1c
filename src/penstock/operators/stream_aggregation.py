"""What count, aggregate and reduce of a stream share."""

from __future__ import annotations

from typing import Any

from penstock.operators.table_fold import TableFold
from penstock.record import Record


class StreamAggregationProcessor(TableFold):
    """Folds records into the rows of a table, one by one or many at once."""

    def process(self, record: Record[Any, Any]) -> None:
        """Fold one record; one without key or value is dropped."""
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            self._context.record_dropped("Skipping record due to null key or value.")
            return
        stored = self._get(key)
        new, old = self._folded(key, value, None if stored is None else (stored.value, stored.timestamp))
        if stored is not None and stored.timestamp > timestamp:
            timestamp = stored.timestamp
        self._put_and_forward(record, new, old, timestamp)
