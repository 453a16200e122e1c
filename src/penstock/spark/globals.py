"""Global tables in a lane: a full copy, caught up before the turn that reads it.

Each lane keeps a copy of its own, since RocksDB lets only one process write: a lane's processors then read it at the speed
of a local store, and no lane waits for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.clock import SystemClock
from penstock.ids import TopicPartition
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.metrics import Metrics
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.global_state import GlobalStateUpdateTask
from penstock.runtime.nodes import Node
from penstock.runtime.task_metrics import TaskMetrics
from penstock.spark.messages import Application
from penstock.state.cache import RecordCache
from penstock.state.directory import FolderLock, StateDirectory
from penstock.state.store import StateStore

_STEP = 50_000


class LaneGlobals:
    """The global stores of one lane."""

    def __init__(self, application: Application, directory: StateDirectory, fetcher: RangeFetcher, client_id: str) -> None:
        self._application = application
        self._directory = directory
        self._fetcher = fetcher
        self._client_id = client_id
        self._task: GlobalStateUpdateTask | None = None
        self._lock: FolderLock | None = None
        self._positions: dict[TopicPartition, int] = {}
        self.stores: dict[str, StateStore] = {}

    def open(self) -> None:
        """Open and fill the stores once, before the first task that may read them."""
        topology = self._application.global_topology
        if topology is None or self._task is not None:
            return
        metrics = TaskMetrics(Metrics(), GLOBAL_TASK_ID)
        folder = self.folder
        self._lock = self._lock or FolderLock.acquire(folder)
        task = GlobalStateUpdateTask(topology, self._application.config, folder, SystemClock(), metrics, RecordCache(0))
        counts = self._application.plan.partitions
        partitions = [TopicPartition(t, p) for t in set(topology.store_to_topic.values()) for p in range(counts[t])]
        self._positions = dict(task.initialize(partitions))
        for partition in partitions:
            low, end = self._fetcher.watermarks(partition)
            position = max(self._positions.get(partition, 0), low)
            while position < end:
                until = min(end, position + _STEP)
                records = self._fetcher.fetch([FetchRange(partition.topic, partition.partition, position, until)])[partition]
                task.restore(partition, list(records), until)
                position = until
            self._positions[partition] = position
        task.complete_restoration()
        self.stores.update(task.state_manager.stores)
        self._task = task

    def catch_up(self, ends: Mapping[TopicPartition, int]) -> None:
        """Apply what is new up to the given ends."""
        if self._task is None:
            return
        ranges = [
            FetchRange(p.topic, p.partition, self._positions[p], end) for p, end in ends.items() if end > self._positions[p]
        ]
        if not ranges:
            return
        for partition, records in self._fetcher.fetch(ranges).items():
            for record in records:
                self._task.update(record)
            self._positions[partition] = ends[partition]
        self._task.flush_state()

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes that keep the stores; none where another lane tells what went through them: all have a copy."""
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
        """Where this lane keeps its copy."""
        folder = self._directory.global_state_dir() / self._client_id.rpartition("-")[2]
        folder.mkdir(parents=True, exist_ok=True)
        return folder
