"""What an operator declares about columns; nobody asks its class or its module.

`topology/column_path.py` decides for a sub-topology whether its records may come many at a time, a node for its processor whether
it gets them as they are or row by row, and the task whether a turn has enough of them.
"""

from __future__ import annotations

from abc import abstractmethod

from penstock.columns.columns import Columns


class Operator:
    """A supplier of processors that do not tell whether the nodes behind them have seen a record before the next one comes.

    They look neither at stream time nor at stores that are not their own, and schedule and commit nothing from record to record.
    All operators of the DSL are such; a user's processor may do anything, and gets its records one by one.
    """

    recomputable = False
    """Whether its processors compute the same records again from the same input, each from one of its records."""

    keeps_join_side = False
    """Whether it keeps one side of a join of two streams, for the other to look into."""

    @property
    def joins_columns(self) -> bool:
        """Whether it is a side of such a join, and the rows of both can be joined at once."""
        return False


class ColumnProcessor:
    """A processor with a second face, for many records at a time.

    Where that needs something of its store, its `init` says whether it is there.
    """

    takes_columns = True
    splits_text = False
    """Whether values are better left in Arrow arrays, as text."""

    @abstractmethod
    def process_columns(self, columns: Columns) -> None:
        """Process many records, with the results of processing each."""
