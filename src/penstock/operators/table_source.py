"""A table's first operator: keeps the latest value of each key and turns records into changes."""

from __future__ import annotations

import logging
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.change_column import ChangeColumn
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.store_wrapper import PUT_RETURN_CODE_IS_LATEST, PUT_RETURN_CODE_NOT_PUT
from penstock.operators.table_fold import TableFold
from penstock.processor import Processor
from penstock.record import Record
from penstock.state.value_and_timestamp import Row

_log = logging.getLogger(__name__)


class KTableSource(Operator):
    """Supplies the processors of a table that is read from a topic or made from a stream.

    `queryable_name` is None until somebody needs the store: the user by naming it, another operator through
    `materialize`, or `enable_sending_old_values`.
    """

    def __init__(self, store_name: str, queryable_name: str | None) -> None:
        self.store_name = store_name
        self.queryable_name = queryable_name
        self.send_old_values = False

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KTableSourceProcessor(self.queryable_name, self.send_old_values)

    def enable_sending_old_values(self) -> None:
        """Changes carry the old value from now on, which needs the store."""
        self.send_old_values = True
        self.queryable_name = self.store_name

    def materialize(self) -> None:
        """Keep the table in its store."""
        self.queryable_name = self.store_name

    @property
    def materialized(self) -> bool:
        """Whether the table is kept in its store."""
        return self.queryable_name is not None


class _KTableSourceProcessor(TableFold):
    _keeps_latest_time = False  # a row has the time of the record it came with

    def __init__(self, queryable_name: str | None, send_old_values: bool) -> None:
        super().__init__(queryable_name or "", send_old_values)
        self._is_kept = queryable_name is not None

    def set_up(self, context: OperatorContext) -> None:
        if self._is_kept:
            super().set_up(context)
        else:
            self._context = context
            self.takes_batches = True

    @property
    def waits_for_flush(self) -> bool:
        """Whether rows stay in the cache; without a store there is none."""
        return self._is_kept and super().waits_for_flush

    def process_batch(self, batch: RecordBatch) -> None:
        """Keep many records, or without a store only turn them into changes."""
        if self._is_kept:
            super().process_batch(batch)
            return
        batch = self._complete(batch)
        self._context.forward_batch(batch.with_values(ChangeColumn(batch.values, None)))

    def process(self, record: Record[Any, Any]) -> None:
        key, value = record.key, record.value
        if key is None:
            self._context.record_dropped("Skipping record due to null key.")
            return
        if not self._is_kept:
            self._context.forward(record.with_value(Change(value, None)))
            return
        old = self._get(key)
        if old is not None and record.timestamp < old.timestamp:
            self._warn_out_of_order(record, old.timestamp)
        code = self._put(key, value, record.timestamp)
        if code != PUT_RETURN_CODE_NOT_PUT:
            change = Change(value, None if old is None else old.value, code == PUT_RETURN_CODE_IS_LATEST)
            self._forwarder.maybe_forward(record.with_value(change))

    def _folded(self, key: Any, value: Any, row: Row | None) -> tuple[Any, Any]:
        return value, None if row is None else row[0]

    def _write_last(self, batch: RecordBatch, keys: DistinctKeys) -> None:
        """The last record of each key is its row: nothing has to be read, but for what is deleted or sent on as the old value."""
        try:
            kept = self._table.keep_all(batch.values)
        except Exception:  # noqa: BLE001  (row by row, the handler judges whatever a serializer raises)
            super()._write_last(batch, keys)
            return
        last = keys.last_of(range(len(batch)))
        identities, times = keys.identities, batch.timestamps
        rows = {identities[number]: None if kept[number] is None else (kept[number], times[number]) for number in last}
        needed = self._send_old_values or None in rows.values()
        self._write_rows(batch, last, keys, rows, self._stored(keys) if needed else None)

    def _complete(self, batch: RecordBatch) -> RecordBatch:
        """The rows with a key; one without a value deletes."""
        if None not in batch.keys:
            return batch
        without = [row for row, key in enumerate(batch.keys) if key is None]
        self._context.rows_dropped(batch, without, "Skipping record due to null key.")
        return batch.take([row for row, key in enumerate(batch.keys) if key is not None])

    def _warn_out_of_order(self, record: Record[Any, Any], old_timestamp: int) -> None:
        metadata = self._context.record_metadata
        where = (
            "Topic, partition and offset not known."
            if metadata is None
            else f"topic=[{metadata.topic}] partition=[{metadata.partition}] offset=[{metadata.offset}]."
        )
        _log.warning(
            "Detected out-of-order KTable update for %s, old timestamp=[%s] new timestamp=[%s]. %s",
            self._store_name,
            old_timestamp,
            record.timestamp,
            where,
        )
