"""The graph of an application while its DSL code runs, and its way into a topology."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.node import GraphNode, RootNode
from penstock.graph.optimization import optimizations_of
from penstock.graph.processors import TableSuppressNode, VersionedSemanticsNode
from penstock.graph.repartition import OptimizableRepartitionNode
from penstock.graph.resources import GraphNames
from penstock.graph.rewrites.merge_repartition_topics import merge_repartition_topics
from penstock.graph.rewrites.null_keys import drop_null_keys_before_repartition
from penstock.graph.rewrites.reuse_source_topics import reuse_source_topics
from penstock.graph.rewrites.single_store_self_join import single_store_self_join
from penstock.graph.search import is_versioned_or_versioned_upstream, is_versioned_upstream, key_changing_parent
from penstock.graph.settings import given_settings, is_true
from penstock.graph.sources import StreamSourceNode, TableSourceNode
from penstock.java_priority_queue import JavaPriorityQueue
from penstock.topology.builder import InternalTopologyBuilder

ENSURE_EXPLICIT_NAMING = "ensure.explicit.internal.resource.naming"
PROCESS_PROCESS_VALUES_FIX = "__enable.process.processValue.fix__"


class InternalStreamsBuilder:
    """Collects logical nodes and, at the end, rewrites and writes them.

    Building goes through these steps, in this order: merge sources of the same topics; apply the optimisations that
    were asked for; drop records without a key before a repartition where no join wants them; tell operators below
    versioned tables; write the nodes; check.
    """

    def __init__(self, topology: InternalTopologyBuilder, config: Mapping[str, Any] | None = None) -> None:
        self.topology = topology
        self.config = given_settings(config)
        # Kafka Streams keeps the wrong behaviour by default, so that topologies stay as they are.
        self.process_counts_as_change = is_true(self.config.get(PROCESS_PROCESS_VALUES_FIX))
        self.names = GraphNames()
        self.root: GraphNode = RootNode()
        self.key_changing_to_repartitions: dict[GraphNode, dict[OptimizableRepartitionNode, None]] = {}
        self.merge_nodes: dict[GraphNode, None] = {}
        self.table_source_nodes: dict[TableSourceNode, None] = {}
        self._versioned_semantics_nodes: dict[VersionedSemanticsNode, None] = {}
        self._suppress_nodes: dict[TableSuppressNode, None] = {}
        self._next_build_priority = 0

    def add_graph_node(self, parents: GraphNode | Iterable[GraphNode], child: GraphNode) -> None:
        """Put a node below one or more others."""
        for parent in [parents] if isinstance(parents, GraphNode) else parents:
            parent.add_child(child)
            child.build_priority = self._next_build_priority
            self._next_build_priority += 1
            self._remember(child)

    def _remember(self, node: GraphNode) -> None:
        if node.is_key_changing_operation:
            self.key_changing_to_repartitions[node] = {}
        elif isinstance(node, OptimizableRepartitionNode):
            key_changing = key_changing_parent(node)
            if key_changing is not None:
                self.key_changing_to_repartitions[key_changing][node] = None
        elif node.is_merge_node:
            self.merge_nodes[node] = None
        elif isinstance(node, TableSourceNode):
            self.table_source_nodes[node] = None
        if isinstance(node, VersionedSemanticsNode):
            self._versioned_semantics_nodes[node] = None
        if isinstance(node, TableSuppressNode):
            self._suppress_nodes[node] = None

    def build_and_optimize_topology(self, config: Mapping[str, Any] | None = None) -> None:
        """Write the graph into the topology; `config` says which optimisations to apply."""
        self._merge_duplicate_source_nodes()
        self._optimize(config)
        self._enable_versioned_semantics()
        self._write_nodes()
        self.topology.validate_copartition()
        self.names.check_implicit(is_true({**self.config, **given_settings(config)}.get(ENSURE_EXPLICIT_NAMING)))

    def _merge_duplicate_source_nodes(self) -> None:
        by_topic: dict[str, StreamSourceNode] = {}
        by_pattern: dict[tuple[str, int], StreamSourceNode] = {}
        for node in self.root.children:
            if not isinstance(node, StreamSourceNode):
                continue
            if node.pattern is not None:
                main = by_pattern.setdefault((node.pattern.pattern, node.pattern.flags & ~re.UNICODE), node)
                if main is not node:
                    main.merge(node)
                    self.root.remove_child(node)
                continue
            for topic in node.topics:
                main = by_topic.setdefault(topic, node)
                if main is node:
                    continue
                if set(main.topics) != set(node.topics):
                    raise TopologyError(
                        f"the sources {main.node_name} {sorted(main.topics)} and {node.node_name} {sorted(node.topics)} both "
                        f"read the topic {topic}: two streams may read the same topics, but not overlapping sets of topics"
                    )
                main.merge(node)
                self.root.remove_child(node)

    def _optimize(self, config: Mapping[str, Any] | None) -> None:
        chosen = optimizations_of(config)
        if chosen.reuse_ktable_source_topics:
            reuse_source_topics(self.table_source_nodes)
        if chosen.merge_repartition_topics:
            merge_repartition_topics(self.key_changing_to_repartitions, self.merge_nodes, self.names, self.topology)
        if chosen.single_store_self_join:
            single_store_self_join(self.root)
        drop_null_keys_before_repartition(self.root)

    def _enable_versioned_semantics(self) -> None:
        for node in self._versioned_semantics_nodes:
            for parent in node.parent_nodes:
                if is_versioned_or_versioned_upstream(parent):
                    node.enable_versioned_semantics(True, parent.node_name)
        for suppress in self._suppress_nodes:
            if is_versioned_upstream(suppress):
                raise TopologyError(
                    f"suppress() is only supported for tables that are not versioned, but the table above {suppress.node_name} "
                    "is (a table below a versioned one is versioned until it is materialized otherwise)"
                )

    def _write_nodes(self) -> None:
        # Ties matter: a merged repartition shares its priority with the node above it, and the order numbers sub-topologies.
        queue = JavaPriorityQueue[GraphNode]()
        queue.offer(self.root.build_priority, self.root)
        while queue:
            node = queue.poll()
            if node.all_parents_written_to_topology and not node.has_written_to_topology:
                with self.topology.adding(node.added_at):
                    node.write_to_topology(self.topology)
                node.has_written_to_topology = True
            for child in node.children:
                queue.offer(child.build_priority, child)
