"""Caching of key-value stores: writes wait in the record cache, where later ones of the same key replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from penstock.record import RecordContext
from penstock.state.cache import CacheEntry, DirtyEntry
from penstock.state.engines.key_value_bytes import prefix_bytes
from penstock.state.iterators import ByteIterator, PeekingIterator, empty_iterator, is_inverted, overlay, prefix_end
from penstock.state.layers.cached import CachingStore
from penstock.state.layers.wrapped_key_value import WrappedKeyValueStore
from penstock.state.store import StateStore, StateStoreContext


class CachingKeyValueStore(CachingStore, WrappedKeyValueStore):
    """Puts go to the cache; a flush or an eviction writes them to the store below and tells the flush listener."""

    def __init__(self, wrapped: StateStore) -> None:
        super().__init__(wrapped)
        self._held: list[Callable[[], None]] = []
        """Who tells of changes that were written past the cache, with its next flush."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._put_below = self._wrapped.put  # type: ignore[method-assign]  # a call fewer for every entry that is flushed

    def flush_cache(self) -> None:
        self.validate_store_open()
        self._forward_held()
        super().flush_cache()

    def clear_cache(self) -> None:
        super().clear_cache()
        self._held.clear()

    def close(self) -> None:
        self._held.clear()
        super().close()

    def get(self, key: bytes) -> Any:
        if not self._open:
            self.validate_store_open()
        entry = self._entries.get(key)
        if entry is not None:
            return entry.value
        value = self._wrapped.get(key)
        if value is not None:
            self._cache.put(self._cache_name, key, CacheEntry(value))
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        if not self._open:
            self.validate_store_open()
        context = self._context.record_context or self._record()  # a call fewer for every put
        self._cache.put(self._cache_name, key, CacheEntry(value, context, True))

    def put_as(self, entries: Iterable[tuple[bytes, bytes | None, RecordContext]]) -> None:
        """Set many, each with the context of the record that did it."""
        if not self._open:
            self.validate_store_open()
        self._cache.put_all(self._cache_name, ((key, CacheEntry(value, context, True)) for key, value, context in entries))

    def put_if_absent(self, key: bytes, value: bytes | None) -> Any:
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def multi_get(self, keys: Sequence[bytes]) -> list[Any]:
        """The values of many keys; they are not put into the cache."""
        if not self._open:
            self.validate_store_open()
        if not len(self._entries):
            found: list[Any] = self._wrapped.multi_get(keys)
            return found
        cached = {key: entry.value for key in keys if (entry := self._entries.get(key)) is not None}
        missing = [key for key in keys if key not in cached]
        cached.update(zip(missing, self._wrapped.multi_get(missing)))
        return [cached[key] for key in keys]

    def write_around(self, entries: Sequence[tuple[bytes, bytes | None]], timestamps: Sequence[int]) -> None:
        """Set many at once in the store below; what waits in the cache goes first."""
        if not self._open:
            self.validate_store_open()
        if len(self._entries):
            self._cache.flush(self._cache_name)
            for key, _ in entries:
                self._cache.delete(self._cache_name, key)
        self._wrapped.write_around(entries, timestamps)

    def hold(self, forward: Callable[[], None]) -> None:
        """Call `forward` before all that waits is forwarded the next time."""
        self._held.append(forward)

    def _forward_held(self) -> None:
        held, self._held = self._held, []
        for forward in held:
            forward()

    def delete(self, key: bytes) -> Any:
        existing = self.get(key)
        self.put(key, None)
        return existing

    def range(self, key_from: bytes | None, key_to: bytes | None, forward: bool = True) -> ByteIterator:
        """Return the entries between two keys, cached ones over those below."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        self.validate_store_open()
        return self._merged(self._wrapped.range(key_from, key_to, forward), key_from, key_to, forward=forward)

    def all(self, forward: bool = True) -> ByteIterator:
        self.validate_store_open()
        return self._merged(self._wrapped.all(forward), None, None, forward=forward)

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> ByteIterator:
        self.validate_store_open()
        key_from = prefix_bytes(prefix, prefix_serializer)
        below = self._wrapped.prefix_scan(prefix, prefix_serializer)
        return self._merged(below, key_from, prefix_end(key_from), to_inclusive=False)

    def _merged(
        self, below: Any, key_from: bytes | None, key_to: bytes | None, to_inclusive: bool = True, forward: bool = True
    ) -> ByteIterator:
        cached = self._cache.range(self._cache_name, key_from, key_to, to_inclusive, forward)
        return PeekingIterator(overlay(_values(cached), below, forward), self._name, lambda _: below.close())

    def _write_and_forward_all(self, entries: list[DirtyEntry]) -> None:
        self._forward_held()
        for key, new_value, entry in entries:
            self._write_and_forward(key, new_value, entry)

    def _fetch_below(self, binary_key: bytes) -> bytes | None:
        value: bytes | None = self._wrapped.get(binary_key)
        return value

    def _put_below(self, binary_key: bytes, value: bytes | None) -> None:
        self._wrapped.put(binary_key, value)


def _values(entries: Iterator[tuple[bytes, CacheEntry]]) -> Iterator[tuple[bytes, bytes | None]]:
    for key, entry in entries:
        yield key, entry.value
