"""Brings both sides of a join of two tables together, and keeps the result where it is materialized."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.change_column import ChangeColumn
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.forwarding import TimestampedCacheFlushListener, TimestampedTupleForwarder
from penstock.operators.joins.table_table_join import KTableKTableAbstractJoin, union_of_names
from penstock.operators.store_wrapper import PUT_RETURN_CODE_IS_LATEST, PUT_RETURN_CODE_NOT_PUT, KeyValueStoreWrapper
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetter, KTableValueGetterSupplier
from penstock.record import Record


class KTableKTableJoinMerger(Operator):
    """Makes the processor below both sides; `queryable_name` is the store of the result, if it has one."""

    def __init__(
        self, parent1: KTableKTableAbstractJoin, parent2: KTableKTableAbstractJoin, queryable_name: str | None = None
    ) -> None:
        self._parent1 = parent1
        self._parent2 = parent2
        self.queryable_name = queryable_name
        self.send_old_values = False

    def __call__(self) -> KTableKTableJoinMergeProcessor:
        return KTableKTableJoinMergeProcessor(self.queryable_name, self.send_old_values)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send old values; both sides must do so."""
        self._parent1.enable_sending_old_values(True)
        self._parent2.enable_sending_old_values(True)
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        """The result as a table: its store, or the join of both tables when it is asked for."""
        if self.queryable_name is not None:
            return KTableMaterializedValueGetterSupplier(self.queryable_name)
        return MergedValueGetterSupplier(self._parent1.view(), self._parent2.view())


class KTableKTableJoinMergeProcessor(BatchProcessor, OperatorProcessor[Any, "Change[Any]", Any, "Change[Any]"]):
    """Stores and forwards the changes of both sides."""

    def __init__(self, queryable_name: str | None, send_old_values: bool) -> None:
        self._queryable_name = queryable_name
        self._send_old_values = send_old_values

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward
        self._store: KeyValueStoreWrapper | None = None
        self.takes_batches = self._queryable_name is None
        if self._queryable_name is not None:
            self._store = KeyValueStoreWrapper(context, self._queryable_name)
            self._forwarder = TimestampedTupleForwarder(
                self._store.store, context, TimestampedCacheFlushListener(context), self._send_old_values
            )

    def process(self, record: Record[Any, Change[Any]]) -> None:
        """Pass one change on."""
        change = record.value
        if self._store is not None:
            put_return_code = self._store.put(record.key, change.new_value, record.timestamp)
            if put_return_code != PUT_RETURN_CODE_NOT_PUT:
                is_latest = put_return_code == PUT_RETURN_CODE_IS_LATEST
                self._forwarder.maybe_forward(record.with_value(Change(change.new_value, change.old_value, is_latest)))
        elif self._send_old_values or change.old_value is None:
            self._forward(record)
        else:
            self._forward(record.with_value(Change(change.new_value, None, change.is_latest)))

    def process_batch(self, batch: RecordBatch) -> None:
        """Pass many changes on; only where there is no store."""
        changes = batch.values
        if not self._send_old_values and not (isinstance(changes, ChangeColumn) and changes.has_no_old_values):
            changes = [Change(change.new_value, None, change.is_latest) for change in changes]
        self._context.forward_batch(batch.with_values(changes))


class MergedValueGetterSupplier(KTableValueGetterSupplier):
    """Gives access to a join that is not materialized; either side's view would do, the stores are those of both."""

    def __init__(self, view1: KTableValueGetterSupplier, view2: KTableValueGetterSupplier) -> None:
        self._view1 = view1
        self._view2 = view2

    @property
    def store_names(self) -> tuple[str, ...]:
        return union_of_names(self._view1.store_names, self._view2.store_names)

    def get(self) -> KTableValueGetter:
        return self._view1.get()
