"""Rates on the edges of a drawn topology: topic to source, node to node, sink to topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from penstock.topology.description import Sink, Source, TopologyDescription


class Edges:
    """All edges of a topology with their rates.

    A source's input rate is its output rate: records handed over in memory are not fetched from the topic. A sink's output
    rate is its input rate.
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
        """Return records per second on each edge, from those between nodes and those read from topics."""
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
