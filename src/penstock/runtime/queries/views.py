"""What `KafkaStreams.store` hands out: read-only stores over the partitions that are local at the time of each call.

A key lies in one partition: a get asks them one after the other. A range runs through them one after the other too, each in
the order of its keys; as in Kafka Streams there is no order between partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Generic, TypeVar, overload

from penstock.html import moment, paragraph, table
from penstock.runtime.queries.partition import Lease, LeasedIterator, StorePartition
from penstock.state.iterators import PeekingIterator
from penstock.state.store import KeyValueReading, StoreIterator, VersionedRecord
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")

SHOWN_ENTRIES = 20
"""How many entries a notebook shows of a store."""

Partitions = Callable[[], Sequence[StorePartition]]
Convert = Callable[[Any], Any]


class _View:
    """Asks the partitions; `convert` shows values as the reader asked for them (None passes).

    `home` tells where a key is unless it was written with a partitioner of the user's own: that partition is asked first.
    """

    def __init__(
        self, name: str, partitions: Partitions, convert: Convert | None = None, home: Callable[[Any], int] | None = None
    ) -> None:
        self._name = name
        self._home = home
        self._partitions = partitions
        self._convert: Convert = convert or _unchanged
        partitions()  # what is wrong now is said now

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first entries."""
        return self.to_html()

    def to_html(self, limit: int = SHOWN_ENTRIES) -> str:
        """The first entries as a table, at most `limit`."""
        if limit < 1:
            raise ValueError(f"limit is {limit}: it should be 1 or more")
        with self._entries() as entries:
            found = list(islice(entries, limit + 1))
        rows = [_row(key, value) for key, value in found[:limit]]
        heads = ["key", "window start", "window end", "value"] if rows and len(rows[0]) > 2 else ["key", "value"]
        count = f"{len(rows):,} {'entry' if len(rows) == 1 else 'entries'} on this instance"
        note = f"The first {count}; there are more." if len(found) > limit else f"{count}."
        return table(heads, rows, title=f"store {self._name}", note=note)

    def _entries(self) -> AbstractContextManager[Iterator[Any]]:
        """All entries, as keys and values."""
        found: AbstractContextManager[Iterator[Any]] = self._each(lambda store: store.all())
        return found

    def _first(self, key: Any, read: Callable[[Any], Any]) -> Any:
        """What the first partition that has something answers."""
        partitions = self._partitions()
        if self._home is not None and len(partitions) > 1:
            home = self._home(key)
            partitions = sorted(partitions, key=lambda partition: partition.partition != home)
        for partition in partitions:
            with partition.lease() as lease:
                found = read(lease.store)
            if found is not None:
                return self._convert(found)
        return None

    def _each(self, open_iterator: Callable[[Any], Any]) -> Any:
        """The entries of all partitions, one partition after the other; each is a view of one commit."""
        # All leases are taken before the first entry is read, so that the partitions are close in time to each other.
        leases: list[Lease] = []
        entries: list[LeasedIterator] = []
        try:
            for partition in self._partitions():
                lease = partition.lease()
                leases.append(lease)
                entries.append(LeasedIterator(open_iterator(lease.store), lease))
        except BaseException:
            for lease in leases:
                lease.close()
            raise
        convert = self._convert

        def close(_: Any) -> None:
            for iterator in entries:
                iterator.close()

        found = ((key, convert(value)) for iterator in entries for key, value in iterator)
        return PeekingIterator(found, self._name, close)

    def _first_non_empty(self, open_iterator: Callable[[Any], Any]) -> Any:
        """The entries of the one partition that has any: those of one key."""
        for partition in self._partitions():
            lease = partition.lease()
            try:
                entries = open_iterator(lease.store)
                found = entries.has_next()
            except BaseException:
                lease.close()
                raise
            if found:
                return self._converted(LeasedIterator(entries, lease))
            entries.close()
            lease.close()
        return PeekingIterator((), self._name)

    def _converted(self, entries: LeasedIterator) -> Any:
        convert = self._convert
        return PeekingIterator(((key, convert(value)) for key, value in entries), self._name, lambda _: entries.close())


class ReadOnlyKeyValueStore(_View, KeyValueReading[K, V]):
    """Keys to values."""

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        value: V | None = self._first(key, lambda store: store.get(key))
        return value

    def range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """Entries from one key to another, both included; None leaves an end open."""
        return self._each(lambda store: store.range(key_from, key_to))  # type: ignore[no-any-return]

    def reverse_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """The same, in each partition from the highest key down."""
        return self._each(lambda store: store.reverse_range(key_from, key_to))  # type: ignore[no-any-return]

    def all(self) -> StoreIterator[tuple[K, V]]:
        """All entries."""
        return self._each(lambda store: store.all())  # type: ignore[no-any-return]

    def reverse_all(self) -> StoreIterator[tuple[K, V]]:
        """All entries, in each partition from the highest key down."""
        return self._each(lambda store: store.reverse_all())  # type: ignore[no-any-return]

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[K, V]]:
        """Entries whose key bytes start with the serialized prefix."""
        return self._each(lambda store: store.prefix_scan(prefix, prefix_serializer))  # type: ignore[no-any-return]

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""
        total = 0
        for partition in self._partitions():
            with partition.lease() as lease:
                total += lease.store.approximate_num_entries()
        return total


