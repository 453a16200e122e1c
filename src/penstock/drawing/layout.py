"""A layered layout of a directed graph: who stands in which row, in which order, and where.

Graphviz would do this, but it is a program to install; a topology is small enough for the textbook method: rows by the
longest path, order by the mean of the neighbours, places by least squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Edge = tuple[str, str]
Point = tuple[float, float]
_SWEEPS = 12


@dataclass(frozen=True)
class Size:
    """How much room something takes; its centre may lie left of the middle, where something hangs on its right side."""

    width: float
    height: float
    center: float | None = None

    @property
    def left(self) -> float:
        """The room left of the centre."""
        return self.width / 2 if self.center is None else self.center

    @property
    def right(self) -> float:
        """The room right of the centre."""
        return self.width - self.left


@dataclass
class Layout:
    """Where everything went: centres of the nodes, and for each edge the points it passes between its ends.

    An edge that closes a circle goes upwards and has no route.
    """

    width: float
    height: float
    centers: dict[str, Point] = field(default_factory=dict)
    routes: dict[Edge, list[Point]] = field(default_factory=dict)


def place_apart(wanted: Sequence[float], distances: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The places closest to the wanted ones that keep their order and at least these distances between neighbours.

    >>> place_apart([0, 0, 10], [4, 4])
    [-2.0, 2.0, 10.0]
    """
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    # Pools of neighbours that push each other: their mean, their weight, how many they are.
    pools: list[list[float]] = []
    for index, (want, offset) in enumerate(zip(wanted, offsets)):
        pools.append([want - offset, 1.0 if weights is None else weights[index], 1])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            mean, weight, count = pools.pop()
            before = pools[-1]
            before[0] = (before[0] * before[1] + mean * weight) / (before[1] + weight)
            before[1] += weight
            before[2] += count
    places = [mean for mean, _, count in pools for _ in range(int(count))]
    return [place + offset for place, offset in zip(places, offsets)]


def layered(sizes: Mapping[str, Size], edges: Iterable[Edge], gap: Size) -> Layout:
    """Put nodes into rows from top to bottom, each below all that lead to it.

    >>> layout = layered({"a": Size(10, 4), "b": Size(10, 4)}, [("a", "b")], Size(5, 6))
    >>> layout.centers["a"], layout.centers["b"], layout.height
    ((5.0, 2.0), (5.0, 12.0), 14.0)
    """
    known = [edge for edge in dict.fromkeys(edges) if edge[0] in sizes and edge[1] in sizes and edge[0] != edge[1]]
    graph = _Rows(sizes, known)
    graph.order_rows()
    centers_x = graph.place(gap.width)
    return graph.layout(centers_x, gap.height)


