"""Rates on the edges of a drawn topology: from topic to source, from node to node, from sink to topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from penstock.topology.description import Sink, Source, TopologyDescription


class Edges:
    """Every edge of a topology, with what went over it.

    What enters a source is what it has forwarded: records that are handed over in the process are not fetched from the topic.
    What leaves a sink is what has entered it.
    """

    def __init__(self, description: TopologyDescription) -> None:
        self._inner: list[tuple[str, str]] = []
        self._outer: list[tuple[str, str, bool]] = []
        parts = [
            *(part.nodes for part in description.subtopologies),
            *((s.source, s.processor) for s in description.global_stores),
        ]
        for node in (node for nodes in parts for node in nodes):
            self._inner += [(node.name, below.name) for below in node.successors]
            if isinstance(node, Source):
                topics = node.topic_set if node.topic_pattern is None else [f"~ {node.topic_pattern.pattern}"]
                self._outer += [(topic, node.name, True) for topic in sorted(topics or ())]
            elif isinstance(node, Sink):
                self._outer.append((node.name, "topic by record" if node.topic is None else str(node.topic), False))

    def rates(self, edges: Mapping[tuple[str, str], float], topics: Mapping[str, float]) -> list[dict[str, Any]]:
        """Records per second on each edge, given those between nodes and those read from topics."""
        left: defaultdict[str, float] = defaultdict(float)
        entered: defaultdict[str, float] = defaultdict(float)
        children = Counter(start for start, _ in self._inner)
        for (start, end), rate in edges.items():
            left[start] += rate / max(1, children[start])
            entered[end] += rate
        found: list[dict[str, Any]] = [
            {"from": start, "to": end, "rate": edges.get((start, end), 0.0)} for start, end in self._inner
        ]
        for start, end, reads in self._outer:
            rate = topics.get(start, left[end]) if reads else entered[start]
            found.append({"from": start, "to": end, "rate": rate})
        return [{**edge, "rate": round(edge["rate"], 1)} for edge in found]
