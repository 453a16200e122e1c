"""Which sub-topologies may take their records many at a time, and which repartitions need only a count of them.

Columns go through the graph node by node: the first node sees all rows before the second sees one. The result is that of
record by record only where no node can tell the difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.columns.operator import Operator
from penstock.topology.specs import NodeSpec, ProcessorSpec, SinkSpec, SourceSpec, Subtopology


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
            if not isinstance(node.supplier, Operator):
                return False
            stores[source].update(node.stores)
    return all(count == 1 for used in stores.values() for count in used.values())


_OTHER = Operator()


class JoinSide(NamedTuple):
    """The names of the nodes of one side of a stream-stream join: the window that keeps it, and the join itself."""

    window: str
    join: str


def stream_join(nodes: Sequence[NodeSpec]) -> tuple[JoinSide, JoinSide] | None:
    """The sides of the stream-stream join whose rows can be joined at once; None where there is none, or more than that.

    Two sources run up to the windows of the join, and all that follows where its sides meet gets its rows in one order. The join
    itself sees to the order between the sides; for all other nodes the rules of `takes_columns` hold, and no store is shared.
    """
    by_name = {node.name: node for node in nodes}
    joins = [node for node in nodes if isinstance(node, ProcessorSpec) and _operator(node).joins_columns]
    meeting = [node for node in nodes if not isinstance(node, SourceSpec) and len(node.parents) > 1]
    if len(joins) != 2 or len(meeting) != 1 or sum(isinstance(node, SourceSpec) for node in nodes) != 2:
        return None
    names = {join.name for join in joins}
    windows = [by_name[join.parents[0]] for join in joins]
    expected = [{join.name} for join in joins] + [{meeting[0].name}] * 2
    if (
        set(meeting[0].parents) != names
        or not all(_operator(window).keeps_join_side for window in windows)
        or [_children(node.name, nodes) for node in (*windows, *joins)] != expected
    ):
        return None
    used = Counter(store for node in nodes if isinstance(node, ProcessorSpec) for store in node.stores)
    kept = {store for window in windows if isinstance(window, ProcessorSpec) for store in window.stores}
    if len(kept) != 2 or any(count != (2 if store in kept else 1) for store, count in used.items()):
        return None
    if not takes_columns([replace(node, parents=(joins[0].name,)) if node is meeting[0] else node for node in nodes]):
        return None
    first, second = (JoinSide(window.name, join.name) for window, join in zip(windows, joins))
    return first, second


def _operator(node: NodeSpec) -> Operator:
    supplier = node.supplier if isinstance(node, ProcessorSpec) else None
    return supplier if isinstance(supplier, Operator) else _OTHER


def _children(name: str, nodes: Sequence[NodeSpec]) -> set[str]:
    return {node.name for node in nodes if not isinstance(node, SourceSpec) and name in node.parents}


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
