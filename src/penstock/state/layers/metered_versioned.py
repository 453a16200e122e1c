"""The typed layer of versioned stores: serdes, null checks and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from penstock.state.capabilities import innermost
from penstock.state.layers.metered import MeteredStore
from penstock.state.store import VersionedKeyValueStore, VersionedRecord
from penstock.windows import MAX_TIMESTAMP

K = TypeVar("K")
V = TypeVar("V")


class MeteredVersionedStore(MeteredStore[K, V], VersionedKeyValueStore[K, V], Generic[K, V]):
    """Keys to versions of their values."""

    kind = "versioned"
    timed_methods = ("put", "get", "delete", "commit")

    def _use_headers(self) -> None:
        raise AssertionError("a versioned store keeps no headers")

    def _flushed_key(self, raw: bytes) -> K:
        return self._key_from(raw)

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        raw_key = self._raw_version_key(key)
        raw_value = None if value is None else self._serdes.raw_value(value)
        valid_to: int = self._wrapped.put(raw_key, raw_value, timestamp)
        return valid_to

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        return self._version(self._wrapped.get(self._raw_version_key(key), as_of))

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        return self._version(self._wrapped.delete(self._raw_version_key(key), timestamp))

    def get_versions(
        self, key: K, from_time: int = -(2**63), to_time: int = MAX_TIMESTAMP, ascending: bool = False
    ) -> Iterator[VersionedRecord[V]]:
        """All versions that were valid at some moment of a range of time, newest first unless `ascending`."""
        for record in innermost(self).get_versions(self._raw_version_key(key), from_time, to_time, ascending):
            typed = self._version(record)
            if typed is not None:
                yield typed

    def scan_latest(self) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """The latest version of every key, in the order of the keys' bytes; for queries of the whole store."""
        for key, record in innermost(self).scan_latest():
            typed = self._version(record)
            if typed is not None:
                yield self._serdes.key_from(key), typed

    def _raw_version_key(self, key: K) -> bytes:
        if key is None:
            self._refuse_none_key()
        return self._raw_key(key)

    def _version(self, record: VersionedRecord[bytes] | None) -> VersionedRecord[V] | None:
        if record is None:
            return None
        return VersionedRecord(self._serdes.value_from(record.value), record.timestamp, record.valid_to)
