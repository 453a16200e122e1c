"""The join of a stream with a DataFrame, of which each stream thread has a copy."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.errors import StreamsError
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.lookup_table import DataFrameSource
from penstock.operators.joins.stream_table_join import Joiner, KeyMapper
from penstock.operators.skipped import skip_record
from penstock.record import Record


class KStreamDataFrameJoin(Operator):
    """Makes the processor; `mapper` gives the row's key, without it the record's own key does."""

    def __init__(self, source: DataFrameSource, table: str, joiner: Joiner, mapper: KeyMapper | None) -> None:
        self.source = source
        self.table = table
        self.joiner = joiner
        self.mapper = mapper

    def __call__(self) -> DataFrameJoinProcessor:
        return DataFrameJoinProcessor(self.table, self.joiner, self.mapper)


class DataFrameJoinProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    """Looks up each record's row, and forwards what the joiner makes of both; a record without a row gives nothing."""

    def __init__(self, table: str, joiner: Joiner, mapper: KeyMapper | None) -> None:
        self._table = table
        self._joiner = joiner
        self._mapper = mapper

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the tables of the thread."""
        self._context = context
        self._tables = context.lookup_tables
        if self._table not in self._tables:
            raise StreamsError(f"the DataFrame of {self._table} was not loaded: a processor.wrapper.class has replaced the join")

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record."""
        key, value = record.key, record.value
        looked_up = key if self._mapper is None else self._mapper(key, value)
        if value is None or looked_up is None:
            skip_record(self._context, "null join key or value")
            return
        row = self._tables[self._table].row(looked_up)
        if row is not None:
            self._context.forward(Record(key, self._joiner(key, value, row), record.timestamp, record.headers))

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many records."""
        context, joiner, mapper, find = self._context, self._joiner, self._mapper, self._tables[self._table].row
        done, joined = list[int](), list[Any]()
        for number, (key, value) in enumerate(zip(batch.keys, batch.values)):
            try:
                looked_up = key if mapper is None else mapper(key, value)
                if value is None or looked_up is None:
                    context.enter_row(batch, number)
                    skip_record(context, "null join key or value")
                    continue
                row = find(looked_up)
                if row is not None:
                    joined.append(joiner(key, value, row))
                    done.append(number)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(batch, number, exc)
        context.forward_batch((batch if len(done) == len(batch) else batch.take(done)).with_values(joined))
