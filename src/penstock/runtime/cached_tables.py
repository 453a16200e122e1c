"""The tables of a task that keep what comes in caches: changes leave with a flush, so that they can be folded in by columns.

What follows, such as a join of two tables, sees nothing before the flush, and then single records in the order of the stores:
the same as when records came one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.columns.operator import ColumnProcessor
from penstock.runtime.merged_join import Arrival
from penstock.runtime.nodes import ProcessorNode, SourceNode

if TYPE_CHECKING:
    from penstock.runtime.context import InternalProcessorContext

_MAX_SOURCES = 2  # as many as `PartitionGroup.take_merged` can take


class CachedTables:
    """Folds the rows of one or two sources into the tables they lead to."""

    @classmethod
    def of(cls, sources: Sequence[SourceNode]) -> CachedTables | None:
        """Those of a task, from the initialized source of each partition; None where a record would get past a cache.

        Nor where two lead into one table, as with a cogroup: its order is that of the records of both.
        """
        distinct = {id(source) for source in sources}
        if not 0 < len(distinct) == len(sources) <= _MAX_SOURCES or not all(map(_keeps_all, sources)):
            return None
        stores = [store for source in sources for child in source.children for store in child.state_stores]
        return cls() if len(set(stores)) == len(stores) else None

    def run(self, context: InternalProcessorContext, arrivals: Iterable[Arrival]) -> None:
        """Process the rows of the sources that have any; nothing leaves the caches before all are in them."""
        context.is_only_run = False
        with context.cache.evicting_later():
            for source, columns, _ in arrivals:
                context.current_node = source
                context.forward_columns(columns)


def _keeps_all(source: SourceNode) -> bool:
    return bool(source.children) and all(
        isinstance(child, ProcessorNode)
        and isinstance(child.processor, ColumnProcessor)
        and child.processor.takes_columns
        and child.processor.waits_for_flush
        for child in source.children
    )
