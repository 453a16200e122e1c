"""Global tables in a thread: a full copy, caught up before the turn that reads it.

Each thread keeps a copy of its own, since RocksDB lets only one process write: a thread's processors then read it at the speed
of a local store, and no thread waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.clock import SystemClock
from penstock.errors import TaskCorruptedError
from penstock.ids import TopicPartition
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.log_bounds import LogBounds
from penstock.metrics.registry import Metrics
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.global_state import GlobalStateUpdateTask
from penstock.runtime.nodes import Node
from penstock.runtime.task_metrics import TaskMetrics
from penstock.spark.messages import Application
from penstock.spark.worker import step_sizes
from penstock.state.cache import RecordCache
from penstock.state.directory import FolderLock, StateDirectory
from penstock.state.engines.rocksdb_files import delete_folder
from penstock.state.store import StateStore
from penstock.topology.specs import GlobalTopology

LogsOf = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, LogBounds]]


class ThreadGlobalTables:
    """The global stores of one thread; `logs_of` asks the brokers where topics start and end."""

    def __init__(
        self, application: Application, directory: StateDirectory, fetcher: RangeFetcher, client_id: str, logs_of: LogsOf
    ) -> None:
        self._application = application
        self._directory = directory
        self._fetcher = fetcher
        self._client_id = client_id
        self._logs_of = logs_of
        self._task: GlobalStateUpdateTask | None = None
        self._lock: FolderLock | None = None
        self._positions: dict[TopicPartition, int] = {}
        self.stores: dict[str, StateStore] = {}

    def open(self) -> None:
        """Open and fill the stores once, before the first task that may read them."""
        topology = self._application.global_topology
        if topology is None or self._task is not None:
            return
        self._lock = self._lock or FolderLock.acquire(self.folder)
        counts = self._application.plan.partitions
        partitions = [TopicPartition(t, p) for t in set(topology.store_to_topic.values()) for p in range(counts[t])]
        logs = self._logs_of(partitions)
        task = self._opened(topology, partitions)
        misfits = task.state_manager.misfits(logs)
        if misfits:
            task.state_manager.close()
            for folder in misfits.values():
                delete_folder(folder)
            task = self._opened(topology, partitions)
        task.state_manager.note_logs(logs)
        for partition in partitions:
            position, end = max(self._positions.get(partition, 0), logs[partition].start), logs[partition].stable_end
            while position < end:
                until = min(end, position + step_sizes.GLOBAL_TABLE)
                for found, reached in self._fetcher.parts([FetchRange(*partition, position, until)]):
                    for batch in found[partition].unreadable:
                        task.skip(partition, batch)
                    task.restore(partition, list(found[partition]), reached[partition])
                position = until
            self._positions[partition] = position
        task.complete_restoration()
        self.stores.update(task.state_manager.stores)
        self._task = task

    def _opened(self, topology: GlobalTopology, partitions: Sequence[TopicPartition]) -> GlobalStateUpdateTask:
        config, metrics = self._application.config, TaskMetrics(Metrics(), GLOBAL_TASK_ID)
        task = GlobalStateUpdateTask(topology, config, self.folder, SystemClock(), metrics, RecordCache(0))
        self._positions = dict(task.initialize(partitions))
        return task

    def catch_up(self, ends: Mapping[TopicPartition, int]) -> None:
        """Apply what is new up to the given ends."""
        if self._task is None:
            return
        self._refuse_other_logs(ends)
        ranges = [
            FetchRange(p.topic, p.partition, self._positions[p], end) for p, end in ends.items() if end > self._positions[p]
        ]
        if not ranges:
            return
        for found, reached in self._fetcher.parts(ranges):
            for partition, records in found.items():
                for batch in records.unreadable:
                    self._task.skip(partition, batch)
                for record in records:
                    self._task.update(record)
                self._positions[partition] = reached[partition]
        self._task.flush_state()

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """The partitions of global topics; none where there are no global tables, or they are not open."""
        return () if self._task is None else tuple(self._positions)

    def _refuse_other_logs(self, ends: Mapping[TopicPartition, int]) -> None:
        """Where a topic was made anew the thread is opened anew, and fills its copy from the start."""
        beyond = [partition for partition, end in ends.items() if end < self._positions[partition]]
        for partition, log in self._logs_of(beyond).items() if beyond else ():
            reason = log.misfit(self._positions[partition])
            if reason is not None:
                raise TaskCorruptedError(f"a global store is at offset {self._positions[partition]} of {partition}, but {reason}")

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes that keep the stores; none where another thread tells what went through them: all have a copy."""
        return self._task.topology.nodes if self._task is not None and self._client_id.endswith("-1") else ()

    def close(self) -> None:
        """Close the stores."""
        if self._task is not None:
            self._task.close()
            self._task = None
            self.stores.clear()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def folder(self) -> Path:
        """Where this thread keeps its copy."""
        folder = self._directory.global_state_dir() / self._client_id.rpartition("-")[2]
        folder.mkdir(parents=True, exist_ok=True)
        return folder
