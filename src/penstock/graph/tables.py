"""What operators know of the table above them."""

from __future__ import annotations

from typing import Any

from penstock.operators import KTableMaterializedValueGetterSupplier, KTableSource, KTableValueGetterSupplier


class TableParent:
    """A table as its operators see it: where its values can be looked up, and whether it sends old values.

    It knows the processor that keeps the table, but not the graph: it goes to the workers with the operators.
    """

    def __init__(self, node_name: str, supplier: Any) -> None:
        self.node_name = node_name
        self.supplier = supplier
        self._sends_old_values = False

    def value_getter_supplier(self) -> KTableValueGetterSupplier:
        """How to look up the table's current values; a table that is only a topic so far gets its store."""
        if isinstance(self.supplier, KTableSource):
            self.supplier.materialize()
            return KTableMaterializedValueGetterSupplier(self.supplier.store_name)
        getters: KTableValueGetterSupplier = self.supplier.view()
        return getters

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Ask that changes carry the old value as well; False where that would need a store nobody has forced."""
        if self._sends_old_values:
            return True
        if isinstance(self.supplier, KTableSource):
            if not force_materialization and not self.supplier.materialized:
                return False
            self.supplier.enable_sending_old_values()
        elif not self.supplier.enable_sending_old_values(force_materialization):
            return False
        self._sends_old_values = True
        return True
