"""From a topology to something that can run: topics checked and created, the plan made."""

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
    """A topology that fits the topics there are."""

    builder: InternalTopologyBuilder
    plan: Plan
    global_topology: GlobalTopology | None
    external_topics: tuple[str, ...]

    @property
    def subscribed_topics(self) -> tuple[str, ...]:
        """What the group's members subscribe to; repartition topics too, as in Kafka Streams.

        A broker forgets the offsets of topics that no member subscribes to after seven days without a commit, and with them
        stream times.
        """
        internal = {t for s in self.plan.subtopologies.values() for t in s.repartition_source_topics}
        return tuple(sorted({*self.external_topics, *internal}))

    patterns: tuple[re.Pattern[str], ...]

    def outdated_by(self, counts: Mapping[str, int]) -> bool:
        """Return whether patterns match other topics now, or a topic has grown.

        Raises TopologyError if a topic has shrunk, or if one is gone that a source names. A topic that a pattern matched may go.
        """
        for topic in self.external_topics:
            before, now = self.plan.partitions[topic], counts.get(topic)
            if now is None and self.is_matched(topic):
                continue
            if now is None:
                raise TopologyError(
                    f"the input topic {topic} was deleted while the application runs: create it again, reset the application "
                    "(penstock reset) and start it"
                )
            if now < before:
                raise TopologyError(
                    f"the input topic {topic} has {now} partitions now, the application was started with {before}: it was "
                    "created anew; reset the application (penstock reset) and start it again"
                )
        matched = {topic for topics in self.builder.match_topics(counts).values() for topic in topics}
        # Where it has state the internal topics do not fit a topic that has grown, and making them ready says so.
        grown = any(counts.get(topic, 0) > self.plan.partitions[topic] for topic in self.external_topics)
        return grown or bool(self.missing(counts)) or not matched <= set(self.external_topics)

    def is_matched(self, topic: str) -> bool:
        """Return whether an input topic is read because a pattern matches it; no source names it then."""
        return any(pattern.fullmatch(topic) for pattern in self.patterns)

    def missing(self, counts: Mapping[str, int]) -> set[str]:
        """Return the input topics that do not exist any more."""
        return set(self.external_topics) - counts.keys()


def prepare(topology: Topology, config: StreamsConfig, admin: Admin) -> Prepared:
    """Make the topology ready to run.

    1. Find the topics that patterns match, and count the partitions of all input topics.
    2. Check co-partitioning, and work out the internal topics.
    3. Create those that are missing.
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
