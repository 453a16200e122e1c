"""Runs one operator without a task: a context that keeps what is forwarded, and stores of plain dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.ids import TaskId
from penstock.metrics.registry import Metrics
from penstock.record import Record, RecordContext, RecordMetadata
from penstock.runtime.current_record import CurrentRecord
from penstock.serdes.serde import Serdes
from penstock.state.capabilities import StoreCapabilities
from penstock.windows import SessionWindow, TimeWindow, Windowed


class Entries:
    """An iterator over a copy of a store's entries."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FakeContext(CurrentRecord):
    """What operators use of a task's context."""

    def __init__(self, stores: dict[str, Any] | None = None, configs: dict[str, Any] | None = None) -> None:
        self.stores = stores or {}
        self.app_configs = configs or {}
        self.metadata: dict[str, int] = {}
        self.forwarded: list[Record[Any, Any]] = []
        self.contexts: list[RecordContext | None] = []
        self.dropped: list[str] = []
        self.task_id = TaskId(0, 0)
        self.metrics = Metrics("DEBUG")
        self.record_context: RecordContext | None = None
        self.current_node = None
        self.current_node_name = "node"
        self.wall_clock_ms = 0
        self.key_serde = Serdes.string()
        self.value_serde = Serdes.string()
        self.on_forward: Callable[[Record[Any, Any]], None] | None = None

    @property
    def record_metadata(self) -> RecordMetadata | None:
        context = self.record_context
        if context is None or context.topic is None:
            return None
        return RecordMetadata(context.topic, context.partition, context.offset)

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        self.forwarded.append(record)
        self.contexts.append(self.record_context)
        if self.on_forward is not None:
            self.on_forward(record)

    def get_state_store(self, name: str) -> Any:
        return self.stores[name]

    def current_system_time_ms(self) -> int:
        return self.wall_clock_ms

    def add_processor_metadata_key_value(self, key: str, value: int) -> None:
        self.metadata[key] = value

    def processor_metadata_for_key(self, key: str) -> int | None:
        return self.metadata.get(key)

    def record_dropped(self, reason: str) -> None:
        self.dropped.append(reason)

    def count_dropped(self) -> None:
        self.dropped.append("")

    def take(self) -> list[Record[Any, Any]]:
        """What was forwarded since the last call."""
        taken = list(self.forwarded)
        self.forwarded.clear()
        return taken


class Runner:
    """Gives records to one processor, each with a context of its own."""

    def __init__(self, supplier: Callable[[], Any], context: FakeContext) -> None:
        self.context = context
        self.processor = supplier()
        self.processor.init(context)
        self._offset = 0

    def pipe(self, key: Any, value: Any, timestamp: int, headers: Any = ()) -> list[tuple[Any, Any, int]]:
        """Process one record; gives `(key, value, timestamp)` of what comes out."""
        self.context.record_context = RecordContext(timestamp, self._offset, 0, "topic", headers)
        self._offset += 1
        self.processor.process(Record(key, value, timestamp, headers))
        return [(record.key, record.value, record.timestamp) for record in self.context.take()]


class FakeWindowStore(StoreCapabilities):
    """Values by key and start; with `duplicates` each put adds one."""

    keeps_rows = False

    def __init__(self, window_size: int, duplicates: bool = False) -> None:
        self._size = window_size
        self._duplicates = duplicates
        self.entries: list[tuple[Any, int, Any]] = []

    def put(self, key: Any, value: Any, start: int) -> None:
        if self._duplicates:
            if value is not None:
                self.entries.append((key, start, value))
            return
        self.entries = [entry for entry in self.entries if entry[:2] != (key, start)]
        if value is not None:
            self.entries.append((key, start, value))

    def fetch(self, key: Any, time: int) -> Any:
        return next((value for k, start, value in self.entries if (k, start) == (key, time)), None)

    def fetch_range(self, key: Any, time_from: int, time_to: int) -> Entries:
        found = [(start, value) for k, start, value in self.entries if k == key and time_from <= start <= time_to]
        return Entries(sorted(found, key=lambda entry: entry[0]))

    def backward_fetch_range(self, key: Any, time_from: int, time_to: int) -> Entries:
        found = [(start, value) for k, start, value in self.entries if k == key and time_from <= start <= time_to]
        return Entries(sorted(found, key=lambda entry: -entry[0]))

    def fetch_all(self, time_from: int, time_to: int) -> Entries:
        found = [
            (Windowed(key, TimeWindow(start, start + self._size)), value)
            for key, start, value in self.entries
            if time_from <= start <= time_to
        ]
        return Entries(sorted(found, key=lambda entry: (entry[0].window.start, entry[0].key)))


class FakeSessionStore(StoreCapabilities):
    """Aggregates by session."""

    def __init__(self) -> None:
        self.entries: dict[tuple[Any, int, int], Any] = {}

    def put(self, session: Windowed[Any], aggregate: Any) -> None:
        self.entries[(session.key, session.window.end, session.window.start)] = aggregate

    def remove(self, session: Windowed[Any]) -> None:
        del self.entries[(session.key, session.window.end, session.window.start)]

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        return self.entries.get((key, end, start))

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Entries:
        return self._found(lambda k, end, start: k == key and end >= earliest_end and start <= latest_start)

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> Entries:
        return self._found(lambda k, end, start: earliest_end <= end <= latest_end)

    def _found(self, matches: Callable[[Any, int, int], bool]) -> Entries:
        keys = sorted((key for key in self.entries if matches(*key)), key=lambda key: (key[1], key[2], key[0]))
        return Entries([(Windowed(key, SessionWindow(start, end)), self.entries[key, end, start]) for key, end, start in keys])


class FakeListStore(StoreCapabilities):
    """The store of a left or outer join: each put adds a value, keys in the order of time, right before left."""

    def __init__(self) -> None:
        self.lists: dict[Any, list[Any]] = {}

    def put(self, key: Any, value: Any) -> None:
        if value is None:
            self.lists.pop(key, None)
        else:
            self.lists.setdefault(key, []).append(value)

    def put_if_absent(self, key: Any, value: Any) -> None:
        assert value is None
        self.lists.pop(key, None)

    def all(self) -> Entries:
        ordered = sorted(self.lists, key=lambda key: (key.timestamp, key.is_left_side, key.key))
        return Entries([(key, value) for key in ordered for value in self.lists[key]])


class FakeTable:
    """A table's rows, its value getter and the supplier of that."""

    def __init__(self, name: str = "table", versioned: bool = False) -> None:
        self.rows: dict[Any, Any] = {}
        self.node_name = name
        self.is_versioned = versioned
        self.sends_old_values = False
        self.store_names = (f"{name}-store",)

    def value_getter_supplier(self) -> FakeTable:
        return self

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        self.sends_old_values = True
        return True

    def get(self, key: Any = None, as_of: int | None = None) -> Any:
        if key is None:
            return self
        row = self.rows.get(key)
        if as_of is None:
            return row[-1] if isinstance(row, list) else row
        return next((version for version in reversed(row or []) if version.timestamp <= as_of), None)

    def init(self, context: Any) -> None:
        pass

    def close(self) -> None:
        pass
