"""The state on this instance: which store partitions are local, and how to read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.client.scheduling.event_loop import EventLoop
from penstock.config.streams_config import StreamsConfig
from penstock.errors import InvalidStateStoreError, StreamsRebalancingError, UnknownStateStoreError
from penstock.ids import TaskId
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.queries.opening import CustomStore, ReadableStore, custom_store_message
from penstock.runtime.queries.partition import StorePartition
from penstock.scratch import ScratchFolder
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.messages import Application
from penstock.spark.plan import Plan
from penstock.spark.queries.query_client import WorkerPartition
from penstock.spark.queries.query_listener import store_to_query
from penstock.spark.queries.store_locator import StoreSource
from penstock.state.directory import GLOBAL_FOLDER, state_dir_here


@dataclass(frozen=True)
class LocalPartition:
    """A local partition. `running`: its task is active and restored; otherwise it may lag."""

    reader: StorePartition
    active: bool
    running: bool

    @property
    def partition(self) -> int:
        return self.reader.partition


class LocalStores:
    """Reads the stores of one instance, in any thread."""

    def __init__(self, config: StreamsConfig, spark_threads: SparkThreads, loop: EventLoop) -> None:
        self._config = config
        self._spark_threads = spark_threads
        self._loop = loop
        self._folder = state_dir_here(config["state.dir"]) / config["application.id"]
        self._logs = ScratchFolder("penstock-readers-")
        self._stores: dict[str, ReadableStore | CustomStore] = {}
        self._tasks: tuple[Plan | None, dict[str, list[TaskId]]] = (None, {})
        self._readers: dict[tuple[TaskId, str, str], StorePartition] = {}
        self._lock = threading.Lock()

    # -- stores --------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of all queryable stores of the topology, including global ones."""
        plan, topology = self._spark_threads.application.plan, self._spark_threads.application.global_topology
        local = [name for s in plan.subtopologies.values() for name in s.stores]
        return sorted({*local, *(topology.stores if topology is not None else ())})

    def is_global(self, name: str) -> bool:
        """Return True for a global store, which every instance has completely."""
        topology = self._spark_threads.application.global_topology
        return topology is not None and name in topology.stores

    def store(self, name: str) -> ReadableStore:
        """Return a store of the topology. Raises UnknownStateStoreError for an unknown name."""
        found = self.queryable(name)
        if isinstance(found, CustomStore):
            raise InvalidStateStoreError(custom_store_message(name, found.kind))
        return found

    def queryable(self, name: str) -> ReadableStore | CustomStore:
        """Return a store, or a user's custom store, which only answers queries."""
        with self._lock:
            found = self._stores.get(name)
        if found is None:
            tasks = [GLOBAL_TASK_ID] if self.is_global(name) else self.tasks_of(name)
            if not tasks:
                known = ", ".join(self.names) or "none"
                raise UnknownStateStoreError(
                    f"Cannot get state store {name} because no such store is registered in the topology; there are: {known}"
                )
            found = store_to_query(self._spark_threads.application, tasks[0], name)
            with self._lock:
                self._stores[name] = found
        return found

    def tasks_of(self, name: str) -> list[TaskId]:
        """Return the tasks with a partition of a store, on any instance."""
        plan = self._spark_threads.application.plan
        if self._tasks[0] is not plan:
            tasks: dict[str, list[TaskId]] = {}
            for task in plan.tasks():
                for store in plan.subtopologies[task.subtopology].stores:
                    tasks.setdefault(store, []).append(task)
            self._tasks = plan, tasks
        return self._tasks[1].get(name, [])

    def owned(self, name: str) -> set[TaskId]:
        """Return the tasks of a store that this instance owns, readable or not."""
        return self._loop.owners.keys() & self.tasks_of(name)

    # -- partitions ----------------------------------------------------------------------------------------------------

    def active(self, name: str, task: TaskId | None) -> LocalPartition | None:
        """Return the local active partition of a task (None: of a global store), for point reads."""
        if task is None:
            return self.partitions(name)[0]
        thread = self._loop.owners.get(task)
        if thread is None:
            return None
        return LocalPartition(self._reader(self.store(name), task, thread), True, self._loop.is_ready(task))

    def partitions(self, name: str) -> list[LocalPartition]:
        """Return the local partitions of a store, active and standby."""
        store = self.queryable(name)
        if self.is_global(name):
            thread = min(self._loop.owners.values(), default=0)
            return [LocalPartition(self._reader(store, GLOBAL_TASK_ID, thread), True, self._loop.has_globals(thread))]
        tasks = self.tasks_of(name)
        owners, is_ready = self._loop.owners, self._loop.is_ready
        found = [LocalPartition(self._reader(store, t, owners[t]), True, is_ready(t)) for t in tasks if t in owners]
        if isinstance(store, ReadableStore) and store.on_disk:
            copies = {t: host for t, host in self._loop.standby_hosts.items() if t in tasks and t not in owners}
            readers = [self._copy(store, task, host) for task, host in copies.items()]
            found += [LocalPartition(reader, False, False) for reader in readers if reader is not None]
        return sorted(found, key=lambda local: local.reader.task_id)

    @property
    def application(self) -> Application:
        return self._spark_threads.application

    def sources(self, name: str) -> list[StoreSource]:
        """Return the sources of a store's local active partitions for Spark's tasks."""
        store = self.store(name)
        owners = self._loop.owners
        placed = (
            {GLOBAL_TASK_ID: min(owners.values(), default=0)}
            if self.is_global(name)
            else {task: owners[task] for task in self.tasks_of(name) if task in owners}
        )
        ready = map(self._loop.has_globals, placed.values()) if self.is_global(name) else map(self._loop.is_ready, placed)
        if not self._loop.owners or not all(ready):
            raise StreamsRebalancingError(f"store {name} cannot be read now: its tasks are being opened. Try again later")
        return [
            StoreSource(
                task,
                _subfolder(task, thread),
                None
                if store.on_disk and self._spark_threads.workers[thread].executor is None
                else self._spark_threads.query_address(thread),
                self._spark_threads.workers[thread].executor,
                site=self._spark_threads.site_of(thread),
            )
            for task, thread in placed.items()
        ]

    def _reader(self, store: ReadableStore | CustomStore, task_id: TaskId, thread: int) -> StorePartition:
        if isinstance(store, ReadableStore) and store.on_disk and self._spark_threads.is_on_this_host(thread):
            return self._on_disk(store, task_id, thread)
        key = task_id, store.name, f"thread-{thread}"
        with self._lock:
            reader = self._readers.get(key)
            if reader is None:
                reader = self._readers[key] = WorkerPartition(
                    store, task_id, self._spark_threads.application, self._address(thread), self._loop.reopen
                )
            return reader

    def _copy(self, store: ReadableStore, task_id: TaskId, host: str) -> StorePartition | None:
        """Return a reader for a standby, or None if its host has no thread."""
        if not host:
            return self._on_disk(store, task_id, 0)
        thread = self._spark_threads.thread_on(host)
        return None if thread is None else self._reader(store, task_id, thread)

    def _on_disk(self, store: ReadableStore, task_id: TaskId, thread: int) -> StorePartition:
        key = task_id, store.name, f"disk-{thread}" if task_id == GLOBAL_TASK_ID else "disk"
        with self._lock:
            reader = self._readers.get(key)
            if reader is None:
                folder = self._folder / _subfolder(task_id, thread)
                reader = self._readers[key] = store.partition_on_disk(task_id, folder, self._logs.path)
            return reader

    def _address(self, thread: int) -> Callable[[], str | tuple[str, int] | None]:
        return lambda: self._spark_threads.query_address(thread)

    # -- closing -------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Discard all readers after a change of the plan."""
        with self._lock:
            readers, self._readers = list(self._readers.values()), {}
            self._stores.clear()
        _close(readers)

    def close(self) -> None:
        self.forget()
        self._logs.close()


def _subfolder(task_id: TaskId, thread: int) -> str:
    """Return a task's directory within the application's. Each thread has its own directory for global stores."""
    return f"{GLOBAL_FOLDER}/{thread + 1}" if task_id == GLOBAL_TASK_ID else str(task_id)


def _close(readers: Iterable[StorePartition]) -> None:
    for reader in readers:
        reader.close()
