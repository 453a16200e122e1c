"""Which sub-topologies may take their records many at a time, and which repartitions need only a count of them.

Columns go through the graph node by node: the first node sees all rows before the second sees one. The result is that of
record by record only where no node can tell the difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from penstock.topology.specs import NodeSpec, ProcessorSpec, SinkSpec, SourceSpec, Subtopology

_OWN_OPERATORS = "penstock.operators."


def takes_columns(nodes: Sequence[NodeSpec]) -> bool:
    """Whether every node below the sources gives the same results for columns as for single records.

    - Ways never meet: a node with two parents, or a topic with two sinks, would get its records in another order.
    - No two nodes below the same source use the same store: one would see what the other wrote for later records.
    - All processors are the library's own: a user's may look at stream time, schedule and commit from record to record.
    - Sinks have a fixed topic.
    """
    sinks = [node.topic for node in nodes if isinstance(node, SinkSpec)]
    if None in sinks or len(set(sinks)) < len(sinks):
        return False
    source_of: dict[str, str] = {}
    stores: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        if isinstance(node, SourceSpec):
            source_of[node.name] = node.name
            continue
        if len(node.parents) != 1:
            return False
        source = source_of[node.name] = source_of[node.parents[0]]
        if isinstance(node, ProcessorSpec):
            if not type(node.supplier).__module__.startswith(_OWN_OPERATORS):
                return False
            stores[source].update(node.stores)
    return all(count == 1 for used in stores.values() for count in used.values())


def is_counted(subtopology: Subtopology, topic: str, counts: Callable[[Any], bool]) -> bool:
    """Whether tasks that read a repartition topic do nothing with its records but count them by key, and cache the counts.

    How many there were of each key, and when the latest was, is then all that has to reach them. `counts` tells of the
    supplier of a processor whether it counts.
    """
    if subtopology.source_topics != (topic,) or not takes_columns(subtopology.nodes):
        return False
    source = next(node for node in subtopology.nodes if isinstance(node, SourceSpec))
    children = [node for node in subtopology.nodes if not isinstance(node, SourceSpec) and source.name in node.parents]
    if len(children) != 1 or not isinstance(children[0], ProcessorSpec) or len(children[0].stores) != 1:
        return False
    builder = subtopology.stores.get(children[0].stores[0])
    return builder is not None and bool(getattr(builder, "caching_enabled", False)) and counts(children[0].supplier)
