"""Suppliers of byte-level key-value stores: which engine a builder puts its layers around. They pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from penstock.state.engines.lru import LruKeyValueStore
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.value_formats import PLAIN, ValueFormat


class StoreSupplier(ABC):
    """Makes the byte-level store of a name, a new one at each `get()`."""

    name: str
    """The store's name."""

    metrics_scope: str
    """What the store's metrics are tagged with, for example `rocksdb`."""

    value_format: ValueFormat = PLAIN
    """What its stores keep in front of each value."""

    @abstractmethod
    def get(self) -> Any:
        """A new store, not opened yet."""


class KeyValueBytesStoreSupplier(StoreSupplier):
    """A supplier of key-value stores of bytes; subclass it to bring a store of your own."""


@dataclass(frozen=True)
class RocksDBKeyValueBytesStoreSupplier(KeyValueBytesStoreSupplier):
    """Key-value stores in RocksDB."""

    name: str
    value_format: ValueFormat = PLAIN

    metrics_scope = "rocksdb"

    def get(self) -> RocksDBStore:
        return RocksDBStore(self.name, value_format=self.value_format)


@dataclass(frozen=True)
class InMemoryKeyValueBytesStoreSupplier(KeyValueBytesStoreSupplier):
    """Key-value stores in memory."""

    name: str

    metrics_scope = "in-memory"

    def get(self) -> InMemoryKeyValueStore:
        return InMemoryKeyValueStore(self.name)


@dataclass(frozen=True)
class LruMapBytesStoreSupplier(KeyValueBytesStoreSupplier):
    """Key-value stores in memory of at most so many entries."""

    name: str
    max_cache_size: int

    metrics_scope = "in-memory-lru"

    def get(self) -> LruKeyValueStore:
        return LruKeyValueStore(self.name, self.max_cache_size)
