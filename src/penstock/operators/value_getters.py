"""How an operator looks up a row of a table it does not keep itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from penstock.errors import StreamsError
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.store_wrapper import KeyValueStoreWrapper
from penstock.state.store import ValueAndTimestamp

_UNCHANGEABLE = frozenset({str, bytes, int, float, bool})


class KTableValueGetter(ABC):
    """Looks up rows, within one task."""

    @abstractmethod
    def init(self, context: OperatorContext) -> None:
        """Take what is needed from the processor's context."""

    @abstractmethod
    def get(self, key: Any, as_of: int | None = None) -> Any:
        """The row with its timestamp (`value`, `timestamp`) or None; `as_of` a time only where `is_versioned`."""

    @property
    @abstractmethod
    def is_versioned(self) -> bool:
        """Whether earlier versions of a row can be asked for."""

    def get_rows(self, keys: list[Any], *, shared: bool = False) -> dict[Any, Any] | None:
        """What `get` gives for many keys, read at once; None where they have to be asked for one by one.

        That is where a function that gets the same object twice could tell, unless they are `shared`: then nobody changes them.
        """
        return None

    def get_each(self, keys: Sequence[Any]) -> list[Any] | None:
        """What `get` gives for each key, made for it alone, read at once; None where they have to be asked for one by one."""
        return None

    def close(self) -> None:  # noqa: B027  most getters hold nothing
        """Release what `init` took."""


class KTableValueGetterSupplier(ABC):
    """Makes value getters, and knows the stores they read."""

    @abstractmethod
    def get(self) -> KTableValueGetter:
        """Each processor that looks rows up gets a getter of its own."""

    @property
    @abstractmethod
    def store_names(self) -> tuple[str, ...]:
        """The stores a processor that uses the getter must be connected to."""


@runtime_checkable
class KTableProcessorSupplier(Protocol):
    """A supplier of a table's processors."""

    def __call__(self) -> Any: ...

    def view(self) -> KTableValueGetterSupplier:
        """How other operators look up this table."""
        ...

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Ask that changes carry the old value; False where that would need a store nobody has forced."""
        ...


class ParentTable(Protocol):
    """A table as the operators on it see it."""

    def value_getter_supplier(self) -> KTableValueGetterSupplier:
        """How its rows are looked up."""
        ...

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Ask that its changes carry the old value."""
        ...


class KTableStoreValueGetter(KTableValueGetter):
    """Looks up rows in a table's store."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def init(self, context: OperatorContext) -> None:
        self._store = KeyValueStoreWrapper(context, self._store_name)

    def get_rows(self, keys: list[Any], *, shared: bool = False) -> dict[Any, Any] | None:
        """The rows of many keys."""
        table = self._store.store
        if not keys or not table.takes_table_rows:
            return None
        distinct = DistinctKeys(keys, table.raw_keys)
        if distinct.identities is not keys:
            return None
        rows = table.rows_of(distinct.raw)
        if not shared and not _UNCHANGEABLE.issuperset(type(row[0]) for row in rows if row is not None):
            return None
        return {key: ValueAndTimestamp(*row) for key, row in zip(distinct.distinct, rows) if row is not None}

    def get_each(self, keys: Sequence[Any]) -> list[Any] | None:
        """The row of each key, made for it alone."""
        table = self._store.store
        if not table.takes_table_rows:
            return None
        return [None if row is None else ValueAndTimestamp(*row) for row in table.rows_of(table.raw_keys(keys))]

    def get(self, key: Any, as_of: int | None = None) -> Any:
        if as_of is None:
            return self._store.get(key)
        if not self._store.is_versioned_store:
            raise StreamsError(f"store {self._store_name} keeps no versions: get(key, as_of) needs a versioned store")
        return self._store.get(key, as_of)

    @property
    def is_versioned(self) -> bool:
        """Whether the store is versioned."""
        return self._store.is_versioned_store


class KTableMaterializedValueGetterSupplier(KTableValueGetterSupplier):
    """Getters that read a table's own store; `getter` makes one for a kind of store that is not a plain table's."""

    def __init__(self, store_name: str, getter: Callable[[str], KTableValueGetter] = KTableStoreValueGetter) -> None:
        self._store_name = store_name
        self._getter = getter

    def get(self) -> KTableValueGetter:
        return self._getter(self._store_name)

    @property
    def store_names(self) -> tuple[str, ...]:
        """The table's store."""
        return (self._store_name,)


class DerivedValueGetter(KTableValueGetter):
    """Computes rows from those of the table above; subclasses implement `_derive`."""

    def __init__(self, parent: KTableValueGetter) -> None:
        self._parent = parent

    def init(self, context: OperatorContext) -> None:
        """Prepare the getter of the table above."""
        self._context = context
        self._parent.init(context)

    def get(self, key: Any, as_of: int | None = None) -> Any:
        return self._derive(key, self._parent.get(key) if as_of is None else self._parent.get(key, as_of))

    @abstractmethod
    def _derive(self, key: Any, row: Any) -> Any:
        """The row that becomes of the parent's."""

    @property
    def is_versioned(self) -> bool:
        """Whether the table above is versioned."""
        return self._parent.is_versioned

    def close(self) -> None:
        """Close the getter of the table above."""
        self._parent.close()
