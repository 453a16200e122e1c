"""A stream's place in the graph, and the repartition it may need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.dsl import kstream
from penstock.dsl.abstract_stream import AbstractStream
from penstock.dsl.typevars import K, V
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.naming import Named
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode
from penstock.graph.repartition import BaseRepartitionNode, OptimizableRepartitionNode, create_repartition_node

_INHERIT: Any = object()
S = TypeVar("S", bound="kstream.KStream[Any, Any]")


class StreamBase(AbstractStream[K, V]):
    """A stream; `repartition_required` says that its key was changed and its records are no longer where the key belongs."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        source_nodes: frozenset[str],
        repartition_required: bool,
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        super().__init__(name, key_serde, value_serde, source_nodes, graph_node, builder)
        self._repartition_required = repartition_required
        self._repartition_node: BaseRepartitionNode | None = None

    def _derive(
        self,
        node: GraphNode,
        key_serde: Any = _INHERIT,
        value_serde: Any = _INHERIT,
        repartition_required: bool | None = None,
        source_nodes: frozenset[str] | None = None,
    ) -> kstream.KStream[Any, Any]:
        """The stream that comes out of a node; what is not given is inherited."""
        return kstream.KStream(
            node.node_name,
            self._key_serde if key_serde is _INHERIT else key_serde,
            self._value_serde if value_serde is _INHERIT else value_serde,
            self._source_nodes if source_nodes is None else source_nodes,
            self._repartition_required if repartition_required is None else repartition_required,
            node,
            self._builder,
        )

    def _add_processor(
        self,
        prefix: str,
        name: str | None,
        supplier: Callable[[], Any],
        key_changing: bool = False,
        value_changing: bool = False,
    ) -> ProcessorGraphNode:
        node_name = Named(name).or_generate(self._builder.names, prefix)
        node = ProcessorGraphNode(ProcessorParameters(supplier, node_name))
        node.is_key_changing_operation = key_changing
        node.is_value_changing_operation = value_changing
        self._builder.add_graph_node(self._graph_node, node)
        return node

    def _repartition_for_join(
        self, repartition_name: str, key_serde: Any, value_serde: Any, name_given_by_user: bool
    ) -> kstream.KStream[K, V]:
        """This stream behind a repartition topic; a second join under the same name reuses the topic.

        The node is made each time, because making it uses up three indices.
        """
        key_serde = self._key_serde if key_serde is None else key_serde
        value_serde = self._value_serde if value_serde is None else value_serde
        created = create_repartition_node(
            OptimizableRepartitionNode, self._builder.names, key_serde, value_serde, repartition_name, name_given_by_user
        )
        if self._repartition_node is None or self._name != repartition_name:
            self._repartition_node = created
            self._builder.add_graph_node(self._graph_node, created)
        return kstream.KStream(
            created.source_name,
            key_serde,
            value_serde,
            frozenset([created.source_name]),
            False,
            self._repartition_node,
            self._builder,
        )
