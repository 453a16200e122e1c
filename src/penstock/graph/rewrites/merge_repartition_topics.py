"""`merge.repartition.topics`: the repartition topics below one change of the key become one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.node import GraphNode
from penstock.graph.repartition import OptimizableRepartitionNode, create_repartition_node
from penstock.graph.resources import GraphNames
from penstock.graph.search import find_parent_node_matching
from penstock.serdes.guessed import given_serde
from penstock.topology.builder import InternalTopologyBuilder

Repartitions = dict[GraphNode, dict[OptimizableRepartitionNode, None]]


def merge_repartition_topics(
    by_key_change: Repartitions, merge_nodes: Iterable[GraphNode], names: GraphNames, topology: InternalTopologyBuilder
) -> None:
    """Put one repartition directly below each key-changing node and take out those further down.

    The one that stays has the name of the first it replaces.
    """
    _move_to_merge_nodes(by_key_change, merge_nodes)
    for key_changing, replaced in list(by_key_change.items()):
        if not replaced:
            continue
        key_serde, value_serde = _first_serdes(replaced)
        topic = next(iter(replaced)).topic
        merged = create_repartition_node(
            OptimizableRepartitionNode, names, key_serde, value_serde, topic, name_given_by_user=True, topic=topic
        )
        # The parent's own priority: everything below is written after it.
        merged.build_priority = key_changing.build_priority
        for node in replaced:
            _replace(node, merged, key_changing)
            topology.maybe_update_copartition_source_groups(node.node_name, merged.node_name)
        key_changing.add_child(merged)
        del by_key_change[key_changing]


def _replace(replaced: OptimizableRepartitionNode, merged: GraphNode, key_changing: GraphNode) -> None:
    child = find_parent_node_matching(replaced, lambda node: key_changing in node.parent_nodes)
    if child is None:
        raise TopologyError(f"no child of {key_changing.node_name} leads to the repartition {replaced.node_name}")
    merged.add_child(child)
    key_changing.remove_child(child)
    parents = replaced.parent_nodes
    for grandchild in replaced.children:
        for parent in parents:
            parent.add_child(grandchild)
    for parent in parents:
        parent.remove_child(replaced)
    replaced.clear_children()


def _move_to_merge_nodes(by_key_change: Repartitions, merge_nodes: Iterable[GraphNode]) -> None:
    """Where streams with changed keys are merged before the repartition, it goes below the merge instead."""
    merged_to_key_changing: dict[GraphNode, list[GraphNode]] = {}
    for merge_node in merge_nodes:
        merged_to_key_changing[merge_node] = [
            key_changing
            for key_changing, repartitions in by_key_change.items()
            if _all_below(merge_node, repartitions) and _is_above(key_changing, merge_node)
        ]
    moved: set[GraphNode] = set()
    for merge_node, key_changings in merged_to_key_changing.items():
        gathered: dict[OptimizableRepartitionNode, None] = {}
        for key_changing in key_changings:
            gathered.update(by_key_change[key_changing])
            moved.add(key_changing)
        by_key_change[merge_node] = gathered
    for key_changing in moved:
        by_key_change.pop(key_changing, None)


def _all_below(merge_node: GraphNode, repartitions: Iterable[OptimizableRepartitionNode]) -> bool:
    return all(
        find_parent_node_matching(node, lambda candidate: merge_node in candidate.parent_nodes) is not None
        for node in repartitions
    )


def _is_above(key_changing: GraphNode, merge_node: GraphNode) -> bool:
    return find_parent_node_matching(merge_node, lambda node: key_changing in node.parent_nodes) is not None


def _first_serdes(repartitions: Iterable[OptimizableRepartitionNode]) -> tuple[Any, Any]:
    nodes = list(repartitions)
    return _first(node.key_serde for node in nodes), _first(node.value_serde for node in nodes)


def _first(serdes: Iterable[Any]) -> Any:
    """The first that somebody has given; where nobody has, the first that was guessed."""
    known = [serde for serde in serdes if serde is not None]
    return next((serde for serde in known if given_serde(serde) is not None), known[0] if known else None)
