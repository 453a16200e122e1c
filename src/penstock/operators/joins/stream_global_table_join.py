"""The join of a stream with a global table, by a key that is computed from the record."""

from __future__ import annotations

from penstock.batches.batch_processor import Operator
from penstock.operators.joins.stream_table_join import Joiner, KeyMapper, KStreamKTableJoinProcessor
from penstock.operators.value_getters import KTableValueGetterSupplier


class KStreamGlobalKTableJoin(Operator):
    """Makes the processor; `mapper` gives the global table's key for a record."""

    def __init__(
        self, value_getter_supplier: KTableValueGetterSupplier, joiner: Joiner, mapper: KeyMapper, left_join: bool
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.mapper = mapper
        self.left_join = left_join

    def __call__(self) -> KStreamKTableJoinProcessor:
        return KStreamKTableJoinProcessor(self.value_getter_supplier.get(), self.mapper, self.joiner, self.left_join, None)
