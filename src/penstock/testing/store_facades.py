"""Timestamped stores shown as plain ones, for tests that only care for the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.record import NO_TIMESTAMP
from penstock.state.store import KeyValueStore, StateStore, StateStoreContext, StoreIterator, ValueAndTimestamp, WindowStore


class _Values(StoreIterator[tuple[Any, Any]]):
    """The entries of a timestamped store, without the timestamps."""

    def __init__(self, inner: StoreIterator[tuple[Any, Any]]) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self

    def __next__(self) -> tuple[Any, Any]:
        key, value = next(self._inner)
        return key, _plain(value)

    def close(self) -> None:
        """Close the iterator of the store."""
        self._inner.close()


class _Facade:
    """What does not touch values goes to the store itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The store's name."""
        name: str = self._inner.name
        return name

    @property
    def persistent(self) -> bool:
        """Whether the contents survive `close`."""
        return bool(self._inner.persistent)

    @property
    def is_open(self) -> bool:
        """Whether the store can be used now."""
        return bool(self._inner.is_open)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store."""
        self._inner.init(context, root)

    def close(self) -> None:
        """Close the store."""
        self._inner.close()


class KeyValueStoreFacade(_Facade, KeyValueStore[Any, Any]):
    """A timestamped key-value store with plain values; what is put gets no timestamp (-1)."""

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""
        return _plain(self._inner.get(key))

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; None deletes."""
        self._inner.put(key, _stamped(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set only where there is none; returns what was there."""
        return _plain(self._inner.put_if_absent(key, _stamped(value)))

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Set many at once."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Remove a key; returns what was there."""
        return _plain(self._inner.delete(key))

    def range(self, key_from: Any, key_to: Any) -> StoreIterator[tuple[Any, Any]]:
        """Entries from one key to another, both included."""
        return _Values(self._inner.range(key_from, key_to))

    def reverse_range(self, key_from: Any, key_to: Any) -> StoreIterator[tuple[Any, Any]]:
        """The same, from the highest key down."""
        return _Values(self._inner.reverse_range(key_from, key_to))

    def all(self) -> StoreIterator[tuple[Any, Any]]:
        """All entries."""
        return _Values(self._inner.all())

    def reverse_all(self) -> StoreIterator[tuple[Any, Any]]:
        """All entries, from the highest key down."""
        return _Values(self._inner.reverse_all())

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[Any, Any]]:
        """Entries whose key bytes start with the serialized prefix."""
        return _Values(self._inner.prefix_scan(prefix, prefix_serializer))

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""
        count: int = self._inner.approximate_num_entries()
        return count


def _shown(method: str) -> Callable[..., StoreIterator[tuple[Any, Any]]]:
    def read(self: _Facade, *args: Any) -> StoreIterator[tuple[Any, Any]]:
        return _Values(getattr(self._inner, method)(*args))

    read.__name__ = method
    read.__doc__ = f"`{method}` of the store, with plain values."
    return read


class WindowStoreFacade(_Facade, WindowStore[Any, Any]):
    """A timestamped window store with plain values; what is put gets no timestamp (-1)."""

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Set the value of a key's window; None deletes."""
        self._inner.put(key, _stamped(value), window_start)

    def fetch(self, key: Any, time: int, time_to: int | None = None) -> Any:
        """The value of the window that starts at a time, or None; with `time_to` the same as `fetch_range`."""
        if time_to is not None:
            return self.fetch_range(key, time, time_to)
        return _plain(self._inner.fetch(key, time))

    fetch_range = _shown("fetch_range")
    backward_fetch_range = _shown("backward_fetch_range")
    fetch_key_range = _shown("fetch_key_range")
    backward_fetch_key_range = _shown("backward_fetch_key_range")
    fetch_all = _shown("fetch_all")
    backward_fetch_all = _shown("backward_fetch_all")
    all = _shown("all")
    backward_all = _shown("backward_all")


def _plain(value: ValueAndTimestamp[Any] | None) -> Any:
    return None if value is None else value.value


def _stamped(value: Any) -> ValueAndTimestamp[Any] | None:
    return None if value is None else ValueAndTimestamp(value, NO_TIMESTAMP)
