"""`single.store.self.join`: an inner join of a stream with itself keeps one window store instead of two."""

from __future__ import annotations

from penstock.errors import TopologyError
from penstock.graph.join_nodes import StreamStreamJoinNode
from penstock.graph.node import GraphNode
from penstock.graph.processors import WindowedStreamProcessorNode


def single_store_self_join(root: GraphNode) -> None:
    """Rewrite every join whose two sides are the same node."""
    visited: set[GraphNode] = set()

    def rewrite(node: GraphNode) -> None:
        visited.add(node)
        if isinstance(node, StreamStreamJoinNode) and len(node.parent_nodes) == 1:
            _make_self_join(node)
        for child in node.children:
            if child not in visited:
                rewrite(child)

    rewrite(root)


def _make_self_join(join: StreamStreamJoinNode) -> None:
    (parent,) = join.parent_nodes
    windowed = {
        child.node_name: child
        for child in parent.children
        if isinstance(child, WindowedStreamProcessorNode) and child.build_priority < join.build_priority
    }
    left, right = windowed.get(join.this_windowed_name), windowed.get(join.other_windowed_name)
    if left is None or right is None or left.build_priority >= right.build_priority:
        raise TopologyError(
            f"the join {join.node_name} of a stream with itself cannot be rewritten: its sides were not found in order"
        )
    parent.remove_child(right)
    join.is_self_join = True
