"""The sub-topologies of an application with the partitions of their topics: which tasks there are, and what they read."""

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
    """What the state of a task cannot leave, because a store of it has no changelog to be restored from elsewhere."""

    PROCESS = "process"
    """A store in memory: closing the task empties it."""
    HOST = "host"
    """A store on disk: it is there again when the task is opened on the same host."""


@dataclass(frozen=True)
class Plan:
    """The sub-topologies of an application, and how many partitions each topic has.

    `counted` are the repartition topics whose records are only counted by key.
    """

    subtopologies: Mapping[int, Subtopology]
    partitions: Mapping[str, int]
    counted: frozenset[str] = frozenset()
    bound: Mapping[int, StateBound] = field(default_factory=dict)
    """The sub-topologies whose state cannot move: their tasks stay where they are."""

    @cached_property
    def repartition_topics(self) -> frozenset[str]:
        """The topics by which sub-topologies feed each other."""
        return frozenset(topic for s in self.subtopologies.values() for topic in s.repartition_source_topics)

    @cached_property
    def takes_counts(self) -> frozenset[str]:
        """The repartition topics whose readers understand counts: an earlier plan may have written them."""
        return frozenset(
            topic for s in self.subtopologies.values() for topic in s.repartition_source_topics if is_counted(s, topic)
        )

    @cached_property
    def levels(self) -> Mapping[int, int]:
        """How many repartitions lie before each sub-topology at most; sub-topologies that feed themselves count as before."""
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
        """The repartition topics that lead from a sub-topology back to itself, or to one before it."""
        return frozenset(
            topic
            for reader in self.subtopologies.values()
            for topic in reader.repartition_source_topics
            for writer in self.subtopologies.values()
            if topic in writer.sink_topics and self.levels[writer.id] >= self.levels[reader.id]
        )

    def tasks(self) -> list[TaskId]:
        """All tasks, in order."""
        return list(self._tasks)

    @cached_property
    def task_set(self) -> frozenset[TaskId]:
        """All tasks. The event loop asks for them in every step, and there may be thousands."""
        return frozenset(self._tasks)

    @cached_property
    def _tasks(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(s.id, number) for s in self.subtopologies.values() for number in range(self.task_count(s)))

    def inputs(self, task_id: TaskId) -> list[TopicPartition]:
        """The partitions that a task reads."""
        topics = self.subtopologies[task_id.subtopology].source_topics
        return [TopicPartition(topic, task_id.partition) for topic in topics if task_id.partition < self.partitions[topic]]

    def is_stateful(self, task_id: TaskId) -> bool:
        """Whether a task has state that can be kept elsewhere too."""
        return bool(self.subtopologies[task_id.subtopology].store_to_changelog)

    def changelogs(self, task_id: TaskId) -> dict[TopicPartition, str]:
        """The changelog partitions of a task, each with its store."""
        topics = self.subtopologies[task_id.subtopology].store_to_changelog
        return {TopicPartition(topic, task_id.partition): store for store, topic in topics.items()}

    def task_count(self, subtopology: Subtopology) -> int:
        """As many tasks as the widest of its source topics has partitions."""
        return max((self.partitions[topic] for topic in subtopology.source_topics), default=0)

    def repartitions_of(self, writer: Subtopology) -> list[str]:
        """The repartition topics that a sub-topology writes to, in the order of those who read them."""
        return [t for s in self.subtopologies.values() for t in s.repartition_source_topics if t in writer.sink_topics]

    def feeding(self, subtopology: Subtopology) -> list[Subtopology]:
        """The sub-topologies that write to the repartition topics which this one reads."""
        topics = set(subtopology.repartition_source_topics)
        return [s for s in self.subtopologies.values() if topics.intersection(s.sink_topics)]


def make_plan(subtopologies: Sequence[Subtopology], partitions: Mapping[str, int], config: Mapping[str, Any]) -> Plan:
    """The plan of a topology whose topics have so many partitions."""
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
    """What the state of a sub-topology's tasks cannot leave; None if all of it can be restored from changelogs."""
    unlogged = [builder for name, builder in subtopology.stores.items() if name not in subtopology.store_to_changelog]
    if not unlogged:
        return None
    return StateBound.HOST if all(builder.build().persistent for builder in unlogged) else StateBound.PROCESS


def partitions_of(plan: Plan, tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """The partitions that tasks read, by topic."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        for topic, partition in plan.inputs(task):
            found.setdefault(topic, set()).add(partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}


def _serdes_need_headers(subtopology: Subtopology, config: Any) -> bool:
    """Whether keys are read, or stores used, with headers, which are not there where records are only counted."""
    default = config.default_key_serde if config.get("default.key.serde") is not None else None
    sources = [node.key_deserializer or default for node in subtopology.nodes if isinstance(node, SourceSpec)]
    stores = [builder.chosen() for builder in subtopology.stores.values()]
    kept = [getattr(store, "key_serde", None) or default for store in stores]
    kept += [getattr(store, "value_serde", None) for store in stores]
    return any(wants_headers(as_deserializer(given)) for given in (*sources, *kept)) or any(
        wants_headers(as_serializer(given)) for given in kept
    )
