"""Looking upwards in the graph."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import TopologyError
from penstock.graph.node import GraphNode, RootNode
from penstock.graph.processors import GracePeriodGraphNode


def find_parent_node_matching(start: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """The first node that matches, from `start` upwards, itself included; None where there is none."""
    if matches(start):
        return start
    for parent in start.parent_nodes:
        if matches(parent):
            return parent
        found = find_parent_node_matching(parent, matches)
        if found is not None:
            return found
    return None


def key_changing_parent(repartition: GraphNode) -> GraphNode | None:
    """The node that made a repartition necessary, unless a node in between changes the value.

    A merged repartition would sit above that node and carry values its serde does not know.
    """
    changing = find_parent_node_matching(
        repartition, lambda node: node.is_key_changing_operation or node.is_value_changing_operation
    )
    key_changing = find_parent_node_matching(repartition, lambda node: node.is_key_changing_operation)
    return key_changing if changing is not None and changing is key_changing else None


def is_versioned_upstream(node: GraphNode) -> bool:
    """Whether what arrives at a node comes from versioned tables only."""
    if isinstance(node, RootNode):
        return False
    return all(is_versioned_or_versioned_upstream(parent) for parent in node.parent_nodes)


def is_versioned_or_versioned_upstream(node: GraphNode) -> bool:
    """Whether a node's output is a versioned table."""
    if node.is_output_versioned is not None:
        return node.is_output_versioned
    return is_versioned_upstream(node)


def find_and_verify_window_grace(node: GraphNode, chain: str = "") -> int:
    """The grace period of the windowed aggregations above; the largest where there are several."""
    if isinstance(node, GracePeriodGraphNode):
        return node.grace_period_ms
    below = f"{node.node_name}->{chain}" if chain else node.node_name
    if not node.parent_nodes:
        raise TopologyError(
            f"the time a window closes is only known below a windowed aggregation, and there is none above [{below}]"
        )
    return max(find_and_verify_window_grace(parent, below) for parent in node.parent_nodes)
