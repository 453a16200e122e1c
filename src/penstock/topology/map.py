"""A topology as a map for a page: where nodes, stores and topics go, and the lines between them, as plain numbers.

Sub-topologies stand beside each other in the order in which records pass them, with the topics between; within each, records go
down. So a wide screen is used, and a long chain of operators stays narrow.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.topology.description import Node, Processor, Sink, Source, TopologyDescription
from penstock.topology.layout import Layout, Size, layered

_CARD_WIDTH, _CARD_HEIGHT, _CHAR = 186.0, 64.0, 7.6
_STORE_WIDTH, _STORE_HEIGHT, _STORE_GAP = 132.0, 44.0, 18.0
_TOPIC_HEIGHT = 46.0
_PAD, _TITLE, _MARGIN = 20.0, 30.0, 16.0
_IN_BOX = Size(24, 34)
_BETWEEN = Size(30, 64)
_GENERATED = re.compile(r"K?(?P<kind>[A-Z]+(?:-[A-Z]+)*)-(?P<number>\d{10})")


class _Rectangle(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def json(self) -> dict[str, float]:
        return {"x": round(self.x, 1), "y": round(self.y, 1), "w": round(self.width, 1), "h": round(self.height, 1)}


def short_name(name: str) -> str:
    """A node's name for people: the generated ones say what the node does, and its number.

    >>> short_name("KSTREAM-FLATMAPVALUES-0000000001"), short_name("count-words")
    ('flatmapvalues 1', 'count-words')
    """
    found = _GENERATED.fullmatch(name)
    if found is None:
        return name
    kind = found["kind"].removeprefix("STREAM-").removeprefix("TABLE-").lower().replace("-", " ")
    return f"{kind} {int(found['number'])}"


def map_topology(description: TopologyDescription) -> dict[str, Any]:
    """Where everything goes.

    >>> from penstock.topology.description import Subtopology
    >>> found = map_topology(TopologyDescription([Subtopology(0, [Source("s", ["orders"])])], []))
    >>> [topic["name"] for topic in found["topics"]], [edge["from"] for edge in found["edges"]]
    (['orders'], ['orders'])
    """
    boxes = [_Box(f"Sub-topology {part.id}", part.nodes) for part in description.subtopologies]
    boxes += [_Box(f"Global store {store.id}", (store.source, store.processor)) for store in description.global_stores]
    topics = _topics(boxes)
    sizes = {f"box {number}": Size(box.height, box.width) for number, box in enumerate(boxes)}
    sizes |= {f"topic {key}": Size(_TOPIC_HEIGHT, _width(topic.label)) for key, topic in topics.items()}
    edges = [(f"topic {key}", f"box {box}") for key, topic in topics.items() for box, _ in topic.read_by]
    edges += [(f"box {box}", f"topic {key}") for key, topic in topics.items() for box, _ in topic.written_by]
    placed = layered(sizes, list(dict.fromkeys(edges)), Size(_BETWEEN.width, _BETWEEN.height))  # turned: its rows are our columns
    for number, box in enumerate(boxes):
        across, along = placed.centers[f"box {number}"]
        box.x, box.y = _MARGIN + along - box.width / 2, _MARGIN + across - box.height / 2
    found: dict[str, Any] = {
        "width": round(placed.height + 2 * _MARGIN),
        "height": round(placed.width + 2 * _MARGIN),
        "boxes": [{"title": box.title, **_Rectangle(box.x, box.y, box.width, box.height).json()} for box in boxes],
        "nodes": [node for box in boxes for node in box.nodes()],
        "stores": [store for box in boxes for store in box.stores()],
        "topics": [],
        "edges": [edge for box in boxes for edge in box.edges()],
        "uses": [line for box in boxes for line in box.uses()],
    }
    for key, topic in topics.items():
        across, along = placed.centers[f"topic {key}"]
        width = _width(topic.label)
        shape = _Rectangle(_MARGIN + along - width / 2, _MARGIN + across - _TOPIC_HEIGHT / 2, width, _TOPIC_HEIGHT)
        found["topics"].append({"name": topic.label, "dynamic": topic.dynamic, **shape.json()})
        for at, node in topic.read_by:
            found["edges"].append({"from": topic.label, "to": node, "d": _sideways(shape, boxes[at].card(node))})
        for at, node in topic.written_by:
            found["edges"].append({"from": node, "to": topic.label, "d": _sideways(boxes[at].card(node), shape)})
    return found


class _Topic:
    def __init__(self, label: str, dynamic: bool) -> None:
        self.label, self.dynamic = label, dynamic
        self.read_by: list[tuple[int, str]] = []
        self.written_by: list[tuple[int, str]] = []


class _Box:
    """One sub-topology with its nodes laid out; stores hang on the right of the first node that uses them."""

    def __init__(self, title: str, nodes: Iterable[Node]) -> None:
        self.title = title
        self.members = {node.name: node for node in nodes}
        self._stores: dict[str, list[str]] = {}
        seen: set[str] = set()
        for node in self.members.values():
            mine = sorted(_stores_of(node) - seen)
            seen.update(mine)
            self._stores[node.name] = mine
        sizes = {name: self._size(name) for name in self.members}
        edges = [(node.name, below.name) for node in self.members.values() for below in node.successors]
        self._layout: Layout = layered(sizes, edges, _IN_BOX)
        self.width = max(self._layout.width, _CARD_WIDTH) + 2 * _PAD
        self.height = self._layout.height + _TITLE + 2 * _PAD
        self.x = self.y = 0.0

    def _size(self, name: str) -> Size:
        width, stores = _width(short_name(name)), self._stores[name]
        if not stores:
            return Size(width, _CARD_HEIGHT)
        beside = max(map(_store_width, stores))
        return Size(width + _STORE_GAP + beside, max(_CARD_HEIGHT, len(stores) * (_STORE_HEIGHT + 6) - 6), center=width / 2)

    def card(self, name: str) -> _Rectangle:
        x, y = self._layout.centers[name]
        width = _width(short_name(name))
        return _Rectangle(self.x + _PAD + x - width / 2, self.y + _TITLE + _PAD + y - _CARD_HEIGHT / 2, width, _CARD_HEIGHT)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "label": short_name(name), "kind": _kind(node), "box": self.title, **self.card(name).json()}
            for name, node in self.members.items()
        ]

    def _shapes(self) -> dict[str, tuple[str, _Rectangle]]:
        found = {}
        for name, stores in self._stores.items():
            card = self.card(name)
            top = card.y + card.height / 2 - (len(stores) * (_STORE_HEIGHT + 6) - 6) / 2
            for number, store in enumerate(stores):
                place = _Rectangle(
                    card.x + card.width + _STORE_GAP, top + number * (_STORE_HEIGHT + 6), _store_width(store), _STORE_HEIGHT
                )
                found[store] = name, place
        return found

    def stores(self) -> list[dict[str, Any]]:
        return [{"name": store, "node": node, **shape.json()} for store, (node, shape) in self._shapes().items()]

    def uses(self) -> list[str]:
        shapes, found = self._shapes(), []
        for name, node in self.members.items():
            for store in sorted(_stores_of(node)):
                owner, shape = shapes[store]
                card = self.card(name)
                if owner == name:
                    found.append(_line(card.x + card.width, card.y + card.height / 2, shape.x, shape.y + shape.height / 2))
                else:
                    found.append(_line(card.x + card.width, card.y + card.height / 2, shape.x + shape.width / 2, shape.y))
        return found

    def edges(self) -> list[dict[str, Any]]:
        dx, dy = self.x + _PAD, self.y + _TITLE + _PAD
        found = []
        for (top, bottom), route in self._layout.routes.items():
            start, end = self.card(top), self.card(bottom)
            points = [
                (start.x + start.width / 2, start.y + start.height),
                *((x + dx, y + dy) for x, y in route),
                (end.x + end.width / 2, end.y),
            ]
            found.append({"from": top, "to": bottom, "d": _down(points)})
        return found


def _topics(boxes: list[_Box]) -> dict[str, _Topic]:
    topics: dict[str, _Topic] = {}
    for number, box in enumerate(boxes):
        for name, node in box.members.items():
            if isinstance(node, Source):
                labels = sorted(node.topic_set or ()) if node.topic_pattern is None else [f"~ {node.topic_pattern.pattern}"]
                for label in labels:
                    topics.setdefault(label, _Topic(label, node.topic_pattern is not None)).read_by.append((number, name))
            elif isinstance(node, Sink):
                # A topic that is chosen for each record has no name: every such sink gets a shape of its own.
                label = "topic by record" if node.topic is None else str(node.topic)
                key = f"\0{name}" if node.topic is None else label
                topics.setdefault(key, _Topic(label, node.topic is None)).written_by.append((number, name))
    return topics


def _stores_of(node: Node) -> frozenset[str]:
    return node.stores if isinstance(node, Processor) else frozenset()


def _kind(node: Node) -> str:
    return "source" if isinstance(node, Source) else "sink" if isinstance(node, Sink) else "processor"


def _width(label: str) -> float:
    return max(_CARD_WIDTH, min(340.0, len(label) * _CHAR + 28))


def _store_width(name: str) -> float:
    return max(_STORE_WIDTH, min(260.0, len(name) * _CHAR + 30))


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"


def _down(points: list[tuple[float, float]]) -> str:
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        bend = (y2 - y1) / 2 if y2 > y1 else 30
        path += f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    return path


def _sideways(start: _Rectangle, end: _Rectangle) -> str:
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    bend = max(30.0, (x2 - x1) / 2) if x2 > x1 else 60.0
    return f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
