"""What a session store should hold, as plain dicts; and the kinds of session stores that are held against it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.builders import SessionStoreBuilder
from penstock.state.engines.segmented import SegmentedBytesStore
from penstock.state.engines.session_rocksdb import RocksDBSessionStore
from penstock.state.engines.session_time_ordered import RocksDBTimeOrderedSessionStore
from penstock.state.keys.session import SessionKeySchema
from penstock.state.windowed_suppliers import SessionBytesStoreSupplier, SessionSupplier, StoreLayout
from penstock.windows import SessionWindow, Windowed

NAME = "sessions"
RETENTION = 100
SEGMENT_INTERVAL = 40
CHANGELOG = TopicPartition(f"app-{NAME}-changelog", 0)

Session = tuple[bytes, int, int]
SortKey = Callable[[bytes, int, int], Any]


@dataclass(frozen=True)
class SmallSegments(SessionBytesStoreSupplier):
    """RocksDB stores with segments that fill up within a test."""

    time_ordered: bool = False
    with_index: bool = False
    name: str = NAME
    retention_period: int = RETENTION

    metrics_scope = "rocksdb-session"

    @property
    def segment_interval_ms(self) -> int:
        return SEGMENT_INTERVAL

    def get(self) -> Any:
        if self.time_ordered:
            return RocksDBTimeOrderedSessionStore.create(NAME, RETENTION, SEGMENT_INTERVAL, self.with_index)
        return RocksDBSessionStore(SegmentedBytesStore(NAME, RETENTION, SEGMENT_INTERVAL, SessionKeySchema()))


def segment(time: int) -> int:
    return time // SEGMENT_INTERVAL


def by_segment_and_key(key: bytes, start: int, end: int) -> Any:
    return segment(end), key + struct.pack(">qq", end, start)


def by_end_start_key(key: bytes, start: int, end: int) -> Any:
    return end, start, key


def by_end_key_latest_start(key: bytes, start: int, end: int) -> Any:
    return end, key, -start


@dataclass(frozen=True)
class Kind:
    """One kind of session store, and the order in which it gives its sessions."""

    name: str
    supplier: Any
    order: SortKey
    order_by_end: SortKey | None = None
    persistent: bool = True
    cacheable: bool = True

    def builder(self, caching: bool) -> Any:
        made = SessionStoreBuilder(self.supplier, Serdes.bytes(), Serdes.bytes())
        return made.with_caching_enabled() if caching else made

    def __str__(self) -> str:
        return self.name


KINDS = [
    Kind("rocksdb", SmallSegments(), by_segment_and_key),
    Kind(
        "in-memory",
        SessionSupplier(NAME, RETENTION, StoreLayout.MEMORY),
        by_end_key_latest_start,
        by_end_key_latest_start,
        persistent=False,
    ),
    Kind("time-ordered-index", SmallSegments(True, True), by_segment_and_key, by_end_start_key),
    # Kafka Streams has no cache in the order of ends without an index.
    Kind("time-ordered", SmallSegments(True, False), by_end_start_key, by_end_start_key, cacheable=False),
]


@dataclass
class Model:
    """A store without caching."""

    kind: Kind
    entries: dict[Session, bytes] = field(default_factory=dict)
    observed: int = -1
    expired: int = 0

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        self.observed = max(self.observed, end)
        if self._is_expired(end):
            self.expired += 1
        elif value is None:
            self.entries.pop((key, start, end), None)
        else:
            self.entries[key, start, end] = value
        self.entries = {entry: value for entry, value in self.entries.items() if not self._is_expired(entry[2])}

    def remove(self, key: bytes, start: int, end: int) -> None:
        if self.kind.persistent:
            self.observed = max(self.observed, end)
        self.entries.pop((key, start, end), None)

    def visible(self) -> dict[Session, bytes]:
        oldest = self.observed - RETENTION + 1
        return {entry: value for entry, value in self.entries.items() if entry[2] >= oldest}

    def _is_expired(self, end: int) -> bool:
        if not self.kind.persistent:
            return end <= self.observed - RETENTION
        return segment(end) < max(0, segment(self.observed - RETENTION))

    def copy(self) -> Model:
        return Model(self.kind, dict(self.entries), self.observed, self.expired)


class ModelWithCache:
    """The same behind a cache that is only flushed when told to."""

    def __init__(self, kind: Kind, caching: bool) -> None:
        self.kind = kind
        self.below = Model(kind)
        self.committed = self.below.copy()
        self.caching = caching
        self.cached: dict[Session, bytes | None] = {}

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        if self.caching:
            self.cached.pop((key, start, end), None)
            self.cached[key, start, end] = value
        else:
            self.below.put(key, start, end, value)

    def remove(self, key: bytes, start: int, end: int) -> None:
        if self.caching:
            self.put(key, start, end, None)
        else:
            self.below.remove(key, start, end)

    def flush(self) -> None:
        for (key, start, end), value in self.cached.items():
            self.below.put(key, start, end, value)
        self.cached = {entry: value for entry, value in self.cached.items() if value is not None}

    def commit(self) -> None:
        self.flush()
        self.committed = self.below.copy()

    def discard(self) -> None:
        self.below = self.committed.copy()
        self.cached = {}

    def visible(self) -> dict[Session, bytes]:
        merged: dict[Session, bytes | None] = {**self.below.visible(), **self.cached}
        return {entry: value for entry, value in merged.items() if value is not None}

    def sessions(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_end: int,
        latest_start: int,
        order: SortKey,
        forward: bool,
    ) -> list[tuple[Windowed[bytes], bytes]]:
        visible = self.visible()
        found = [
            (key, start, end)
            for key, start, end in visible
            if end >= earliest_end
            and start <= latest_start
            and (key_from is None or key >= key_from)
            and (key_to is None or key <= key_to)
        ]
        found.sort(key=lambda entry: order(*entry), reverse=not forward)
        return [(Windowed(key, SessionWindow(start, end)), visible[key, start, end]) for key, start, end in found]
