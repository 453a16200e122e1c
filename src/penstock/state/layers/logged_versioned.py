"""Change logging of versioned stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import StateStore, StateStoreContext, VersionedKeyValueStore, VersionedRecord


class ChangeLoggingVersionedStore(WrappedStateStore, VersionedKeyValueStore[Any, Any]):
    """Logs every version with its own timestamp as the record's."""

    passes_bytes = True
    _log_change: Callable[..., None]

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._log_change = context.log_change
        super().init(context, root)

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        valid_to: int = self._wrapped.put(key, value, timestamp)
        self._log_change(self._name, key, value, timestamp)
        return valid_to

    def get(self, key: bytes, as_of: int | None = None) -> VersionedRecord[bytes] | None:
        found: VersionedRecord[bytes] | None = self._wrapped.get(key, as_of)
        return found

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        existing: VersionedRecord[bytes] | None = self._wrapped.delete(key, timestamp)
        self._log_change(self._name, key, None, timestamp)
        return existing
