"""From `Materialized` to store builders: the stores of tables.

A builder here decides late: the engine may come from the application's configuration, which is known only after the
topology is built, and whether a store is cached or logged may still change until then.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from penstock.errors import TopologyError
from penstock.graph.dsl_stores import (
    DslKeyValueParams,
    DslSessionParams,
    DslStoreFormat,
    DslStoreSuppliers,
    DslWindowParams,
    RocksDBDslStoreSuppliers,
    configured_dsl_store_format,
    configured_dsl_store_suppliers,
    keeps_headers,
    resolve_dsl_store_suppliers,
)
from penstock.graph.resources import GraphNames
from penstock.state.store import StoreBuilder
from penstock.state.stores import Stores
from penstock.state.windowed_suppliers import VersionedBytesStoreSupplier
from penstock.windows import EmitStrategy, SessionWindows, SlidingWindows, StrategyType, Windows

_log = logging.getLogger(__name__)


class MaterializedOptions(Protocol):
    """What the user says of a table's store."""

    @property
    def store_name(self) -> str | None: ...
    @property
    def key_serde(self) -> Any: ...
    @property
    def value_serde(self) -> Any: ...
    @property
    def supplier(self) -> Any: ...
    @property
    def store_type(self) -> Any: ...
    @property
    def caching(self) -> bool: ...
    @property
    def logging(self) -> bool: ...
    @property
    def topic_config(self) -> Mapping[str, Any]: ...
    @property
    def retention_ms(self) -> int | None: ...


class MaterializedStore:
    """The options of one table's store, completed by the operator that keeps it: name and serdes."""

    def __init__(
        self,
        options: MaterializedOptions,
        names: GraphNames | None = None,
        generated_prefix: str = "",
        config: Mapping[str, Any] | None = None,
        force_queryable: bool = False,
    ) -> None:
        self.supplier = options.supplier
        self.key_serde = options.key_serde
        self.value_serde = options.value_serde
        self.logging = options.logging
        self.caching = options.caching
        self.topic_config = dict(options.topic_config)
        self.retention_ms = options.retention_ms
        self._given_name: str | None = options.store_name if self.supplier is None else self.supplier.name
        self._generated_name: str | None = None
        self.is_queryable = force_queryable or self._given_name is not None
        if options.store_type is not None:
            self.suppliers: DslStoreSuppliers | None = resolve_dsl_store_suppliers(options.store_type, "store_type")
        else:
            self.suppliers = configured_dsl_store_suppliers(config)
        if self._given_name is None and names is not None:
            self._generated_name = names.new_store_name(generated_prefix)
            names.note_implicit_store(self._generated_name, self.logging)

    @property
    def store_name(self) -> str:
        """The store's name, given or generated."""
        name = self._given_name or self._generated_name
        if name is None:
            raise TopologyError("a table that is not materialized has no store name")
        return name

    @property
    def queryable_store_name(self) -> str | None:
        """The store's name where the user may query it."""
        return self.store_name if self.is_queryable else None

    @property
    def is_versioned(self) -> bool:
        """Whether the store keeps old versions of its values."""
        return isinstance(self.supplier, VersionedBytesStoreSupplier)

    def default_key_serde(self, key_serde: Any) -> None:
        """Use this key serde where the user gave none."""
        if self.key_serde is None:
            self.key_serde = key_serde

    def default_value_serde(self, value_serde: Any) -> None:
        """Use this value serde where the user gave none."""
        if self.value_serde is None:
            self.value_serde = value_serde

    def set_serdes(self, key_serde: Any, value_serde: Any) -> None:
        """Use these serdes, whatever the user gave."""
        self.key_serde, self.value_serde = key_serde, value_serde


class DslStoreBuilder(StoreBuilder[Any]):
    """A store builder that stacks the store only when it is built."""

    _default_format = DslStoreFormat.TIMESTAMPED

    def __init__(
        self, name: str, suppliers: DslStoreSuppliers | None, logged: bool, cached: bool, log_config: dict[str, str]
    ) -> None:
        super().__init__(name)
        self._suppliers = suppliers
        self._enable_logging = logged
        self._enable_caching = cached
        self._log_config = {key: str(value) for key, value in log_config.items()}
        self._format = self._default_format

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take the engine from the application's configuration, unless the user chose one here, and the format."""
        if self._suppliers is None:
            self._suppliers = configured_dsl_store_suppliers(config)
        self._format = configured_dsl_store_format(config) or self._default_format

    def _engines(self) -> DslStoreSuppliers:
        return self._suppliers or RocksDBDslStoreSuppliers()

    @abstractmethod
    def _builder(self) -> StoreBuilder[Any]:
        """The builder of the store, without logging and caching set."""

    def chosen(self) -> StoreBuilder[Any]:
        """The builder of the engine and format that were chosen, for those who read the store."""
        return self._builder()

    def build(self) -> Any:
        builder = self._builder()
        builder = builder.with_logging_enabled(self._log_config) if self._enable_logging else builder.with_logging_disabled()
        builder = builder.with_caching_enabled() if self._enable_caching else builder.with_caching_disabled()
        return builder.build()


