"""Suppliers of byte-level window, session and versioned stores: which engine a builder puts its layers around. They pickle.

`create` checks what a user gives; `Stores` calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
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
from penstock.state.value_formats import PLAIN, TIMESTAMPED, ValueFormat
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


class StoreLayout(Enum):
    """Where the windows and sessions of a supplied store are kept, and in which layout."""

    MEMORY = "in-memory"
    KEYS = "rocksdb"
    TIME = "rocksdb by time"
    """For results at window close."""
    TIME_WITH_INDEX = "rocksdb by time, with an index by key"

    @property
    def is_by_time(self) -> bool:
        """Whether the store is in RocksDB in the order of time."""
        return self in (StoreLayout.TIME, StoreLayout.TIME_WITH_INDEX)

    def metrics_scope(self, kind: str) -> str:
        """Return what the metrics of a store of a kind are tagged with."""
        return f"{'in-memory' if self is StoreLayout.MEMORY else 'rocksdb'}-{kind}"

    def segment_interval(self, retention_ms: int) -> int:
        """Return how much time a segment covers: half the retention, at least a minute. In memory each time has its own."""
        return 1 if self is StoreLayout.MEMORY else _segment_interval(retention_ms)


@dataclass(frozen=True)
class WindowSupplier(WindowBytesStoreSupplier):
    """The window stores of penstock."""

    name: str
    retention_period: int
    segment_interval_ms: int
    window_size: int
    retain_duplicates: bool = False
    layout: StoreLayout = StoreLayout.KEYS
    value_format: ValueFormat = PLAIN

    @classmethod
    def create(
        cls,
        name: str,
        retention_period: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        layout: StoreLayout = StoreLayout.KEYS,
        value_format: ValueFormat = PLAIN,
    ) -> WindowSupplier:
        """Return a supplier with the usual segments; refuses times that do not fit."""
        retention_ms, size_ms = _window_times(name, retention_period, window_size)
        if layout.is_by_time:
            value_format = TIMESTAMPED  # results at window close need the time
        return cls(name, retention_ms, layout.segment_interval(retention_ms), size_ms, retain_duplicates, layout, value_format)

    @property
    def metrics_scope(self) -> str:  # type: ignore[override]  # a plain attribute for suppliers of the user's own
        """What the store's metrics are tagged with."""
        return self.layout.metrics_scope("window")

    def get(self) -> InMemoryWindowStore | RocksDBWindowStore | RocksDBTimeOrderedWindowStore:
        if self.layout is StoreLayout.MEMORY:
            return InMemoryWindowStore(self.name, self.retention_period, self.window_size, self.retain_duplicates)
        times = self.name, self.retention_period, self.segment_interval_ms
        if self.layout.is_by_time:
            with_index = self.layout is StoreLayout.TIME_WITH_INDEX
            return RocksDBTimeOrderedWindowStore.create(*times, self.window_size, self.retain_duplicates, with_index)
        store = SegmentedBytesStore(*times, WindowKeySchema(), self.value_format, self.retain_duplicates)
        return RocksDBWindowStore(store, self.retain_duplicates, self.window_size)


@dataclass(frozen=True)
class SessionSupplier(SessionBytesStoreSupplier):
    """The session stores of penstock."""

    name: str
    retention_period: int
    layout: StoreLayout = StoreLayout.KEYS
    value_format: ValueFormat = PLAIN

    @classmethod
    def create(
        cls, name: str, retention_period: Duration, layout: StoreLayout = StoreLayout.KEYS, value_format: ValueFormat = PLAIN
    ) -> SessionSupplier:
        """Return a supplier; refuses a negative time."""
        return cls(_named(name), _not_negative(retention_period, "retention_period"), layout, value_format)

    @property
    def segment_interval_ms(self) -> int:
        return self.layout.segment_interval(self.retention_period)

    @property
    def metrics_scope(self) -> str:  # type: ignore[override]  # a plain attribute for suppliers of the user's own
        """What the store's metrics are tagged with."""
        return self.layout.metrics_scope("session")

    def get(self) -> InMemorySessionStore | RocksDBSessionStore | RocksDBTimeOrderedSessionStore:
        if self.layout is StoreLayout.MEMORY:
            return InMemorySessionStore(self.name, self.retention_period)
        times = self.name, self.retention_period, self.segment_interval_ms
        if self.layout.is_by_time:
            return RocksDBTimeOrderedSessionStore.create(*times, self.layout is StoreLayout.TIME_WITH_INDEX)
        return RocksDBSessionStore(SegmentedBytesStore(*times, SessionKeySchema(), self.value_format))


@dataclass(frozen=True)
class RocksDbVersionedKeyValueBytesStoreSupplier(VersionedBytesStoreSupplier):
    """Versioned stores in RocksDB."""

    name: str
    history_retention_ms: int
    segment_interval_ms: int

    metrics_scope = "rocksdb"

    def get(self) -> RocksDBVersionedStore:
        return RocksDBVersionedStore(self.name, self.history_retention_ms, self.segment_interval_ms)


def persistent_versioned_key_value_store(
    name: str, history_retention: Duration, segment_interval: Duration | None = None
) -> RocksDbVersionedKeyValueBytesStoreSupplier:
    """Versioned stores in RocksDB; without a segment interval one that fits the retention is chosen.

    >>> from datetime import timedelta
    >>> persistent_versioned_key_value_store("prices", timedelta(minutes=1)).segment_interval_ms
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
