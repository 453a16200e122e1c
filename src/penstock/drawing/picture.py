"""A picture of a topology: sub-topologies as boxes, nodes, stores and topics in them and between them, as SVG.

Pure Python and no dependency, because a picture should be one command away wherever the library is installed.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from penstock.drawing.boxes import Box, Measures, Rectangle, Topic, boxes_of, down_path, kind_of, topics_of
from penstock.drawing.layout import Point, Size, layered, place_apart
from penstock.topology.description import TopologyDescription

_CHAR, _NODE_HEIGHT, _PAD = 7.3, 30.0, 12.0
_STORE_HEIGHT, _STORE_GAP = 38.0, 22.0
_TITLE, _BOX_PAD, _BOX_GAP, _BAND, _MARGIN = 26.0, 18.0, 40.0, 96.0, 24.0
_ROW_GAP, _COLUMN_GAP = 34.0, 26.0
_NOTE, _TOPIC_HEIGHT = 18.0, 28.0


def _text_width(text: str) -> float:
    return len(text) * _CHAR


def _node_width(name: str) -> float:
    return _text_width(name) + 2 * _PAD


_MEASURES = Measures(
    node_width=_node_width,
    node_height=_NODE_HEIGHT,
    store_width=_node_width,
    store_height=_STORE_HEIGHT,
    store_gap=_STORE_GAP,
    stack_gap=8,
    title_width=_text_width,
    title_height=_TITLE,
    padding=_BOX_PAD,
    gaps=Size(_COLUMN_GAP, _ROW_GAP),
)

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


class _Picture:
    def __init__(self, description: TopologyDescription, title: str, with_ends: bool, notes: Mapping[str, str]) -> None:
        self._title = title
        self._with_ends = with_ends
        self._notes = notes
        self._boxes = boxes_of(description, _MEASURES)
        self._box_of = {name: box for box in self._boxes for name in box.members}
        self._topics = topics_of(self._boxes)
        self._row_of = self._place_boxes()
        self._split_topics()
        self._topic_places = self._place_topics()
        places = [place for _, place in self._topic_places]
        self._width = max([box.x + box.width for box in self._boxes] + [place.x + place.width for place in places] + [200])
        self._height = max(
            [box.y + box.height for box in self._boxes] + [place.middle[1] + _NODE_HEIGHT / 2 for place in places] + [60]
        )

    # -- where things go

    def _place_boxes(self) -> dict[Box, int]:
        """Place boxes in rows, each below those whose topics it reads; returns the row of each."""
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
            box.x, box.y = _MARGIN + center_x - box.width / 2, _MARGIN + _BAND + top
        return {box: rows.index(placed.centers[str(number)][1]) for number, box in enumerate(self._boxes)}

    def _key(self, node: str) -> str:
        return str(self._boxes.index(self._box_of[node]))

    def _split_topics(self) -> None:
        """Draw a topic twice, where it is written and where it is read, if the two are not next to each other."""
        split = []
        for topic in self._topics:
            written = max((self._row_of[self._box_of[name]] for name in topic.sinks), default=0)
            read = min((self._row_of[self._box_of[name]] for name in topic.sources), default=written + 1)
            if topic.sinks and read != written + 1:
                split += [replace(topic, sources=[]), replace(topic, sinks=[])]
            else:
                split.append(topic)
        self._topics = split

    def _place_topics(self) -> list[tuple[Topic, Rectangle]]:
        """Place topics above the box that reads them, otherwise below the box that writes them."""
        bands: dict[float, list[Topic]] = {}
        for topic in self._topics:
            if topic.sources:
                y = min(self._box_of[name].y for name in topic.sources) - _BAND / 2
            else:
                y = max(self._row_bottom(self._box_of[name]) for name in topic.sinks) + _BAND / 2
            bands.setdefault(round(y, 1), []).append(topic)
        found: dict[int, Rectangle] = {}
        for y, topics in bands.items():
            topics.sort(key=self._wanted_x)
            widths = [_node_width(topic.label) for topic in topics]
            distances = [(left + right) / 2 + _COLUMN_GAP for left, right in itertools.pairwise(widths)]
            places = place_apart([self._wanted_x(topic) for topic in topics], distances)
            shift = max(0.0, _MARGIN - min(x - width / 2 for x, width in zip(places, widths)))
            for topic, x, width in zip(topics, places, widths):
                found[id(topic)] = Rectangle(x + shift - width / 2, y - _TOPIC_HEIGHT / 2, width, _TOPIC_HEIGHT)
        return [(topic, found[id(topic)]) for topic in self._topics]

    def _row_bottom(self, box: Box) -> float:
        return max(other.y + other.height for other in self._boxes if self._row_of[other] == self._row_of[box])

    def _wanted_x(self, topic: Topic) -> float:
        names = topic.sources or topic.sinks
        return sum(self._box_of[name].node(name).top[0] for name in names) / len(names)

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
        parts += [_topic_shape(topic, place, self._notes.get(topic.label)) for topic, place in self._topic_places]
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
            paths += [_curve(points, self._ends(start, end)) for start, end, points in box.edges()]
            paths += [_store_line(node, store, beside) for node, store, beside in box.uses()]
        for topic, place in self._topic_places:
            for sink in topic.sinks:
                paths.append(_curve([self._box_of[sink].node(sink).bottom, place.top], self._ends(sink, topic.label)))
            for source in topic.sources:
                paths.append(_curve([place.bottom, self._box_of[source].node(source).top], self._ends(topic.label, source)))
        return paths

    def _ends(self, start: str, end: str) -> str:
        return f" data-from={quoteattr(start)} data-to={quoteattr(end)}" if self._with_ends else ""

    def _nodes(self, box: Box) -> list[str]:
        parts = []
        for name, node in box.members.items():
            place, kind = box.node(name), kind_of(node)
            parts.append(f"<g><title>{kind} {escape(name)}</title>")
            parts.append(_rectangle(f"node {kind}", *place, 15 if kind != "processor" else 4))
            parts.append(_text(name, *place.middle) + "</g>")
        for store, _, place in box.stores():
            parts.append(f"<g><title>store {escape(store)}</title>{_cylinder(*place)}")
            parts.append(_text(store, place.middle[0], place.middle[1] + 4) + "</g>")
        return parts


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


def _topic_shape(topic: Topic, place: Rectangle, note: str | None) -> str:
    css = "topic dynamic" if topic.dynamic else "topic"
    shape = _rectangle(css, *place, 14)
    title = f"topic {topic.label}" + ("" if note is None else f" {note}")
    return f"<g><title>{escape(title)}</title>{shape}{_text(topic.label, *place.middle)}</g>"


def _curve(points: list[Point], ends: str = "") -> str:
    return f'<path class="edge"{ends} marker-end="url(#arrow)" d="{down_path(points, 40)}"/>'


def _store_line(node: Rectangle, store: Rectangle, beside: bool) -> str:
    x, y = node.right
    if beside:
        return f'<path class="use" d="M{x:.1f} {y:.1f}L{store.left[0]:.1f} {store.left[1]:.1f}"/>'
    end_x, end_y = store.bottom if store.y < node.y else store.top
    middle = (y + end_y) / 2
    return f'<path class="use" d="M{x:.1f} {y:.1f}C{x + 30:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}"/>'
