"""What an operator declares about batches; its class and its module are not asked.

Suppliers declare what is true of all their processors, processors what their stores let them do. What follows from it is decided
in one place, `topology/execution_plan.py`.
"""

from __future__ import annotations

from abc import abstractmethod

from penstock.batches.record_batch import RecordBatch


class Operator:
    """A supplier of processors that do not tell whether the nodes behind them have seen a record before the next one comes.

    They look neither at stream time nor at stores that are not their own, and schedule and commit nothing from record to record.
    All operators of the DSL are such; a user's processor may do anything, and gets its records one by one.
    """

    keeps_join_side = False
    """Whether it keeps one side of a join of two streams, for the other to look into."""

    joins_batches = False
    """Whether it is a side of such a join, and the rows of both can be joined at once."""

    @property
    def counts(self) -> bool:
        """Whether its processors do nothing with records but count them by key."""
        return False


class BatchSupport:
    """What a node declares about batches once its stores are open."""

    takes_batches = True
    """Whether the node takes whole batches; otherwise it gets row after row. `init` sets it if it depends on a store."""

    @property
    def waits_for_flush(self) -> bool:
        """Whether rows stay in a cache until its next flush, unless they are all the rows until the commit."""
        return False


class BatchProcessor(BatchSupport):
    """A processor that takes batches as well as records."""

    @abstractmethod
    def process_batch(self, batch: RecordBatch) -> None:
        """Process many records, with the same results in the same order as record by record."""
