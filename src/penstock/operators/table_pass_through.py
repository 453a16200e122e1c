"""The table of a cogroup: the changes of several aggregations into one store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from penstock.batches.batch_processor import Operator
from penstock.operators.pass_through import PassThrough
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetterSupplier
from penstock.processor import Processor


class _Aggregation(Protocol):
    def enable_sending_old_values(self) -> Any:
        """Ask that changes carry the old value."""
        ...


class KTablePassThrough(Operator):
    """Supplies processors that forward the changes of the aggregations above, which share a store."""

    def __init__(self, parents: Collection[_Aggregation], store_name: str) -> None:
        self.parents = parents
        self.store_name = store_name

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return PassThrough()()

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """All aggregations above send old values from now on."""
        for parent in self.parents:
            parent.enable_sending_old_values()
        return True

    def view(self) -> KTableValueGetterSupplier:
        """Rows are looked up in the shared store."""
        return KTableMaterializedValueGetterSupplier(self.store_name)
