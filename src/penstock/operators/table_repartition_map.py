"""KTable.group_by: each change of a row becomes changes of the groups it leaves and joins."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from penstock.batches.batch_processor import Operator
from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.pairs import as_pair
from penstock.operators.store_wrapper import value_or_none
from penstock.operators.types import KeyValuePairMapper
from penstock.operators.value_getters import DerivedValueGetter, KTableValueGetter, KTableValueGetterSupplier, ParentTable
from penstock.processor import Processor
from penstock.record import Record
from penstock.state.store import ValueAndTimestamp

# Members of these versions cannot read a change with both values.
_BEFORE_BOTH_VALUES: Final = frozenset({"2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4"})


class KTableRepartitionMap(Operator):
    """Supplies processors that send a row's old value to its old group and its new value to its new one.

    One change carries both where the group stays; else two, the old group first. With `use_versioned_semantics`
    changes that are older than what the table holds are left out.
    """

    def __init__(self, parent: ParentTable, mapper: KeyValuePairMapper) -> None:
        self.parent = parent
        self.mapper = mapper
        self.use_versioned_semantics = False

    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None:
        """Whether the parent is a versioned table."""
        self.use_versioned_semantics = use_versioned_semantics

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KTableRepartitionMapProcessor(self.mapper, self.use_versioned_semantics)

    def view(self) -> KTableValueGetterSupplier:
        """Rows with their new key, by the old key."""
        return _KTableMapValueGetterSupplier(self.parent.value_getter_supplier(), self.mapper)

    def enable_sending_old_values(self, force_materialization: bool) -> NoReturn:
        """Never asked: the parent always has to send old values."""
        raise StreamsError("KTableRepartitionMap should always require sending old values")


class _KTableRepartitionMapProcessor(OperatorProcessor[Any, Change[Any], Any, Change[Any]]):
    def __init__(self, mapper: KeyValuePairMapper, use_versioned_semantics: bool) -> None:
        self._mapper = mapper
        self._use_versioned_semantics = use_versioned_semantics

    def set_up(self, context: OperatorContext) -> None:
        self._forward = context.forward
        self._both_at_once = context.app_configs.get("upgrade.from") not in _BEFORE_BOTH_VALUES

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, change = record.key, record.value
        if key is None:
            raise StreamsError("the key of a record of a table that is grouped must not be null")
        is_latest = change.is_latest
        if self._use_versioned_semantics and not is_latest:
            return
        new_key, new = self._mapped(key, change.new_value)
        old_key, old = self._mapped(key, change.old_value)
        timestamp, headers = record.timestamp, record.headers
        if self._both_at_once and old is not None and new is not None and old_key == new_key:
            self._forward(Record(new_key, Change(new, old, is_latest), timestamp, headers))
            return
        if old is not None:
            self._forward(Record(old_key, Change(None, old, is_latest), timestamp, headers))
        if new is not None:
            self._forward(Record(new_key, Change(new, None, is_latest), timestamp, headers))

    def _mapped(self, key: Any, value: Any) -> tuple[Any, Any]:
        """The group and the value within it; (None, None) where the row is in no group."""
        if value is None:
            return None, None
        pair = self._mapper(key, value)
        if pair is None:
            return None, None
        group, within = pair if type(pair) is tuple and len(pair) == 2 else as_pair(pair, "group_by")
        return (None, None) if group is None or within is None else (group, within)


class _KTableMapValueGetterSupplier(KTableValueGetterSupplier):
    def __init__(self, parent: KTableValueGetterSupplier, mapper: KeyValuePairMapper) -> None:
        self._parent = parent
        self._mapper = mapper

    def get(self) -> KTableValueGetter:
        return _KTableMapValueGetter(self._parent.get(), self._mapper)

    @property
    def store_names(self) -> tuple[str, ...]:
        raise StreamsError("the table's store cannot be reached after it was repartitioned")


class _KTableMapValueGetter(DerivedValueGetter):
    def __init__(self, parent: KTableValueGetter, mapper: KeyValuePairMapper) -> None:
        super().__init__(parent)
        self._mapper = mapper

    def _derive(self, key: Any, row: Any) -> Any:
        pair = self._mapper(key, value_or_none(row))
        timestamp = _time_of(self._context) if row is None else row.timestamp
        return None if pair is None else ValueAndTimestamp(pair, timestamp)


def _time_of(context: OperatorContext) -> int:
    """The time of the record that asks."""
    assert context.record_context is not None
    return context.record_context.timestamp
