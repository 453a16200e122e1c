"""The location of all instances' state, from the data that the group's members exchanged when they joined."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from penstock.errors import StreamsError
from penstock.hashing import default_partition
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import Membership
from penstock.partitioner import chooser
from penstock.peers.addresses import advertised
from penstock.query.metadata import HostInfo, KeyQueryMetadata, StreamsMetadata
from penstock.serdes.serde import as_serializer
from penstock.spark.plan import Plan

Partitioner = Callable[[str, Any, Any, int], Any]


class Locations:
    """The locations in one generation of the group."""

    def __init__(self, plan: Plan, membership: Membership | None, global_stores: frozenset[str]) -> None:
        self._plan = self.plan = plan
        self.membership = membership
        self._global_stores = global_stores
        self._hosts: dict[str, HostInfo] = {}
        self._active: dict[TaskId, str] = {}
        self._standbys: dict[TaskId, tuple[str, ...]] = {}
        if membership is None:
            return
        for process, host in membership.hosts.items():
            with contextlib.suppress(ValueError):  # no address, or an unreachable one
                self._hosts[process] = advertised(host)
        tasks = plan.tasks()
        self._active = {task: membership.owners[task] for task in tasks if task in membership.owners}
        self._standbys = {task: membership.standbys[task] for task in tasks if task in membership.standbys}

    def all(self) -> list[StreamsMetadata]:
        """Return the metadata of all instances with an `application.server`, sorted by host."""
        found = [self._metadata(process, host) for process, host in self._hosts.items()]
        return sorted(found, key=lambda metadata: metadata.host_info)

    def for_store(self, name: str) -> list[StreamsMetadata]:
        """Return the instances with a part of a store, active or standby. All instances for a global store."""
        if name in self._global_stores:
            return self.all()
        return [m for m in self.all() if name in m.state_store_names or name in m.standby_state_store_names]

    def for_key(self, name: str, key: Any, key_serializer: Any, partitioner: Partitioner | None = None) -> KeyQueryMetadata:
        """Return the location of a key. `KeyQueryMetadata.NOT_AVAILABLE` before the first assignment."""
        if name in self._global_stores:
            hosts = [metadata.host_info for metadata in self.all()]
            return KeyQueryMetadata(hosts[0] if hosts else HostInfo.unavailable(), frozenset(), -1)
        if not self._active:
            return KeyQueryMetadata.NOT_AVAILABLE
        task = self.task_of_key(name, key, key_serializer, partitioner)
        return KeyQueryMetadata(self.host_of(task), frozenset(self.standby_hosts_of(task)), task.partition)

    def host_of(self, task: TaskId) -> HostInfo:
        """Return the host of a task's active instance."""
        return self._hosts.get(self._active.get(task, ""), HostInfo.unavailable())

    def standby_hosts_of(self, task: TaskId) -> list[HostInfo]:
        """Return the hosts with a standby of a task."""
        return sorted(self._hosts[process] for process in self._standbys.get(task, ()) if process in self._hosts)

    def task_of_key(self, name: str, key: Any, key_serializer: Any, partitioner: Partitioner | None = None) -> TaskId:
        """Return the task with the store partition of a key."""
        subtopology = next(s for s in self._plan.subtopologies.values() if name in s.stores)
        topic = max(subtopology.source_topics, key=lambda t: self._plan.partitions[t])
        count = self._plan.partitions[topic]
        if partitioner is not None:
            chosen = chooser(partitioner)(topic, key, None, (), count)
            partitions = [chosen] if isinstance(chosen, int) else list(chosen or ())
            if len(partitions) != 1:
                raise StreamsError(
                    f"the partitioner returned {chosen!r} for a key of store {name}, but a query needs exactly one partition"
                )
            return TaskId(subtopology.id, partitions[0])
        serialize = as_serializer(key_serializer)
        if serialize is None:
            raise ValueError(f"a key serializer is needed to find a key of store {name}")
        raw = serialize(topic, key)
        if raw is None:
            raise ValueError(f"the key serializer returned None for a key of store {name}, but a key needs bytes")
        return TaskId(subtopology.id, default_partition(bytes(raw), count))

    def _metadata(self, process: str, host: HostInfo) -> StreamsMetadata:
        active = [task for task, owner in self._active.items() if owner == process]
        standby = [task for task, owners in self._standbys.items() if process in owners]
        return StreamsMetadata(
            host,
            frozenset(self._stores(active)) | self._global_stores,
            frozenset(self._inputs(active)),
            frozenset(self._stores(standby)),
            frozenset(self._inputs(standby)),
        )

    def _stores(self, tasks: list[TaskId]) -> set[str]:
        return {name for task in tasks for name in self._plan.subtopologies[task.subtopology].stores}

    def _inputs(self, tasks: list[TaskId]) -> set[TopicPartition]:
        partitions = self._plan.partitions
        return {
            TopicPartition(topic, task.partition)
            for task in tasks
            for topic in self._plan.subtopologies[task.subtopology].source_topics
            if task.partition < partitions[topic]
        }
