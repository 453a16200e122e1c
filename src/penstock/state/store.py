"""The interfaces of state stores, as processors and queries see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import Metrics
from penstock.query.position import Position, PositionBound
from penstock.query.queries import Query
from penstock.query.result import QueryConfig, QueryResult
from penstock.record import Headers, RawRecord, RecordContext
from penstock.state.cache import RecordCache
from penstock.state.capabilities import StoreCapabilities
from penstock.windows import MAX_TIMESTAMP, Windowed

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T", covariant=True)
B = TypeVar("B", bound="StoreBuilder[Any]")

RestoreCallback = Callable[[Sequence[RawRecord]], None]

PUT_RETURN_CODE_VALID_TO_UNDEFINED = -1
PUT_RETURN_CODE_NOT_PUT = -(2**63)


@dataclass(frozen=True, slots=True, init=False)
class ValueAndTimestamp(Generic[V]):
    """A value with the time it was last changed at, as timestamped stores hold it."""

    value: V
    timestamp: int

    def __init__(self, value: V, timestamp: int) -> None:
        _set_value(self, value)
        _set_timestamp(self, timestamp)


# Slot descriptors write past the refusing __setattr__: two of these are made for each aggregated record.
_set_value = ValueAndTimestamp.__dict__["value"].__set__
_set_timestamp = ValueAndTimestamp.__dict__["timestamp"].__set__


@dataclass(frozen=True, slots=True)
class VersionedRecord(Generic[V]):
    """One version of a value: valid from `timestamp` until `valid_to` (None: still valid)."""

    value: V
    timestamp: int
    valid_to: int | None = None


class StoreIterator(Iterator[T], ABC):
    """An iterator over a store; close it, or use it as a context manager.

    An iterator that a store of one's own gives to the layers of penstock needs `__next__` and `close` only.
    """

    @abstractmethod
    def close(self) -> None:
        """Release what the iterator holds; calling it twice is fine."""

    def has_next(self) -> bool:
        """Whether another entry follows; False after `close`."""
        raise NotImplementedError(f"{type(self).__name__} cannot look ahead")

    def peek_next_key(self) -> Any:
        """The key of the next entry, which stays the next; raises StopIteration after the last."""
        raise NotImplementedError(f"{type(self).__name__} cannot look ahead")

    def __enter__(self) -> StoreIterator[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StateStoreContext(ABC):
    """What a store can ask of the task it belongs to."""

    @property
    @abstractmethod
    def application_id(self) -> str:
        """The `application.id`."""

    @property
    @abstractmethod
    def task_id(self) -> TaskId:
        """The task this store belongs to."""

    @property
    @abstractmethod
    def state_dir(self) -> Path:
        """The task's folder."""

    @property
    @abstractmethod
    def app_configs(self) -> Mapping[str, Any]:
        """The application's configuration."""

    @property
    @abstractmethod
    def key_serde(self) -> Any:
        """The default key serde, or None."""

    @property
    @abstractmethod
    def value_serde(self) -> Any:
        """The default value serde, or None."""

    @property
    @abstractmethod
    def record_context(self) -> RecordContext | None:
        """The record being processed; None outside of processing."""

    @abstractmethod
    def set_record_context(self, context: RecordContext | None) -> None:
        """Used by caches to bring back the context of an entry while it is flushed."""

    @property
    @abstractmethod
    def metrics(self) -> Metrics:
        """The registry that meters record into."""

    @property
    @abstractmethod
    def cache(self) -> RecordCache:
        """The record cache of this task (`state.cache.RecordCache`)."""

    @abstractmethod
    def changelog_for(self, store_name: str) -> str | None:
        """The changelog topic of a store; None where it has none."""

    @abstractmethod
    def register(self, store: StateStore, restore: RestoreCallback) -> None:
        """A store says that it exists and how records of its changelog are put back into it."""

    @abstractmethod
    def log_change(self, store_name: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Write one change to the store's changelog partition."""

    def log_columns(
        self,
        store_name: str,
        keys: list[bytes],
        values: list[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None = None,
    ) -> None:
        """Write many changes to the store's changelog partition; `headers` None means that no record has any."""
        for key, value, timestamp, of_record in zip(keys, values, timestamps, headers or repeat(())):
            self.log_change(store_name, key, value, timestamp, of_record)

    @property
    def position(self) -> Position:
        """The offset of the last record of each input partition that the task has processed or is processing."""
        return Position()

    @abstractmethod
    def current_system_time_ms(self) -> int:
        """Wall-clock time as the task sees it."""

    @abstractmethod
    def current_stream_time_ms(self) -> int:
        """The task's stream time; -1 before the first record."""

    def record_dropped(self, reason: str) -> None:  # noqa: B027 - who only reads counts nothing
        """Count a record that the store does not take, and log why."""


class StateStore(StoreCapabilities, ABC):
    """A named piece of state, owned by one task."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's name."""

    @abstractmethod
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store and register `root`, the outermost layer around it."""

    @abstractmethod
    def close(self) -> None:
        """Close without committing: what was not committed is gone."""

    @property
    @abstractmethod
    def persistent(self) -> bool:
        """Whether the contents survive `close`."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the store can be used now."""

    def flush(self) -> None:
        """Write what the store itself holds back; called before every commit, so that it becomes part of it."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make what was put since the last commit durable, in one step with the changelog position.

        Called after Kafka has the outputs and the changelog records. An empty mapping keeps the position.
        """

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The changelog position saved with the last commit; None where there is none."""
        return None

    def query(self, query: Query[Any], position_bound: PositionBound, config: QueryConfig) -> QueryResult[Any]:
        """Answer a query. Built-in stores answer the queries of Kafka Streams; a store of one's own may know others.

        `KafkaStreams.query` calls this method of a store of one's own between two batches, so that all it reads is committed,
        and checks the bound before. Queries and results travel between processes: their fields are plain data (numbers, text,
        bytes, lists, tuples, dicts).
        """
        return QueryResult.for_unknown_query_type(query, self)

    def get_position(self) -> Position:
        """The offsets of the input records that the store reflects; empty for a store of one's own that does not tell them."""
        return Position()


class KeyValueReading(Generic[K, V]):
    """A dict's way to read a key-value store: `store[key]`, `key in store`, `for key, value in store.items()`."""

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        raise NotImplementedError

    def all(self) -> StoreIterator[tuple[K, V]]:
        """All entries."""
        raise NotImplementedError

    def __getitem__(self, key: K) -> V:
        """The value of a key; KeyError if there is none."""
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: K) -> bool:
        """Whether a key has a value."""
        return self.get(key) is not None

    # Without it `for … in store` would ask for store[0], store[1] and so on.
    __iter__ = None

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries; the iterator of the store is closed at the end."""
        with self.all() as entries:
            yield from entries


class KeyValueStore(StateStore, KeyValueReading[K, V]):
    """Keys to values; iterators run in the order of the keys' bytes."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a key, or None."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Set the value of a key; None deletes."""

    @abstractmethod
    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set only where there is none; returns what was there."""

    @abstractmethod
    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Set many at once."""

    @abstractmethod
    def delete(self, key: K) -> V | None:
        """Remove a key; returns what was there."""

    @abstractmethod
    def range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """Entries from one key to another, both included; None leaves an end open."""

    @abstractmethod
    def reverse_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """The same, from the highest key down."""

    @abstractmethod
    def all(self) -> StoreIterator[tuple[K, V]]:
        """All entries."""

    @abstractmethod
    def reverse_all(self) -> StoreIterator[tuple[K, V]]:
        """All entries, from the highest key down."""

    @abstractmethod
    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> StoreIterator[tuple[K, V]]:
        """Entries whose key bytes start with the serialized prefix."""

    @abstractmethod
    def approximate_num_entries(self) -> int:
        """About how many entries there are."""


class WindowStore(StateStore, Generic[K, V]):
    """Values per key and window start; times are milliseconds, ranges include both ends."""

    @abstractmethod
    def put(self, key: K, value: V | None, window_start: int) -> None:
        """Set the value of a key's window; None deletes."""

    @overload
    def fetch(self, key: K, time: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time: int, time_to: int) -> StoreIterator[tuple[int, V]]: ...

    @abstractmethod
    def fetch(self, key: K, time: int, time_to: int | None = None) -> Any:
        """The value of the window that starts at `time`, or None; with `time_to` the same as `fetch_range`.

        A store of bytes below the layers of penstock is only asked for single windows here.
        """

    @abstractmethod
    def fetch_range(self, key: K, time_from: int, time_to: int) -> StoreIterator[tuple[int, V]]:
        """`(window_start, value)` of one key's windows, oldest first."""

    @abstractmethod
    def backward_fetch_range(self, key: K, time_from: int, time_to: int) -> StoreIterator[tuple[int, V]]:
        """The same, newest first."""

    @abstractmethod
    def fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of the keys in a range."""

    @abstractmethod
    def backward_fetch_key_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""

    @abstractmethod
    def fetch_all(self, time_from: int, time_to: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of all keys that start in a range of time."""

    @abstractmethod
    def backward_fetch_all(self, time_from: int, time_to: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""

    @abstractmethod
    def all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """All windows that are still kept."""

    @abstractmethod
    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""


class SessionStore(StateStore, Generic[K, V]):
    """Aggregates per key and session; a session's start and end both belong to it."""

    @abstractmethod
    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        """Set the aggregate of a session; None deletes."""

    @abstractmethod
    def remove(self, session_key: Windowed[K]) -> None:
        """Remove a session."""

    @abstractmethod
    def fetch_session(self, key: K, session_start: int, session_end: int) -> V | None:
        """The aggregate of exactly this session, or None."""

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key, oldest first."""
        return self.find_sessions(key, 0, MAX_TIMESTAMP)

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key, newest first."""
        return self.backward_find_sessions(key, 0, MAX_TIMESTAMP)

    def fetch_key_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of the keys in a range."""
        return self.find_sessions_key_range(key_from, key_to, 0, MAX_TIMESTAMP)

    def backward_fetch_key_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, backwards."""
        return self.backward_find_sessions_key_range(key_from, key_to, 0, MAX_TIMESTAMP)

    @abstractmethod
    def find_sessions(self, key: K, earliest_session_end: int, latest_session_start: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of a key with end >= the first and start <= the second bound."""

    @abstractmethod
    def backward_find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same, newest first."""

    @abstractmethod
    def find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same for a range of keys."""

    @abstractmethod
    def backward_find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """The same for a range of keys, backwards."""

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that end in a range of time; only stores that results are emitted from at close can do it."""
        raise NotImplementedError(
            f"store {self.name} cannot find sessions by their end: it is not kept in the order of time. "
            "Sessions that emit on window close need a time-ordered or an in-memory store without caching"
        )


class VersionedKeyValueStore(StateStore, Generic[K, V]):
    """Every version of a value within the history retention."""

    @abstractmethod
    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Add a version; returns its valid-to time, or one of the PUT_RETURN_CODE values."""

    @abstractmethod
    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The latest version, or the one that was valid at a time."""

    @abstractmethod
    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Add a tombstone; returns the version that was valid then."""


class StoreBuilder(ABC, Generic[T]):
    """How a store is made: its name, and switches for logging (on) and caching (off). A builder of one's own implements `build`.

    Changes are made in place and return the builder.
    """

    retention_period: int | None = None
    """How long a window or session store keeps its entries, in milliseconds; None for other stores."""
    history_retention: int | None = None
    """How long a versioned store keeps old versions, in milliseconds; None for other stores."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._enable_caching = False
        self._enable_logging = True
        self._log_config: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The store's name."""
        if self._name is None:
            raise ValueError(f"a store needs a name: {type(self).__name__}(name)")
        return self._name

    @property
    def logging_enabled(self) -> bool:
        """Whether changes go to a changelog topic."""
        return self._enable_logging

    @property
    def caching_enabled(self) -> bool:
        """Whether the record cache sits in front of the store."""
        return self._enable_caching

    @property
    def log_config(self) -> Mapping[str, str]:
        """The user's configuration of the changelog topic."""
        return self._log_config

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take from the application's configuration what the builder was not given."""

    def chosen(self) -> StoreBuilder[Any]:
        """The builder of the very store that is built: itself, unless the configuration chooses one."""
        return self

    def with_logging_enabled(self: B, topic_config: Mapping[str, Any] | None = None) -> B:
        """Write changes to a changelog topic with this configuration."""
        self._enable_logging = True
        self._log_config.update({key: str(value) for key, value in (topic_config or {}).items()})
        return self

    def with_logging_disabled(self: B) -> B:
        """Keep no changelog: the contents are lost with the folder."""
        self._enable_logging = False
        self._log_config.clear()
        return self

    def with_caching_enabled(self: B) -> B:
        """Put the record cache in front."""
        self._enable_caching = True
        return self

    def with_caching_disabled(self: B) -> B:
        """Every update goes through."""
        self._enable_caching = False
        return self

    @abstractmethod
    def build(self) -> Any:
        """A new store, not opened yet."""
