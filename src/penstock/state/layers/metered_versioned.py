"""The typed layer of versioned stores: serdes, null checks and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from penstock.state.capabilities import innermost
from penstock.state.layers.metrics import StoreMetrics
from penstock.state.layers.serdes import StoreSerdes
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import StateStore, StateStoreContext, VersionedKeyValueStore, VersionedRecord
from penstock.windows import MAX_TIMESTAMP

K = TypeVar("K")
V = TypeVar("V")

_METERED = ("put", "get", "delete", "commit")


class MeteredVersionedStore(WrappedStateStore, VersionedKeyValueStore[K, V], Generic[K, V]):
    """What a processor gets: keys and values of the user's types over a store of bytes."""

    query_kind = ("versioned", "plain")
    _serdes: StoreSerdes
    _metrics: StoreMetrics

    def __init__(self, wrapped: Any, metrics_scope: str, key_serde: Any, value_serde: Any) -> None:
        super().__init__(wrapped)
        self._metrics_scope = metrics_scope
        self._key_serde = key_serde
        self._value_serde = value_serde

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Find the serdes and open the wrapped store."""
        self._serdes = StoreSerdes(context, self._name, self._key_serde, self._value_serde)
        self.serdes_take_headers = self._serdes.take_headers
        self._metrics = StoreMetrics(context, self._metrics_scope, self._name)
        self._metrics.time_calls(self, _METERED)
        with self._metrics.restoring():
            super().init(context, root)

    def close(self) -> None:
        """Close the wrapped store; what was not committed is gone."""
        try:
            super().close()
        finally:
            self._metrics.close()

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Add a version; returns its valid-to time, or one of the PUT_RETURN_CODE values."""
        raw_key = self._raw(key)
        raw_value = None if value is None else self._serdes.raw_value(value)
        valid_to: int = self._wrapped.put(raw_key, raw_value, timestamp)
        return valid_to

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The latest version, or the one that was valid at a time."""
        return self._typed(self._wrapped.get(self._raw(key), as_of))

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Add a tombstone; returns the version that was valid then."""
        return self._typed(self._wrapped.delete(self._raw(key), timestamp))

    def get_versions(
        self, key: K, from_time: int = -(2**63), to_time: int = MAX_TIMESTAMP, ascending: bool = False
    ) -> Iterator[VersionedRecord[V]]:
        """All versions that were valid at some moment of a range of time, newest first unless `ascending`."""
        for record in innermost(self).get_versions(self._raw(key), from_time, to_time, ascending):
            typed = self._typed(record)
            if typed is not None:
                yield typed

    def scan_latest(self) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """The latest version of every key, in the order of the keys' bytes; for queries of the whole store."""
        for key, record in innermost(self).scan_latest():
            typed = self._typed(record)
            if typed is not None:
                yield self._serdes.key_from(key), typed

    def _raw(self, key: K) -> bytes:
        if key is None:
            raise ValueError(f"key cannot be None in store {self._name}")
        raw: bytes = self._serdes.raw_key(key)
        return raw

    def _typed(self, record: VersionedRecord[bytes] | None) -> VersionedRecord[V] | None:
        if record is None:
            return None
        return VersionedRecord(self._serdes.value_from(record.value), record.timestamp, record.valid_to)
