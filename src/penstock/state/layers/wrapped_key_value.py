"""A key-value store around another, everything passed through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.ranges import KeyValueRanges
from penstock.state.store import StoreIterator


class WrappedKeyValueStore(WrappedStateStore, KeyValueRanges[Any, Any]):
    """The base of the key-value layers."""

    def get(self, key: Any) -> Any:
        return self._wrapped.get(key)

    def put(self, key: Any, value: Any) -> None:
        self._wrapped.put(key, value)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        return self._wrapped.put_if_absent(key, value)

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        self._wrapped.put_all(entries)

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        """The values of many keys."""
        return [self.get(key) for key in keys]

    def write_around(self, entries: Sequence[tuple[Any, Any]], timestamps: Sequence[int]) -> None:
        """Set many at once, by records of these times, without waiting in a cache; no flush listener hears of it."""
        self.put_all(entries)

    def delete(self, key: Any) -> Any:
        return self._wrapped.delete(key)

    def range(self, key_from: Any, key_to: Any, forward: bool = True) -> StoreIterator[tuple[Any, Any]]:
        entries: StoreIterator[tuple[Any, Any]] = self._wrapped.range(key_from, key_to, forward)
        return entries

    def all(self, forward: bool = True) -> StoreIterator[tuple[Any, Any]]:
        entries: StoreIterator[tuple[Any, Any]] = self._wrapped.all(forward)
        return entries

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[Any, Any]]:
        entries: StoreIterator[tuple[Any, Any]] = self._wrapped.prefix_scan(prefix, prefix_serializer)
        return entries

    def approximate_num_entries(self) -> int:
        return int(self._wrapped.approximate_num_entries())
