"""Folds records into the rows of a table: count, aggregate and reduce of a stream, and a table's source."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

from penstock.batches.batch_processor import BatchProcessor
from penstock.batches.record_batch import RecordBatch
from penstock.operators.aggregation import AggregationProcessor
from penstock.operators.change_column import ChangeColumn
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.state.layers.metered_key_value import MeteredKeyValueStore
from penstock.state.value_and_timestamp import Row

KeptRows = dict[Any, Row | None]
"""Rows by what stands for their keys, each value as its store keeps it."""

Update = tuple[Any, Any, int, Any]
"""What a record changed: new value, old value, timestamp, and the new value as its store keeps it."""


class TableFold(BatchProcessor, AggregationProcessor):
    """Folds records into the rows of a table.

    It reads the rows of all keys at once, folds the records into them, and writes and forwards at once what has changed: with a
    cache the last row of each key in the order of the last updates, as a flush does; without one every update. Between two
    records an aggregate is what its store would keep of it: bytes, which no function can change in place, unless it is a number.
    """

    takes_batches = False
    _keeps_latest_time = True
    _table: MeteredKeyValueStore[Any, Any]

    def set_up(self, context: OperatorContext) -> None:
        """Take batches if the store can read and write many rows at once."""
        super().set_up(context)
        store = self._wrapper.store
        if store.takes_table_rows:
            self._table = store
            self._node = context.current_node
            self.takes_batches = True

    @property
    def waits_for_flush(self) -> bool:
        return self.takes_batches and self._forwarder.waits_for_flush

    @abstractmethod
    def _folded(self, key: Any, value: Any, row: Row | None) -> tuple[Any, Any]:
        """The new aggregate, and the old one as a change shows it."""

    def process_batch(self, batch: RecordBatch) -> None:
        batch = self._complete(batch)
        if len(batch):
            keys = DistinctKeys(batch.keys, self._table.raw_keys)
            if self._forwarder.waits_for_flush:
                self._write_last(batch, keys)
            else:
                self._write_all(batch, keys)

    def _complete(self, batch: RecordBatch) -> RecordBatch:
        """The rows that count: those with key and value."""
        if None not in batch.keys and None not in batch.values:
            return batch
        complete = [key is not None and value is not None for key, value in zip(batch.keys, batch.values)]
        dropped = [row for row, whole in enumerate(complete) if not whole]
        self._context.rows_dropped(batch, dropped, "Skipping record due to null key or value.")
        return batch.take([row for row, whole in enumerate(complete) if whole])

    def _stored(self, keys: DistinctKeys) -> KeptRows:
        return dict(zip(keys.distinct, self._table.kept_rows_of(keys.raw)))

    def _fold(self, batch: RecordBatch, keys: DistinctKeys, rows: KeptRows, updates: list[Update] | None = None) -> list[int]:
        """Fold all records into `rows`; returns which records were. What each changed goes to `updates`, where somebody asks."""
        keeps_latest, table = self._keeps_latest_time, self._table
        fold, exact, keep, give = self._folded, table.exact_type, table.keep, table.give
        done: list[int] = []
        number = -1
        records = enumerate(zip(keys.identities, batch.keys, batch.values, batch.timestamps))
        while True:
            try:
                for number, (identity, key, value, timestamp) in records:
                    row = rows[identity]
                    if row is not None:
                        if keeps_latest and row[1] > timestamp:
                            timestamp = row[1]
                        if exact is None:
                            row = (give(row[0]), row[1])
                    new, old = fold(key, value, row)
                    kept = new if type(new) is exact else keep(new)
                    rows[identity] = None if kept is None else (kept, timestamp)
                    if updates is not None:
                        updates.append((new, old, timestamp, kept))
                    done.append(number)
                return done
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, number, exc)

    def _write_last(self, batch: RecordBatch, keys: DistinctKeys) -> None:
        stored = self._stored(keys)
        rows = dict(stored)
        done = self._fold(batch, keys, rows)
        self._write_rows(batch, keys.last_of(done), keys, rows, stored)

    def _write_rows(
        self, batch: RecordBatch, last: list[int], keys: DistinctKeys, rows: KeptRows, stored: KeptRows | None
    ) -> None:
        """Write and forward the rows of the keys whose last records are given, in that order.

        `stored` is None where no row is deleted and nobody asks for old values.
        """
        identities, times = keys.identities, batch.timestamps
        if not self._context.is_only_run:
            self._put_rows(batch, last, keys, rows)
            return
        if stored is not None:  # a key that came and went between two commits was never there for anybody
            last = [number for number in last if rows[identities[number]] is not None or stored[identities[number]] is not None]
        written = [identities[number] for number in last]
        new_rows = [rows[identity] for identity in written]
        olds = None
        if self._send_old_values and stored is not None:
            olds = self._table.given([None if row is None else row[0] for row in map(stored.__getitem__, written)])
        kept = [None if row is None else row[0] for row in new_rows]
        timestamps = [times[number] if row is None else row[1] for number, row in zip(last, new_rows)]
        taken = batch.take(last)
        self._table.write_rows_around(keys.raw_of(written), kept, timestamps, taken.timestamps)
        self._forward(taken, ChangeColumn(self._table.given(kept), olds), timestamps)

    def _put_rows(self, batch: RecordBatch, last: list[int], keys: DistinctKeys, rows: KeptRows) -> None:
        """Leave the rows in the cache, for more rows to change them before the commit."""
        identities = [keys.identities[number] for number in last]
        self._table.put_rows(keys.raw_of(identities), [rows[identity] for identity in identities], map(batch.context, last))

    def _write_all(self, batch: RecordBatch, keys: DistinctKeys) -> None:
        updates: list[Update] = []
        done = self._fold(batch, keys, self._stored(keys), updates)
        taken = batch if len(done) == len(batch) else batch.take(done)
        raw_keys = keys.raw_of([keys.identities[number] for number in done])
        timestamps = [timestamp for _, _, timestamp, _ in updates]
        self._table.write_rows_around(raw_keys, [kept for _, _, _, kept in updates], timestamps, taken.timestamps)
        olds = [old for _, old, _, _ in updates] if self._send_old_values else None
        self._forward(taken, ChangeColumn([new for new, _, _, _ in updates], olds), timestamps)

    def _forward(self, batch: RecordBatch, changes: ChangeColumn, timestamps: list[int]) -> None:
        changed = RecordBatch(batch.keys, changes, timestamps, batch.headers, batch.origin, batch.sources)
        if self._context.holds_changes:
            self._table.hold(partial(self._forward_held, changed))
        else:
            self._context.forward_batch(changed)

    def _forward_held(self, changed: RecordBatch) -> None:
        with self._context.at(self._node, self._context.record_context):
            self._context.forward_batch(changed)
