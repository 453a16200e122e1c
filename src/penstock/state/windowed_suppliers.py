"""Suppliers of byte-level window, session and versioned stores: which engine a builder puts its layers around. They pickle.

The functions check what a user gives and make the supplier; `Stores` offers them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ConfigError
from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.engines.session_rocksdb import RocksDBSessionStore
from penstock.state.engines.session_time_ordered import RocksDBTimeOrderedSessionStore
from penstock.state.engines.versioned import RocksDBVersionedStore
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.engines.window_rocksdb import RocksDBWindowStore
from penstock.state.engines.window_time_ordered import RocksDBTimeOrderedWindowStore
from penstock.state.keys.session import SessionKeySchema
from penstock.state.keys.window import WindowKeySchema
from penstock.state.suppliers import StoreSupplier
from penstock.state.value_formats import AGGREGATE_WITH_HEADERS, PLAIN, TIMESTAMPED, WITH_HEADERS, ValueFormat
from penstock.windows import Duration, to_ms

_MIN_SEGMENT_INTERVAL = 60_000


class WindowBytesStoreSupplier(StoreSupplier):
    """A supplier of window stores of bytes; subclass it to bring a store of your own."""

    segment_interval_ms: int
    """How much time one segment covers; 1 where the store has none."""

    window_size: int
    """The length of each window in milliseconds."""

    retain_duplicates: bool
    """Whether several values of one key and one start are kept."""

    retention_period: int
    """How long windows are kept, in milliseconds of stream time."""


class SessionBytesStoreSupplier(StoreSupplier):
    """A supplier of session stores of bytes; subclass it to bring a store of your own."""

    retention_period: int
    """How long sessions are kept after their end, in milliseconds of stream time."""

    @property
    def segment_interval_ms(self) -> int:
        """How much time one segment covers: half the retention, and at least a minute; 1 where the store has none."""
        return _segment_interval(self.retention_period)


class VersionedBytesStoreSupplier(StoreSupplier):
    """A supplier of versioned stores of bytes; subclass it to bring a store of your own."""

    history_retention_ms: int
    """How long older versions are kept, in milliseconds of stream time."""


@dataclass(frozen=True)
class RocksDbWindowBytesStoreSupplier(WindowBytesStoreSupplier):
    """Window stores in RocksDB."""

    name: str
    retention_period: int
    segment_interval_ms: int
    window_size: int
    retain_duplicates: bool
    value_format: ValueFormat = PLAIN

    metrics_scope = "rocksdb-window"

    def get(self) -> RocksDBWindowStore:
        """A new store, not opened yet."""
        store = SegmentedBytesStore(
            self.name,
            self.retention_period,
            self.segment_interval_ms,
            WindowKeySchema(),
            self.value_format,
            self.retain_duplicates,
        )
        return RocksDBWindowStore(store, self.retain_duplicates, self.window_size)


@dataclass(frozen=True)
class RocksDbIndexedTimeOrderedWindowBytesStoreSupplier(WindowBytesStoreSupplier):
    """Window stores in RocksDB in the order of time, for results at window close; values carry their timestamp."""

    name: str
    retention_period: int
    segment_interval_ms: int
    window_size: int
    retain_duplicates: bool
    with_index: bool
    value_format: ValueFormat = TIMESTAMPED

    @classmethod
    def create(
        cls, name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool, has_index: bool
    ) -> RocksDbIndexedTimeOrderedWindowBytesStoreSupplier:
        """A supplier with the usual segments."""
        retention_ms, window_size_ms = _window_times(name, retention_period, window_size)
        return cls(name, retention_ms, _segment_interval(retention_ms), window_size_ms, retain_duplicates, has_index)

    metrics_scope = "rocksdb-window"

    def get(self) -> RocksDBTimeOrderedWindowStore:
        """A new store, not opened yet."""
        return RocksDBTimeOrderedWindowStore.create(
            self.name,
            self.retention_period,
            self.segment_interval_ms,
            self.window_size,
            self.retain_duplicates,
            self.with_index,
        )


@dataclass(frozen=True)
class InMemoryWindowBytesStoreSupplier(WindowBytesStoreSupplier):
    """Window stores in memory."""

    name: str
    retention_period: int
    window_size: int
    retain_duplicates: bool

    metrics_scope = "in-memory-window"

    # Every start is a segment of its own.
    segment_interval_ms = 1

    def get(self) -> InMemoryWindowStore:
        """A new store, not opened yet."""
        return InMemoryWindowStore(self.name, self.retention_period, self.window_size, self.retain_duplicates)


@dataclass(frozen=True)
class RocksDbSessionBytesStoreSupplier(SessionBytesStoreSupplier):
    """Session stores in RocksDB."""

    name: str
    retention_period: int
    value_format: ValueFormat = PLAIN

    metrics_scope = "rocksdb-session"

    def get(self) -> RocksDBSessionStore:
        """A new store, not opened yet."""
        store = SegmentedBytesStore(
            self.name, self.retention_period, self.segment_interval_ms, SessionKeySchema(), self.value_format
        )
        return RocksDBSessionStore(store)


@dataclass(frozen=True)
class RocksDbTimeOrderedSessionBytesStoreSupplier(SessionBytesStoreSupplier):
    """Session stores in RocksDB in the order of time, for results at window close."""

    name: str
    retention_period: int
    with_index: bool = True

    metrics_scope = "rocksdb-session"

    def get(self) -> RocksDBTimeOrderedSessionStore:
        """A new store, not opened yet."""
        return RocksDBTimeOrderedSessionStore.create(self.name, self.retention_period, self.segment_interval_ms, self.with_index)


@dataclass(frozen=True)
class InMemorySessionBytesStoreSupplier(SessionBytesStoreSupplier):
    """Session stores in memory."""

    name: str
    retention_period: int

    metrics_scope = "in-memory-session"

    @property
    def segment_interval_ms(self) -> int:
        """Every end is a segment of its own."""
        return 1

    def get(self) -> InMemorySessionStore:
        """A new store, not opened yet."""
        return InMemorySessionStore(self.name, self.retention_period)


@dataclass(frozen=True)
class RocksDbVersionedKeyValueBytesStoreSupplier(VersionedBytesStoreSupplier):
    """Versioned stores in RocksDB."""

    name: str
    history_retention_ms: int
    segment_interval_ms: int

    metrics_scope = "rocksdb"

    def get(self) -> RocksDBVersionedStore:
        """A new store, not opened yet."""
        return RocksDBVersionedStore(self.name, self.history_retention_ms, self.segment_interval_ms)


def persistent_window_store(
    name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
) -> RocksDbWindowBytesStoreSupplier:
    """Window stores in RocksDB.

    >>> persistent_window_store("counts", 120_000, 60_000).segment_interval_ms
    60000
    """
    return _persistent_window_store(name, retention_period, window_size, retain_duplicates, PLAIN)


def persistent_timestamped_window_store(
    name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
) -> RocksDbWindowBytesStoreSupplier:
    """Window stores in RocksDB that keep a timestamp with each value."""
    return _persistent_window_store(name, retention_period, window_size, retain_duplicates, TIMESTAMPED)


def persistent_timestamped_window_store_with_headers(
    name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
) -> RocksDbWindowBytesStoreSupplier:
    """Window stores in RocksDB that keep a timestamp and the record's headers with each value."""
    return _persistent_window_store(name, retention_period, window_size, retain_duplicates, WITH_HEADERS)


