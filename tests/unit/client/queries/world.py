"""An application without Kafka and Spark: a real topology whose stores are written by hand, read by the real readers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from penstock import (
    Materialized,
    Processor,
    Serdes,
    SessionWindows,
    State,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TaskId,
    TimeWindows,
    TopicPartition,
)
from penstock.client.input_lags import Lags, PartitionLag
from penstock.client.queries.local_stores import LocalStores
from penstock.client.queries.locations import Locations
from penstock.client.queries.queries import Queries
from penstock.dsl.options import Consumed, Grouped
from penstock.kafka.membership import Membership
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.reader_context import ReaderContext
from penstock.spark.messages import Application
from penstock.spark.plan import make_plan
from penstock.state.capabilities import rocksdb_of
from penstock.state.directory import StateDirectory

string, long = Serdes.string(), Serdes.long()
PARTITIONS = 3


def topology() -> Any:
    """A store of each kind."""
    builder = StreamsBuilder()
    by_key = builder.stream("in", Consumed(string, string)).group_by_key(Grouped(key_serde=string, value_serde=string))
    by_key.count(Materialized("counts", string, long))
    by_key.windowed_by(TimeWindows(1000, grace=0)).count(Materialized("windows", string, long, retention=1_000_000))
    by_key.windowed_by(SessionWindows(1000, grace=0)).count(Materialized("sessions", string, long))
    versions = Stores.persistent_versioned_key_value_store("versions", 1_000_000)
    builder.stream("in", Consumed(string, string)).to_table(Materialized(None, string, string, supplier=versions))
    for name, key_serde, value_serde in (
        ("numbers", Serdes.long(), Serdes.json()),
        ("raw", Serdes.bytes(), Serdes.bytes()),
        ("documents", Serdes.json(), Serdes.double()),
    ):
        store = Stores.key_value_store_builder(Stores.persistent_key_value_store(name), key_serde, value_serde)
        builder.add_state_store(store)
        builder.stream("in", Consumed(string, string)).process(Idle, name)
    return builder.build()


class Idle(Processor[Any, Any, Any, Any]):
    """Nothing is processed here."""

    def process(self, record: Any) -> None: ...


class EventLoop:
    """Says that it runs all tasks it is given."""

    def __init__(self, tasks: list[TaskId]) -> None:
        self.owners = dict.fromkeys(tasks, 0)
        self.standby_hosts: dict[TaskId, str] = {}
        self.standbys = SimpleNamespace(copies=list, lag=lambda task: None)
        self.waiting_for_core: dict[str, float] = {}
        self.is_open = True
        self.has_begun = True
        self.membership: Any = object()
        self.restoring: set[TaskId] = set()

    def lags(self) -> Lags:
        """Each task reads its own partition and, with all others, that of a topic before a shuffle."""
        partitions = {TopicPartition("before", 0): 4, **{TopicPartition("in", task.partition): 3 for task in self.owners}}
        found = {partition: PartitionLag(100, 100 + lag) for partition, lag in partitions.items()}
        return Lags(found, dict.fromkeys(self.owners, 7))

    def is_ready(self, task: TaskId) -> bool:
        return self.is_open and task not in self.restoring

    def reopen(self) -> None: ...


class ThreadWorker:
    name, executor = "app-StreamThread-1", None


class SparkThreads:
    """One thread on this host."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.workers = {0: ThreadWorker()}
        self.jvm_pid: int | None = None

    def is_on_this_host(self, thread: int) -> bool:
        return True

    def site_of(self, thread: int) -> str:
        return ""

    def query_address(self, thread: int) -> None:
        return None


class World:
    """The application; `write(store, partition)` gives the typed store that a task would write, `commit` commits them all."""

    def __init__(self, folder: Path, own: list[int] | None = None, hosts: dict[int, str] | None = None) -> None:
        self.config = StreamsConfig({"application.id": "app", "bootstrap.servers": "localhost:9", "state.dir": str(folder)})
        self.topology = topology()
        builder = self.topology.internal_topology_builder
        builder.rewrite_topology(self.config)
        self.plan = make_plan(builder.subtopologies("app", {}), _partitions(builder), self.config)
        self.directory = StateDirectory(folder, "app")
        self.state = State.RUNNING
        mine = [t for t in self.plan.tasks() if own is None or t.partition in own]
        self.loop = EventLoop(mine)
        application = Application("key", self.config, self.plan, None, "p", "client", query_key=b"secret")
        self.spark_threads: Any = SparkThreads(application)
        self.stores = LocalStores(self.config, self.spark_threads, self.loop)  # type: ignore[arg-type]
        hosts = hosts or dict.fromkeys(range(PARTITIONS), "localhost:1")
        owners = {t: hosts[t.partition] for t in self.plan.tasks()}
        self.membership = Membership(1, b"", (), owners, {host: host for host in hosts.values()})
        self.locations = Locations(self.plan, self.membership, frozenset())
        self.queries = Queries(self.stores, lambda: self.locations, lambda: self.state)
        self._written: dict[tuple[str, int], Any] = {}

    def write(self, name: str, partition: int) -> Any:
        if (name, partition) not in self._written:
            task = next(t for t in self.plan.tasks() if t.partition == partition and name in self.stores_of(t))
            readable = ReadableStore(self.plan.subtopologies[task.subtopology].stores[name], self.config, None)
            store = readable.builder.build_reader(readable.builder.build_engine())
            store.init(ReaderContext(self.config, task, self.directory.folder_of_task(task), None), store)
            self._written[name, partition] = store
        return self._written[name, partition]

    def stores_of(self, task: TaskId) -> Any:
        return self.plan.subtopologies[task.subtopology].stores

    def home_of(self, name: str, key: Any) -> Any:
        """The store that a key belongs into."""
        return self.write(name, self.locations.task_of_key(name, key, self.stores.store(name).key_serde).partition)

    def open_all(self) -> None:
        """Make all partitions of all stores exist, as tasks do when they are opened."""
        for task in self.loop.owners:
            for name in self.stores_of(task):
                self.write(name, task.partition)

    def commit(self, position: bytes | None = None) -> None:
        for store in self._written.values():
            db = rocksdb_of(store)
            if position is not None and db is not None:
                db.position = position
            store.commit({})

    def close(self) -> None:
        self.queries.close()
        for store in self._written.values():
            store.close()


def _partitions(builder: Any) -> dict[str, int]:
    topics = {t for s in builder.subtopologies("app", {}) for t in (*s.source_topics, *s.changelog_topics, *s.sink_topics)}
    return dict.fromkeys(topics, PARTITIONS)
