"""Nodes that are one processor, with the few facts that some of them carry for rewrites and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.topology.builder import InternalTopologyBuilder


class ProcessorGraphNode(GraphNode):
    """One processor below its parents."""

    def __init__(self, parameters: ProcessorParameters) -> None:
        super().__init__(parameters.name)
        self.parameters = parameters

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the processor."""
        self.parameters.add_processor_to(topology, *self.parent_node_names)


class ProcessorToStateConnectorNode(ProcessorGraphNode):
    """A processor that also uses stores which others have added."""

    def __init__(self, parameters: ProcessorParameters, store_names: Sequence[str]) -> None:
        super().__init__(parameters)
        self.store_names = tuple(store_names)

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the processor and connect the stores."""
        super().write_to_topology(topology)
        if self.store_names:
            topology.connect_processor_and_state_stores(self.parameters.name, *self.store_names)


class GracePeriodGraphNode(ProcessorGraphNode):
    """A windowed aggregation: `suppress(until_window_closes)` below it looks up its grace period."""

    def __init__(self, parameters: ProcessorParameters, grace_period_ms: int) -> None:
        super().__init__(parameters)
        self.grace_period_ms = grace_period_ms


class WindowedStreamProcessorNode(ProcessorGraphNode):
    """The node that keeps one side of a stream-stream join in a window store."""


class StreamToTableNode(ProcessorGraphNode):
    """A stream read as a table's changelog."""


class TableSuppressNode(ProcessorGraphNode):
    """A suppression; refused below versioned tables."""


class VersionedSemanticsNode(GraphNode):
    """A node whose processor behaves differently below a versioned table."""

    def enable_versioned_semantics(self, use_versioned_semantics: bool, parent_node_name: str) -> None:
        """Tell the processor whether the table above, the parent of that name, is versioned."""
        raise NotImplementedError


class _VersionAware(Protocol):
    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None: ...


class VersionAwareProcessorNode(ProcessorGraphNode, VersionedSemanticsNode):
    """A single processor that wants to know whether its table is versioned.

    The filter, the map before a table's `group_by`, and both senders of a foreign-key join are such processors.
    """

    def enable_versioned_semantics(self, use_versioned_semantics: bool, parent_node_name: str) -> None:
        """Pass it on to the processor's supplier."""
        supplier: _VersionAware | Any = self.parameters.supplier
        supplier.set_use_versioned_semantics(use_versioned_semantics)
