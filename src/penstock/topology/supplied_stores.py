"""The stores that a supplier of processors brings along: Kafka Streams' ConnectedStoreProvider."""

from __future__ import annotations

from functools import partial
from types import FunctionType, MethodType
from typing import Any

from penstock.state.store import StoreBuilder
from penstock.topology.specs import ProcessorSupplier


def stores_of(supplier: ProcessorSupplier, original: ProcessorSupplier | None = None) -> list[StoreBuilder[Any]]:
    """The `stores` of a supplier, or of what it wraps, or of the class whose processors a function or a partial makes.

    >>> class Counter:
    ...     stores = ["a builder"]
    >>> stores_of(Counter), stores_of(lambda: Counter())
    (['a builder'], ['a builder'])
    """
    for candidate in (supplier, original):
        if candidate is None:
            continue
        stores = getattr(candidate, "stores", None)
        if stores is None and isinstance(candidate, (FunctionType, MethodType, partial)):
            stores = getattr(type(candidate()), "stores", None)
        if isinstance(stores, (list, tuple, set, frozenset)) and stores:
            return list(stores)
    return []
