"""A picture of a topology: sub-topologies as boxes, nodes, stores and topics in them and between them, as SVG.

Pure Python and no dependency, because a picture should be one command away wherever the library is installed.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape, quoteattr

from penstock.topology.description import GlobalStore, Node, Processor, Sink, Source, TopologyDescription
from penstock.topology.layout import Layout, Point, Size, layered, place_apart

_CHAR, _NODE_HEIGHT, _PAD = 7.3, 30.0, 12.0
_STORE_HEIGHT, _STORE_GAP = 38.0, 22.0
_TITLE, _BOX_PAD, _BOX_GAP, _BAND, _MARGIN = 26.0, 18.0, 40.0, 96.0, 24.0
_ROW_GAP, _COLUMN_GAP = 34.0, 26.0
_NOTE = 18.0

# Plain classes and one media query: viewers without CSS variables still show the light colours.
_STYLE = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1b2733;text-anchor:middle;dominant-baseline:central}
.title{font-weight:600;text-anchor:start;fill:#44556a;paint-order:stroke;stroke:#f4f7fa;stroke-width:5px}
.note{text-anchor:start;fill:#44556a;white-space:pre}
.ground{fill:#ffffff}.box{fill:#f4f7fa;stroke:#b8c4d0}.node{fill:#ffffff;stroke:#3f6ea5;stroke-width:1.3}
.source{fill:#e3f1e6;stroke:#3d8b52}.sink{fill:#fbeee0;stroke:#c07a2c}.store{fill:#efe7f8;stroke:#7d56b0}
.topic{fill:#dfeefa;stroke:#2f7fc1}.dynamic{stroke-dasharray:5 3}
path.edge{fill:none;stroke:#6c7a89;stroke-width:1.3}path.use{fill:none;stroke:#9a7bc4;stroke-dasharray:3 3}.head{fill:#6c7a89}
@media (prefers-color-scheme:dark){text{fill:#e4eaf1}.title{fill:#a9b8c8;stroke:#1a222b}.ground{fill:#12171d}
.note{fill:#a9b8c8}.box{fill:#1a222b;stroke:#3c4a58}
.node{fill:#222d38;stroke:#6ea3dd}.source{fill:#1d3325;stroke:#63b77b}.sink{fill:#3a2b1a;stroke:#dd9c53}
.store{fill:#2e2440;stroke:#a985da}.topic{fill:#17303f;stroke:#58a9e6}path.edge{stroke:#91a0b0}.head{fill:#91a0b0}}
"""


def draw_topology(
    description: TopologyDescription,
    title: str = "Topology",
    *,
    with_ends: bool = False,
    notes: Mapping[str, str] | None = None,
) -> str:
    """The SVG text of a topology's picture; `with_ends` lets each edge tell what it connects, for a page that has more to say.

    `notes` say something of topics: they stand below the picture, and where one points at the topic.

    >>> from penstock.topology.description import Source, Subtopology, TopologyDescription
    >>> svg = draw_topology(TopologyDescription([Subtopology(0, [Source("s", ["orders"])])], []))
    >>> svg.startswith("<svg") and "orders" in svg
    True
    """
    return _Picture(description, title, with_ends, notes or {}).svg()


@dataclass
class _Topic:
    """A topic between the boxes, with the sinks that write it and the sources that read it."""

    label: str
    dynamic: bool = False
    sinks: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    center: Point = (0, 0)

    @property
    def width(self) -> float:
        return _text_width(self.label) + 2 * _PAD


