"""The application of the demo."""

from __future__ import annotations

from penstock.commands.demo_words import wordcount


def test_should_name_lines_of_the_demo_where_its_nodes_were_added() -> None:
    nodes = wordcount().internal_topology_builder.registry.nodes
    files = {node.added_at.rpartition(":")[0].replace("\\", "/").rpartition("/")[2] for node in nodes.values()}
    assert files == {"demo_words.py"}
