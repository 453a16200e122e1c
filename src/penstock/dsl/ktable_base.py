"""A table's place in the graph, and what operators below it may ask of it."""

from __future__ import annotations

from typing import Any

from penstock.dsl.abstract_stream import AbstractStream
from penstock.dsl.typevars import K, V
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import KeyValueStoreMaterializer, MaterializedStore
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.tables import TableParent
from penstock.operators import KTableSource


class TableBase(AbstractStream[K, V]):
    """A table: the processor that gives its changes, and the store it can be queried in, if any."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        source_nodes: frozenset[str],
        queryable_store_name: str | None,
        supplier: Any,
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        super().__init__(name, key_serde, value_serde, source_nodes, graph_node, builder)
        self._queryable_store_name = queryable_store_name
        self._parent = TableParent(graph_node.node_name, supplier)

    @property
    def queryable_store_name(self) -> str | None:
        """The name of the table's store, for queries; None where the table has no store of its own or only a generated name."""
        return self._queryable_store_name


def source_parameters(source: KTableSource, name: str, store: MaterializedStore) -> ProcessorParameters:
    """The processor that keeps a table; its store is added only if somebody needs it by the time the graph is written."""
    builder = KeyValueStoreMaterializer(store)
    return ProcessorParameters(source, name, lambda: [builder] if source.materialized else [])
