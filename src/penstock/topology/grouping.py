"""Which nodes belong together: sub-topologies are the connected components of the graph of nodes and stores."""

from __future__ import annotations

from collections.abc import Iterable


class QuickUnion:
    """Disjoint sets of names; finding a root shortens the path to it.

    >>> nodes = QuickUnion()
    >>> for name in "abc": nodes.add(name)
    >>> nodes.unite("a", "b")
    >>> nodes.root("a") == nodes.root("b"), nodes.root("a") == nodes.root("c")
    (True, False)
    """

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Put a name into a set of its own."""
        self._parents[name] = name

    def root(self, name: str) -> str:
        """The name that stands for the whole set."""
        parents = self._parents
        current, parent = name, parents[name]
        while parent != current:
            grandparent = parents[parent]
            parents[current] = grandparent
            current, parent = parent, grandparent
        return current

    def unite(self, name: str, *others: str) -> None:
        """Make one set of the set of `name` and those of the others."""
        for other in others:
            root, other_root = self.root(name), self.root(other)
            if root != other_root:
                self._parents[root] = other_root


def node_groups(names: Iterable[str], grouper: QuickUnion) -> dict[int, tuple[str, ...]]:
    """The groups numbered in the order in which their first nodes were added, as Kafka Streams numbers them."""
    by_root: dict[str, list[str]] = {}
    for name in names:
        by_root.setdefault(grouper.root(name), []).append(name)
    return {number: tuple(group) for number, group in enumerate(by_root.values())}
