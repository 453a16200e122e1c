"""What a window store should hold, as plain dicts; and the kinds of window stores that are held against it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.builders import WindowStoreBuilder
from penstock.state.restore import StoreRestorer
from penstock.state.stores import Stores
from penstock.state.value_formats import PLAIN, TIMESTAMPED
from penstock.state.windowed_suppliers import StoreLayout, WindowSupplier
from penstock.windows import TimeWindow, Windowed
from tests.unit.state.contexts import FakeStoreContext

NAME = "windows"
RETENTION = 100
SEGMENT_INTERVAL = 40
WINDOW_SIZE = 10
CHANGELOG = TopicPartition(f"app-{NAME}-changelog", 0)

Entry = tuple[bytes, int]
SortKey = Callable[[bytes, int], Any]


def segment(time: int) -> int:
    return time // SEGMENT_INTERVAL


def by_segment_and_key(key: bytes, start: int) -> Any:
    return segment(start), key + struct.pack(">qi", start, 0)


def by_time_bytes(key: bytes, start: int) -> Any:
    return start, key + bytes(4)


def by_time(key: bytes, start: int) -> Any:
    return start, key


@dataclass(frozen=True)
class Kind:
    """One kind of window store, and the order in which it gives its windows."""

    name: str
    supplier: Any
    order: SortKey
    order_of_keys: SortKey
    persistent: bool = True
    timestamped: bool = False
    min_age: int = 1

    def builder(self, caching: bool) -> Any:
        builder = Stores.timestamped_window_store_builder if self.timestamped else WindowStoreBuilder
        made = builder(self.supplier, Serdes.bytes(), Serdes.bytes())
        return made.with_caching_enabled() if caching else made

    def __str__(self) -> str:
        return self.name


def time_ordered(with_index: bool) -> WindowSupplier:
    layout = StoreLayout.TIME_WITH_INDEX if with_index else StoreLayout.TIME
    return WindowSupplier(NAME, RETENTION, SEGMENT_INTERVAL, WINDOW_SIZE, False, layout, TIMESTAMPED)


def rocksdb(timestamped: bool, retain_duplicates: bool = False) -> WindowSupplier:
    value_format = TIMESTAMPED if timestamped else PLAIN
    return WindowSupplier(NAME, RETENTION, SEGMENT_INTERVAL, WINDOW_SIZE, retain_duplicates, value_format=value_format)


def in_memory(retain_duplicates: bool = False) -> WindowSupplier:
    return WindowSupplier(NAME, RETENTION, 1, WINDOW_SIZE, retain_duplicates, StoreLayout.MEMORY)


KINDS = [
    Kind("rocksdb", rocksdb(timestamped=False), by_segment_and_key, by_segment_and_key),
    Kind("rocksdb-timestamped", rocksdb(timestamped=True), by_segment_and_key, by_segment_and_key, timestamped=True),
    Kind("in-memory", in_memory(), by_time, by_time, persistent=False),
    Kind("in-memory-timestamped", in_memory(), by_time, by_time, persistent=False, timestamped=True),
    Kind("time-ordered", time_ordered(False), by_time_bytes, by_time_bytes, timestamped=True, min_age=0),
    Kind("time-ordered-index", time_ordered(True), by_time_bytes, by_segment_and_key, timestamped=True, min_age=0),
]


@dataclass
class Model:
    """A store without caching: what is in it, what it shows, what it took for too late."""

    kind: Kind
    entries: dict[Entry, bytes] = field(default_factory=dict)
    observed: int = -1
    expired: int = 0

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        self.observed = max(self.observed, start)
        if self._is_expired(start):
            self.expired += 1
        elif value is None:
            self.entries.pop((key, start), None)
        else:
            self.entries[key, start] = value
        self.entries = {entry: value for entry, value in self.entries.items() if not self._is_expired(entry[1])}

    def visible(self) -> dict[Entry, bytes]:
        oldest = self.observed - RETENTION + self.kind.min_age
        return {entry: value for entry, value in self.entries.items() if entry[1] >= oldest}

    def _is_expired(self, start: int) -> bool:
        if not self.kind.persistent:
            return start <= self.observed - RETENTION
        # Java divides towards zero.
        return segment(start) < max(0, segment(self.observed - RETENTION))

    def copy(self) -> Model:
        return Model(self.kind, dict(self.entries), self.observed, self.expired)


class ModelWithCache:
    """The same behind a cache that is only flushed when told to."""

    def __init__(self, kind: Kind, caching: bool) -> None:
        self.kind = kind
        self.below = Model(kind)
        self.committed = self.below.copy()
        self.caching = caching
        self.cached: dict[Entry, bytes | None] = {}

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        if self.caching:
            self.cached.pop((key, start), None)
            self.cached[key, start] = value
            # What was not flushed hides what is below, expired or not.
        else:
            self.below.put(key, value, start)

    def flush(self) -> None:
        for (key, start), value in self.cached.items():
            self.below.put(key, value, start)
        # Flushed values stay in the cache as clean entries and are still found there.
        self.cached = {entry: value for entry, value in self.cached.items() if value is not None}

    def commit(self) -> None:
        self.flush()
        self.committed = self.below.copy()

    def discard(self) -> None:
        self.below = self.committed.copy()
        self.cached = {}

    def visible(self) -> dict[Entry, bytes]:
        merged: dict[Entry, bytes | None] = {**self.below.visible(), **self.cached}
        return {entry: value for entry, value in merged.items() if value is not None}

    def windows(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, order: SortKey, forward: bool
    ) -> list[tuple[Windowed[bytes], bytes]]:
        found = [
            (key, start)
            for key, start in self.visible()
            if time_from <= start <= time_to and (key_from is None or key >= key_from) and (key_to is None or key <= key_to)
        ]
        found.sort(key=lambda entry: order(*entry), reverse=not forward)
        visible = self.visible()
        return [(Windowed(key, TimeWindow(start, start + WINDOW_SIZE)), visible[key, start]) for key, start in found]

    def of_key(self, key: bytes, time_from: int, time_to: int) -> list[tuple[int, bytes]]:
        visible = self.visible()
        return [(start, visible[k, start]) for k, start in sorted(visible) if k == key and time_from <= start <= time_to]


def restored(kind: Kind, context: FakeStoreContext, folder: Path, batch: int) -> tuple[Any, FakeStoreContext]:
    """A new store made from what another has logged."""
    fresh = FakeStoreContext(folder)
    store = kind.builder(caching=False).build()
    store.init(fresh, store)
    restorer = StoreRestorer(store, fresh.restore_callbacks[NAME], CHANGELOG)
    records = context.changelog_records(NAME)
    for at in range(0, len(records), batch):
        restorer.restore(records[at : at + batch])
    return store, fresh


def read(iterator: Any) -> list[Any]:
    with iterator as entries:
        return list(entries)


def plain(entries: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Values without their timestamps."""
    return [(key, getattr(value, "value", value)) for key, value in entries]
