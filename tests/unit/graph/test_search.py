from __future__ import annotations

import pytest

from penstock.errors import TopologyError
from penstock.graph.node import ProcessorParameters, RootNode
from penstock.graph.processors import GracePeriodGraphNode, ProcessorGraphNode
from penstock.graph.search import (
    find_and_verify_window_grace,
    find_parent_node_matching,
    is_versioned_or_versioned_upstream,
    key_changing_parent,
)


def chain(*nodes: ProcessorGraphNode) -> None:
    above = RootNode()
    for node in nodes:
        above.add_child(node)
        above = node  # type: ignore[assignment]


def processor(name: str) -> ProcessorGraphNode:
    return ProcessorGraphNode(ProcessorParameters(dict, name))


def windowed(name: str, grace_ms: int) -> GracePeriodGraphNode:
    return GracePeriodGraphNode(ProcessorParameters(dict, name), grace_ms)


def test_should_find_the_first_match_upwards_itself_included() -> None:
    a, b, c = processor("a"), processor("b"), processor("c")
    chain(a, b, c)
    assert find_parent_node_matching(c, lambda node: node.node_name in "ab") is b
    assert find_parent_node_matching(c, lambda node: node is c) is c
    assert find_parent_node_matching(c, lambda node: node.node_name == "z") is None


def test_should_not_look_past_a_change_of_the_value() -> None:
    key, value, end = processor("key"), processor("value"), processor("end")
    key.is_key_changing_operation = True
    chain(key, value, end)
    assert key_changing_parent(end) is key
    value.is_value_changing_operation = True
    assert key_changing_parent(end) is None


def test_should_take_the_longest_grace_of_all_parents() -> None:
    end = processor("end")
    for parent in (windowed("a", 5), windowed("b", 9)):
        chain(parent)
        parent.add_child(end)
    assert find_and_verify_window_grace(end) == 9


def test_should_name_the_way_to_the_node_without_windows() -> None:
    a, b = processor("a"), processor("b")
    chain(a, b)
    with pytest.raises(TopologyError, match=r"\[root->a->b\]"):
        find_and_verify_window_grace(b)


def test_should_inherit_versions_only_from_parents_that_all_have_them() -> None:
    versioned, plain, both = processor("v"), processor("p"), processor("both")
    versioned.is_output_versioned, plain.is_output_versioned = True, False
    versioned.add_child(both)
    assert is_versioned_or_versioned_upstream(both)
    plain.add_child(both)
    assert not is_versioned_or_versioned_upstream(both)
