"""What an operator declares about columns; nobody asks its class or its module.

Suppliers declare what is true of all their processors, processors what their stores let them do. What follows from it is decided
in one place, `topology/column_plan.py`.
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

    joins_columns = False
    """Whether it is a side of such a join, and the rows of both can be joined at once."""

    @property
    def counts(self) -> bool:
        """Whether its processors do nothing with records but count them by key."""
        return False


class ColumnFace:
    """What a node declares once its stores are open: what it does with many records at a time."""

    takes_columns = True
    """Whether it takes them as they are; otherwise it gets row after row. Where that depends on a store, `init` says it."""

    @property
    def waits_for_flush(self) -> bool:
        """Whether rows that are not a turn's only ones stay in a cache, and leave with its next flush, record by record."""
        return False


class ColumnProcessor(ColumnFace):
    """A processor with a second face, for many records at a time."""

    @abstractmethod
    def process_columns(self, columns: Columns) -> None:
        """Process many records, with the results of processing each."""