class _MaterializedBuilder(DslStoreBuilder):
    def __init__(self, materialized: MaterializedStore, caching: bool | None = None) -> None:
        super().__init__(
            materialized.store_name,
            materialized.suppliers,
            materialized.logging,
            materialized.caching if caching is None else caching,
            materialized.topic_config,
        )
        self._supplier = materialized.supplier
        self._key_serde = materialized.key_serde
        self._value_serde = materialized.value_serde


class KeyValueStoreMaterializer(_MaterializedBuilder):
    """The store of a table without windows."""

    def __init__(self, materialized: MaterializedStore) -> None:
        supplier = materialized.supplier
        versioned = isinstance(supplier, VersionedBytesStoreSupplier)
        self.history_retention = supplier.history_retention_ms if versioned else None
        super().__init__(materialized, caching=materialized.caching and not materialized.is_versioned)
        if materialized.is_versioned and materialized.caching:
            _log.info("Not enabling caching for store '%s' as versioned stores do not support caching.", self.name)

    def _builder(self) -> StoreBuilder[Any]:
        if self.history_retention is not None:
            return Stores.versioned_key_value_store_builder(self._supplier, self._key_serde, self._value_serde)
        supplier = self._supplier or self._engines().key_value_store(DslKeyValueParams(self.name, self._format))
        if keeps_headers(supplier, self._format):
            return Stores.timestamped_key_value_store_with_headers_builder(supplier, self._key_serde, self._value_serde)
        return Stores.timestamped_key_value_store_builder(supplier, self._key_serde, self._value_serde)


class _WindowedMaterializer(_MaterializedBuilder):
    def __init__(
        self, materialized: MaterializedStore, needed_ms: int, needed: str, emit_strategy: EmitStrategy, caching: bool
    ) -> None:
        super().__init__(materialized, caching)
        self._emit_strategy = emit_strategy
        self.retention_period = self._retention_ms = needed_ms if materialized.retention_ms is None else materialized.retention_ms
        if needed_ms > self._retention_ms:
            raise TopologyError(
                f"the retention of the store {self.name} must be no smaller than {needed} "
                f"= {needed_ms} ms, but it is {self._retention_ms} ms"
            )

    def _window_store_builder(self, supplier: Any) -> StoreBuilder[Any]:
        if keeps_headers(supplier, self._format):
            return Stores.timestamped_window_store_with_headers_builder(supplier, self._key_serde, self._value_serde)
        return Stores.timestamped_window_store_builder(supplier, self._key_serde, self._value_serde)


class WindowStoreMaterializer(_WindowedMaterializer):
    """The store of a table with time windows."""

    def __init__(self, materialized: MaterializedStore, windows: Windows, emit_strategy: EmitStrategy) -> None:
        needed_ms = windows.size + windows.grace_period_ms
        super().__init__(materialized, needed_ms, "the windows' size plus the grace period", emit_strategy, materialized.caching)
        self._window_size = windows.size

    def _builder(self) -> StoreBuilder[Any]:
        supplier = self._supplier or self._engines().window_store(
            DslWindowParams(
                self.name,
                self._retention_ms,
                self._window_size,
                emit_strategy=self._emit_strategy,
                store_format=self._format,
            )
        )
        return self._window_store_builder(supplier)


class SlidingWindowStoreMaterializer(_WindowedMaterializer):
    """The store of a table with sliding windows; final results are not cached.

    It keeps twice the time difference: to make the window that follows a record's, the earlier ones are read.
    """

    def __init__(self, materialized: MaterializedStore, windows: SlidingWindows, emit_strategy: EmitStrategy) -> None:
        needed_ms = 2 * windows.time_difference_ms + windows.grace_period_ms
        caching = materialized.caching and emit_strategy.type is not StrategyType.ON_WINDOW_CLOSE
        super().__init__(materialized, needed_ms, "2 * time difference plus the grace period", emit_strategy, caching)
        self._window_size = windows.time_difference_ms

    def _builder(self) -> StoreBuilder[Any]:
        supplier = self._supplier or self._engines().window_store(
            DslWindowParams(
                self.name,
                self._retention_ms,
                self._window_size,
                emit_strategy=self._emit_strategy,
                is_sliding_window=True,
                store_format=self._format,
            )
        )
        return self._window_store_builder(supplier)


class SessionStoreMaterializer(_WindowedMaterializer):
    """The store of a table with sessions; final results are not cached."""

    _default_format = DslStoreFormat.PLAIN

    def __init__(self, materialized: MaterializedStore, windows: SessionWindows, emit_strategy: EmitStrategy) -> None:
        needed_ms = windows.inactivity_gap_ms + windows.grace_period_ms
        caching = materialized.caching and emit_strategy.type is not StrategyType.ON_WINDOW_CLOSE
        super().__init__(materialized, needed_ms, "the inactivity gap plus the grace period", emit_strategy, caching)

    def _builder(self) -> StoreBuilder[Any]:
        supplier = self._supplier or self._engines().session_store(
            DslSessionParams(self.name, self._retention_ms, self._emit_strategy, self._format)
        )
        if keeps_headers(supplier, self._format):
            return Stores.session_store_with_headers_builder(supplier, self._key_serde, self._value_serde)
        return Stores.session_store_builder(supplier, self._key_serde, self._value_serde)
