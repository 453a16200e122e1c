"""A topology as a map for a page: where nodes, stores and topics go, and the lines between them, as plain numbers.

Sub-topologies stand beside each other in the order in which records pass them, with the topics between; within each, records go
down. So a wide screen is used, and a long chain of operators stays narrow.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.drawing.boxes import Measures, Rectangle, boxes_of, down_path, kind_of, topics_of
from penstock.drawing.layout import Point, Size, layered
from penstock.topology.description import TopologyDescription

_CARD_WIDTH, _CARD_HEIGHT, _CHAR = 186.0, 64.0, 7.6
_STORE_WIDTH, _STORE_HEIGHT, _STORE_GAP = 132.0, 44.0, 18.0
_TOPIC_HEIGHT = 46.0
_PAD, _TITLE, _MARGIN = 20.0, 30.0, 16.0
_IN_BOX = Size(24, 34)
_BETWEEN = Size(30, 64)
_GENERATED = re.compile(r"K?(?P<kind>[A-Z]+(?:-[A-Z]+)*)-(?P<number>\d{10})")


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

    >>> from penstock.topology.description import Source, Subtopology
    >>> found = map_topology(TopologyDescription([Subtopology(0, [Source("s", ["orders"])])], []))
    >>> [topic["name"] for topic in found["topics"]], [edge["from"] for edge in found["edges"]]
    (['orders'], ['orders'])
    """
    boxes = boxes_of(description, _MEASURES)
    box_of = {name: number for number, box in enumerate(boxes) for name in box.members}
    topics = topics_of(boxes)
    sizes = {f"box {number}": Size(box.height, box.width) for number, box in enumerate(boxes)}
    sizes |= {f"topic {number}": Size(_TOPIC_HEIGHT, _width(topic.label)) for number, topic in enumerate(topics)}
    edges = [(f"topic {number}", f"box {box_of[name]}") for number, topic in enumerate(topics) for name in topic.sources]
    edges += [(f"box {box_of[name]}", f"topic {number}") for number, topic in enumerate(topics) for name in topic.sinks]
    placed = layered(sizes, list(dict.fromkeys(edges)), _BETWEEN)  # turned: its rows are our columns
    for number, box in enumerate(boxes):
        across, along = placed.centers[f"box {number}"]
        box.x, box.y = _MARGIN + along - box.width / 2, _MARGIN + across - box.height / 2
    found: dict[str, Any] = {
        "width": round(placed.height + 2 * _MARGIN),
        "height": round(placed.width + 2 * _MARGIN),
        "boxes": [{"title": box.title, **_json(Rectangle(box.x, box.y, box.width, box.height))} for box in boxes],
        "nodes": [
            {"name": name, "label": short_name(name), "kind": kind_of(node), "box": box.title, **_json(box.node(name))}
            for box in boxes
            for name, node in box.members.items()
        ],
        "stores": [{"name": store, "node": node, **_json(place)} for box in boxes for store, node, place in box.stores()],
        "topics": [],
        "edges": [{"from": start, "to": end, "d": down_path(points, 30)} for box in boxes for start, end, points in box.edges()],
        "uses": [_line(node.right, store.left if beside else store.top) for box in boxes for node, store, beside in box.uses()],
    }
    for number, topic in enumerate(topics):
        across, along = placed.centers[f"topic {number}"]
        width = _width(topic.label)
        shape = Rectangle(_MARGIN + along - width / 2, _MARGIN + across - _TOPIC_HEIGHT / 2, width, _TOPIC_HEIGHT)
        found["topics"].append({"name": topic.label, "dynamic": topic.dynamic, **_json(shape)})
        for node in topic.sources:
            found["edges"].append({"from": topic.label, "to": node, "d": _sideways(shape, boxes[box_of[node]].node(node))})
        for node in topic.sinks:
            found["edges"].append({"from": node, "to": topic.label, "d": _sideways(boxes[box_of[node]].node(node), shape)})
    return found


def _width(label: str) -> float:
    return max(_CARD_WIDTH, min(340.0, len(label) * _CHAR + 28))


def _store_width(name: str) -> float:
    return max(_STORE_WIDTH, min(260.0, len(name) * _CHAR + 30))


_MEASURES = Measures(
    node_width=lambda name: _width(short_name(name)),
    node_height=_CARD_HEIGHT,
    store_width=_store_width,
    store_height=_STORE_HEIGHT,
    store_gap=_STORE_GAP,
    stack_gap=6,
    title_width=lambda _: _CARD_WIDTH,
    title_height=_TITLE,
    padding=_PAD,
    gaps=_IN_BOX,
)


def _json(place: Rectangle) -> dict[str, float]:
    return {"x": round(place.x, 1), "y": round(place.y, 1), "w": round(place.width, 1), "h": round(place.height, 1)}


def _line(start: Point, end: Point) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"


def _sideways(start: Rectangle, end: Rectangle) -> str:
    (x1, y1), (x2, y2) = start.right, end.left
    bend = max(30.0, (x2 - x1) / 2) if x2 > x1 else 60.0
    return f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
