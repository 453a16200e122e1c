from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from penstock.drawing.picture import draw_topology
from penstock.dsl.builder import StreamsBuilder
from penstock.topology.description import TopologyDescription
from tests.unit.dsl.programs import PROGRAMS

SVG = "{http://www.w3.org/2000/svg}"


def draw(name: str) -> tuple[ElementTree.Element, str]:
    builder = StreamsBuilder()
    PROGRAMS[name](builder)
    description = builder.build().describe()
    return ElementTree.fromstring(draw_topology(description, name)), str(description)


def texts(root: ElementTree.Element) -> set[str | None]:
    return {element.text for element in root.iter(f"{SVG}text")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_should_show_every_node_store_and_topic(name: str) -> None:
    root, text = draw(name)
    shown = texts(root)
    assert set(re.findall(r"(?:Source|Processor|Sink): (\S+)", text)) <= shown
    for stores in re.findall(r"stores: \[([^]]+)\]", text):
        assert set(stores.split(", ")) <= shown
    for topics in re.findall(r"topics?: \[?([^])]+)\]?\)", text):
        assert {topic if topic in shown else f"~ {topic}" for topic in topics.split(", ")} <= shown


@pytest.mark.parametrize("name", ["wordcount", "foreign-key", "table-table", "global", "process"])
def test_should_keep_everything_inside_the_picture(name: str) -> None:
    root, _ = draw(name)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for shape in root.iter(f"{SVG}rect"):
        x, y = float(shape.attrib.get("x", 0)), float(shape.attrib.get("y", 0))
        assert x >= 0
        assert y >= 0
        assert x + float(shape.attrib["width"]) <= width
        assert y + float(shape.attrib["height"]) <= height


def test_should_draw_a_box_for_each_sub_topology() -> None:
    root, _ = draw("wordcount")
    assert {"Sub-topology 0", "Sub-topology 1"} <= texts(root)
    assert len([shape for shape in root.iter(f"{SVG}rect") if shape.attrib["class"] == "box"]) == 2


def test_should_draw_an_edge_for_each_step_of_the_way() -> None:
    root, _ = draw("count-by-key")
    edges = [path for path in root.iter(f"{SVG}path") if path.attrib["class"] == "edge"]
    # topic - source - aggregate - to stream - sink - topic
    assert len(edges) == 5


def test_should_have_colours_for_light_and_dark() -> None:
    root, _ = draw("wordcount")
    style = root.find(f"{SVG}style")
    assert style is not None
    assert style.text is not None
    assert "prefers-color-scheme:dark" in style.text


def test_should_escape_names() -> None:
    builder = StreamsBuilder()
    builder.stream("a<b>&c").to("d")
    assert "a<b>&c" in texts(ElementTree.fromstring(draw_topology(builder.build().describe(), "<title>")))


def test_should_draw_an_empty_topology() -> None:
    assert draw_topology(TopologyDescription([], [])).startswith("<svg")