class _Box:
    """One sub-topology or global store, with its nodes laid out."""

    def __init__(self, title: str, nodes: Iterable[Node]) -> None:
        self.title = title
        self.nodes = {node.name: node for node in nodes}
        self.stores_of = _owned_stores(self.nodes.values())
        sizes = {name: self._size(node) for name, node in self.nodes.items()}
        edges = [(node.name, below.name) for node in self.nodes.values() for below in node.successors]
        self.layout: Layout = layered(_top_down(sizes, self.nodes), edges, Size(_COLUMN_GAP, _ROW_GAP))
        self.width = max(self.layout.width, _text_width(title)) + 2 * _BOX_PAD
        self.height = self.layout.height + _TITLE + 2 * _BOX_PAD
        self.row = 0
        self.x = self.y = 0.0

    def _size(self, node: Node) -> Size:
        stores = self.stores_of[node.name]
        width = _text_width(node.name) + 2 * _PAD
        if not stores:
            return Size(width, _NODE_HEIGHT)
        widest = max(_text_width(store) for store in stores) + 2 * _PAD
        height = max(_NODE_HEIGHT, len(stores) * (_STORE_HEIGHT + 8) - 8)
        return Size(width + _STORE_GAP + widest, height, center=width / 2)

    def node_rectangle(self, name: str) -> tuple[float, float, float, float]:
        """x, y, width, height of a node, without the stores beside it."""
        center_x, center_y = self.layout.centers[name]
        width = _text_width(name) + 2 * _PAD
        left = self.x + _BOX_PAD + center_x - width / 2
        return left, self.y + _TITLE + _BOX_PAD + center_y - _NODE_HEIGHT / 2, width, _NODE_HEIGHT

    def top_of(self, name: str) -> Point:
        x, y, width, _ = self.node_rectangle(name)
        return x + width / 2, y

    def bottom_of(self, name: str) -> Point:
        x, y, width, height = self.node_rectangle(name)
        return x + width / 2, y + height

    def store_rectangles(self) -> dict[str, tuple[float, float, float, float]]:
        """x, y, width, height of each store."""
        found = {}
        for name, stores in self.stores_of.items():
            x, y, width, height = self.node_rectangle(name)
            top = y + height / 2 - (len(stores) * (_STORE_HEIGHT + 8) - 8) / 2
            for number, store in enumerate(stores):
                store_y = top + number * (_STORE_HEIGHT + 8)
                found[store] = (x + width + _STORE_GAP, store_y, _text_width(store) + 2 * _PAD, _STORE_HEIGHT)
        return found


