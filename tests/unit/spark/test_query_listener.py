"""Readers that ask a lane: real sockets, real stores, in one process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Materialized,
    Position,
    Serdes,
    SessionWindow,
    SessionWindows,
    StateStoreNotAvailableError,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TaskId,
    TimeWindows,
    ValueAndTimestamp,
    Windowed,
)
from penstock.dsl.options import Consumed, Grouped
from penstock.runtime.queries.reader_context import ReaderContext
from penstock.runtime.queries.views import ReadOnlyKeyValueStore, ReadOnlySessionStore, ReadOnlyWindowStore
from penstock.spark.messages import Application
from penstock.spark.plan import make_plan
from penstock.spark.query_client import LanePartition
from penstock.spark.query_listener import QueryListener, readable_store

string, long = Serdes.string(), Serdes.long()
TASK = TaskId(0, 0)


class Tasks:
    """The tasks of a lane, as far as readers know them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: dict[str, Any] = {}

    def folder_of(self, task_id: TaskId) -> Path:
        return self.folder / str(task_id)

    def live_store(self, task_id: TaskId, name: str) -> Any:
        if name not in self.stores:
            raise StateStoreNotAvailableError(f"{name} is not open")
        return self.stores[name]

    def position_of(self, task_id: TaskId) -> Position:
        return Position({"in": {0: 5}})


class Lane:
    """A lane with stores in memory and on disk."""

    def __init__(self, folder: Path, on_this_host: bool) -> None:
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "localhost:9", "state.dir": str(folder)})
        builder = StreamsBuilder()
        by_key = builder.stream("in", Consumed(string, string)).group_by_key(Grouped(key_serde=string, value_serde=string))
        for kind in ("in_memory", "rocksdb"):
            by_key.count(Materialized(f"{kind}-counts", string, long, store_type=kind))
            by_key.windowed_by(TimeWindows(1000, grace=0)).count(
                Materialized(f"{kind}-windows", string, long, store_type=kind, retention=100_000)
            )
            by_key.windowed_by(SessionWindows(1000, grace=0)).count(
                Materialized(f"{kind}-sessions", string, long, store_type=kind)
            )
        versions = Stores.persistent_versioned_key_value_store("versions", 1_000_000)
        builder.stream("in", Consumed(string, string)).to_table(Materialized(None, string, string, supplier=versions))
        topology = builder.build().internal_topology_builder
        topology.rewrite_topology(config)
        plan = make_plan(topology.subtopologies("app", {}), {"in": 1}, config)
        self.application = Application("key", config, plan, None, "p", "c", (), b"secret")
        self.tasks = Tasks(folder)
        self.listener = QueryListener(self.application, self.tasks, on_this_host)  # type: ignore[arg-type]

    @property
    def address(self) -> Any:
        return self.listener.address if isinstance(self.listener.address, str) else ("localhost", self.listener.address)

    def open(self, name: str) -> Any:
        """The store as its task has it open, without changelog."""
        readable = readable_store(self.application, TASK, name)
        store = readable.builder.build_reader(readable.builder.build_engine())
        store.init(ReaderContext(self.application.config, TASK, self.tasks.folder_of(TASK), None), store)
        self.tasks.stores[name] = store
        return store

    def partition(self, name: str, key: bytes = b"secret", patience: float = 5.0) -> LanePartition:
        store = readable_store(self.application, TASK, name)
        return LanePartition(store, TASK, key, lambda: self.address, patience=patience)


@pytest.fixture(params=[True, False], ids=["socket file", "port"])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lane]:
    lane = Lane(tmp_path, request.param)
    yield lane
    lane.listener.close()
    for store in lane.tasks.stores.values():
        store.close()


