"""Putting an aggregation below several grouped streams, which share one store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.dsl import grouped_stream, ktable
from penstock.dsl.aggregate_builder import aggregation_node
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import DslStoreBuilder, MaterializedStore
from penstock.graph.naming import COGROUP_AGGREGATE, COGROUP_MERGE, Named
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode
from penstock.graph.repartition import OptimizableRepartitionNode, create_repartition_node
from penstock.operators import KTablePassThrough

GroupPatterns = Mapping["grouped_stream.KGroupedStream[Any, Any]", Callable[[Any, Any, Any], Any]]


class CogroupedStreamAggregateBuilder:
    """Shared by a cogrouped stream and its windowed forms: a group is repartitioned once."""

    def __init__(self, builder: InternalStreamsBuilder) -> None:
        self._builder = builder
        self._parent_nodes: dict[grouped_stream.KGroupedStream[Any, Any], GraphNode] = {}

    def build(
        self,
        groups: GroupPatterns,
        name: str | None,
        materialized: MaterializedStore,
        store: DslStoreBuilder,
        make_supplier: Callable[[Callable[[Any, Any, Any], Any]], Any],
        key_serde: Any,
        grace_period_ms: int | None = None,
    ) -> ktable.KTable[Any, Any]:
        """The table that the groups' aggregators give together; with a grace period it is a windowed one."""
        self._process_repartitions(groups, materialized)
        names, named = self._builder.names, Named(name)
        suppliers: list[Any] = []
        nodes: list[GraphNode] = []
        for number, (group, aggregator) in enumerate(groups.items()):
            supplier = make_supplier(aggregator)
            node_name = named.suffixed_or_generate(f"-cogroup-agg-{number}", names, COGROUP_AGGREGATE)
            node = aggregation_node(ProcessorParameters(supplier, node_name, [store]), grace_period_ms)
            if grace_period_ms is None:
                node.is_output_versioned = materialized.is_versioned
            else:
                # The inputs share a store, and each has a stream time of its own.
                supplier.time_name = f"{store.name}/{number}"
            suppliers.append(supplier)
            nodes.append(node)
            self._builder.add_graph_node(self._parent_nodes[group], node)
        merge_name = named.suffixed_or_generate("-cogroup-merge", names, COGROUP_MERGE)
        merge = KTablePassThrough(suppliers, store.name)
        merge_node = ProcessorGraphNode(ProcessorParameters(merge, merge_name))
        self._builder.add_graph_node(nodes, merge_node)
        return ktable.KTable(
            merge_name,
            key_serde,
            materialized.value_serde,
            frozenset([merge_name]),
            materialized.queryable_store_name,
            merge,
            merge_node,
            self._builder,
        )

    def _process_repartitions(self, groups: GroupPatterns, materialized: MaterializedStore) -> None:
        for group in groups:
            if not group._repartition_required:
                self._parent_nodes[group] = group._graph_node
                continue
            node = create_repartition_node(
                OptimizableRepartitionNode,
                self._builder.names,
                group._key_serde,
                group._value_serde,
                group._given_name or materialized.store_name,
                group._given_name is not None or materialized.is_queryable,
            )
            if group not in self._parent_nodes:
                self._builder.add_graph_node(group._graph_node, node)
                self._parent_nodes[group] = node
        first, *others = self._parent_nodes
        first._ensure_copartition_with(others)