class _Picture:
    def __init__(self, description: TopologyDescription, title: str, with_ends: bool, notes: Mapping[str, str]) -> None:
        self._title = title
        self._with_ends = with_ends
        self._notes = notes
        self._boxes = [_Box(f"Sub-topology {part.id}", part.nodes) for part in description.subtopologies]
        self._boxes += [_global_box(store) for store in description.global_stores]
        self._box_of = {name: box for box in self._boxes for name in box.nodes}
        self._topics = _topics(self._boxes)
        self._place_boxes()
        self._split_topics()
        self._place_topics()
        self._width = max([box.x + box.width for box in self._boxes] + [t.center[0] + t.width / 2 for t in self._topics] + [200])
        self._height = max(
            [box.y + box.height for box in self._boxes] + [t.center[1] + _NODE_HEIGHT / 2 for t in self._topics] + [60]
        )

    # -- where things go

    def _place_boxes(self) -> None:
        """Boxes in rows: one below those whose topics it reads."""
        feeds = []
        for topic in self._topics:
            feeds += [(self._key(sink), self._key(source)) for sink in topic.sinks for source in topic.sources]
        sizes = {str(number): Size(box.width, box.height) for number, box in enumerate(self._boxes)}
        placed = layered(sizes, feeds, Size(_BOX_GAP, _BAND))
        rows = sorted({center[1] for center in placed.centers.values()})
        for number, box in enumerate(self._boxes):
            center_x, center_y = placed.centers[str(number)]
            row_boxes = [other for key, other in enumerate(self._boxes) if placed.centers[str(key)][1] == center_y]
            top = center_y - max(other.height for other in row_boxes) / 2
            box.row = rows.index(center_y)
            box.x, box.y = _MARGIN + center_x - box.width / 2, _MARGIN + _BAND + top

    def _key(self, node: str) -> str:
        return str(self._boxes.index(self._box_of[node]))

    def _split_topics(self) -> None:
        """Draw a topic twice, where it is written and where it is read, if the two are not next to each other."""
        split = []
        for topic in self._topics:
            written = max((self._box_of[name].row for name in topic.sinks), default=0)
            read = min((self._box_of[name].row for name in topic.sources), default=written + 1)
            if topic.sinks and read != written + 1:
                split += [replace(topic, sources=[]), replace(topic, sinks=[])]
            else:
                split.append(topic)
        self._topics = split

    def _place_topics(self) -> None:
        """Topics above the box that reads them, otherwise below the box that writes them."""
        bands: dict[float, list[_Topic]] = {}
        for topic in self._topics:
            if topic.sources:
                y = min(self._box_of[name].y for name in topic.sources) - _BAND / 2
            else:
                y = max(self._row_bottom(self._box_of[name]) for name in topic.sinks) + _BAND / 2
            bands.setdefault(round(y, 1), []).append(topic)
        for y, topics in bands.items():
            wanted = {id(topic): self._wanted_x(topic) for topic in topics}
            topics.sort(key=lambda topic: wanted[id(topic)])
            distances = [(left.width + right.width) / 2 + _COLUMN_GAP for left, right in itertools.pairwise(topics)]
            places = place_apart([wanted[id(topic)] for topic in topics], distances)
            shift = max(0.0, _MARGIN - min(x - topic.width / 2 for x, topic in zip(places, topics)))
            for topic, x in zip(topics, places):
                topic.center = (x + shift, y)

    def _row_bottom(self, box: _Box) -> float:
        return max(other.y + other.height for other in self._boxes if other.row == box.row)

    def _wanted_x(self, topic: _Topic) -> float:
        names = topic.sources or topic.sinks
        return sum(self._box_of[name].top_of(name)[0] for name in names) / len(names)

    # -- drawing

    def svg(self) -> str:
        width, height = self._width + _MARGIN, self._height + _MARGIN
        notes = self._note_lines(width - 2 * _MARGIN)
        below, height = height, height + len(notes) * _NOTE + (_MARGIN if notes else 0)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">',
            f"<title>{escape(self._title)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
            f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        ]
        parts += [_rectangle("box", box.x, box.y, box.width, box.height, 10) for box in self._boxes]
        parts += self._edges()
        parts += [_text(box.title, box.x + _BOX_PAD, box.y + _TITLE / 2 + 4, "title") for box in self._boxes]
        for box in self._boxes:
            parts += self._nodes(box)
        parts += [_topic_shape(topic, self._notes.get(topic.label)) for topic in self._topics]
        parts += [_text(line, _MARGIN, below + (number + 0.5) * _NOTE, "note") for number, line in enumerate(notes)]
        return "\n".join([*parts, "</svg>", ""])

    def _note_lines(self, width: float) -> list[str]:
        room, lines = max(60, int(width / _CHAR)), list[str]()
        for topic, note in self._notes.items():
            lines += textwrap.wrap(f"{topic} {note}", room, subsequent_indent=" " * 4, break_on_hyphens=False)
        return lines

    def _edges(self) -> list[str]:
        paths = []
        for box in self._boxes:
            dx, dy = box.x + _BOX_PAD, box.y + _TITLE + _BOX_PAD
            for (top, bottom), route in box.layout.routes.items():
                points = [(x + dx, y + dy) for x, y in route]
                paths.append(_curve([box.bottom_of(top), *points, box.top_of(bottom)], self._ends(top, bottom)))
            stores = box.store_rectangles()
            paths += [
                _store_line(box.node_rectangle(node.name), stores[store], store in box.stores_of[node.name])
                for node in box.nodes.values()
                for store in sorted(node.stores if isinstance(node, Processor) else ())
            ]
        for topic in self._topics:
            x, y = topic.center
            paths += [
                _curve([self._box_of[sink].bottom_of(sink), (x, y - 14)], self._ends(sink, topic.label)) for sink in topic.sinks
            ]
            paths += [
                _curve([(x, y + 14), self._box_of[source].top_of(source)], self._ends(topic.label, source))
                for source in topic.sources
            ]
        return paths

    def _ends(self, start: str, end: str) -> str:
        return f" data-from={quoteattr(start)} data-to={quoteattr(end)}" if self._with_ends else ""

    def _nodes(self, box: _Box) -> list[str]:
        parts = []
        for name, node in box.nodes.items():
            x, y, width, height = box.node_rectangle(name)
            kind = "source" if isinstance(node, Source) else "sink" if isinstance(node, Sink) else "processor"
            parts.append(f"<g><title>{kind} {escape(name)}</title>")
            parts.append(_rectangle(f"node {kind}", x, y, width, height, 15 if kind != "processor" else 4))
            parts.append(_text(name, x + width / 2, y + height / 2) + "</g>")
        for store, (x, y, width, height) in box.store_rectangles().items():
            parts.append(f"<g><title>store {escape(store)}</title>{_cylinder(x, y, width, height)}")
            parts.append(_text(store, x + width / 2, y + height / 2 + 4) + "</g>")
        return parts


