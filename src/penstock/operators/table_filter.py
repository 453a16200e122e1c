"""KTable.filter: the rows for which the predicate holds; a row that falls out becomes a deletion."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.operators.store_wrapper import value_or_none
from penstock.operators.table_derived import DerivedTableProcessor, DerivedTableSupplier
from penstock.operators.types import Predicate
from penstock.operators.value_getters import DerivedValueGetter, KTableValueGetter, ParentTable
from penstock.processor import Processor
from penstock.record import Record


class KTableFilter(DerivedTableSupplier):
    """Supplies the processors of a filtered table.

    It takes old values from its parent whenever the parent has them anyway, to save deletions of rows that were never there.
    `use_versioned_semantics` switches that saving off where a versioned table is filtered, whose changes may come late.
    """

    def __init__(self, parent: ParentTable, predicate: Predicate, filter_not: bool, queryable_name: str | None) -> None:
        super().__init__(parent, queryable_name)
        self.predicate = predicate
        self.filter_not = filter_not
        self.use_versioned_semantics = False
        self.send_old_values = parent.enable_sending_old_values(False)

    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None:
        """Whether the parent is a versioned table."""
        self.use_versioned_semantics = use_versioned_semantics

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KTableFilterProcessor(self)

    def derived_getter(self, parent: KTableValueGetter) -> KTableValueGetter:
        """A getter that leaves out the rows for which the predicate does not hold."""
        return _KTableFilterValueGetter(parent, self.predicate, self.filter_not)


class _KTableFilterProcessor(DerivedTableProcessor):
    def __init__(self, supplier: KTableFilter) -> None:
        super().__init__(supplier.queryable_name, supplier.send_old_values)
        self._predicate = supplier.predicate
        self._filter_not = supplier.filter_not
        self._use_versioned_semantics = supplier.use_versioned_semantics

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, change, store = record.key, record.value, self._store
        new = self._kept(key, change.new_value)
        old = None
        if self._send_old_values:
            old = self._kept(key, change.old_value) if store is None else value_or_none(store.get(key))
            if old is None and new is None and not self._use_versioned_semantics:
                return
        if store is None:
            self._context.forward(record.with_value(Change(new, old, change.is_latest)))
        else:
            self._put_and_forward(store, record, new, old)

    def _kept(self, key: Any, value: Any) -> Any:
        if value is not None and (not self._predicate(key, value)) is self._filter_not:
            return value
        return None


class _KTableFilterValueGetter(DerivedValueGetter):
    def __init__(self, parent: KTableValueGetter, predicate: Predicate, filter_not: bool) -> None:
        super().__init__(parent)
        self._predicate = predicate
        self._filter_not = filter_not

    def _derive(self, key: Any, row: Any) -> Any:
        if row is not None and (not self._predicate(key, row.value)) is self._filter_not:
            return row
        return None
