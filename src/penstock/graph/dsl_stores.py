"""Which engine the DSL's stores use: RocksDB, memory, or the user's own choice."""

from __future__ import annotations

import enum
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ConfigError
from penstock.graph.settings import given_settings
from penstock.state.stores import Stores
from penstock.state.value_formats import PLAIN
from penstock.state.windowed_suppliers import SessionSupplier, StoreLayout, WindowSupplier
from penstock.windows import EmitStrategy, StrategyType

DSL_STORE_SUPPLIERS_CLASS = "dsl.store.suppliers.class"
DEFAULT_DSL_STORE = "default.dsl.store"
DSL_STORE_FORMAT = "dsl.store.format"


class DslStoreFormat(enum.Enum):
    """What a store keeps beside each value: nothing, a timestamp, or a timestamp and the headers of the record."""

    PLAIN = "PLAIN"
    TIMESTAMPED = "TIMESTAMPED"
    HEADERS = "HEADERS"


@dataclass(frozen=True)
class DslKeyValueParams:
    """A key-value store the DSL needs."""

    name: str
    store_format: DslStoreFormat = DslStoreFormat.TIMESTAMPED


@dataclass(frozen=True)
class DslWindowParams:
    """A window store the DSL needs; times in milliseconds."""

    name: str
    retention_period: int
    window_size: int
    retain_duplicates: bool = False
    emit_strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)
    is_sliding_window: bool = False
    store_format: DslStoreFormat = DslStoreFormat.TIMESTAMPED


@dataclass(frozen=True)
class DslSessionParams:
    """A session store the DSL needs; times in milliseconds."""

    name: str
    retention_period: int
    emit_strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)
    store_format: DslStoreFormat = DslStoreFormat.PLAIN


