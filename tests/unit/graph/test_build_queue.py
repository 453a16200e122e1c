from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.build_queue import BuildQueue
from penstock.graph.node import RootNode


def node(priority: int, name: str = "") -> RootNode:
    made = RootNode()
    made.build_priority, made.node_name = priority, name
    return made


@given(st.lists(st.integers(0, 20), max_size=40))
def test_should_give_nodes_by_priority(priorities: list[int]) -> None:
    queue = BuildQueue()
    for priority in priorities:
        queue.offer(node(priority))
    taken = []
    while queue:
        taken.append(queue.remove().build_priority)
    assert taken == sorted(priorities)


def test_should_break_ties_as_javas_priority_queue_does() -> None:
    """The order was taken from java.util.PriorityQueue: it is not the order of insertion."""
    queue = BuildQueue()
    for name in "abcd":
        queue.offer(node(1, name))
    assert [queue.remove().node_name for _ in range(4)] == ["a", "d", "c", "b"]
