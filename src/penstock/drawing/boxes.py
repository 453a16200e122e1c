"""What every drawing of a topology shows: boxes of sub-topologies with their nodes and stores, and the topics between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.drawing.layout import Point, Size, layered
from penstock.topology.description import Node, Processor, Sink, Source, TopologyDescription


class Rectangle(NamedTuple):
    """A place in a drawing."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> Point:
        """The centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def top(self) -> Point:
        """The middle of the upper side."""
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        """The middle of the lower side."""
        return self.x + self.width / 2, self.y + self.height

    @property
    def left(self) -> Point:
        """The middle of the left side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """The middle of the right side."""
        return self.x + self.width, self.y + self.height / 2


@dataclass(frozen=True)
class Measures:
    """The sizes of a drawing's shapes and of the gaps between them."""

    node_width: Callable[[str], float]
    node_height: float
    store_width: Callable[[str], float]
    store_height: float
    store_gap: float
    """Between a node and its stores."""
    stack_gap: float
    """Between the stores of one node."""
    title_width: Callable[[str], float]
    title_height: float
    padding: float
    gaps: Size
    """Between the nodes of a row, and between rows."""


@dataclass
class Topic:
    """A topic, with the sinks that write it and the sources that read it."""

    label: str
    dynamic: bool = False
    sinks: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


class Box:
    """One sub-topology or global store, with its nodes laid out; `x` and `y` are set when the boxes are placed."""

    def __init__(self, title: str, nodes: Iterable[Node], measures: Measures) -> None:
        self.title = title
        self.members = {node.name: node for node in nodes}
        self._measures = measures
        self._stores_of = _owned_stores(self.members.values())
        sizes = {node.name: self._size(node) for node in _top_down(self.members.values())}
        edges = [(node.name, below.name) for node in self.members.values() for below in node.successors]
        self._layout = layered(sizes, edges, measures.gaps)
        self.width = max(self._layout.width, measures.title_width(title)) + 2 * measures.padding
        self.height = self._layout.height + measures.title_height + 2 * measures.padding
        self.x = self.y = 0.0

    def _size(self, node: Node) -> Size:
        measures, stores = self._measures, self._stores_of[node.name]
        width = measures.node_width(node.name)
        if not stores:
            return Size(width, measures.node_height)
        widest = max(map(measures.store_width, stores))
        height = max(measures.node_height, self._stack_height(len(stores)))
        return Size(width + measures.store_gap + widest, height, center=width / 2)

    def _stack_height(self, stores: int) -> float:
        return stores * (self._measures.store_height + self._measures.stack_gap) - self._measures.stack_gap

    def _place(self, point: Point) -> Point:
        return self.x + self._measures.padding + point[0], self.y + self._measures.title_height + self._measures.padding + point[
            1
        ]

    def node(self, name: str) -> Rectangle:
        """Return the place of a node, without the stores beside it."""
        x, y = self._place(self._layout.centers[name])
        width, height = self._measures.node_width(name), self._measures.node_height
        return Rectangle(x - width / 2, y - height / 2, width, height)

    def stores(self) -> Iterator[tuple[str, str, Rectangle]]:
        """Yield each store, the node beside which it stands, and its place."""
        measures = self._measures
        for name, stores in self._stores_of.items():
            x, y = self.node(name).right
            top = y - self._stack_height(len(stores)) / 2
            for number, store in enumerate(stores):
                store_y = top + number * (measures.store_height + measures.stack_gap)
                yield store, name, Rectangle(x + measures.store_gap, store_y, measures.store_width(store), measures.store_height)

    def edges(self) -> Iterator[tuple[str, str, list[Point]]]:
        """Yield the nodes that each edge connects, from the upper to the lower one, and the points of its line."""
        for (start, end), route in self._layout.routes.items():
            yield start, end, [self.node(start).bottom, *map(self._place, route), self.node(end).top]

    def uses(self) -> Iterator[tuple[Rectangle, Rectangle, bool]]:
        """Yield the places of a node and of a store that it uses, and whether the store stands beside it."""
        places = {store: (owner, place) for store, owner, place in self.stores()}
        for name, node in self.members.items():
            for store in sorted(_stores(node)):
                owner, place = places[store]
                yield self.node(name), place, owner == name


def boxes_of(description: TopologyDescription, measures: Measures) -> list[Box]:
    """Return a box for each sub-topology and each global store."""
    boxes = [Box(f"Sub-topology {part.id}", part.nodes, measures) for part in description.subtopologies]
    return boxes + [Box(f"Global store {one.id}", (one.source, one.processor), measures) for one in description.global_stores]


def topics_of(boxes: Iterable[Box]) -> list[Topic]:
    """Return the topics that the nodes read and write. A topic that is chosen for each record has one shape for each sink."""
    topics: dict[str, Topic] = {}
    for node in (node for box in boxes for node in box.members.values()):
        if isinstance(node, Source):
            labels = sorted(node.topic_set or ()) if node.topic_pattern is None else [f"~ {node.topic_pattern.pattern}"]
            for label in labels:
                topics.setdefault(label, Topic(label, node.topic_pattern is not None)).sources.append(node.name)
        elif isinstance(node, Sink):
            label, key = (node.topic, node.topic) if node.topic is not None else ("topic by record", f"\0{node.name}")
            topics.setdefault(key, Topic(label, node.topic is None)).sinks.append(node.name)
    return list(topics.values())


def kind_of(node: Node) -> str:
    """Return whether a node is a source, a sink or a processor."""
    return "source" if isinstance(node, Source) else "sink" if isinstance(node, Sink) else "processor"


def down_path(points: list[Point], loop_bend: float) -> str:
    """Return the SVG path of a smooth line down through the points; `loop_bend` is how far it swings where it goes up."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        bend = (y2 - y1) / 2 if y2 > y1 else loop_bend
        path += f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    return path


def _top_down(nodes: Iterable[Node]) -> list[Node]:
    """Return sources first and each node after its predecessors: what is drawn left is what was written first."""
    order: dict[str, Node] = {}

    def visit(node: Node) -> None:
        if node.name not in order:
            order[node.name] = node
            for below in node.successors:
                visit(below)

    for node in sorted(nodes, key=lambda node: (bool(node.predecessors), node.name)):
        visit(node)
    return list(order.values())


def _owned_stores(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Return the stores drawn beside each node: a store stands beside the first processor that uses it."""
    owned: dict[str, list[str]] = {}
    seen: set[str] = set()
    for node in nodes:
        owned[node.name] = sorted(_stores(node) - seen)
        seen.update(owned[node.name])
    return owned


def _stores(node: Node) -> frozenset[str]:
    return node.stores if isinstance(node, Processor) else frozenset()
