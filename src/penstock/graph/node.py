"""The base of all logical nodes: parents, children, and what an optimisation needs to know of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.state.store import StoreBuilder
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.specs import ProcessorSupplier
from penstock.user_code import call_site

StoreBuilders = Iterable[StoreBuilder[Any]]


class GraphNode(ABC):
    """One logical step, which becomes one or more nodes of the topology.

    Children and parents keep the order in which they were added: it decides the order of the topology's nodes.
    """

    def __init__(self, node_name: str) -> None:
        self.node_name = node_name
        self.added_at = call_site().line
        self.is_key_changing_operation = False
        self.is_value_changing_operation = False
        self.is_merge_node = False
        self.is_null_key_relaxed_join = False
        self.build_priority = 0
        self.has_written_to_topology = False
        # None: not materialized here, so it depends on the parents whether the output is versioned.
        self.is_output_versioned: bool | None = None
        self._children: dict[GraphNode, None] = {}
        self._parents: dict[GraphNode, None] = {}

    @property
    def parent_nodes(self) -> list[GraphNode]:
        """The parents, in the order they were added."""
        return list(self._parents)

    @property
    def children(self) -> list[GraphNode]:
        """The children, in the order they were added."""
        return list(self._children)

    @property
    def parent_node_names(self) -> list[str]:
        """The parents' names."""
        return [parent.node_name for parent in self._parents]

    @property
    def all_parents_written_to_topology(self) -> bool:
        """Whether this node may be written now."""
        return all(parent.has_written_to_topology for parent in self._parents)

    def add_child(self, child: GraphNode) -> None:
        """Put a node below this one."""
        self._children[child] = None
        child._parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        """Take a node away from below this one."""
        if child in self._children:
            del self._children[child]
            child._parents.pop(self, None)

    def clear_children(self) -> None:
        """Take all nodes away from below this one."""
        for child in self._children:
            child._parents.pop(self, None)
        self._children.clear()

    @abstractmethod
    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add what this node stands for to the topology."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node_name!r}, parents={self.parent_node_names})"


class RootNode(GraphNode):
    """The node above all sources; writes nothing."""

    def __init__(self) -> None:
        super().__init__("root")

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Nothing to write."""


class ProcessorParameters:
    """A processor to be added: its supplier, its name, and the stores that belong to it.

    `stores` may be a function, asked when the topology is written: a table's source is materialized only if some
    later operator turned out to need it.
    """

    def __init__(self, supplier: ProcessorSupplier, name: str, stores: StoreBuilders | Callable[[], StoreBuilders] = ()) -> None:
        self.supplier = supplier
        self.name = name
        self._stores = stores

    @property
    def own_stores(self) -> Sequence[StoreBuilder[Any]]:
        """The builders of the stores the DSL keeps for this processor."""
        return list(self._stores() if callable(self._stores) else self._stores)

    def add_processor_to(self, topology: InternalTopologyBuilder, *parents: str) -> None:
        """Add the processor, then its stores and those its supplier brings, connected to it."""
        topology.add_processor(self.name, self.supplier, *parents, stores=self.own_stores)
