"""KTable.map_values: a table with other values."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.operators.store_wrapper import value_or_none
from penstock.operators.table_derived import DerivedTableProcessor, DerivedTableSupplier
from penstock.operators.types import ValueMapperWithKey
from penstock.operators.value_getters import DerivedValueGetter, KTableValueGetter, ParentTable
from penstock.processor import Processor
from penstock.record import Record
from penstock.state.store import ValueAndTimestamp


class KTableMapValues(DerivedTableSupplier):
    """Supplies the processors of a table whose values are `mapper(key, value)`; deletions stay deletions."""

    def __init__(self, parent: ParentTable, mapper: ValueMapperWithKey, queryable_name: str | None) -> None:
        super().__init__(parent, queryable_name)
        self.mapper = mapper

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KTableMapValuesProcessor(self.mapper, self.queryable_name, self.send_old_values)

    def derived_getter(self, parent: KTableValueGetter) -> KTableValueGetter:
        """A getter that maps the parent's values."""
        return _KTableMapValuesValueGetter(parent, self.mapper)


class _KTableMapValuesProcessor(DerivedTableProcessor):
    def __init__(self, mapper: ValueMapperWithKey, queryable_name: str | None, send_old_values: bool) -> None:
        super().__init__(queryable_name, send_old_values)
        self._mapper = mapper

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, change, store = record.key, record.value, self._store
        new = None if change.new_value is None else self._mapper(key, change.new_value)
        if store is not None:
            old = value_or_none(store.get(key)) if self._send_old_values else None
            self._put_and_forward(store, record, new, old)
            return
        old = self._mapper(key, change.old_value) if self._send_old_values and change.old_value is not None else None
        self._context.forward(record.with_value(Change(new, old, change.is_latest)))


class _KTableMapValuesValueGetter(DerivedValueGetter):
    def __init__(self, parent: KTableValueGetter, mapper: ValueMapperWithKey) -> None:
        super().__init__(parent)
        self._mapper = mapper

    def _derive(self, key: Any, row: Any) -> Any:
        if row is None:
            return None
        value = self._mapper(key, row.value)
        return None if value is None else ValueAndTimestamp(value, row.timestamp)