def _global_box(store: GlobalStore) -> _Box:
    return _Box(f"Global store {store.id}", [store.source, store.processor])


def _top_down(sizes: dict[str, Size], nodes: dict[str, Node]) -> dict[str, Size]:
    """The nodes with sources first and each below its predecessors: what is drawn left is what was written first."""
    order: dict[str, Size] = {}

    def visit(node: Node) -> None:
        if node.name not in order:
            order[node.name] = sizes[node.name]
            for below in node.successors:
                visit(below)

    for node in sorted(nodes.values(), key=lambda node: (bool(node.predecessors), node.name)):
        visit(node)
    return order


def _owned_stores(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Each store drawn beside one of the processors that use it: the first one from the top."""
    owned: dict[str, list[str]] = {}
    seen: set[str] = set()
    for node in nodes:
        mine = sorted(node.stores - seen) if isinstance(node, Processor) else []
        seen.update(mine)
        owned[node.name] = mine
    return owned


def _topics(boxes: Iterable[_Box]) -> list[_Topic]:
    topics: dict[str, _Topic] = {}
    for node in (node for box in boxes for node in box.nodes.values()):
        if isinstance(node, Source):
            labels = sorted(node.topic_set or ()) if node.topic_pattern is None else [f"~ {node.topic_pattern.pattern}"]
            for label in labels:
                topics.setdefault(label, _Topic(label, node.topic_pattern is not None)).sources.append(node.name)
        elif isinstance(node, Sink):
            # A topic chosen for each record has no name: every such sink gets a shape of its own.
            label = node.topic if node.topic is not None else "topic by record"
            key = node.topic if node.topic is not None else f"\0{node.name}"
            topics.setdefault(key, _Topic(label, node.topic is None)).sinks.append(node.name)
    return list(topics.values())


def _text_width(text: str) -> float:
    return len(text) * _CHAR


def _text(text: str, x: float, y: float, css: str = "") -> str:
    style = f' class="{css}"' if css else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _rectangle(css: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"'
    return f"<rect class={quoteattr(css)} {place}/>"


def _cylinder(x: float, y: float, width: float, height: float) -> str:
    half, lid = width / 2, 5
    side = f"M{x:.1f} {y + lid:.1f}v{height - 2 * lid:.1f}a{half:.1f} {lid} 0 0 0 {width:.1f} 0v{-(height - 2 * lid):.1f}"
    top = f"a{half:.1f} {lid} 0 0 0 {-width:.1f} 0a{half:.1f} {lid} 0 0 0 {width:.1f} 0"
    return f'<path class="store" d="{side}{top}"/>'


def _topic_shape(topic: _Topic, note: str | None) -> str:
    x, y = topic.center
    css = "topic dynamic" if topic.dynamic else "topic"
    shape = _rectangle(css, x - topic.width / 2, y - 14, topic.width, 28, 14)
    title = f"topic {topic.label}" + ("" if note is None else f" {note}")
    return f"<g><title>{escape(title)}</title>{shape}{_text(topic.label, x, y)}</g>"


def _curve(points: list[Point], ends: str = "") -> str:
    """A smooth line down through the points, with an arrow at its end."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        bend = (y2 - y1) / 2 if y2 > y1 else 40
        path += f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    return f'<path class="edge"{ends} marker-end="url(#arrow)" d="{path}"/>'


def _store_line(node: tuple[float, float, float, float], store: tuple[float, float, float, float], beside: bool) -> str:
    x, y, width, height = node
    store_x, store_y, store_width, store_height = store
    start = (x + width, y + height / 2)
    end = (store_x, store_y + store_height / 2)
    if beside:
        return f'<path class="use" d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'
    end = (store_x + store_width / 2, store_y + (store_height if store_y < y else 0))
    middle = (start[1] + end[1]) / 2
    return (
        f'<path class="use" d="M{start[0]:.1f} {start[1]:.1f}C{start[0] + 30:.1f} {middle:.1f} '
        f'{end[0]:.1f} {middle:.1f} {end[0]:.1f} {end[1]:.1f}"/>'
    )
