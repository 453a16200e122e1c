"""What the joins of two tables have in common: one side of it, and the view of its result.

A change of one table looks up the other's row of the same key. The result's time is the higher of both rows'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.change_column import ChangeColumn
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.skipped import skip_out_of_order, skip_record
from penstock.operators.value_getters import KTableValueGetter, KTableValueGetterSupplier
from penstock.record import Record
from penstock.state.store import ValueAndTimestamp

Joiner = Callable[[Any, Any, Any], Any]

Row = ValueAndTimestamp[Any]


class JoinResult(NamedTuple):
    """The joined values before and after a change, and the time of the result."""

    new_value: Any
    old_value: Any
    timestamp: int


class KTableKTableAbstractJoin(Operator, ABC):
    """Makes the processor of one side: changes of `table1` meet rows of `table2`; `joiner` takes the key and both values."""

    def __init__(self, table1: Any, table2: Any, joiner: Joiner) -> None:
        self._table1 = table1
        self._table2 = table2
        self.joiner = joiner
        self.value_getter_supplier1 = table1.value_getter_supplier()
        self.value_getter_supplier2 = table2.value_getter_supplier()
        self.join_this_parent_node_name: str = table1.node_name
        self.use_versioned_semantics = False
        self.send_old_values = False

    def __call__(self) -> KTableKTableJoinProcessor:
        return KTableKTableJoinProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send old values; both tables must be kept for that."""
        self._table1.enable_sending_old_values(True)
        self._table2.enable_sending_old_values(True)
        self.send_old_values = True
        return True

    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None:
        """Whether changes older than what `table1` holds are to be dropped."""
        self.use_versioned_semantics = use_versioned_semantics

    def view(self) -> KTableKTableJoinValueGetterSupplier:
        """The result as a table, joined when it is asked for."""
        return KTableKTableJoinValueGetterSupplier(self, self.value_getter_supplier1, self.value_getter_supplier2)

    @abstractmethod
    def join_change(self, key: Any, change: Change[Any], timestamp: int, row: Row | None) -> JoinResult | None:
        """What a change becomes with the other table's row; None where nothing changes."""

    @abstractmethod
    def join_rows(self, key: Any, row1: Row | None, row2: Row | None) -> Row | None:
        """The joined row; None where there is none."""


class KTableKTableJoinProcessor(BatchProcessor, OperatorProcessor[Any, "Change[Any]", Any, "Change[Any]"]):
    """Joins the changes of one table."""

    def __init__(self, supplier: KTableKTableAbstractJoin) -> None:
        self._join_change = supplier.join_change
        self._send_old_values = supplier.send_old_values
        self._use_versioned_semantics = supplier.use_versioned_semantics
        self._value_getter = supplier.value_getter_supplier2.get()

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the other table's value getter."""
        self._context = context
        self._forward = context.forward
        self._value_getter.init(context)
        self._get = self._value_getter.get
        self.takes_batches = not self._use_versioned_semantics

    def process(self, record: Record[Any, Change[Any]]) -> None:
        """Join one change."""
        key = record.key
        if key is None:
            skip_record(self._context, "null key")
            return
        is_latest = record.value.is_latest
        if self._use_versioned_semantics and not is_latest:
            skip_out_of_order(self._context)
            return
        result = self._join_change(key, record.value, record.timestamp, self._get(key))
        if result is not None:
            change = Change(result.new_value, result.old_value, is_latest)
            self._forward(Record(key, change, result.timestamp, record.headers))

    def process_batch(self, batch: RecordBatch) -> None:
        """Join many changes; the other table's rows are read at once where it has them in a store."""
        context, join_change, get = self._context, self._join_change, self._get
        rows = None if None in batch.keys else self._value_getter.get_each(batch.keys)
        done, news, olds, timestamps = list[int](), list[Any](), list[Any](), list[int]()
        for number, (key, change, timestamp) in enumerate(zip(batch.keys, batch.values, batch.timestamps)):
            try:
                if key is None:
                    context.enter_row(batch, number)
                    skip_record(context, "null key")
                    continue
                result = join_change(key, change, timestamp, get(key) if rows is None else rows[number])
                if result is not None:
                    done.append(number)
                    news.append(result.new_value)
                    olds.append(result.old_value)
                    timestamps.append(result.timestamp)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(batch, number, exc)
        joined = batch if len(done) == len(batch) else batch.take(done)
        changes = ChangeColumn(news, olds if self._send_old_values else None)
        context.forward_batch(RecordBatch(joined.keys, changes, timestamps, joined.headers, joined.origin, joined.sources))

    def close(self) -> None:
        self._value_getter.close()


class KTableKTableJoinValueGetterSupplier(KTableValueGetterSupplier):
    """Gives access to the join of two tables."""

    def __init__(
        self,
        join: KTableKTableAbstractJoin,
        getter_supplier1: KTableValueGetterSupplier,
        getter_supplier2: KTableValueGetterSupplier,
    ) -> None:
        self._join = join
        self._getter_supplier1 = getter_supplier1
        self._getter_supplier2 = getter_supplier2

    @property
    def store_names(self) -> tuple[str, ...]:
        return union_of_names(self._getter_supplier1.store_names, self._getter_supplier2.store_names)

    def get(self) -> KTableKTableJoinValueGetter:
        return KTableKTableJoinValueGetter(self._join.join_rows, self._getter_supplier1.get(), self._getter_supplier2.get())


class KTableKTableJoinValueGetter(KTableValueGetter):
    """Looks up both rows and joins them; the join of versioned tables is not versioned."""

    is_versioned = False

    def __init__(
        self,
        join_rows: Callable[[Any, Row | None, Row | None], Row | None],
        getter1: KTableValueGetter,
        getter2: KTableValueGetter,
    ) -> None:
        self._join_rows = join_rows
        self._getter1 = getter1
        self._getter2 = getter2

    def init(self, context: OperatorContext) -> None:
        """Open both getters."""
        self._getter1.init(context)
        self._getter2.init(context)

    def get(self, key: Any, as_of: int | None = None) -> Row | None:
        return self._join_rows(key, self._getter1.get(key), self._getter2.get(key))

    def close(self) -> None:
        """Close both getters."""
        self._getter1.close()
        self._getter2.close()


def union_of_names(first: Any, second: Any) -> tuple[str, ...]:
    """Names of both, each once, in the order they come in."""
    return tuple(dict.fromkeys((*first, *second)))


def value_of(row: Row | None) -> Any:
    """The value of a row; None where there is none."""
    return None if row is None else row.value
