"""`Stores`: suppliers of every kind of store, and builders that put serdes and layers around them."""

from __future__ import annotations

from typing import Any

from penstock.java_names import JavaNames
from penstock.state.builders import (
    KeyValueStoreBuilder,
    SessionStoreBuilder,
    VersionedKeyValueStoreBuilder,
    WindowStoreBuilder,
)
from penstock.state.suppliers import (
    InMemoryKeyValueBytesStoreSupplier,
    KeyValueBytesStoreSupplier,
    LruMapBytesStoreSupplier,
    RocksDBKeyValueBytesStoreSupplier,
)
from penstock.state.value_formats import AGGREGATE_WITH_HEADERS, TIMESTAMPED, WITH_HEADERS
from penstock.state.windowed_suppliers import (
    SessionBytesStoreSupplier,
    SessionSupplier,
    StoreLayout,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
    WindowSupplier,
    persistent_versioned_key_value_store,
)
from penstock.windows import Duration


class Stores(JavaNames):
    """Makes state stores: first a supplier, which says where the bytes are kept, then a builder with the serdes.

    >>> from penstock.serdes.serde import Serdes
    >>> supplier = Stores.persistent_key_value_store("counts")
    >>> builder = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.long()).with_caching_enabled()
    >>> builder.name, builder.logging_enabled
    ('counts', True)
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """A key-value store in RocksDB."""
        return RocksDBKeyValueBytesStoreSupplier(_named(name))

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """A key-value store in RocksDB that keeps a timestamp with each value."""
        return RocksDBKeyValueBytesStoreSupplier(_named(name), TIMESTAMPED)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> KeyValueBytesStoreSupplier:
        """A key-value store in RocksDB that keeps a timestamp and the record's headers with each value."""
        return RocksDBKeyValueBytesStoreSupplier(_named(name), WITH_HEADERS)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedBytesStoreSupplier:
        """A store in RocksDB that keeps old versions of a value for `history_retention`."""
        return persistent_versioned_key_value_store(name, history_retention, segment_interval)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """A key-value store in memory."""
        return InMemoryKeyValueBytesStoreSupplier(_named(name))

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> KeyValueBytesStoreSupplier:
        """A key-value store in memory of at most `max_cache_size` entries; the least recently used makes room."""
        if max_cache_size < 0:
            raise ValueError(f"max_cache_size of store {name} cannot be negative, got {max_cache_size}")
        return LruMapBytesStoreSupplier(_named(name), max_cache_size)

    @staticmethod
    def persistent_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """A window store in RocksDB."""
        return WindowSupplier.create(name, retention_period, window_size, retain_duplicates)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """A window store in RocksDB that keeps a timestamp with each value."""
        return WindowSupplier.create(name, retention_period, window_size, retain_duplicates, value_format=TIMESTAMPED)

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """A window store in RocksDB that keeps a timestamp and the record's headers with each value."""
        return WindowSupplier.create(name, retention_period, window_size, retain_duplicates, value_format=WITH_HEADERS)

    @staticmethod
    def in_memory_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """A window store in memory."""
        return WindowSupplier.create(name, retention_period, window_size, retain_duplicates, StoreLayout.MEMORY)

    @staticmethod
    def persistent_session_store(name: str, retention_period: Duration) -> SessionBytesStoreSupplier:
        """A session store in RocksDB."""
        return SessionSupplier.create(name, retention_period)

    @staticmethod
    def persistent_session_store_with_headers(name: str, retention_period: Duration) -> SessionBytesStoreSupplier:
        """A session store in RocksDB that keeps the record's headers with each aggregate."""
        return SessionSupplier.create(name, retention_period, value_format=AGGREGATE_WITH_HEADERS)

    @staticmethod
    def in_memory_session_store(name: str, retention_period: Duration) -> SessionBytesStoreSupplier:
        """A session store in memory."""
        return SessionSupplier.create(name, retention_period, StoreLayout.MEMORY)

    @staticmethod
    def key_value_store_builder(supplier: KeyValueBytesStoreSupplier, key_serde: Any, value_serde: Any) -> KeyValueStoreBuilder:
        """Builds a key-value store; a serde left None is the application's default."""
        return KeyValueStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Any, value_serde: Any
    ) -> KeyValueStoreBuilder:
        """Builds a key-value store of `ValueAndTimestamp`; `value_serde` is the value's own."""
        return KeyValueStoreBuilder(supplier, key_serde, value_serde, TIMESTAMPED)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Any, value_serde: Any
    ) -> KeyValueStoreBuilder:
        """Builds a key-value store of `ValueTimestampHeaders`; `value_serde` is the value's own."""
        return KeyValueStoreBuilder(supplier, key_serde, value_serde, WITH_HEADERS)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedBytesStoreSupplier, key_serde: Any, value_serde: Any
    ) -> VersionedKeyValueStoreBuilder:
        """Builds a versioned store."""
        return VersionedKeyValueStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def window_store_builder(supplier: WindowBytesStoreSupplier, key_serde: Any, value_serde: Any) -> WindowStoreBuilder:
        """Builds a window store."""
        return WindowStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Any, value_serde: Any
    ) -> WindowStoreBuilder:
        """Builds a window store of `ValueAndTimestamp`; `value_serde` is the value's own."""
        return WindowStoreBuilder(supplier, key_serde, value_serde, TIMESTAMPED)

    @staticmethod
    def session_store_builder(supplier: SessionBytesStoreSupplier, key_serde: Any, value_serde: Any) -> SessionStoreBuilder:
        """Builds a session store."""
        return SessionStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Any, value_serde: Any
    ) -> WindowStoreBuilder:
        """Builds a window store of `ValueTimestampHeaders`; `value_serde` is the value's own."""
        return WindowStoreBuilder(supplier, key_serde, value_serde, WITH_HEADERS)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: SessionBytesStoreSupplier, key_serde: Any, value_serde: Any
    ) -> SessionStoreBuilder:
        """Builds a session store of `AggregationWithHeaders`; `value_serde` is the aggregate's own."""
        return SessionStoreBuilder(supplier, key_serde, value_serde, AGGREGATE_WITH_HEADERS)


def _named(name: Any) -> str:
    if name is None:
        raise ValueError("name cannot be None: a store needs a name")
    return str(name)
