"""Records without a key are not sent through a repartition topic, unless a left or outer join below wants them.

Not an option: it is always applied.
"""

from __future__ import annotations

from penstock.graph.node import GraphNode
from penstock.graph.repartition import BaseRepartitionNode


def drop_null_keys_before_repartition(root: GraphNode) -> None:
    """Let the filter of every repartition drop records without a key where nothing below can use them."""
    visited: dict[GraphNode, None] = {}
    above_relaxed_join: set[GraphNode] = set()

    def traverse(node: GraphNode) -> None:
        if node in visited:
            return
        for child in node.children:
            traverse(child)
            if child.is_null_key_relaxed_join or child in above_relaxed_join:
                above_relaxed_join.add(node)
        visited[node] = None

    traverse(root)
    for node in visited:
        if isinstance(node, BaseRepartitionNode) and node not in above_relaxed_join:
            node.drop_null_keys()
