"""Find topics that a topology reads and writes and that do not exist. `penstock run --create-topics` creates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.config.streams_config import StreamsConfig
from penstock.topology.topology import Topology

BROKERS_DEFAULT = -1


def missing_topics(topology: Topology, config: StreamsConfig, existing: Mapping[str, int]) -> dict[str, int]:
    """Return the missing source and sink topics with their required number of partitions.

    A topic that is joined with existing ones needs their number of partitions. Any other has the brokers' default, -1.
    Internal topics are not included: the application creates them.
    """
    application_id, builder = config["application.id"], topology.internal_topology_builder
    builder.rewrite_topology(config)
    subtopologies = builder.subtopologies(application_id, builder.match_topics(existing))
    internal = {topic for s in subtopologies for topic in (*s.repartition_source_topics, *s.changelog_topics)}
    named = {topic for s in subtopologies for topic in (*s.source_topics, *s.sink_topics)}
    global_topology = builder.global_topology(application_id)
    if global_topology is not None:
        named |= set(global_topology.store_to_topic.values())
    groups = [group for s in subtopologies for group in s.copartition_groups]
    return {topic: _partitions(topic, groups, existing) for topic in sorted(named - internal - existing.keys())}


def _partitions(topic: str, groups: Iterable[frozenset[str]], existing: Mapping[str, int]) -> int:
    joined = [existing[other] for group in groups if topic in group for other in group if other in existing]
    return max(joined, default=BROKERS_DEFAULT)
