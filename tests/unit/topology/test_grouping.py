from __future__ import annotations

from penstock.topology.grouping import QuickUnion, node_groups


def _union(*names: str) -> QuickUnion:
    union = QuickUnion()
    for name in names:
        union.add(name)
    return union


def test_should_unite_transitively() -> None:
    union = _union("a", "b", "c", "d")
    union.unite("a", "b")
    union.unite("c", "d")
    assert union.root("a") != union.root("c")
    union.unite("b", "d")
    assert len({union.root(name) for name in "abcd"}) == 1


def test_should_unite_many_at_once() -> None:
    union = _union("a", "b", "c")
    union.unite("a", "b", "c")
    assert union.root("b") == union.root("c")


def test_should_number_groups_by_their_first_node() -> None:
    union = _union("s1", "s2", "p2", "p1")
    union.unite("p2", "s2")
    union.unite("p1", "s1")
    assert node_groups(["s1", "s2", "p2", "p1"], union) == {0: ("s1", "p1"), 1: ("s2", "p2")}
