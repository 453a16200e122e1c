"""Decides where records are processed in batches.

- `plan_execution` decides for a task when it is opened: its execution mode, and which nodes take whole batches.
- `ExecutionPlan.mode_of` decides for the records that wait, by their number and by the timers of the task.
- `is_counted` decides for a repartition topic whether its records can be replaced by their number.

A batch goes through the graph node by node: the first node sees all rows before the second node sees one. That gives the results
of record by record only where no node can tell the difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeGuard

from penstock.batches.batch_processor import BatchSupport, Operator
from penstock.topology.specs import NodeSpec, ProcessorSpec, SinkSpec, SourceSpec, Subtopology

_MERGED_SOURCES = 2  # as many as `PartitionGroup.take_merged` can take


class ExecutionMode(Enum):
    """How a task processes its records."""

    SINGLE = "one by one"
    ROWS = "one by one, deserialized together"
    RUNS = "in batches, partition after partition"
    JOIN = "in batches of both sides of a stream-stream join"
    TABLES = "in batches into the caches of tables"
    SOURCES = "in batches of one source, until records of another source come"

    @property
    def is_batched(self) -> bool:
        """Whether nodes get batches."""
        return self in (ExecutionMode.RUNS, ExecutionMode.JOIN, ExecutionMode.TABLES, ExecutionMode.SOURCES)


class BatchThreshold(NamedTuple):
    """The fewest records that are processed in batches: for fewer, setting up a batch costs more than it saves."""

    rows: int = 32
    run: int = 4
    """On average, where partitions alternate."""


THRESHOLD = BatchThreshold()


class Input(NamedTuple):
    """A partition that a task reads: the source node that it leads to, and whether records keep the times they have."""

    source: str
    trusts_record: bool = True


class JoinSide(NamedTuple):
    """The names of the nodes of one side of a stream-stream join: the window that keeps it, and the join itself."""

    window: str
    join: str


Sides = tuple[JoinSide, JoinSide]


@dataclass(frozen=True)
class ExecutionPlan:
    """How a task processes its records; one by one until it is open."""

    mode: ExecutionMode = ExecutionMode.SINGLE
    why_not: str = "the task is not open yet"
    """Why records are not processed in batches; empty if they are."""

    batch_nodes: frozenset[str] = frozenset()
    """The nodes that take whole batches. The others get row after row, and forward their results one by one."""

    join: Sides | None = None
    """The sides of the join if the mode is `JOIN`."""

    flushes_batches: bool = False
    """Whether the flush of a cache can forward batches if the mode is `TABLES`."""

    threshold: BatchThreshold = THRESHOLD

    def mode_of(self, waiting: int, awaits_stream_time: bool) -> ExecutionMode:
        """Return the mode for the records that wait; a stream-time punctuator may be due between two of them."""
        if waiting < self.threshold.rows:
            return ExecutionMode.SINGLE
        return ExecutionMode.ROWS if awaits_stream_time and self.mode.is_batched else self.mode

    def is_worth(self, runs: int, records: int) -> bool:
        """Whether runs of records from one partition each are long enough to be read together."""
        return runs <= 1 or records >= self.threshold.run * runs


def plan_execution(
    nodes: Sequence[NodeSpec],
    inputs: Sequence[Input],
    supports: Mapping[str, BatchSupport],
    each_is_measured: bool = False,
    threshold: BatchThreshold = THRESHOLD,
) -> ExecutionPlan:
    """Decide for a task whose stores are open; `supports` is what its nodes declare.

    `each_is_measured` says that metrics look at every single record, as at DEBUG.
    """
    plan = ExecutionPlan(threshold=threshold)
    if each_is_measured:
        return replace(plan, why_not="metrics.recording.level is DEBUG: each record is measured")
    joins = {node.name for node in nodes if _operator(node).joins_batches}
    takes = frozenset(name for name, support in supports.items() if support.takes_batches and name not in joins)
    plan = replace(plan, batch_nodes=takes)
    extracted = next((each.source for each in inputs if not each.trusts_record), None)
    if extracted is not None:
        return replace(plan, why_not=f"the timestamp extractor of source {extracted} looks at each record")
    why_not = why_not_batched(nodes)
    if why_not is None:
        return replace(plan, mode=ExecutionMode.RUNS, why_not="")
    sides = _open_join(nodes, inputs, supports)
    if sides is not None:
        return replace(plan, mode=ExecutionMode.JOIN, why_not="", join=sides)
    if _fill_tables(nodes, inputs, supports):
        return replace(plan, mode=ExecutionMode.TABLES, why_not="", flushes_batches=_flush_batches(nodes, inputs, supports))
    if _sources_are_apart(nodes):
        return replace(plan, mode=ExecutionMode.SOURCES, why_not="")
    return replace(plan, mode=ExecutionMode.ROWS, why_not=why_not)


def why_not_batched(nodes: Sequence[NodeSpec]) -> str | None:
    """Why a node could tell that batches were taken partition after partition; None if no node could.

    - Paths never meet: a node with two parents, or a topic with two sinks, would get its records in another order.
    - No two nodes below the same source use the same store: one would see what the other wrote for later records.
    - All processors are the library's own: a user's may look at stream time, schedule and commit from record to record.
    - Sinks have a fixed topic.
    """
    topics: set[str] = set()
    source_of: dict[str, str] = {}
    stores: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        if isinstance(node, SourceSpec):
            source_of[node.name] = node.name
            continue
        if len(node.parents) != 1:
            return f"ways meet at {node.name}"
        source = source_of[node.name] = source_of[node.parents[0]]
        if isinstance(node, SinkSpec):
            if node.topic is None:
                return f"sink {node.name} has no fixed topic"
            if node.topic in topics:
                return f"two sinks write to topic {node.topic}"
            topics.add(node.topic)
        else:
            if not isinstance(node.supplier, Operator):
                return f"processor {node.name} is not one of the library's own"
            for store in node.stores:
                if store in stores[source]:
                    return f"two nodes behind source {source} use store {store}"
                stores[source].add(store)
    return None


def _sources_are_apart(nodes: Sequence[NodeSpec]) -> bool:
    """Whether the rules of `why_not_batched` hold behind each source, while no records of another source come in between.

    Where the paths of two sources meet, records keep their order behind that node. So no record may leave a table before its
    cache is flushed, which it may where paths never meet. A stream-stream join needs the rows of both sides at once.
    """
    if any(_operator(node).keeps_join_side or _operator(node).joins_batches for node in nodes):
        return False
    return all(why_not_batched(_behind(node.name, nodes)) is None for node in nodes if isinstance(node, SourceSpec))


def _behind(source: str, nodes: Sequence[NodeSpec]) -> list[NodeSpec]:
    """A source and the nodes that its records reach, with the parents that they come from."""
    found: dict[str, NodeSpec] = {}
    for node in nodes:
        if isinstance(node, SourceSpec):
            if node.name == source:
                found[source] = node
        elif any(parent in found for parent in node.parents):
            found[node.name] = replace(node, parents=tuple(parent for parent in node.parents if parent in found))
    return list(found.values())


def stream_join(nodes: Sequence[NodeSpec]) -> Sides | None:
    """The sides of the stream-stream join whose rows can be joined at once; None where there is none, or more than that.

    Two sources run up to the windows of the join, and all that follows where its sides meet gets its rows in one order. The join
    itself sees to the order between the sides; for all other nodes the rules of `why_not_batched` hold, and no store is
    shared but those of the join.
    """
    by_name = {node.name: node for node in nodes}
    joins = [node for node in nodes if isinstance(node, ProcessorSpec) and _operator(node).joins_batches]
    meeting = [node for node in nodes if not isinstance(node, SourceSpec) and len(node.parents) > 1]
    if len(joins) != 2 or len(meeting) != 1 or sum(isinstance(node, SourceSpec) for node in nodes) != 2:
        return None
    names = {join.name for join in joins}
    windows = [by_name[join.parents[0]] for join in joins]
    expected = [{join.name} for join in joins] + [{meeting[0].name}] * 2
    if (
        set(meeting[0].parents) != names
        or not all(_operator(window).keeps_join_side for window in windows)
        or [{child.name for child in _children(node.name, nodes)} for node in (*windows, *joins)] != expected
    ):
        return None
    used = Counter(store for node in nodes if isinstance(node, ProcessorSpec) for store in node.stores)
    kept = {store for window in windows if isinstance(window, ProcessorSpec) for store in window.stores}
    of_both = kept | (set(joins[0].stores) & set(joins[1].stores))  # the second is where records wait for their partners
    if len(kept) != 2 or any(count != (2 if store in of_both else 1) for store, count in used.items()):
        return None
    if why_not_batched([replace(node, parents=(joins[0].name,)) if node is meeting[0] else node for node in nodes]) is not None:
        return None
    first, second = (JoinSide(window.name, join.name) for window, join in zip(windows, joins))
    return first, second


def _open_join(nodes: Sequence[NodeSpec], inputs: Sequence[Input], supports: Mapping[str, BatchSupport]) -> Sides | None:
    """The join of a task that reads one partition of each side, where its stores take many rows at a time."""
    sides = stream_join(nodes) if len(inputs) == _MERGED_SOURCES else None
    if sides is None or not all(_takes(supports.get(name)) for side in sides for name in side):
        return None
    return sides


def _fill_tables(nodes: Sequence[NodeSpec], inputs: Sequence[Input], supports: Mapping[str, BatchSupport]) -> bool:
    """Whether all that a task reads goes into tables that keep it in caches: it leaves with a flush, in the order of the stores.

    Not where two sources lead into one table, as with a cogroup: its order is that of the records of both.
    """
    sources = {each.source for each in inputs}
    if not 0 < len(sources) == len(inputs) <= _MERGED_SOURCES:
        return False
    stores: list[str] = []
    for source in sources:
        tables = _children(source, nodes)
        if not tables or not all(_takes(support := supports.get(table.name)) and support.waits_for_flush for table in tables):
            return False
        stores += [store for table in tables if isinstance(table, ProcessorSpec) for store in set(table.stores)]
    return len(set(stores)) == len(stores)


def _flush_batches(nodes: Sequence[NodeSpec], inputs: Sequence[Input], supports: Mapping[str, BatchSupport]) -> bool:
    """Whether no node behind the tables can tell that the changes of a flush come in batches.

    Each table has one path behind it, over nodes that take batches and keep no state. They look at most into the tables, which do
    not change while one of them is flushed.
    """
    tables = [table for each in inputs for table in _children(each.source, nodes)]
    stores = {store for table in tables if isinstance(table, ProcessorSpec) for store in table.stores}
    for node in tables:
        while following := _children(node.name, nodes):
            node = following[0]
            if len(following) > 1 or (isinstance(node, SinkSpec) and node.topic is None):
                return False
            if isinstance(node, ProcessorSpec) and not (_takes(supports.get(node.name)) and stores.issuperset(node.stores)):
                return False
    return True


def is_counted(subtopology: Subtopology, topic: str) -> bool:
    """Whether tasks that read a repartition topic do nothing with its records but count them by key, and cache the counts.

    How many there were of each key, and when the latest was, is then all that has to reach them.
    """
    nodes = subtopology.nodes
    if subtopology.source_topics != (topic,) or why_not_batched(nodes) is not None:
        return False
    source = next(node for node in nodes if isinstance(node, SourceSpec))
    children = _children(source.name, nodes)
    if len(children) != 1 or not isinstance(children[0], ProcessorSpec) or len(children[0].stores) != 1:
        return False
    builder = subtopology.stores.get(children[0].stores[0])
    return builder is not None and builder.caching_enabled and _operator(children[0]).counts


_OTHER = Operator()


def _operator(node: NodeSpec) -> Operator:
    supplier = node.supplier if isinstance(node, ProcessorSpec) else None
    return supplier if isinstance(supplier, Operator) else _OTHER


def _takes(support: BatchSupport | None) -> TypeGuard[BatchSupport]:
    return support is not None and support.takes_batches


def _children(name: str, nodes: Sequence[NodeSpec]) -> list[ProcessorSpec | SinkSpec]:
    return [node for node in nodes if not isinstance(node, SourceSpec) and name in node.parents]
