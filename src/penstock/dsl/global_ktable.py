"""`GlobalKTable`: a table of which every instance has all keys."""

from __future__ import annotations

from typing import Any, Generic

from penstock.dsl.typevars import K, V
from penstock.java_names import JavaNames


class GlobalKTable(JavaNames, Generic[K, V]):
    """A table kept in full by every instance, to be joined with streams of any partitioning."""

    def __init__(self, value_getter_supplier: Any, queryable_store_name: str | None) -> None:
        self._value_getter_supplier = value_getter_supplier
        self._queryable_store_name = queryable_store_name

    @property
    def queryable_store_name(self) -> str | None:
        """The name of the table's store, for queries."""
        return self._queryable_store_name

    def __repr__(self) -> str:
        return f"GlobalKTable({self._queryable_store_name!r})"
