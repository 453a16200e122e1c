"""Builders of window, session, versioned and list-value stores: their layers are stacked here and nowhere else."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from penstock.state.builders import AbstractStoreBuilder
from penstock.state.capabilities import has_headers, is_timestamped, is_versioned
from penstock.state.layers.cached_key_value import CachingKeyValueStore
from penstock.state.layers.cached_session import CachingSessionStore
from penstock.state.layers.cached_time_ordered_window import TimeOrderedCachingWindowStore, find_time_ordered_store
from penstock.state.layers.cached_window import CachingWindowStore
from penstock.state.layers.custom import directed
from penstock.state.layers.headers_windowed import (
    ChangeLoggingSessionStoreWithHeaders,
    ChangeLoggingWindowStoreWithHeaders,
    InMemoryHeadersSessionMarker,
    InMemoryHeadersWindowMarker,
    MeteredSessionStoreWithHeaders,
    MeteredWindowStoreWithHeaders,
)
from penstock.state.layers.list_value import ChangeLoggingListValueStore, ListValueStore, MeteredListValueStore
from penstock.state.layers.logged_session import ChangeLoggingSessionStore
from penstock.state.layers.logged_versioned import ChangeLoggingVersionedStore
from penstock.state.layers.logged_window import ChangeLoggingTimestampedWindowStore, ChangeLoggingWindowStore
from penstock.state.layers.metered_session import MeteredSessionStore
from penstock.state.layers.metered_versioned import MeteredVersionedStore
from penstock.state.layers.metered_window import MeteredTimestampedWindowStore, MeteredWindowStore
from penstock.state.layers.window_adapter import (
    SessionToHeadersAdapter,
    plain_under_headers,
    plain_under_timestamped,
    timestamped_under_headers,
)
from penstock.state.layers.wrapped_window import InMemoryTimestampedWindowMarker
from penstock.state.suppliers import KeyValueBytesStoreSupplier, StoreSupplier
from penstock.state.windowed_suppliers import (
    SessionBytesStoreSupplier,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
)

_log = logging.getLogger(__name__)


class WindowStoreBuilder(AbstractStoreBuilder):
    """Window stores: `metered(caching(logged(engine)))`."""

    def __init__(self, supplier: WindowBytesStoreSupplier, key_serde: Any, value_serde: Any) -> None:
        super().__init__(_checked(supplier).name, key_serde, value_serde)
        self._supplier = supplier
        self.retention_period = supplier.retention_period
        if supplier.retain_duplicates:
            # Sequence numbers start again some day: compaction would then take one value for a newer version of another.
            self._log_config["cleanup.policy"] = "delete"

    @property
    def supplier(self) -> WindowBytesStoreSupplier:
        """Which engine the stores are made of."""
        return self._supplier

    def build(self) -> Any:
        """A new store, not opened yet."""
        if self._supplier.retain_duplicates and self._enable_caching:
            _log.warning("Disabling caching for %s since store was configured to retain duplicates", self._name)
            self._enable_caching = False
        return super().build()

    def _engine(self) -> Any:
        return directed(self._supplier.get())

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingWindowStore(inner, self._supplier.retain_duplicates)

    def _cached(self, inner: Any) -> Any:
        return CachingWindowStore(inner, self._supplier.window_size, self._supplier.segment_interval_ms)

    def _metered(self, inner: Any) -> Any:
        supplier = self._supplier
        return MeteredWindowStore(inner, supplier.window_size, supplier.metrics_scope, self._key_serde, self._value_serde)


class TimestampedWindowStoreBuilder(WindowStoreBuilder):
    """Window stores of `ValueAndTimestamp`."""

    def __init__(self, supplier: WindowBytesStoreSupplier, key_serde: Any, value_serde: Any) -> None:
        super().__init__(supplier, key_serde, value_serde)
        self._log_config.clear()

    def _engine(self) -> Any:
        store = directed(self._supplier.get())
        if is_timestamped(store):
            return store
        return plain_under_timestamped(store) if store.persistent else InMemoryTimestampedWindowMarker(store)

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingTimestampedWindowStore(inner, self._supplier.retain_duplicates)

    def _cached(self, inner: Any) -> Any:
        supplier = self._supplier
        if find_time_ordered_store(inner) is not None:
            return TimeOrderedCachingWindowStore(inner, supplier.window_size, supplier.segment_interval_ms)
        return CachingWindowStore(inner, supplier.window_size, supplier.segment_interval_ms)

    def _metered(self, inner: Any) -> Any:
        supplier = self._supplier
        return MeteredTimestampedWindowStore(
            inner, supplier.window_size, supplier.metrics_scope, self._key_serde, self._value_serde
        )


class TimestampedWindowStoreWithHeadersBuilder(TimestampedWindowStoreBuilder):
    """Window stores of `ValueTimestampHeaders`."""

    def _engine(self) -> Any:
        store = directed(self._supplier.get())
        if has_headers(store):
            return store
        if not store.persistent:
            return InMemoryHeadersWindowMarker(store)
        return timestamped_under_headers(store) if is_timestamped(store) else plain_under_headers(store)

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingWindowStoreWithHeaders(inner, self._supplier.retain_duplicates)

    def _metered(self, inner: Any) -> Any:
        supplier = self._supplier
        return MeteredWindowStoreWithHeaders(
            inner, supplier.window_size, supplier.metrics_scope, self._key_serde, self._value_serde
        )


class SessionStoreBuilder(AbstractStoreBuilder):
    """Session stores: `metered(caching(logged(engine)))`."""

    def __init__(self, supplier: SessionBytesStoreSupplier, key_serde: Any, value_serde: Any) -> None:
        super().__init__(_checked(supplier).name, key_serde, value_serde)
        self._supplier = supplier
        self.retention_period = supplier.retention_period

    @property
    def supplier(self) -> SessionBytesStoreSupplier:
        """Which engine the stores are made of."""
        return self._supplier

    def _engine(self) -> Any:
        return directed(self._supplier.get())

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingSessionStore(inner)

    def _cached(self, inner: Any) -> Any:
        return CachingSessionStore(inner, self._supplier.segment_interval_ms)

    def _metered(self, inner: Any) -> Any:
        return MeteredSessionStore(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class SessionStoreWithHeadersBuilder(SessionStoreBuilder):
    """Session stores of `AggregationWithHeaders`."""

    def _engine(self) -> Any:
        store = directed(self._supplier.get())
        if has_headers(store):
            return store
        return SessionToHeadersAdapter(store) if store.persistent else InMemoryHeadersSessionMarker(store)

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingSessionStoreWithHeaders(inner)

    def _metered(self, inner: Any) -> Any:
        return MeteredSessionStoreWithHeaders(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class VersionedKeyValueStoreBuilder(AbstractStoreBuilder):
    """Versioned stores: `metered(logged(engine))`; there is no caching of versions."""

    def __init__(self, supplier: VersionedBytesStoreSupplier, key_serde: Any, value_serde: Any) -> None:
        super().__init__(_checked(supplier).name, key_serde, value_serde)
        self._supplier = supplier

    @property
    def supplier(self) -> VersionedBytesStoreSupplier:
        """Which engine the stores are made of."""
        return self._supplier

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

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingVersionedStore(inner)

    def _cached(self, inner: Any) -> NoReturn:
        self.with_caching_enabled()

    def _metered(self, inner: Any) -> Any:
        return MeteredVersionedStore(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


class ListValueStoreBuilder(AbstractStoreBuilder):
    """Key-value stores that keep all values put under a key, for outer joins."""

    def __init__(self, supplier: KeyValueBytesStoreSupplier, key_serde: Any, value_serde: Any) -> None:
        super().__init__(_checked(supplier).name, key_serde, value_serde)
        self._supplier = supplier

    @property
    def supplier(self) -> KeyValueBytesStoreSupplier:
        """Which engine the stores are made of."""
        return self._supplier

    def _engine(self) -> Any:
        return ListValueStore(directed(self._supplier.get()))

    def _logged(self, inner: Any) -> Any:
        return ChangeLoggingListValueStore(inner)

    def _cached(self, inner: Any) -> Any:
        return CachingKeyValueStore(inner)

    def _metered(self, inner: Any) -> Any:
        return MeteredListValueStore(inner, self._supplier.metrics_scope, self._key_serde, self._value_serde)


def _checked(supplier: Any) -> StoreSupplier:
    if supplier is None:
        raise ValueError("supplier cannot be None: a store builder needs one")
    if supplier.metrics_scope is None:
        raise ValueError(f"the supplier of store {supplier.name} needs a metrics_scope")
    return supplier  # type: ignore[no-any-return]
