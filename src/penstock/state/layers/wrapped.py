"""The base of every layer: a store around a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.errors import InvalidStateStoreError
from penstock.ids import TopicPartition
from penstock.state.store import StateStore, StateStoreContext

S = TypeVar("S", bound=StateStore)


class WrappedStateStore(StateStore):
    """Delegates everything to the store it wraps; layers override what they change."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self._name: str = wrapped.name

    @property
    def wrapped(self) -> Any:
        """The store one layer down."""
        return self._wrapped

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    @property
    def persistent(self) -> bool:
        """Whether the contents survive `close`."""
        return bool(self._wrapped.persistent)

    @property
    def is_open(self) -> bool:
        """Whether the store can be used now."""
        return bool(self._wrapped.is_open)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the wrapped store."""
        self._wrapped.init(context, root)

    def flush(self) -> None:
        """Let the wrapped store write what it holds back."""
        if isinstance(self._wrapped, StateStore):
            self._wrapped.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make what was put durable together with the changelog position."""
        self._wrapped.commit(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The changelog position of the last commit."""
        offset: int | None = self._wrapped.committed_offset(partition)
        return offset

    def close(self) -> None:
        """Close the wrapped store."""
        self._wrapped.close()

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Hand the listener to the caching layer below; False where there is none."""
        if isinstance(self._wrapped, WrappedStateStore):
            return self._wrapped.set_flush_listener(listener, send_old_values)
        return False

    def flush_cache(self) -> None:
        """Write and forward what the caching layer below holds."""
        if isinstance(self._wrapped, WrappedStateStore):
            self._wrapped.flush_cache()

    def clear_cache(self) -> None:
        """Drop what the caching layer below holds."""
        if isinstance(self._wrapped, WrappedStateStore):
            self._wrapped.clear_cache()

    def forget_before(self, time: int) -> None:
        """Nobody will ask for windows any more that start before this time."""
        if isinstance(self._wrapped, WrappedStateStore):
            self._wrapped.forget_before(time)

    def find_expired(self) -> None:
        """Find entries of a key also when they have expired since now, for as long as their segment is there.

        A cache has them for as long as it has room; who goes past it with many rows at a time has to find them as well.
        """
        if isinstance(self._wrapped, WrappedStateStore):
            self._wrapped.find_expired()

    def few_windows(self, key: bytes, time_from: int, time_to: int) -> list[tuple[int, bytes]] | None:
        """What `fetch_range` of a window store finds where that is little and at hand; None where it has to be asked.

        A layer that changes what is found, or has some of it itself, leaves this as it is.
        """
        return None

    @property
    def takes_rows(self) -> bool:
        """Whether reads and writes of many rows at once give the results of single ones: what is put comes back as it was."""
        return bool(getattr(self._wrapped, "takes_rows", False))

    @property
    def takes_duplicates(self) -> bool:
        """Whether many values can be put and found at once where a key and a time may have several, as joins of streams need."""
        return bool(getattr(self._wrapped, "takes_duplicates", False))

    def validate_store_open(self) -> None:
        """Raise if the store is closed."""
        if not self._wrapped.is_open:
            raise InvalidStateStoreError(f"Store {self._name} is currently closed.")

    def find_inner(self, inner_type: type[S]) -> S | None:
        """The first wrapped store of a type; None where there is none."""
        if isinstance(self._wrapped, inner_type):
            return self._wrapped
        if isinstance(self._wrapped, WrappedStateStore):
            return self._wrapped.find_inner(inner_type)
        return None


def is_timestamped(store: object) -> bool:
    """Whether the engine below holds values with their timestamp in front."""
    return _flagged(store, "timestamped")


def has_headers(store: object) -> bool:
    """Whether the engine below holds values with their headers and timestamp in front."""
    return _flagged(store, "with_headers")


def is_versioned(store: object) -> bool:
    """Whether the engine below holds versions."""
    return _flagged(store, "versioned")


def _flagged(store: object, flag: str) -> bool:
    # The first store that carries the flag decides, as a marker interface does: an adapter around a plain store carries none.
    while True:
        if getattr(store, flag, False):
            return True
        if not isinstance(store, WrappedStateStore):
            return False
        store = store.wrapped