class ReadOnlyWindowStore(_View, Generic[K, V]):
    """Windows of keys to values; times are milliseconds, ranges include both ends."""

    @overload
    def fetch(self, key: K, time: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time: int, time_to: int) -> StoreIterator[tuple[int, V]]: ...

    def fetch(self, key: K, time: int, time_to: int | None = None) -> Any:
        """The value of the window that starts at `time`, or None; with `time_to` the same as `fetch_range`."""
        if time_to is not None:
            return self.fetch_range(key, time, time_to)
        value: V | None = self._first(key, lambda store: store.fetch(key, time))
        return value

    def fetch_range(self, key: K, time_from: int, time_to: int) -> StoreIterator[tuple[int, V]]:
        """`(window_start, value)` of one key's windows, oldest first."""
        return self._first_non_empty(lambda store: store.fetch_range(key, time_from, time_to))  # type: ignore[no-any-return]

    def backward_fetch_range(self, key: K, time_from: int, time_to: int) -> StoreIterator[tuple[int, V]]:
        """The same, newest first."""
        return self._first_non_empty(  # type: ignore[no-any-return]
            lambda store: store.backward_fetch_range(key, time_from, time_to)
        )

    def fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of the keys in a range."""
        return self._each(  # type: ignore[no-any-return]
            lambda store: store.fetch_key_range(key_from, key_to, time_from, time_to)
        )

    def backward_fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""
        return self._each(  # type: ignore[no-any-return]
            lambda store: store.backward_fetch_key_range(key_from, key_to, time_from, time_to)
        )

    def fetch_all(self, time_from: int, time_to: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of all keys that start in a range of time."""
        return self._each(lambda store: store.fetch_all(time_from, time_to))  # type: ignore[no-any-return]

    def backward_fetch_all(self, time_from: int, time_to: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""
        return self._each(lambda store: store.backward_fetch_all(time_from, time_to))  # type: ignore[no-any-return]

    def all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """All windows that are still kept."""
        return self._each(lambda store: store.all())  # type: ignore[no-any-return]

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""
        return self._each(lambda store: store.backward_all())  # type: ignore[no-any-return]


class ReadOnlySessionStore(_View, Generic[K, V]):
    """Sessions of keys to aggregates."""

    def _entries(self) -> AbstractContextManager[Iterator[Any]]:
        return self.find_sessions_key_range(None, None, 0, 2**63 - 1)

    def fetch_session(self, key: K, session_start: int, session_end: int) -> V | None:
        """The aggregate of exactly this session, or None."""
        value: V | None = self._first(key, lambda store: store.fetch_session(key, session_start, session_end))
        return value

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key, oldest first."""
        return self._first_non_empty(lambda store: store.fetch(key))  # type: ignore[no-any-return]

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key, newest first."""
        return self._first_non_empty(lambda store: store.backward_fetch(key))  # type: ignore[no-any-return]

    def fetch_key_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of the keys in a range."""
        return self._each(lambda store: store.fetch_key_range(key_from, key_to))  # type: ignore[no-any-return]

    def backward_fetch_key_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""
        return self._each(lambda store: store.backward_fetch_key_range(key_from, key_to))  # type: ignore[no-any-return]

    def find_sessions(self, key: K, earliest_session_end: int, latest_session_start: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of a key with end >= the first and start <= the second bound."""
        return self._first_non_empty(  # type: ignore[no-any-return]
            lambda store: store.find_sessions(key, earliest_session_end, latest_session_start)
        )

    def backward_find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, newest first."""
        return self._first_non_empty(  # type: ignore[no-any-return]
            lambda store: store.backward_find_sessions(key, earliest_session_end, latest_session_start)
        )

    def find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same for a range of keys."""
        return self._each(  # type: ignore[no-any-return]
            lambda store: store.find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start)
        )

    def backward_find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same for a range of keys, backwards."""
        return self._each(  # type: ignore[no-any-return]
            lambda store: store.backward_find_sessions_key_range(key_from, key_to, earliest_session_end, latest_session_start)
        )


class ReadOnlyVersionedKeyValueStore(_View, Generic[K, V]):
    """Keys to versions of their values."""

    def to_html(self, limit: int = SHOWN_ENTRIES) -> str:
        """A line that says how to read it: the entries of a versioned store are found by key alone."""
        return paragraph(f"store {self._name}", strong=True) + paragraph("A versioned store is read by key: store.get(key).")

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The latest version, or the one that was valid at a time."""
        found: VersionedRecord[V] | None = self._first(key, lambda store: store.get(key, as_of))
        return found

    def get_versions(
        self, key: K, from_time: int = -(2**63), to_time: int = 2**63 - 1, ascending: bool = False
    ) -> Iterator[VersionedRecord[V]]:
        """All versions that were valid at some moment of a range of time, newest first unless `ascending`."""
        for partition in self._partitions():
            with partition.lease() as lease:
                found = list(lease.store.get_versions(key, from_time, to_time, ascending))
            if found:
                return iter(found)
        return iter(())


VIEWS: dict[str, type[Any]] = {
    "key_value": ReadOnlyKeyValueStore,
    "window": ReadOnlyWindowStore,
    "session": ReadOnlySessionStore,
    "versioned": ReadOnlyVersionedKeyValueStore,
}


def _unchanged(value: Any) -> Any:
    return value


def _row(key: Any, value: Any) -> tuple[Any, ...]:
    if isinstance(key, Windowed):
        return key.key, moment(key.window.start), moment(key.window.end), value
    return key, value
