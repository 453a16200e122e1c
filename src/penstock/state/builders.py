"""Store builders: the only place where the layers of a store are stacked, `metered(caching(logged(engine)))`."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from penstock.serdes.arguments import is_type
from penstock.serdes.serde import Serdes
from penstock.state.capabilities import innermost, is_versioned
from penstock.state.layers.cached_key_value import CachingKeyValueStore
from penstock.state.layers.cached_session import CachingSessionStore
from penstock.state.layers.cached_time_ordered_window import TimeOrderedCachingWindowStore, find_time_ordered_store
from penstock.state.layers.cached_window import CachingWindowStore
from penstock.state.layers.converted import ConvertedKeyValueStore, ConvertedSessionStore, ConvertedValues, ConvertedWindowStore
from penstock.state.layers.custom import directed
from penstock.state.layers.list_value import ChangeLoggingListValueStore, ListValueStore, MeteredListValueStore
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.logged_session import ChangeLoggingSessionStore
from penstock.state.layers.logged_versioned import ChangeLoggingVersionedStore
from penstock.state.layers.logged_window import ChangeLoggingWindowStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore
from penstock.state.layers.metered_session import MeteredSessionStore
from penstock.state.layers.metered_versioned import MeteredVersionedStore
from penstock.state.layers.metered_window import MeteredWindowStore
from penstock.state.store import StateStore, StoreBuilder
from penstock.state.suppliers import KeyValueBytesStoreSupplier, StoreSupplier
from penstock.state.value_formats import PLAIN, ValueFormat, format_of
from penstock.state.windowed_suppliers import (
    SessionBytesStoreSupplier,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
)

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=StoreSupplier)


class AbstractStoreBuilder(StoreBuilder[Any], Generic[S]):
    """What the builders of `Stores` share: supplier, serdes, value format and layers.

    A subclass says how each layer is made (`_logged`, `_cached`, `_metered`); `build` stacks them.
    """

    _converted: ClassVar[type[ConvertedValues]]

    def __init__(self, supplier: S, key_serde: Any, value_serde: Any, value_format: ValueFormat = PLAIN) -> None:
        super().__init__(_checked(supplier).name)
        self._supplier = supplier
        self._key_serde = Serdes.serde_from(key_serde) if is_type(key_serde) else key_serde
        self._value_serde = Serdes.serde_from(value_serde) if is_type(value_serde) else value_serde
        self._format = value_format

    @property
    def supplier(self) -> S:
        """The supplier of the engine."""
        return self._supplier

    @property
    def key_serde(self) -> Any:
        """The key serde the builder was given, or None for the default one."""
        return self._key_serde

    @property
    def value_serde(self) -> Any:
        """The value serde the builder was given, or None for the default one."""
        return self._value_serde

    @property
    def value_format(self) -> ValueFormat:
        """What the store keeps with each value."""
        return self._format

    def build(self) -> Any:
        store = self._engine()
        if self._enable_logging:
            store = self._logged(store)
        if self._enable_caching:
            store = self._cached(store)
        return self._metered(store)

    def build_engine(self) -> Any:
        """Return the byte-level store alone, not opened yet; readers beside a running task open it."""
        return self._engine()

    def build_reader(self, engine: Any) -> Any:
        """Return the typed layer over an engine, without cache and changelog; queries read through it."""
        return self._metered(engine)

    def _engine(self) -> Any:
        engine = directed(self._supplier.get())
        if self._format is PLAIN or format_of(engine) is self._format:
            return engine
        if engine.persistent:
            return self._converted(engine, format_of(engine), self._format)
        innermost(engine).value_format = self._format
        return engine

    @abstractmethod
    def _logged(self, inner: StateStore) -> StateStore:
        """Return the change-logging layer."""

    @abstractmethod
    def _cached(self, inner: StateStore) -> StateStore:
        """Return the caching layer."""

    @abstractmethod
    def _metered(self, inner: StateStore) -> StateStore:
        """Return the typed layer on top."""


class KeyValueStoreBuilder(AbstractStoreBuilder[KeyValueBytesStoreSupplier]):
    """Builds key-value stores."""

    _converted = ConvertedKeyValueStore

    def _logged(self, inner: StateStore) -> StateStore:
        return ChangeLoggingKeyValueStore(inner, self._format)

    def _cached(self, inner: StateStore) -> StateStore:
        return CachingKeyValueStore(inner)

    def _metered(self, inner: StateStore) -> StateStore:
        return MeteredKeyValueStore(inner, self._format, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class ListValueStoreBuilder(KeyValueStoreBuilder):
    """Builds key-value stores that keep all values put under a key, for outer joins."""

    def _engine(self) -> Any:
        return ListValueStore(super()._engine())

    def _logged(self, inner: StateStore) -> StateStore:
        return ChangeLoggingListValueStore(inner, self._format)

    def _metered(self, inner: StateStore) -> StateStore:
        return MeteredListValueStore(inner, self._format, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class WindowStoreBuilder(AbstractStoreBuilder[WindowBytesStoreSupplier]):
    """Builds window stores."""

    _converted = ConvertedWindowStore

    def __init__(
        self, supplier: WindowBytesStoreSupplier, key_serde: Any, value_serde: Any, value_format: ValueFormat = PLAIN
    ) -> None:
        super().__init__(supplier, key_serde, value_serde, value_format)
        self.retention_period = supplier.retention_period
        if supplier.retain_duplicates and value_format is PLAIN:
            # Sequence numbers start again some day: compaction would then take one value for a newer version of another.
            self._log_config["cleanup.policy"] = "delete"

    def build(self) -> Any:
        if self._supplier.retain_duplicates and self._enable_caching:
            _log.warning("Disabling caching for %s since store was configured to retain duplicates", self._name)
            self._enable_caching = False
        return super().build()

    def _logged(self, inner: StateStore) -> StateStore:
        return ChangeLoggingWindowStore(inner, self._format, self._supplier.retain_duplicates)

    def _cached(self, inner: StateStore) -> StateStore:
        supplier = self._supplier
        in_time_order = self._format is not PLAIN and find_time_ordered_store(inner) is not None
        layer = TimeOrderedCachingWindowStore if in_time_order else CachingWindowStore
        return layer(inner, supplier.window_size, supplier.segment_interval_ms)

    def _metered(self, inner: StateStore) -> StateStore:
        supplier = self._supplier
        return MeteredWindowStore(
            inner, self._format, supplier.window_size, supplier.metrics_scope, self._key_serde, self._value_serde
        )


class SessionStoreBuilder(AbstractStoreBuilder[SessionBytesStoreSupplier]):
    """Builds session stores."""

    _converted = ConvertedSessionStore

    def __init__(
        self, supplier: SessionBytesStoreSupplier, key_serde: Any, value_serde: Any, value_format: ValueFormat = PLAIN
    ) -> None:
        super().__init__(supplier, key_serde, value_serde, value_format)
        self.retention_period = supplier.retention_period

    def _logged(self, inner: StateStore) -> StateStore:
        return ChangeLoggingSessionStore(inner, self._format)

    def _cached(self, inner: StateStore) -> StateStore:
        return CachingSessionStore(inner, self._supplier.segment_interval_ms)

    def _metered(self, inner: StateStore) -> StateStore:
        return MeteredSessionStore(inner, self._format, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class VersionedKeyValueStoreBuilder(AbstractStoreBuilder[VersionedBytesStoreSupplier]):
    """Builds versioned stores, which cannot be cached."""

    @property
    def history_retention(self) -> int:  # type: ignore[override]  # asked for late: what the supplier gives is checked first
        """How long older versions are kept, in milliseconds."""
        return self._supplier.history_retention_ms

    def with_caching_enabled(self) -> NoReturn:
        """Not supported."""
        raise RuntimeError(f"Versioned stores do not support caching: leave it off for store {self._name}")

    def _engine(self) -> Any:
        store = self._supplier.get()
        if not is_versioned(store):
            raise RuntimeError(f"the supplier of versioned store {self._name} gave a store that is not versioned: {store!r}")
        return store

    def _logged(self, inner: StateStore) -> StateStore:
        return ChangeLoggingVersionedStore(inner)

    def _cached(self, inner: StateStore) -> NoReturn:
        self.with_caching_enabled()

    def _metered(self, inner: StateStore) -> StateStore:
        return MeteredVersionedStore(inner, PLAIN, self._supplier.metrics_scope, self._key_serde, self._value_serde)


def _checked(supplier: Any) -> Any:
    if supplier is None:
        raise ValueError("supplier cannot be None: a store builder needs one")
    if supplier.name is None:
        raise ValueError("the supplier of a store needs a name: name cannot be None")
    if supplier.metrics_scope is None:
        raise ValueError(f"the supplier of store {supplier.name} needs a metrics_scope: metrics_scope cannot be None")
    return supplier