@pytest.mark.parametrize("kind", ["in_memory", "rocksdb"])
def test_should_read_every_kind_through_the_lane(lane: Lane, kind: str) -> None:
    counts, windows, sessions = (lane.open(f"{kind}-{what}") for what in ("counts", "windows", "sessions"))
    for number in range(2_500):
        counts.put(f"k{number:04}", ValueAndTimestamp(number, number))
    windows.put("a", ValueAndTimestamp(1, 1000), 1000)
    windows.put("a", ValueAndTimestamp(2, 2000), 2000)
    sessions.put(Windowed("a", SessionWindow(5, 9)), 3)
    for store in (counts, windows, sessions):
        store.commit({})
    readers = [lane.partition(f"{kind}-{what}") for what in ("counts", "windows", "sessions")]

    view: Any = ReadOnlyKeyValueStore("counts", lambda: [readers[0]], lambda value: value.value)
    assert view.get("k0007") == 7
    assert view.get("nobody") is None
    assert [value for _, value in view.all()] == list(range(2_500))
    assert [value for _, value in view.reverse_range("k0001", "k0003")] == [3, 2, 1]
    assert [key for key, _ in view.prefix_scan("k001", string)] == [f"k001{n}" for n in range(10)]
    assert view.approximate_num_entries() == 2_500
    with view.all() as entries:
        assert next(entries) == ("k0000", 0)
    view.all().close()
    assert view.get("k0008") == 8

    windowed: Any = ReadOnlyWindowStore("windows", lambda: [readers[1]])
    assert windowed.fetch("a", 2000).value == 2
    assert [start for start, _ in windowed.fetch_range("a", 0, 9999)] == [1000, 2000]
    assert [w.window.start for w, _ in windowed.backward_all()] == [2000, 1000]
    sessioned: Any = ReadOnlySessionStore("sessions", lambda: [readers[2]])
    assert [(w.window.start, w.window.end, value) for w, value in sessioned.fetch("a")] == [(5, 9, 3)]
    for reader in readers:
        reader.close()


def test_should_read_versions_through_the_lane(lane: Lane) -> None:
    store = lane.open("versions")
    store.put("a", "old", 1)
    store.put("a", "new", 2)
    store.commit({})
    reader = lane.partition("versions")
    with reader.lease() as lease:
        assert lease.store.get("a").value == "new"
        assert lease.store.get("a", 1).value == "old"
        assert [v.value for v in lease.store.get_versions("a")] == ["new", "old"]
        assert [(key, v.value) for key, v in lease.store.scan_latest()] == [("a", "new")]
    reader.close()


def test_should_wait_for_the_end_of_a_turn_before_it_reads_memory(lane: Lane) -> None:
    store = lane.open("in_memory-counts")
    reader = lane.partition("in_memory-counts")
    view: Any = ReadOnlyKeyValueStore("counts", lambda: [reader], lambda value: value.value)
    found: list[Any] = []
    with lane.listener.turn:
        store.put("a", ValueAndTimestamp(1, 1))  # half of a turn
        thread = threading.Thread(target=lambda: found.append(view.get("a")))
        thread.start()
        thread.join(0.3)
        assert found == []
        store.put("a", ValueAndTimestamp(2, 2))
    thread.join(10)
    assert found == [2]
    reader.close()


def test_should_tell_positions(lane: Lane) -> None:
    lane.open("in_memory-counts")
    reader = lane.partition("in_memory-counts")
    with reader.lease() as lease:
        assert lease.position == Position({"in": {0: 5}})
    reader.close()


def test_should_pass_errors_on_and_go_on(lane: Lane) -> None:
    reader = lane.partition("in_memory-counts", patience=0.2)
    with pytest.raises(StateStoreNotAvailableError, match="not open"):
        reader.lease()
    lane.open("in_memory-counts")
    with reader.lease() as lease:
        assert lease.store.get("a") is None
        with pytest.raises(Exception, match="not a method for readers"):
            lease.engine.delete(b"a")  # type: ignore[attr-defined]
    reader.close()


def test_should_refuse_readers_without_the_key(lane: Lane) -> None:
    lane.open("in_memory-counts")
    with pytest.raises(StateStoreNotAvailableError, match="does not answer"):
        lane.partition("in_memory-counts", key=b"wrong", patience=0.1).lease()
    family = socket.AF_UNIX if isinstance(lane.address, str) else socket.AF_INET
    with socket.socket(family) as stranger:
        stranger.connect(lane.address)
        stranger.sendall(b"\x00\x00\x00\x08GET / HT")
    reader = lane.partition("in_memory-counts")
    with reader.lease() as lease:
        assert lease.store.get("a") is None
    reader.close()


def test_should_say_that_the_lane_is_gone_and_have_it_opened(lane: Lane) -> None:
    store = readable_store(lane.application, TASK, "in_memory-counts")
    lost: list[bool] = []
    reader = LanePartition(store, TASK, b"secret", lambda: None, lambda: lost.append(True), patience=0.2)
    with pytest.raises(StateStoreNotAvailableError, match="ask again later"):
        reader.lease()
    assert lost == [True]
