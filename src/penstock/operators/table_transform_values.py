"""KTable.transform_values: a table whose values come from a transformer with stores at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators.context import OperatorContext
from penstock.operators.store_wrapper import value_or_none
from penstock.operators.table_derived import DerivedTableProcessor, DerivedTableSupplier
from penstock.operators.value_getters import DerivedValueGetter, KTableValueGetter, ParentTable
from penstock.processor import Processor, ValueTransformerWithKey
from penstock.record import NO_TIMESTAMP, Record, RecordContext
from penstock.state.store import ValueAndTimestamp

TransformerSupplier = Callable[[], ValueTransformerWithKey[Any, Any, Any]]


class ForwardingDisabledContext:
    """A processor's context without `forward`: a transformer gives its result back, so that the key stays."""

    def __init__(self, delegate: Any) -> None:
        self._delegate = delegate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delegate, name)

    def forward(self, *_: Any, **__: Any) -> NoReturn:
        """Not possible here."""
        raise StreamsError(
            "forward() is not possible from a value transformer, which must not change the key: return the value, "
            "or use process()"
        )


class KTableTransformValues(DerivedTableSupplier):
    """Supplies the processors of a table whose values are `transformer.transform(key, value)`, deletions included."""

    def __init__(self, parent: ParentTable, transformer_supplier: TransformerSupplier, queryable_name: str | None) -> None:
        super().__init__(parent, queryable_name)
        self.transformer_supplier = transformer_supplier

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Each task gets a processor of its own, with a transformer of its own."""
        return _KTableTransformValuesProcessor(self.transformer_supplier(), self.queryable_name, self.send_old_values)

    def derived_getter(self, parent: KTableValueGetter) -> KTableValueGetter:
        """A getter that transforms the parent's values."""
        return _KTableTransformValuesGetter(parent, self.transformer_supplier())


class _KTableTransformValuesProcessor(DerivedTableProcessor):
    def __init__(self, transformer: Any, queryable_name: str | None, send_old_values: bool) -> None:
        super().__init__(queryable_name, send_old_values)
        self._transformer = transformer

    def set_up(self, context: OperatorContext) -> None:
        self._transformer.init(ForwardingDisabledContext(context))
        super().set_up(context)
        self._transform = self._transformer.transform

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, change, store = record.key, record.value, self._store
        new = self._transform(key, change.new_value)
        if store is not None:
            old = value_or_none(store.get(key)) if self._send_old_values else None
            self._put_and_forward(store, record, new, old)
        else:
            old = self._transform(key, change.old_value) if self._send_old_values else None
            self._context.forward(record.with_value(Change(new, old, change.is_latest)))

    def close(self) -> None:
        self._transformer.close()


class _KTableTransformValuesGetter(DerivedValueGetter):
    def __init__(self, parent: KTableValueGetter, transformer: Any) -> None:
        super().__init__(parent)
        self._transformer = transformer

    def init(self, context: OperatorContext) -> None:
        super().init(context)
        self._transformer.init(ForwardingDisabledContext(context))

    def _derive(self, key: Any, row: Any) -> Any:
        context = self._context
        timestamp = NO_TIMESTAMP if row is None else row.timestamp
        # The transformer sees the time of the row that is looked up, not that of the record that asks for it.
        with context.at(context.current_node, RecordContext(timestamp, -1, -1, None)):
            value = self._transformer.transform(key, value_or_none(row))
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def close(self) -> None:
        super().close()
        self._transformer.close()