class DslStoreSuppliers(ABC):
    """Makes the byte stores of all tables that do not bring their own; must pickle."""

    def configure(self, config: Mapping[str, Any]) -> None:  # noqa: B027  most need no configuration
        """Called once with the application's configuration."""

    @abstractmethod
    def key_value_store(self, params: DslKeyValueParams) -> Any:
        """A supplier of a key-value store."""

    @abstractmethod
    def window_store(self, params: DslWindowParams) -> Any:
        """A supplier of a window store."""

    @abstractmethod
    def session_store(self, params: DslSessionParams) -> Any:
        """A supplier of a session store."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))


class RocksDBDslStoreSuppliers(DslStoreSuppliers):
    """Stores on disk (the default)."""

    def key_value_store(self, params: DslKeyValueParams) -> Any:
        """A key-value store on disk."""
        if params.store_format is DslStoreFormat.PLAIN:
            return Stores.persistent_key_value_store(params.name)
        if params.store_format is DslStoreFormat.HEADERS:
            return Stores.persistent_timestamped_key_value_store_with_headers(params.name)
        return Stores.persistent_timestamped_key_value_store(params.name)

    def window_store(self, params: DslWindowParams) -> Any:
        """A window store on disk; ordered by time first where results are emitted when windows close."""
        if params.emit_strategy.type is StrategyType.ON_WINDOW_CLOSE:
            layout = StoreLayout.TIME_WITH_INDEX if params.is_sliding_window else StoreLayout.TIME
            return WindowSupplier.create(
                params.name, params.retention_period, params.window_size, params.retain_duplicates, layout
            )
        make = {
            DslStoreFormat.PLAIN: Stores.persistent_window_store,
            DslStoreFormat.TIMESTAMPED: Stores.persistent_timestamped_window_store,
            DslStoreFormat.HEADERS: Stores.persistent_timestamped_window_store_with_headers,
        }[params.store_format]
        return make(params.name, params.retention_period, params.window_size, params.retain_duplicates)

    def session_store(self, params: DslSessionParams) -> Any:
        """A session store on disk; ordered by time first where results are emitted when windows close."""
        if params.emit_strategy.type is StrategyType.ON_WINDOW_CLOSE:
            return SessionSupplier.create(params.name, params.retention_period, StoreLayout.TIME_WITH_INDEX)
        if params.store_format is DslStoreFormat.HEADERS:
            return Stores.persistent_session_store_with_headers(params.name, params.retention_period)
        return Stores.persistent_session_store(params.name, params.retention_period)


class InMemoryDslStoreSuppliers(DslStoreSuppliers):
    """Stores in memory."""

    def key_value_store(self, params: DslKeyValueParams) -> Any:
        """A key-value store in memory."""
        return Stores.in_memory_key_value_store(params.name)

    def window_store(self, params: DslWindowParams) -> Any:
        """A window store in memory."""
        return Stores.in_memory_window_store(params.name, params.retention_period, params.window_size, params.retain_duplicates)

    def session_store(self, params: DslSessionParams) -> Any:
        """A session store in memory."""
        return Stores.in_memory_session_store(params.name, params.retention_period)


_BUILT_IN: dict[str, type[DslStoreSuppliers]] = {
    "rocksdb": RocksDBDslStoreSuppliers,
    "in_memory": InMemoryDslStoreSuppliers,
    "rocksdbdslstoresuppliers": RocksDBDslStoreSuppliers,
    "inmemorydslstoresuppliers": InMemoryDslStoreSuppliers,
}


def resolve_dsl_store_suppliers(value: Any, key: str = DSL_STORE_SUPPLIERS_CLASS) -> DslStoreSuppliers:
    """What a caller or a configuration names: an object, its class, its import path, "rocksdb" or "in_memory".

    >>> type(resolve_dsl_store_suppliers("in_memory")).__name__
    'InMemoryDslStoreSuppliers'
    """
    if isinstance(value, DslStoreSuppliers):
        return value
    if isinstance(value, type) and issubclass(value, DslStoreSuppliers):
        return value()
    if isinstance(value, str):
        # Java's own class names work too: org.apache…BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers
        known = _BUILT_IN.get(value.replace("$", ".").rpartition(".")[2].lower())
        if known is not None:
            return known()
        module, _, attribute = value.replace(":", ".").rpartition(".")
        try:
            return resolve_dsl_store_suppliers(getattr(importlib.import_module(module), attribute), key)
        except (ImportError, AttributeError, ValueError) as exc:
            raise ConfigError(_refusal(key, value)) from exc
    raise ConfigError(_refusal(key, value))


def _refusal(key: str, value: Any) -> str:
    return f"{key} = {value!r} does not name stores; allowed are 'rocksdb', 'in_memory', a DslStoreSuppliers or its import path"


def keeps_headers(supplier: Any, store_format: DslStoreFormat) -> bool:
    """Whether the stores of a supplier are to be used with headers.

    Those in memory never are; those in the order of time, for results at window close, go by the format that was asked for.
    """
    if getattr(supplier, "value_format", PLAIN).keeps_headers:
        return True
    is_by_time = isinstance(supplier, WindowSupplier | SessionSupplier) and supplier.layout.is_by_time
    return store_format is DslStoreFormat.HEADERS and is_by_time


def configured_dsl_store_format(config: Mapping[str, Any]) -> DslStoreFormat | None:
    """HEADERS where a configuration asks for it; None leaves each store what it is by default."""
    asked = str(config.get(DSL_STORE_FORMAT) or "").upper() == DslStoreFormat.HEADERS.value
    return DslStoreFormat.HEADERS if asked else None


def configured_dsl_store_suppliers(config: Mapping[str, Any] | None) -> DslStoreSuppliers | None:
    """What a configuration asks for, or None where it says nothing."""
    given = given_settings(config)
    for key in (DSL_STORE_SUPPLIERS_CLASS, DEFAULT_DSL_STORE):
        if given.get(key) is not None:
            suppliers = resolve_dsl_store_suppliers(given[key], key)
            suppliers.configure(given)
            return suppliers
    return None
