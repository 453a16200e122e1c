"""From what was added to what tasks are made from: sub-topologies and the global topology, with full topic names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.state.store import StoreBuilder
from penstock.topology.internal_topics import changelog_topic, repartition_topic
from penstock.topology.java_order import hash_order
from penstock.topology.registry import TopicNames, TopologyRegistry
from penstock.topology.specs import (
    GlobalTopology,
    InternalTopicConfig,
    NodeSpec,
    ProcessorSpec,
    SinkSpec,
    SourceSpec,
    Subtopology,
)


def build_subtopologies(registry: TopologyRegistry, names: TopicNames) -> list[Subtopology]:
    """The sub-topologies that get tasks; numbers used by global stores are left out."""
    return [
        build_subtopology(registry, names, number, group)
        for number, group in registry.node_groups().items()
        if not registry.is_global_group(group)
    ]


def build_whole(registry: TopologyRegistry, names: TopicNames) -> Subtopology:
    """All that tasks run, as if it were one sub-topology: what the test driver executes."""
    return build_subtopology(registry, names, 0, [name for name in registry.nodes if name not in registry.global_nodes])


def build_subtopology(registry: TopologyRegistry, names: TopicNames, number: int, group: Iterable[str]) -> Subtopology:
    """The plan for one group of nodes."""
    nodes = _build_nodes(registry, names, group)
    sources = [node for node in nodes if isinstance(node, SourceSpec)]
    source_topics = tuple(dict.fromkeys(topic for source in sources for topic in source.topics))
    sink_topics = tuple(dict.fromkeys(node.topic for node in nodes if isinstance(node, SinkSpec) and node.topic is not None))
    # Java opens the stores node by node, each node's in the order of a HashSet: flushes follow the same order.
    used = dict.fromkeys(store for node in nodes if isinstance(node, ProcessorSpec) for store in node.stores)
    stores = {store: registry.stores[store] for store in used}
    store_to_changelog = _store_to_changelog(registry, names, stores)
    return Subtopology(
        id=number,
        nodes=nodes,
        stores=stores,
        global_stores=tuple(registry.global_stores),
        store_to_changelog=store_to_changelog,
        source_topics=source_topics,
        sink_topics=sink_topics,
        repartition_source_topics=_repartition_topics(registry, names, group),
        changelog_topics=_changelog_topics(stores, store_to_changelog, source_topics),
        copartition_groups=tuple(
            members for members in copartition_groups(registry, names) if not members.isdisjoint(source_topics)
        ),
        source_patterns=tuple(source.pattern for source in sources if source.pattern is not None),
    )


def build_global_topology(registry: TopologyRegistry, names: TopicNames) -> GlobalTopology | None:
    """The nodes and stores of all global stores; None where there are none."""
    if not registry.global_stores:
        return None
    return GlobalTopology(
        nodes=_build_nodes(registry, names, [name for name in registry.nodes if name in registry.global_nodes]),
        stores=dict(registry.global_stores),
        store_to_topic={store: registry.changelog_sources[store] for store in registry.global_stores},
        reprocess_on_restore=frozenset(registry.reprocess_on_restore),
    )


def copartition_groups(registry: TopologyRegistry, names: TopicNames) -> list[frozenset[str]]:
    """The topics that need the same number of partitions; groups that share a topic are one group."""
    groups: list[set[str]] = []
    for sources in registry.copartition_sources:
        topics: set[str] = set()
        for source in sources:
            node = registry.nodes.get(source)
            if isinstance(node, SourceSpec):
                topics.update(names.of_source(node))
        if not topics:
            continue
        apart = [group for group in groups if group.isdisjoint(topics)]
        groups = [*apart, topics.union(*(group for group in groups if not group.isdisjoint(topics)))]
    return [frozenset(group) for group in groups]


def _build_nodes(registry: TopologyRegistry, names: TopicNames, group: Iterable[str]) -> tuple[NodeSpec, ...]:
    return tuple(_build_node(registry, names, registry.nodes[name]) for name in group)


def _build_node(registry: TopologyRegistry, names: TopicNames, node: NodeSpec) -> NodeSpec:
    if isinstance(node, SourceSpec):
        return replace(node, topics=names.of_source(node))
    if isinstance(node, SinkSpec):
        return node if node.topic is None else replace(node, topic=names.full(node.topic))
    return replace(node, stores=tuple(hash_order(registry.processor_stores.get(node.name, ()))))


def _store_to_changelog(registry: TopologyRegistry, names: TopicNames, stores: Mapping[str, StoreBuilder[Any]]) -> dict[str, str]:
    changelogs = {}
    for name, store in stores.items():
        if name in registry.changelog_sources:
            changelogs[name] = names.full(registry.changelog_sources[name])
        elif store.logging_enabled:
            changelogs[name] = names.changelog(name)
    return changelogs


def _repartition_topics(registry: TopologyRegistry, names: TopicNames, group: Iterable[str]) -> dict[str, InternalTopicConfig]:
    sources = [node for node in (registry.nodes[name] for name in group) if isinstance(node, SourceSpec)]
    return {
        names.full(topic): repartition_topic(names.full(topic), registry.internal_topics[topic])
        for source in sources
        for topic in source.topics
        if topic in registry.internal_topics
    }


def _changelog_topics(
    stores: Mapping[str, StoreBuilder[Any]], store_to_changelog: Mapping[str, str], source_topics: Iterable[str]
) -> dict[str, InternalTopicConfig]:
    """The changelogs the application owns: a source topic that serves as one belongs to somebody else."""
    return {
        topic: changelog_topic(topic, stores[store]) for store, topic in store_to_changelog.items() if topic not in source_topics
    }
