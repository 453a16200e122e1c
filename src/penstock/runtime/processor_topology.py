"""The node graph and the stores of one task, made from the plan of its sub-topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import TopologyError
from penstock.runtime.nodes import Node, ProcessorNode, SinkNode, SourceNode
from penstock.state.store import StateStore, StoreBuilder
from penstock.topology.specs import GlobalTopology, NodeSpec, ProcessorSpec, SinkSpec, SourceSpec, Subtopology
from penstock.user_code import added_at


class ProcessorTopology:
    """A task's own nodes and stores.

    `nodes` keep the order of the topology (parents before children); `state_stores` follow the processors they are
    connected to, so flushing them in this order lets what one cache forwards reach the next one.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        builders: Mapping[str, StoreBuilder[Any]],
        store_to_changelog: Mapping[str, str],
        repartition_topics: frozenset[str] = frozenset(),
    ) -> None:
        self.specs = tuple(specs)
        self.store_to_changelog = dict(store_to_changelog)
        self.repartition_topics = repartition_topics
        self.nodes: list[Node] = []
        self.sources: list[SourceNode] = []
        self.source_by_topic: dict[str, SourceNode] = {}
        self.source_specs: list[SourceSpec] = []
        self.sink_topics: set[str] = set()
        self._source_by_pattern: list[tuple[SourceSpec, SourceNode]] = []
        self._build_nodes(specs)
        self.state_stores = _build_stores(specs, builders)

    @classmethod
    def of(cls, subtopology: Subtopology) -> ProcessorTopology:
        """The nodes and stores of one task of a sub-topology."""
        return cls(
            subtopology.nodes,
            subtopology.stores,
            subtopology.store_to_changelog,
            frozenset(subtopology.repartition_source_topics),
        )

    @classmethod
    def of_global(cls, topology: GlobalTopology) -> ProcessorTopology:
        """The nodes and stores that keep the global stores of a host."""
        return cls(topology.nodes, topology.stores, topology.store_to_topic)

    def added_at(self, node: str | None) -> str:
        """The line of the user's code that added a node, as messages show it; nothing where it is not known."""
        return next((added_at(found.added_at) for found in self.nodes if found.name == node), "")

    def source(self, topic: str) -> SourceNode:
        """The source node that reads a topic, by its name or by a pattern that matches it."""
        node = self.source_by_topic.get(topic)
        if node is None:
            for spec, candidate in self._source_by_pattern:
                if spec.pattern is not None and (spec.pattern.pattern == topic or spec.pattern.fullmatch(topic)):
                    return candidate
            raise TopologyError(
                f"Topic {topic} is unknown to the topology. This may happen if different instances of the same application "
                "execute different topologies. Note that topologies are only identical if all operators are added in the "
                "same order."
            )
        return node

    def join_side(self, window: str, join: str) -> tuple[SourceNode, ProcessorNode, ProcessorNode]:
        """One side of a stream-stream join: its source, its window and the node that joins it."""
        found = {node.name: node for node in self.nodes if isinstance(node, ProcessorNode)}
        source = next(source for source in self.sources if _leads_to(source, found[window]))
        return source, found[window], found[join]

    def _build_nodes(self, specs: Sequence[NodeSpec]) -> None:
        by_name: dict[str, Node] = {}
        for spec in specs:
            node: Node
            if isinstance(spec, SourceSpec):
                node = source = SourceNode(spec)
                self.sources.append(source)
                self.source_specs.append(spec)
                self.source_by_topic.update((topic, source) for topic in spec.topics)
                if spec.pattern is not None:
                    self._source_by_pattern.append((spec, source))
            else:
                if isinstance(spec, SinkSpec):
                    node = SinkNode(spec)
                    if spec.topic is not None:
                        self.sink_topics.add(spec.topic)
                else:
                    node = ProcessorNode(spec)
                for parent in spec.parents:
                    by_name[parent].add_child(node)
            by_name[spec.name] = node
            self.nodes.append(node)


def _leads_to(node: Node, target: Node) -> bool:
    return node is target or any(_leads_to(child, target) for child in node.children)


def _build_stores(specs: Sequence[NodeSpec], builders: Mapping[str, StoreBuilder[Any]]) -> list[StateStore]:
    names: dict[str, None] = {}
    for spec in specs:
        if isinstance(spec, ProcessorSpec):
            names.update((name, None) for name in spec.stores if name in builders)
    names.update((name, None) for name in builders)
    return [_built(name, builders[name]) for name in names]


def _built(name: str, builder: StoreBuilder[Any]) -> StateStore:
    store = builder.build()
    if not isinstance(store, StateStore):
        raise TopologyError(
            f"the builder of store {name} ({type(builder).__name__}) gave a {type(store).__name__}, which is no store: "
            "let its class be a subclass of StateStore"
        )
    return store
