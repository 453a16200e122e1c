"""A topology as the brokers of a streams group know it (KIP-1071): the same, field by field, that Kafka Streams sends.

The first member of a group hands its topology to the brokers. They refuse every other one, so names, settings and orders are
Java's. Topics and settings are sorted by name. The topics of a co-partition group come in the order of a Java HashSet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError
from penstock.topology.internal_topics import (
    ADDITIONAL_RETENTION,
    DAY_MS,
    ChangelogTopicConfig,
    RepartitionTopicConfig,
    topic_defaults,
)
from penstock.topology.java_order import hash_order, hash_set_order
from penstock.topology.specs import InternalTopicConfig, Subtopology


@dataclass(frozen=True)
class BrokerTopic:
    """An internal topic that the brokers make if it is missing; 0 partitions are worked out from other topics."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CopartitionGroup:
    """Topics that need as many partitions as each other, by their numbers among those of the sub-topology."""

    sources: tuple[int, ...]
    repartitions: tuple[int, ...]


@dataclass(frozen=True)
class BrokerSubtopology:
    """A sub-topology; its id is the number that task ids begin with."""

    id: str
    sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[BrokerTopic, ...]
    changelogs: tuple[BrokerTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """All topics that its tasks read."""
        return (*self.sources, *(topic.name for topic in self.repartition_sources))


def broker_topology(subtopologies: Collection[Subtopology], config: Mapping[str, Any]) -> tuple[BrokerSubtopology, ...]:
    """The sub-topologies in the order of their ids as text. ConfigError for a topology that reads a pattern."""
    for subtopology in subtopologies:
        if subtopology.source_patterns:
            raise ConfigError(
                f"group.protocol = streams: the sub-topology {subtopology.id} reads the topics that match "
                f"{subtopology.source_patterns[0].pattern!r}, and the brokers of a streams group know no patterns. Name the "
                "topics, or use group.protocol = classic"
            )
    repartitions = {name for subtopology in subtopologies for name in subtopology.repartition_source_topics}
    found = [_subtopology(subtopology, repartitions, config) for subtopology in subtopologies]
    return tuple(sorted(found, key=lambda subtopology: subtopology.id))


def _subtopology(subtopology: Subtopology, repartitions: Collection[str], config: Mapping[str, Any]) -> BrokerSubtopology:
    own = subtopology.repartition_source_topics
    sources = tuple(sorted(set(subtopology.source_topics) - own.keys()))
    repartition_sources = _topics(own.values(), config)
    numbers = {name: number for number, name in enumerate(sources)}
    repartition_numbers = {topic.name: number for number, topic in enumerate(repartition_sources)}
    return BrokerSubtopology(
        str(subtopology.id),
        sources,
        tuple(sorted(set(subtopology.sink_topics) & set(repartitions))),
        repartition_sources,
        _topics(subtopology.changelog_topics.values(), config),
        tuple(
            CopartitionGroup(
                tuple(numbers[name] for name in group if name in numbers),
                tuple(repartition_numbers[name] for name in group if name in repartition_numbers),
            )
            for group in map(hash_order, hash_set_order(map(sorted, subtopology.copartition_groups)))
        ),
    )


def _topics(topics: Iterable[InternalTopicConfig], config: Mapping[str, Any]) -> tuple[BrokerTopic, ...]:
    found = []
    for topic in topics:
        assert isinstance(topic, RepartitionTopicConfig | ChangelogTopicConfig)
        configs = topic.properties(topic_defaults(config), int(config.get(ADDITIONAL_RETENTION, DAY_MS)))
        partitions = topic.partitions if isinstance(topic, RepartitionTopicConfig) else None
        found.append(BrokerTopic(topic.name, partitions or 0, config["replication.factor"], tuple(sorted(configs.items()))))
    return tuple(sorted(found, key=lambda topic: topic.name))
