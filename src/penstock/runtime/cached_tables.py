"""The tables of a task that keep what comes in caches: changes leave with a flush, so that they can be folded in as batches.

What follows, such as a join of two tables, sees nothing before the flush, and then the changes of one store after those of the
other: the same as when records came one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.batches.record_batch import RecordBatch
from penstock.runtime.nodes import SourceNode

if TYPE_CHECKING:
    from penstock.operators.context import OperatorContext


class CachedTables:
    """Folds the rows of one or two sources into the tables they lead to.

    Where all that follows takes batches (`flushes_batches`), and nothing waits in the caches, rows are written past them: all of
    them are there before the flush, with which their changes leave as batches. Otherwise they stay in the caches, and leave
    record by record.
    """

    def __init__(self, flushes_batches: bool) -> None:
        self._flushes_batches = flushes_batches

    def run(self, context: OperatorContext, arrivals: Iterable[tuple[SourceNode, RecordBatch, list[int]]]) -> None:
        """Process the rows of the sources that have any; nothing leaves the tables before all are in them."""
        context.is_only_run = context.holds_changes = self._flushes_batches and not context.cache.is_dirty
        try:
            with context.cache.evicting_later():
                for source, batch, _ in arrivals:
                    context.current_node = source
                    context.forward_batch(batch)
        finally:
            context.holds_changes = False
