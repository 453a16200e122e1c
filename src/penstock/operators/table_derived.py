"""What the operators that derive a table from another share: an own store or none, and old values asked of the parent."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.change import Change
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.forwarding import TimestampedCacheFlushListener, TimestampedTupleForwarder
from penstock.operators.store_wrapper import PUT_RETURN_CODE_IS_LATEST, PUT_RETURN_CODE_NOT_PUT, KeyValueStoreWrapper
from penstock.operators.value_getters import (
    KTableMaterializedValueGetterSupplier,
    KTableValueGetter,
    KTableValueGetterSupplier,
    ParentTable,
)
from penstock.processor import Processor
from penstock.record import Record


class DerivedTableSupplier(Operator):
    """Supplies the processors of a table that is computed from a parent table.

    With a `queryable_name` the table has a store of its own; without, its rows are computed from the parent's on lookup.
    """

    def __init__(self, parent: ParentTable, queryable_name: str | None) -> None:
        self.parent = parent
        self.queryable_name = queryable_name
        self.send_old_values = False

    @abstractmethod
    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Each task gets a processor of its own."""

    @abstractmethod
    def derived_getter(self, parent: KTableValueGetter) -> KTableValueGetter:
        """A getter that computes this table's rows from the parent's."""

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """With an own store the old value is there; without it the parent has to send its own."""
        if self.queryable_name is not None or self.parent.enable_sending_old_values(force_materialization):
            self.send_old_values = True
        return self.send_old_values

    def view(self) -> KTableValueGetterSupplier:
        """How other operators look up this table."""
        if self.queryable_name is not None:
            return KTableMaterializedValueGetterSupplier(self.queryable_name)
        return DerivedValueGetterSupplier(self, self.parent.value_getter_supplier())


class DerivedValueGetterSupplier(KTableValueGetterSupplier):
    """Getters that compute rows from those of the parent table."""

    def __init__(self, supplier: DerivedTableSupplier, parent: KTableValueGetterSupplier) -> None:
        self._supplier = supplier
        self._parent = parent

    def get(self) -> KTableValueGetter:
        return self._supplier.derived_getter(self._parent.get())

    @property
    def store_names(self) -> tuple[str, ...]:
        """The parent's stores."""
        return self._parent.store_names


class DerivedTableProcessor(OperatorProcessor[Any, "Change[Any]", Any, "Change[Any]"]):
    """Takes the store, if there is one, and sends changes on."""

    def __init__(self, queryable_name: str | None, send_old_values: bool) -> None:
        self._queryable_name = queryable_name
        self._send_old_values = send_old_values

    def set_up(self, context: OperatorContext) -> None:
        """Take the store, if there is one."""
        self._context = context
        self._store: KeyValueStoreWrapper | None = None
        if self._queryable_name is not None:
            self._store = KeyValueStoreWrapper(context, self._queryable_name)
            self._forwarder = TimestampedTupleForwarder(
                self._store.store, context, TimestampedCacheFlushListener(context), self._send_old_values
            )

    def _put_and_forward(self, store: KeyValueStoreWrapper, record: Record[Any, Change[Any]], new: Any, old: Any) -> None:
        code = store.put(record.key, new, record.timestamp)
        if code != PUT_RETURN_CODE_NOT_PUT:
            self._forwarder.maybe_forward(record.with_value(Change(new, old, code == PUT_RETURN_CODE_IS_LATEST)))
