"""Nodes of joins: two streams, a stream and a table, two tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import VersionedSemanticsNode
from penstock.topology.builder import InternalTopologyBuilder


class StreamStreamJoinNode(GraphNode):
    """Both sides of a join of two streams, and their merge; or one processor where a stream joins itself."""

    def __init__(
        self,
        this_parameters: ProcessorParameters,
        other_parameters: ProcessorParameters,
        merge_parameters: ProcessorParameters,
        self_join_parameters: ProcessorParameters,
        this_windowed_name: str,
        other_windowed_name: str,
    ) -> None:
        super().__init__(merge_parameters.name)
        self.this_parameters = this_parameters
        self.other_parameters = other_parameters
        self.merge_parameters = merge_parameters
        self.self_join_parameters = self_join_parameters
        self.this_windowed_name = this_windowed_name
        self.other_windowed_name = other_windowed_name
        self.is_self_join = False

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the join's processors below the two windowed ones."""
        if self.is_self_join:
            self.self_join_parameters.add_processor_to(topology, self.this_windowed_name)
            return
        self.this_parameters.add_processor_to(topology, self.this_windowed_name)
        self.other_parameters.add_processor_to(topology, self.other_windowed_name)
        self.merge_parameters.add_processor_to(topology, self.this_parameters.name, self.other_parameters.name)


class StreamTableJoinNode(GraphNode):
    """A stream that looks up a table, or a global table, whose stores are then not connected."""

    def __init__(
        self, parameters: ProcessorParameters, store_names: Sequence[str] = (), grace_period_ms: int | None = None
    ) -> None:
        super().__init__(parameters.name)
        self.parameters = parameters
        self.store_names = tuple(store_names)
        self.grace_period_ms = grace_period_ms

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the join, connect the table's stores, and check that a grace period has history to look into."""
        self.parameters.add_processor_to(topology, *self.parent_node_names)
        if self.store_names:
            topology.connect_processor_and_state_stores(self.parameters.name, *self.store_names)
        if self.grace_period_ms is None:
            return
        for store_name in self.store_names:
            if not topology.is_store_versioned(store_name):
                raise TopologyError(
                    f"the join {self.node_name} has a grace period, so its table must be versioned, but the store "
                    f"{store_name} is not: materialize the table with Stores.persistent_versioned_key_value_store"
                )
            retention = topology.history_retention(store_name)
            if self.grace_period_ms > retention:
                raise TopologyError(
                    f"the grace period of the join {self.node_name} is {self.grace_period_ms} ms, longer than the history "
                    f"retention of {retention} ms of the table's store {store_name}"
                )


class TableTableJoinNode(VersionedSemanticsNode):
    """Both sides of a join of two tables, and their merge."""

    def __init__(
        self,
        this_parameters: ProcessorParameters,
        other_parameters: ProcessorParameters,
        merge_parameters: ProcessorParameters,
        this_parent_name: str,
        other_parent_name: str,
        this_store_names: Sequence[str],
        other_store_names: Sequence[str],
    ) -> None:
        super().__init__(merge_parameters.name)
        self.this_parameters = this_parameters
        self.other_parameters = other_parameters
        self.merge_parameters = merge_parameters
        self.this_parent_name = this_parent_name
        self.other_parent_name = other_parent_name
        self.this_store_names = tuple(this_store_names)
        self.other_store_names = tuple(other_store_names)

    def enable_versioned_semantics(self, use_versioned_semantics: bool, parent_node_name: str) -> None:
        """Tell the side whose table is the parent of that name."""
        for parameters in (self.this_parameters, self.other_parameters):
            side: Any = parameters.supplier
            if side.join_this_parent_node_name == parent_node_name:
                side.set_use_versioned_semantics(use_versioned_semantics)

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add both sides and the merge; each side reads the other's stores."""
        this_name, other_name = self.this_parameters.name, self.other_parameters.name
        self.this_parameters.add_processor_to(topology, self.this_parent_name)
        self.other_parameters.add_processor_to(topology, self.other_parent_name)
        self.merge_parameters.add_processor_to(topology, this_name, other_name)
        topology.connect_processor_and_state_stores(this_name, *self.other_store_names)
        topology.connect_processor_and_state_stores(other_name, *self.this_store_names)
