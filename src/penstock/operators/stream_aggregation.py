"""What count, aggregate and reduce of a stream share."""

from __future__ import annotations

from typing import Any

from penstock.operators.aggregation import AggregationProcessor
from penstock.operators.table_columns import TableColumns


class StreamAggregationProcessor(TableColumns, AggregationProcessor):
    """Folds records into the rows of a table, one by one or many at once."""

    def init(self, context: Any) -> None:
        """Take the store."""
        super().init(context)
        self._take_columns(self._wrapper.store)
