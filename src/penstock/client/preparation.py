"""Prepare a topology for running: check and create topics, make the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.config.streams_config import StreamsConfig
from penstock.errors import TopologyError
from penstock.kafka.admin import Admin
from penstock.spark.plan import Plan, make_plan
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.internal_topics import internal_topics
from penstock.topology.specs import GlobalTopology, Subtopology
from penstock.topology.topology import Topology


@dataclass(frozen=True)
class Prepared:
    """A topology with its plan for the existing topics."""

    builder: InternalTopologyBuilder
    plan: Plan
    global_topology: GlobalTopology | None
    external_topics: tuple[str, ...]

    @property
    def subscribed_topics(self) -> tuple[str, ...]:
        """The topics to which the group's members subscribe: as in Kafka Streams, repartition topics too.

        A broker deletes offsets of topics without a subscribed member seven days after the last commit, and stream times with
        them.
        """
        internal = {t for s in self.plan.subtopologies.values() for t in s.repartition_source_topics}
        return tuple(sorted({*self.external_topics, *internal}))

    patterns: tuple[re.Pattern[str], ...]

    def outdated_by(self, counts: Mapping[str, int]) -> bool:
        """Return True if patterns match other topics now, or a topic has more partitions.

        Raises TopologyError if a topic has fewer partitions, or if a topic that a source names is missing. A topic that a
        pattern matched may be deleted.
        """
        for topic in self.external_topics:
            before, now = self.plan.partitions[topic], counts.get(topic)
            if now is None and self.is_matched(topic):
                continue
            if now is None:
                raise TopologyError(
                    f"The input topic {topic} was deleted while the application runs. Create it again, reset the application "
                    "(penstock reset) and start it"
                )
            if now < before:
                raise TopologyError(
                    f"The input topic {topic} has {now} partitions now, but had {before} when the application started: it was "
                    "recreated. Reset the application (penstock reset) and start it again"
                )
        matched = {topic for topics in self.builder.match_topics(counts).values() for topic in topics}
        # A stateful application's internal topics do not fit a topic that has grown; `prepare` raises that error.
        grown = any(counts.get(topic, 0) > self.plan.partitions[topic] for topic in self.external_topics)
        return grown or bool(self.missing(counts)) or not matched <= set(self.external_topics)

    def is_matched(self, topic: str) -> bool:
        """Return True if an input topic is read only because a pattern matches it."""
        return any(pattern.fullmatch(topic) for pattern in self.patterns)

    def missing(self, counts: Mapping[str, int]) -> set[str]:
        """Return the input topics that no longer exist."""
        return set(self.external_topics) - counts.keys()


def prepare(topology: Topology, config: StreamsConfig, admin: Admin) -> Prepared:
    """Prepare the topology for running.

    1. Find the topics that patterns match, and count the partitions of all input topics.
    2. Check co-partitioning, and determine the internal topics.
    3. Create missing internal topics.
    4. Make the plan.
    """
    application_id = config["application.id"]
    builder = topology.internal_topology_builder
    builder.rewrite_topology(config)
    counts = admin.partition_counts()
    matched = builder.match_topics(counts)
    subtopologies = [s for s in builder.subtopologies(application_id, matched) if s.nodes]
    internal = internal_topics(subtopologies, counts, config)
    for name, topic in internal.items():
        assert topic.partitions is not None
        admin.create_topic(name, topic.partitions, topic.configs, config["replication.factor"])
    partitions = {**counts, **{name: topic.partitions for name, topic in internal.items() if topic.partitions is not None}}
    plan = make_plan(subtopologies, partitions, config)
    return Prepared(
        builder, plan, builder.global_topology(application_id), _external(subtopologies), tuple(builder.source_patterns)
    )


def _external(subtopologies: list[Subtopology]) -> tuple[str, ...]:
    internal = {t for s in subtopologies for t in s.repartition_source_topics}
    return tuple(sorted({t for s in subtopologies for t in s.source_topics} - internal))
