"""Store builders: the only place where the layers of a store are stacked, `metered(caching(logged(engine)))`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from penstock.serdes.arguments import is_type
from penstock.serdes.serde import Serdes
from penstock.state.capabilities import has_headers, is_timestamped
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.layers.adapters import plain_under_headers, plain_under_timestamped, timestamped_under_headers
from penstock.state.layers.cached_key_value import CachingKeyValueStore
from penstock.state.layers.custom import directed
from penstock.state.layers.headers_key_value import ChangeLoggingKeyValueStoreWithHeaders, MeteredKeyValueStoreWithHeaders
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore, ChangeLoggingTimestampedKeyValueStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore, MeteredTimestampedKeyValueStore
from penstock.state.layers.wrapped_key_value import InMemoryHeadersMarker, InMemoryTimestampedMarker
from penstock.state.store import StoreBuilder
from penstock.state.suppliers import KeyValueBytesStoreSupplier


class AbstractStoreBuilder(StoreBuilder[Any]):
    """What the builders of `Stores` share: serdes, and layers.

    A subclass says how each layer is made (`_engine`, `_logged`, `_cached`, `_metered`); `build` stacks them.
    """

    def __init__(self, name: str, key_serde: Any, value_serde: Any) -> None:
        if name is None:
            raise ValueError("a store needs a name: name cannot be None")
        super().__init__(name)
        self._key_serde = Serdes.serde_from(key_serde) if is_type(key_serde) else key_serde
        self._value_serde = Serdes.serde_from(value_serde) if is_type(value_serde) else value_serde

    @property
    def key_serde(self) -> Any:
        """The key serde the builder was given, or None for the default one."""
        return self._key_serde

    @property
    def value_serde(self) -> Any:
        """The value serde the builder was given, or None for the default one."""
        return self._value_serde

    def build(self) -> Any:
        """A new store, not opened yet."""
        return self._metered(self._maybe_wrap_caching(self._maybe_wrap_logging(self._engine())))

    def build_engine(self) -> Any:
        """The byte-level store alone, not opened yet: what readers beside a running task open."""
        return self._engine()

    def build_reader(self, engine: Any) -> Any:
        """The typed layer over an engine alone, without cache and changelog: what queries read through."""
        return self._metered(engine)

    def _maybe_wrap_logging(self, inner: Any) -> Any:
        return self._logged(inner) if self._enable_logging else inner

    def _maybe_wrap_caching(self, inner: Any) -> Any:
        return self._cached(inner) if self._enable_caching else inner

    @abstractmethod
    def _engine(self) -> Any:
        """The byte-level store at the bottom."""

    @abstractmethod
    def _logged(self, inner: Any) -> Any:
        """The change-logging layer."""

    @abstractmethod
    def _cached(self, inner: Any) -> Any:
        """The caching layer."""

    @abstractmethod
    def _metered(self, inner: Any) -> Any:
        """The typed layer on top."""


class KeyValueStoreBuilder(AbstractStoreBuilder):
    """Builds key-value stores."""

    def __init__(self, supplier: KeyValueBytesStoreSupplier, key_serde: Any, value_serde: Any) -> None:
        super().__init__(checked_supplier(supplier).name, key_serde, value_serde)
        self._supplier = supplier

    @property
    def supplier(self) -> KeyValueBytesStoreSupplier:
        """What makes the engine."""
        return self._supplier

    def _engine(self) -> Any:
        return directed(self._supplier.get())

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingKeyValueStore(inner)

    def _cached(self, inner: Any) -> Any:
        return CachingKeyValueStore(inner)

    def _metered(self, inner: Any) -> Any:
        return MeteredKeyValueStore(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class TimestampedKeyValueStoreBuilder(KeyValueStoreBuilder):
    """Builds key-value stores whose values carry a timestamp."""

    def _engine(self) -> Any:
        engine = directed(self._supplier.get())
        if is_timestamped(engine):
            return engine
        if engine.persistent:
            return plain_under_timestamped(engine)
        if type(engine) is InMemoryKeyValueStore:
            engine.timestamped = True
            return engine
        return InMemoryTimestampedMarker(engine)

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingTimestampedKeyValueStore(inner)

    def _metered(self, inner: Any) -> Any:
        return MeteredTimestampedKeyValueStore(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class TimestampedKeyValueStoreWithHeadersBuilder(KeyValueStoreBuilder):
    """Builds key-value stores whose values carry a timestamp and the headers of their record."""

    def _engine(self) -> Any:
        engine = directed(self._supplier.get())
        if has_headers(engine):
            return engine
        if not engine.persistent:
            return InMemoryHeadersMarker(engine)
        return timestamped_under_headers(engine) if is_timestamped(engine) else plain_under_headers(engine)

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingKeyValueStoreWithHeaders(inner)

    def _metered(self, inner: Any) -> Any:
        return MeteredKeyValueStoreWithHeaders(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


def checked_supplier(supplier: Any) -> Any:
    """The supplier, if it has all that a builder asks of it."""
    if supplier is None:
        raise ValueError("supplier cannot be None")
    if supplier.name is None:
        raise ValueError("the supplier of a store needs a name: name cannot be None")
    if supplier.metrics_scope is None:
        raise ValueError(f"the supplier of store {supplier.name} needs a metrics scope: metrics_scope cannot be None")
    return supplier
