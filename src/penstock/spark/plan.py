"""The sub-topologies of an application with the partition counts of their topics. They determine the tasks and their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from penstock.ids import TaskId, TopicPartition
from penstock.serdes.contract import as_deserializer, as_serializer, wants_headers
from penstock.topology.execution_plan import is_counted
from penstock.topology.specs import SourceSpec, Subtopology


class StateBound(Enum):
    """The scope that a task's state cannot leave, because one of its stores has no changelog."""

    PROCESS = "process"
    """A store in memory: it is lost when the task closes."""
    HOST = "host"
    """A store on disk: it exists when the task opens on the same host."""


@dataclass(frozen=True)
class Plan:
    """The sub-topologies of an application and the partition count of each topic.

    `counted` has the repartition topics whose records are only counted by key.
    """

    subtopologies: Mapping[int, Subtopology]
    partitions: Mapping[str, int]
    counted: frozenset[str] = frozenset()
    bound: Mapping[int, StateBound] = field(default_factory=dict)
    """The sub-topologies whose state cannot move. Their tasks do not move."""

    @cached_property
    def repartition_topics(self) -> frozenset[str]:
        """The topics between sub-topologies."""
        return frozenset(topic for s in self.subtopologies.values() for topic in s.repartition_source_topics)

    @cached_property
    def takes_counts(self) -> frozenset[str]:
        """The repartition topics whose readers accept counts, because an earlier plan may have written them."""
        return frozenset(
            topic for s in self.subtopologies.values() for topic in s.repartition_source_topics if is_counted(s, topic)
        )

    @cached_property
    def levels(self) -> Mapping[int, int]:
        """The largest number of repartitions before each sub-topology. A cycle back to itself does not count."""
        found: dict[int, int] = {}

        def level(subtopology: Subtopology, above: frozenset[int]) -> int:
            if subtopology.id not in found:
                feeding = [s for s in self.feeding(subtopology) if s.id not in above]
                found[subtopology.id] = 1 + max((level(s, above | {subtopology.id}) for s in feeding), default=-1)
            return found[subtopology.id]

        for subtopology in self.subtopologies.values():
            level(subtopology, frozenset({subtopology.id}))
        return found

    @cached_property
    def cyclic_topics(self) -> frozenset[str]:
        """The repartition topics from a sub-topology to itself or to an earlier one."""
        return frozenset(
            topic
            for reader in self.subtopologies.values()
            for topic in reader.repartition_source_topics
            for writer in self.subtopologies.values()
            if topic in writer.sink_topics and self.levels[writer.id] >= self.levels[reader.id]
        )

    def tasks(self) -> list[TaskId]:
        return list(self._tasks)

    @cached_property
    def task_set(self) -> frozenset[TaskId]:
        """All tasks, as a cached set: the event loop needs them in every step, and there may be thousands."""
        return frozenset(self._tasks)

    @cached_property
    def _tasks(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(s.id, number) for s in self.subtopologies.values() for number in range(self.task_count(s)))

    def inputs(self, task_id: TaskId) -> list[TopicPartition]:
        topics = self.subtopologies[task_id.subtopology].source_topics
        return [TopicPartition(topic, task_id.partition) for topic in topics if task_id.partition < self.partitions[topic]]

    def is_stateful(self, task_id: TaskId) -> bool:
        """Return True if a task has state with a changelog."""
        return bool(self.subtopologies[task_id.subtopology].store_to_changelog)

    def changelogs(self, task_id: TaskId) -> dict[TopicPartition, str]:
        """Return the changelog partitions of a task with their stores."""
        topics = self.subtopologies[task_id.subtopology].store_to_changelog
        return {TopicPartition(topic, task_id.partition): store for store, topic in topics.items()}

    def task_count(self, subtopology: Subtopology) -> int:
        """Return the largest partition count of a sub-topology's source topics: its number of tasks."""
        return max((self.partitions[topic] for topic in subtopology.source_topics), default=0)

    def repartitions_of(self, writer: Subtopology) -> list[str]:
        """Return the repartition topics that a sub-topology writes, in the order of their readers."""
        return [t for s in self.subtopologies.values() for t in s.repartition_source_topics if t in writer.sink_topics]

    def feeding(self, subtopology: Subtopology) -> list[Subtopology]:
        """Return the sub-topologies that write this one's repartition topics."""
        topics = set(subtopology.repartition_source_topics)
        return [s for s in self.subtopologies.values() if topics.intersection(s.sink_topics)]


def make_plan(subtopologies: Sequence[Subtopology], partitions: Mapping[str, int], config: Mapping[str, Any]) -> Plan:
    """Return the plan of a topology with these partition counts."""
    counts = config["repartition.format"] == "blocks" and config["statestore.cache.max.bytes"] > 0
    counted = {
        topic
        for s in subtopologies
        for topic in s.repartition_source_topics
        if counts and is_counted(s, topic) and not _serdes_need_headers(s, config)
    }
    bound = {s.id: state_bound for s in subtopologies if (state_bound := state_bound_of(s)) is not None}
    return Plan({s.id: s for s in subtopologies}, dict(partitions), frozenset(counted), bound)


def state_bound_of(subtopology: Subtopology) -> StateBound | None:
    """Return the scope that a sub-topology's state cannot leave, or None if changelogs can restore all of it."""
    unlogged = [builder for name, builder in subtopology.stores.items() if name not in subtopology.store_to_changelog]
    if not unlogged:
        return None
    return StateBound.HOST if all(builder.build().persistent for builder in unlogged) else StateBound.PROCESS


def partitions_of(plan: Plan, tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """Return the partitions that tasks read, by topic."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        for topic, partition in plan.inputs(task):
            found.setdefault(topic, set()).add(partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}


def _serdes_need_headers(subtopology: Subtopology, config: Any) -> bool:
    """Return True if keys or stores use headers, which records that are only counted do not have."""
    default = config.default_key_serde if config.get("default.key.serde") is not None else None
    sources = [node.key_deserializer or default for node in subtopology.nodes if isinstance(node, SourceSpec)]
    stores = [builder.chosen() for builder in subtopology.stores.values()]
    kept = [getattr(store, "key_serde", None) or default for store in stores]
    kept += [getattr(store, "value_serde", None) for store in stores]
    return any(wants_headers(as_deserializer(given)) for given in (*sources, *kept)) or any(
        wants_headers(as_serializer(given)) for given in kept
    )
