"""Putting an aggregation below a grouped stream, behind a repartition topic where the key was changed."""

from __future__ import annotations

from typing import Any

from penstock.dsl import ktable
from penstock.dsl.options import Grouped
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import DslStoreBuilder, MaterializedStore
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import GracePeriodGraphNode, ProcessorGraphNode
from penstock.graph.repartition import BaseRepartitionNode, OptimizableRepartitionNode, create_repartition_node


def aggregation_node(parameters: ProcessorParameters, grace_period_ms: int | None) -> ProcessorGraphNode:
    """The node of an aggregation; with a grace period it is a windowed one."""
    return ProcessorGraphNode(parameters) if grace_period_ms is None else GracePeriodGraphNode(parameters, grace_period_ms)


class GroupedStreamAggregateBuilder:
    """Shared by a grouped stream and its windowed forms: under a name given by the user they use one repartition topic."""

    def __init__(
        self,
        builder: InternalStreamsBuilder,
        grouped: Grouped[Any, Any],
        repartition_required: bool,
        source_nodes: frozenset[str],
        name: str,
        graph_node: GraphNode,
    ) -> None:
        self._builder = builder
        self._grouped = grouped
        self._repartition_required = repartition_required
        self._source_nodes = source_nodes
        self._name = name
        self._graph_node = graph_node
        self._repartition_node: BaseRepartitionNode | None = None

    def build(
        self,
        name: str,
        supplier: Any,
        materialized: MaterializedStore,
        store: DslStoreBuilder,
        key_serde: Any,
        grace_period_ms: int | None = None,
    ) -> ktable.KTable[Any, Any]:
        """The table that an aggregation gives; with a grace period it is a windowed one."""
        node = aggregation_node(ProcessorParameters(supplier, name, [store]), grace_period_ms)
        node.is_output_versioned = grace_period_ms is None and materialized.is_versioned
        parent, source_nodes = self._graph_node, self._source_nodes
        if self._repartition_required:
            given_name = self._grouped.name
            created = create_repartition_node(
                OptimizableRepartitionNode,
                self._builder.names,
                self._grouped.key_serde,
                self._grouped.value_serde,
                given_name or materialized.store_name,
                given_name is not None or materialized.is_queryable,
            )
            if self._repartition_node is None or given_name is None:
                self._repartition_node = created
            self._builder.add_graph_node(parent, self._repartition_node)
            parent, source_nodes = self._repartition_node, frozenset([created.source_name])
        self._builder.add_graph_node(parent, node)
        return ktable.KTable(
            name,
            key_serde,
            materialized.value_serde,
            source_nodes,
            materialized.queryable_store_name,
            supplier,
            node,
            self._builder,
        )
