"""The stream-stream join of a task whose two inputs are taken many records at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.batches.record_batch import RawBatch, RecordBatch
from penstock.operators.joins.joined_rows import Side, join_batches
from penstock.operators.joins.waiting_columns import join_waiting_batches
from penstock.runtime.nodes import Node, ProcessorNode, SourceNode

if TYPE_CHECKING:
    from penstock.runtime.context import InternalProcessorContext
    from penstock.runtime.processor_topology import ProcessorTopology
    from penstock.topology.execution_plan import JoinSide

Arrival = tuple[SourceNode, RecordBatch, list[int]]
"""What a source has read, with the places of its rows in the common order."""


class MergedJoin:
    """Runs both sides up to their windows, joins them in order, and hands on what comes of it."""

    def __init__(self, topology: ProcessorTopology, join: Iterable[JoinSide]) -> None:
        """The join of a topology whose nodes are initialized, as its column plan has found it."""
        by_name = {node.name: node for node in topology.nodes}
        self._sides: list[tuple[ProcessorNode, ProcessorNode, SourceNode]] = []
        for side in join:
            window, joining = by_name[side.window], by_name[side.join]
            assert isinstance(window, ProcessorNode)
            assert isinstance(joining, ProcessorNode)
            source = next(source for source in topology.sources if _leads_to(source, window))
            self._sides.append((window, joining, source))
        self._join = join_batches if self._sides[0][1].processor.outer_store is None else join_waiting_batches

    def run(self, context: InternalProcessorContext, arrivals: Sequence[Arrival]) -> None:
        """Process the rows of the sources that have any."""
        for source, batch, _ in arrivals:
            context.current_node = source
            context.forward_batch(batch)
        places_of = {id(source): (batch.origin, places) for source, batch, places in arrivals}
        sides = []
        for window, join, source in self._sides:
            rows: RecordBatch | None = window.processor.arrived
            window.processor.arrived = None
            origin, places = places_of.get(id(source), (RawBatch("", 0, [], [], [], []), []))
            if rows is None:
                rows = RecordBatch([], [], [], None, origin, [])
            at = places if rows.sources is None else [places[source_row] for source_row in rows.sources]
            sides.append(Side(rows, at, window.processor.store, join.processor, join))
        joined = self._join(sides[0], sides[1], context)
        context.current_node = self._sides[0][1]
        context.forward_batch(joined)


def _leads_to(node: Node, target: Node) -> bool:
    return node is target or any(_leads_to(child, target) for child in node.children)
