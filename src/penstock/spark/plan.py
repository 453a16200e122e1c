"""Which sub-topologies one turn runs together: pipelines, cut at repartition topics or bound by a shuffle.

A repartition becomes Spark's shuffle where what is upstream of it recomputes to the same records: it reads input topics
only, keeps no state, is made of the DSL's stateless operators, and no function of the user's is seen to depend on chance, clocks,
state or what is outside (`repeatable`). Everything else goes through the real topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from penstock.columns.operator import Operator
from penstock.errors import ConfigError
from penstock.ids import TaskId, TopicPartition
from penstock.repeatable import why_not_repeatable
from penstock.serdes.contract import as_deserializer, as_serializer, wants_headers
from penstock.timestamps import WallclockTimestampExtractor, resolve_timestamp_extractor, uses_partition_time
from penstock.topology.column_plan import is_counted
from penstock.topology.specs import ProcessorSpec, SourceSpec, Subtopology
from penstock.user_code import added_at

# A vector is committed as offset metadata, of which a broker keeps 4,096 bytes: what a task must not forget needs some of it, and
# so do the ids of the source topics (512 bytes, base64).
_MAX_VECTOR_BYTES = 3_000
_POSITION_BYTES = 13  # twelve digits and a comma


class StateBound(Enum):
    """What the state of a task cannot leave, because a store of it has no changelog to be restored from elsewhere."""

    PROCESS = "process"
    """A store in memory: closing the task empties it."""
    HOST = "host"
    """A store on disk: it is there again when the task is opened on the same host."""


@dataclass(frozen=True)
class Plan:
    """The sub-topologies of an application with the way each repartition goes.

    `shuffled` maps a repartition topic that goes through the shuffle to the sub-topology that feeds it; `counted` are those
    of them whose records are only counted by key.
    """

    subtopologies: Mapping[int, Subtopology]
    partitions: Mapping[str, int]
    shuffled: Mapping[str, int]
    counted: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why repartition topics are written to; of one that is shuffled all the same, what speaks against it."""
    bound: Mapping[int, StateBound] = field(default_factory=dict)
    """The sub-topologies whose state cannot move: the tasks of these stay where they are."""

    @property
    def upstream(self) -> frozenset[int]:
        """Sub-topologies that only feed a shuffle: they have no tasks of their own."""
        return frozenset(self.shuffled.values())

    @property
    def has_topics(self) -> bool:
        """Whether a repartition goes through its topic."""
        return any(topic not in self.shuffled for s in self.subtopologies.values() for topic in s.repartition_source_topics)

    def shuffling(self, upstream: Collection[int]) -> Plan:
        """The same, with only what these sub-topologies feed going through the shuffle; what others feed goes through topics."""
        shuffled = {topic: source for topic, source in self.shuffled.items() if source in upstream}
        if len(shuffled) == len(self.shuffled):
            return self
        return replace(self, shuffled=shuffled, counted=self.counted & shuffled.keys())

    def tasks(self) -> list[TaskId]:
        """All tasks, in order."""
        return [
            TaskId(s.id, partition)
            for s in self.subtopologies.values()
            if s.id not in self.upstream
            for partition in range(self.task_count(s))
        ]

    def inputs(self, task_id: TaskId) -> list[TopicPartition]:
        """What a task reads: its partition of each source topic, and through a shuffle its part of all that comes before it."""
        subtopology = self.subtopologies[task_id.subtopology]
        own = (TopicPartition(topic, task_id.partition) for topic in subtopology.source_topics if topic not in self.shuffled)
        found = [partition for partition in own if partition.partition < self.partitions[partition.topic]]
        for feeding in self.feeding(subtopology):
            found += [TopicPartition(topic, p) for topic in feeding.source_topics for p in range(self.partitions[topic])]
        return found

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

    def repartitions_of(self, upstream: Subtopology) -> list[str]:
        """The repartition topics that a sub-topology writes to or feeds, in the order of those who read them."""
        return repartitions_of(upstream, self.subtopologies.values())

    def feeding(self, subtopology: Subtopology) -> list[Subtopology]:
        """The sub-topologies whose shuffle its tasks are fed by."""
        found = {self.shuffled[topic] for topic in subtopology.source_topics if topic in self.shuffled}
        return [self.subtopologies[i] for i in sorted(found)]


def repartitions_of(upstream: Subtopology, subtopologies: Iterable[Subtopology]) -> list[str]:
    """The repartition topics among what a sub-topology writes to, in the order of those who read them."""
    return [t for s in subtopologies for t in s.repartition_source_topics if t in upstream.sink_topics]


def make_plan(subtopologies: Sequence[Subtopology], partitions: Mapping[str, int], config: Mapping[str, Any]) -> Plan:
    """Decide for each repartition topic whether its records are shuffled or written."""
    transport = config["repartition.transport"]
    by_id = {s.id: s for s in subtopologies}
    shuffled: dict[str, int] = {}
    reasons = why_topics(subtopologies, partitions, config)
    if transport != "topic":
        for upstream in subtopologies:
            targets = repartitions_of(upstream, subtopologies)
            if not targets or (transport == "auto" and any(topic in reasons for topic in targets)):
                continue
            if transport == "shuffle" and (reason := why_not(upstream, partitions, config)):
                raise ConfigError(f"repartition.transport = shuffle is not possible for sub-topology {upstream.id}: {reason}")
            shuffled.update(dict.fromkeys(targets, upstream.id))
        shuffled = {topic: source for topic, source in shuffled.items() if _fed_by_one(topic, subtopologies)}
        # A sub-topology runs before the shuffle or as tasks, not both: all of its repartitions go the same way.
        for upstream in subtopologies:
            if any(t not in shuffled for t in repartitions_of(upstream, subtopologies)):
                shuffled = {t: u for t, u in shuffled.items() if u != upstream.id}
    cached = config["statestore.cache.max.bytes"] > 0
    counted = {
        topic
        for topic in shuffled
        for s in subtopologies
        if cached and topic in s.source_topics and is_counted(s, topic) and not _serdes_need_headers(s, config)
    }
    bound = {s.id: state_bound for s in subtopologies if (state_bound := state_bound_of(s)) is not None}
    return Plan(by_id, dict(partitions), shuffled, frozenset(counted), reasons, bound)