def in_memory_window_store(
    name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
) -> InMemoryWindowBytesStoreSupplier:
    """Window stores in memory."""
    retention_ms, window_size_ms = _window_times(name, retention_period, window_size)
    return InMemoryWindowBytesStoreSupplier(name, retention_ms, window_size_ms, retain_duplicates)


def persistent_session_store(name: str, retention_period: Duration) -> RocksDbSessionBytesStoreSupplier:
    """Session stores in RocksDB."""
    return RocksDbSessionBytesStoreSupplier(_named(name), _not_negative(retention_period, "retention_period"))


def persistent_session_store_with_headers(name: str, retention_period: Duration) -> RocksDbSessionBytesStoreSupplier:
    """Session stores in RocksDB that keep the record's headers with each aggregate."""
    return replace(persistent_session_store(name, retention_period), value_format=AGGREGATE_WITH_HEADERS)


def in_memory_session_store(name: str, retention_period: Duration) -> InMemorySessionBytesStoreSupplier:
    """Session stores in memory."""
    return InMemorySessionBytesStoreSupplier(_named(name), _not_negative(retention_period, "retention_period"))


def persistent_versioned_key_value_store(
    name: str, history_retention: Duration, segment_interval: Duration | None = None
) -> RocksDbVersionedKeyValueBytesStoreSupplier:
    """Versioned stores in RocksDB; without a segment interval one that fits the retention is chosen.

    >>> persistent_versioned_key_value_store("prices", 60_000).segment_interval_ms
    20000
    """
    retention_ms = _not_negative(history_retention, "history_retention")
    if segment_interval is None:
        interval_ms = _versioned_segment_interval(retention_ms)
    else:
        interval_ms = to_ms(segment_interval, "segment_interval")
        if interval_ms < 1:
            raise ConfigError("segment_interval cannot be zero or negative")
    return RocksDbVersionedKeyValueBytesStoreSupplier(_named(name), retention_ms, interval_ms)


def _persistent_window_store(
    name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool, value_format: ValueFormat
) -> RocksDbWindowBytesStoreSupplier:
    retention_ms, window_size_ms = _window_times(name, retention_period, window_size)
    return RocksDbWindowBytesStoreSupplier(
        name, retention_ms, _segment_interval(retention_ms), window_size_ms, retain_duplicates, value_format
    )


def _window_times(name: Any, retention_period: Duration, window_size: Duration) -> tuple[int, int]:
    _named(name)
    retention_ms = _not_negative(retention_period, "retention_period")
    window_size_ms = _not_negative(window_size, "window_size")
    if window_size_ms > retention_ms:
        raise ConfigError(
            f"The retention period of the window store {name} must be no smaller than its window size. "
            f"Got size=[{window_size_ms}], retention=[{retention_ms}]"
        )
    return retention_ms, window_size_ms


def _named(name: Any) -> str:
    if name is None:
        raise ValueError("name cannot be None: a store needs a name")
    return str(name)


def _not_negative(duration: Duration, what: str) -> int:
    duration_ms = to_ms(duration, what)
    if duration_ms < 0:
        raise ConfigError(f"{what} cannot be negative")
    return duration_ms


def _segment_interval(retention_ms: int) -> int:
    return max(retention_ms // 2, _MIN_SEGMENT_INTERVAL)


def _versioned_segment_interval(history_retention_ms: int) -> int:
    # As Kafka Streams chose them; what is best depends on the data.
    if history_retention_ms <= 60_000:
        return max(history_retention_ms // 3, 2_000)
    if history_retention_ms <= 300_000:
        return max(history_retention_ms // 5, 20_000)
    if history_retention_ms <= 3_600_000:
        return max(history_retention_ms // 12, 60_000)
    return max(history_retention_ms // 24, 300_000)
