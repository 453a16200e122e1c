"""A stream-stream join as one operator over both inputs of its task, for batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.batches.record_batch import RawBatch, RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.joins.joined_rows import Side, join_batches
from penstock.operators.joins.waiting_rows import join_waiting_batches


class StreamStreamBatchJoin:
    """Runs the batches of both sides up to their windows, joins the rows in their common order, and forwards the results.

    A side is the source of its records, the node of its window and the node that joins it.
    """

    def __init__(self, left: tuple[Any, Any, Any], right: tuple[Any, Any, Any]) -> None:
        self._sides = left, right
        self._join_node = left[2]
        self._join = join_batches if self._join_node.processor.outer_store is None else join_waiting_batches

    def run(self, context: OperatorContext, arrivals: Sequence[tuple[Any, RecordBatch, list[int]]]) -> None:
        """Process a batch of each source that has records, with the places of its rows in the common order."""
        for source, batch, _ in arrivals:
            context.current_node = source
            context.forward_batch(batch)
        places_of = {id(source): (batch.origin, places) for source, batch, places in arrivals}
        sides = []
        for source, window, join in self._sides:
            rows: RecordBatch | None = window.processor.arrived
            window.processor.arrived = None
            origin, places = places_of.get(id(source), (RawBatch("", 0, [], [], [], []), []))
            if rows is None:
                rows = RecordBatch([], [], [], None, origin, [])
            at = places if rows.sources is None else [places[source_row] for source_row in rows.sources]
            sides.append(Side(rows, at, window.processor.store, join.processor, join))
        joined = self._join(sides[0], sides[1], context)
        context.current_node = self._join_node
        context.forward_batch(joined)
