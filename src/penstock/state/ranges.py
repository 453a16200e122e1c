"""The store interfaces as penstock's own stores implement them: one method for a range, which takes the direction.

The public interfaces have two methods for each range, as Kafka Streams has. They are made here from the one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from penstock.state.store import KeyValueStore, SessionStore, StoreIterator, WindowStore
from penstock.windows import MAX_TIMESTAMP, Windowed

K = TypeVar("K")
V = TypeVar("V")


class KeyValueRanges(KeyValueStore[K, V], Generic[K, V]):
    """A key-value store whose ranges run forward or backward."""

    takes_direction = True

    @abstractmethod
    def range(self, key_from: K | None, key_to: K | None, forward: bool = True) -> StoreIterator[tuple[K, V]]:
        """Return the entries between two keys, both included; None leaves an end open."""

    @abstractmethod
    def all(self, forward: bool = True) -> StoreIterator[tuple[K, V]]:
        """Return all entries."""

    def reverse_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """Return the entries between two keys, from the highest key down."""
        return self.range(key_from, key_to, False)

    def reverse_all(self) -> StoreIterator[tuple[K, V]]:
        return self.all(False)


class WindowRanges(WindowStore[K, V], Generic[K, V]):
    """A window store whose ranges run forward or backward."""

    takes_direction = True

    @abstractmethod
    def fetch_range(self, key: K, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[int, V]]:
        """Return `(window_start, value)` of the windows of one key."""

    @abstractmethod
    def fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the windows of the keys in a range; None leaves an end open."""

    @abstractmethod
    def fetch_all(self, time_from: int, time_to: int, forward: bool = True) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the windows of all keys that start in a range of time."""

    def all(self, forward: bool = True) -> StoreIterator[tuple[Windowed[K], V]]:
        return self.fetch_all(0, MAX_TIMESTAMP, forward)

    def backward_fetch_range(self, key: K, time_from: int, time_to: int) -> StoreIterator[tuple[int, V]]:
        """Return `(window_start, value)` of the windows of one key, newest first."""
        return self.fetch_range(key, time_from, time_to, False)

    def backward_fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the windows of the keys in a range, backward."""
        return self.fetch_key_range(key_from, key_to, time_from, time_to, False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the windows of all keys that start in a range of time, backward."""
        return self.fetch_all(time_from, time_to, False)

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return all windows that are still kept, backward."""
        return self.all(False)


class SessionRanges(SessionStore[K, V], Generic[K, V]):
    """A session store whose ranges run forward or backward."""

    takes_direction = True

    @abstractmethod
    def find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the sessions of a key with end >= the first and start <= the second bound."""

    @abstractmethod
    def find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the sessions of the keys in a range with end >= the first and start <= the second bound."""

    def backward_find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the sessions of a key with end >= the first and start <= the second bound, newest first."""
        return self.find_sessions(key, earliest_session_end, latest_session_start, False)

    def backward_find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Return the sessions of the keys in a range, backward."""
        return self.find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start, False)