class _Rows:
    """Rows of nodes; an edge over several rows goes through an empty node in each row between."""

    def __init__(self, sizes: Mapping[str, Size], edges: list[Edge]) -> None:
        self._sizes = dict(sizes)
        self._row_of = _longest_paths(sizes, edges)
        self._rows: list[list[str]] = [[] for _ in range(max(self._row_of.values(), default=-1) + 1)]
        for name in sizes:
            self._rows[self._row_of[name]].append(name)
        self._above: dict[str, list[str]] = {name: [] for name in sizes}
        self._below: dict[str, list[str]] = {name: [] for name in sizes}
        downwards = [edge for edge in edges if self._row_of[edge[0]] < self._row_of[edge[1]]]
        self._chains: dict[Edge, list[str]] = {edge: self._add_chain(edge) for edge in downwards}

    def _add_chain(self, edge: Edge) -> list[str]:
        top, bottom = edge
        chain = [top]
        for row in range(self._row_of[top] + 1, self._row_of[bottom]):
            dummy = f"{top}\0{bottom}\0{row}"
            self._sizes[dummy] = Size(0, 0)
            self._above[dummy], self._below[dummy] = [], []
            self._rows[row].append(dummy)
            chain.append(dummy)
        chain.append(bottom)
        for upper, lower in itertools.pairwise(chain):
            self._below[upper].append(lower)
            self._above[lower].append(upper)
        return chain[1:-1]

    def order_rows(self) -> None:
        """Move nodes towards the mean of their neighbours, and keep the order with the fewest crossings."""
        best, fewest = [list(row) for row in self._rows], self._crossings()
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            neighbours = self._above if down else self._below
            for row in range(1, len(self._rows)) if down else range(len(self._rows) - 2, -1, -1):
                beside = self._rows[row - 1 if down else row + 1]
                place = {name: index for index, name in enumerate(beside)}
                own = {name: index for index, name in enumerate(self._rows[row])}
                mean = {name: _mean([place[other] for other in neighbours[name]], own[name]) for name in self._rows[row]}
                self._rows[row].sort(key=mean.__getitem__)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self._rows], crossings
        self._rows = best

    def _crossings(self) -> int:
        count = 0
        for upper, lower in zip(self._rows, self._rows[1:]):
            place = {name: index for index, name in enumerate(lower)}
            ends = [place[below] for name in upper for below in sorted(self._below[name], key=place.__getitem__)]
            count += sum(1 for index, first in enumerate(ends) for second in ends[index + 1 :] if first > second)
        return count

    def place(self, gap: float) -> dict[str, float]:
        """The horizontal centre of every node: near its neighbours, clear of the nodes beside it."""
        x: dict[str, float] = {}
        for row in self._rows:
            left = 0.0
            for name in row:
                x[name] = left + self._sizes[name].left
                left += self._sizes[name].width + gap
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self._rows if down else reversed(self._rows):
                near = [self._above[name] if down else self._below[name] for name in row]
                wanted = [_mean([x[other] for other in others], x[name]) for name, others in zip(row, near)]
                sizes = [self._sizes[name] for name in row]
                distances = [first.right + second.left + gap for first, second in itertools.pairwise(sizes)]
                # Long edges bend less if the places between their ends are hard to move.
                weights = [1.0 if size.width else 4.0 for size in sizes]
                x.update(zip(row, place_apart(wanted, distances, weights)))
        left = min((x[name] - self._sizes[name].left for name in x), default=0.0)
        return {name: center - left for name, center in x.items()}

    def layout(self, x: Mapping[str, float], gap: float) -> Layout:
        """The finished layout: rows as high as what is highest in them."""
        y: dict[str, float] = {}
        top = 0.0
        for row in self._rows:
            height = max(self._sizes[name].height for name in row)
            y.update(dict.fromkeys(row, top + height / 2))
            top += height + gap
        width = max((x[name] + self._sizes[name].right for name in x), default=0.0)
        centers = {name: (x[name], y[name]) for name in x}
        routes = {edge: [centers[name] for name in chain] for edge, chain in self._chains.items()}
        real = {name: center for name, center in centers.items() if "\0" not in name}
        return Layout(width, max(top - gap, 0), real, routes)


def _longest_paths(names: Iterable[str], edges: list[Edge]) -> dict[str, int]:
    """The row of each node: one below the lowest of those that lead to it. Edges that close a circle are ignored."""
    below: dict[str, list[str]] = {name: [] for name in names}
    for top, bottom in edges:
        below[top].append(bottom)
    order: list[str] = []
    state: dict[str, int] = {}
    back: set[Edge] = set()

    def visit(name: str) -> None:
        state[name] = 1
        for other in below[name]:
            if state.get(other) == 1:
                back.add((name, other))
            elif other not in state:
                visit(other)
        state[name] = 2
        order.append(name)

    for name in below:
        if name not in state:
            visit(name)
    rows = dict.fromkeys(below, 0)
    for name in reversed(order):
        for other in below[name]:
            if (name, other) not in back:
                rows[other] = max(rows[other], rows[name] + 1)
    return rows


def _mean(numbers: Sequence[float], default: float) -> float:
    return sum(numbers) / len(numbers) if numbers else default
