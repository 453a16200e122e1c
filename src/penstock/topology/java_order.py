"""The iteration order of java.util.HashMap and TreeSet over names.

Kafka Streams prints its topologies in the order in which Java's collections hand the names out, and opens the
stores of a task in that order too. To print the same text, character for character, the order is computed here
the way OpenJDK does it; there is no library for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_DEFAULT_CAPACITY = 16
# A bin that grows past this many entries makes a table smaller than 64 double.
_TREEIFY_THRESHOLD = 8
_MIN_TREEIFY_CAPACITY = 64


def utf16_units(text: str) -> bytes:
    """A key that sorts as String.compareTo does: by UTF-16 code units, not by code points.

    >>> sorted(["\\U0001F600", "\\uFF5E"], key=utf16_units) == ["\\U0001F600", "\\uFF5E"]
    True
    """
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """String.hashCode, as an unsigned 32-bit number.

    >>> string_hash("penstock")
    328797597
    """
    result = 0
    units = utf16_units(text)
    for index in range(0, len(units), 2):
        result = (31 * result + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return result


def hash_order(names: Iterable[str]) -> list[str]:
    """The order of a HashMap or HashSet into which the names were put one after the other.

    >>> hash_order(["source", "processor", "sink"])
    ['sink', 'source', 'processor']
    """
    return _iteration_order(names, _DEFAULT_CAPACITY)


def hash_copy_order(names: Iterable[str]) -> list[str]:
    """The order of `new HashSet<>(collection)`, whose table is sized for the collection beforehand."""
    unique = list(dict.fromkeys(names))
    return _iteration_order(unique, max(int(len(unique) / 0.75) + 1, _DEFAULT_CAPACITY))


def hash_set_order(groups: Iterable[Iterable[str]]) -> list[list[str]]:
    """The order of `new HashSet<>(collection)` of sets of names; the hash of a set is the sum of those of its members."""
    unique = list(dict.fromkeys(tuple(sorted(group)) for group in groups))
    slots = 1 << (max(int(len(unique) / 0.75) + 1, _DEFAULT_CAPACITY) - 1).bit_length()

    def slot(group: tuple[str, ...]) -> int:
        code = sum(map(string_hash, group)) & 0xFFFFFFFF
        return (code ^ code >> 16) & (slots - 1)

    return [list(group) for group in sorted(unique, key=slot)]


def _iteration_order(names: Iterable[str], initial_capacity: int) -> list[str]:
    table = _HashTable(1 << (initial_capacity - 1).bit_length())
    for name in dict.fromkeys(names):
        table.add(name)
    return list(table)


class _HashTable:
    """HashMap's table: bins in order of insertion, split in two when the table doubles."""

    def __init__(self, capacity: int) -> None:
        self._bins: list[list[tuple[int, str]]] = [[] for _ in range(capacity)]
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        return (name for entries in self._bins for _, name in entries)

    def add(self, name: str) -> None:
        """Put a name that is not there yet."""
        code = string_hash(name)
        spread = code ^ (code >> 16)
        entries = self._bins[spread & (len(self._bins) - 1)]
        entries.append((spread, name))
        if len(entries) > _TREEIFY_THRESHOLD and len(self._bins) < _MIN_TREEIFY_CAPACITY:
            self._double()
        self._size += 1
        if self._size > len(self._bins) * 3 // 4:
            self._double()

    def _double(self) -> None:
        capacity = 2 * len(self._bins)
        bins: list[list[tuple[int, str]]] = [[] for _ in range(capacity)]
        for entries in self._bins:
            for entry in entries:
                bins[entry[0] & (capacity - 1)].append(entry)
        self._bins = bins


class _TreeNode(Generic[T]):
    __slots__ = ("black", "left", "parent", "right", "value")

    def __init__(self, value: T, parent: _TreeNode[T] | None) -> None:
        self.value = value
        self.parent = parent
        self.left: _TreeNode[T] | None = None
        self.right: _TreeNode[T] | None = None
        self.black = True


class TreeSet(Generic[T]):
    """java.util.TreeSet with a comparator, as far as adding and iterating go.

    A sorted list would not do: the comparator of `describe()` looks at numbers that change after an element has
    been added, so the order depends on which elements a new one is compared with, that is, on the shape of the tree.

    >>> numbers = TreeSet(lambda a, b: a - b)
    >>> for n in (5, 1, 3, 1): numbers.add(n)
    >>> list(numbers)
    [1, 3, 5]
    """

    def __init__(self, comparator: Callable[[T, T], int]) -> None:
        self._compare = comparator
        self._root: _TreeNode[T] | None = None

    def __iter__(self) -> Iterator[T]:
        stack: list[_TreeNode[T]] = []
        node = self._root
        while stack or node is not None:
            while node is not None:
                stack.append(node)
                node = node.left
            node = stack.pop()
            yield node.value
            node = node.right

    def add(self, value: T) -> None:
        """Add a value unless an equal one is met on the way down."""
        parent: _TreeNode[T] | None = None
        node = self._root
        order = 0
        while node is not None:
            parent = node
            order = self._compare(value, node.value)
            if order == 0:
                return
            node = node.left if order < 0 else node.right
        added = _TreeNode(value, parent)
        if parent is None:
            self._root = added
            return
        if order < 0:
            parent.left = added
        else:
            parent.right = added
        self._rebalance(added)

    def _rebalance(self, node: _TreeNode[T]) -> None:
        """Restore the red-black rules after `node` was hung in, with TreeMap's choice of rotations."""
        node.black = False
        while (parent := node.parent) is not None and not parent.black:
            grandparent = parent.parent
            assert grandparent is not None  # a red node is never the root
            parent_is_left = parent is grandparent.left
            uncle = grandparent.right if parent_is_left else grandparent.left
            if uncle is not None and not uncle.black:
                parent.black = uncle.black = True
                grandparent.black = False
                node = grandparent
                continue
            if node is (parent.right if parent_is_left else parent.left):
                self._rotate(parent, left=parent_is_left)
                parent = node
            parent.black = True
            grandparent.black = False
            self._rotate(grandparent, left=not parent_is_left)
            break
        assert self._root is not None
        self._root.black = True

    def _rotate(self, node: _TreeNode[T], *, left: bool) -> None:
        child = node.right if left else node.left
        assert child is not None
        inner = child.left if left else child.right
        if left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        elif node.parent.left is node:
            node.parent.left = child
        else:
            node.parent.right = child
        node.parent = child