def state_bound_of(subtopology: Subtopology) -> StateBound | None:
    """What the state of a sub-topology's tasks cannot leave; None if all of it can be restored from changelogs."""
    unlogged = [builder for name, builder in subtopology.stores.items() if name not in subtopology.store_to_changelog]
    if not unlogged:
        return None
    return StateBound.HOST if all(builder.build().persistent for builder in unlogged) else StateBound.PROCESS


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


def why_topics(subtopologies: Sequence[Subtopology], partitions: Mapping[str, int], config: Mapping[str, Any]) -> dict[str, str]:
    """The repartition topics that are written to by themselves, each with the reason."""
    reasons: dict[str, str] = {}
    kept_open = [s for s in subtopologies if s.repartition_source_topics and state_bound_of(s) is StateBound.PROCESS]
    for upstream in subtopologies:
        targets = repartitions_of(upstream, subtopologies)
        for topic in targets:
            if not _fed_by_one(topic, subtopologies):
                reasons.setdefault(topic, "more than one sub-topology writes to it")
            # A change between shuffle and topic closes the tasks behind it.
            reader = next((s.id for s in kept_open if topic in s.source_topics), None)
            if reader is not None:
                reasons.setdefault(topic, f"sub-topology {reader} reads it and has a store in memory without a changelog")
        if targets and (reason := why_topic(upstream, partitions, config)):
            reasons |= dict.fromkeys(targets, f"sub-topology {upstream.id} comes before it, and {reason}")
        elif not can_leave(targets, partitions):
            count = sum(partitions[topic] for topic in targets)
            reasons |= dict.fromkeys(
                targets, f"how far each of {count} partitions is would not fit what is committed with an offset"
            )
        # A sub-topology runs before the shuffle or as tasks, not both: all of its repartitions go the same way.
        if shared := next((topic for topic in targets if topic in reasons), None):
            reasons |= {topic: f"it comes from where {shared} comes from" for topic in targets if topic not in reasons}
    return reasons


def why_topic(upstream: Subtopology, partitions: Mapping[str, int], config: Mapping[str, Any]) -> str | None:
    """Why what comes after this sub-topology is not shuffled by itself; None where reading again gives the same records again."""
    if (reason := why_not(upstream, partitions, config)) is not None:
        return reason
    for extractor in _extractors(upstream, config):
        if isinstance(extractor, WallclockTimestampExtractor):
            return f"its timestamp extractor {extractor!r} takes the time of the clock"
    for node in upstream.nodes:
        if isinstance(node, ProcessorSpec) and not (isinstance(node.supplier, Operator) and node.supplier.recomputable):
            return f"{node.name}{added_at(node.added_at)} {_what_it_is(node.supplier)}"
    found = why_not_repeatable(upstream.nodes, config)
    return None if found is None else str(found)


def _what_it_is(supplier: Any) -> str:
    if type(supplier).__module__.startswith("penstock."):
        return "makes its records of more than one of its input"
    return "is a processor that may do anything with its records"


def can_leave(targets: Iterable[str], partitions: Mapping[str, int]) -> bool:
    """Whether what all the targets of a shuffle had of a source can be committed with its offset: so it is left."""
    return vector_bytes({topic: partitions[topic] for topic in targets}) <= _MAX_VECTOR_BYTES


def why_not(upstream: Subtopology, partitions: Mapping[str, int], config: Mapping[str, Any]) -> str | None:
    """What forbids the shuffle after this sub-topology even where the user asks for it; None where nothing does."""
    if upstream.stores:
        return "it keeps state"
    if upstream.global_stores:
        return "it reads a global table"
    if upstream.repartition_source_topics:
        return "it reads a repartition topic itself"
    counts = {topic: partitions.get(topic, 0) for topic in upstream.source_topics}
    if (needed := vector_bytes(counts)) > _MAX_VECTOR_BYTES:
        return (
            f"the positions in the {sum(counts.values())} partitions of its topics take up to {needed:,} bytes of what is "
            f"committed with an offset, and there is room for {_MAX_VECTOR_BYTES:,}"
        )
    for extractor in _extractors(upstream, config):
        if uses_partition_time(extractor):
            # Before a shuffle a partition is read now by this worker, now by that one, and from anywhere after a restart.
            return f"its timestamp extractor {extractor!r} uses the partition's time, which is known only where all of it is read"
    return None


def vector_bytes(partitions: Mapping[str, int]) -> int:
    """How much a vector over these topics takes at most, while offsets have twelve digits.

    >>> vector_bytes({"lines": 200}), vector_bytes({"a-topic-with-a-long-name": 200, "another-one": 30})
    (2607, 3029)
    """
    return sum(len(topic) + 2 + count * _POSITION_BYTES for topic, count in partitions.items())


def _extractors(upstream: Subtopology, config: Mapping[str, Any]) -> list[Any]:
    return [
        resolve_timestamp_extractor(node.timestamp_extractor or config["default.timestamp.extractor"])
        for node in upstream.nodes
        if isinstance(node, SourceSpec)
    ]


def _fed_by_one(topic: str, subtopologies: Sequence[Subtopology]) -> bool:
    return sum(topic in s.sink_topics for s in subtopologies) == 1
