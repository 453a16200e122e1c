"""The tables of a task that keep what comes in caches: changes leave with a flush, so that they can be folded in by columns.

What follows, such as a join of two tables, sees nothing before the flush, and then single records in the order of the stores:
the same as when records came one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.runtime.merged_join import Arrival

if TYPE_CHECKING:
    from penstock.runtime.context import InternalProcessorContext


class CachedTables:
    """Folds the rows of one or two sources into the tables they lead to."""

    def run(self, context: InternalProcessorContext, arrivals: Iterable[Arrival]) -> None:
        """Process the rows of the sources that have any; nothing leaves the caches before all are in them."""
        context.is_only_run = False
        with context.cache.evicting_later():
            for source, columns, _ in arrivals:
                context.current_node = source
                context.forward_columns(columns)
