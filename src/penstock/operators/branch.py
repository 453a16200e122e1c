"""KStream.split: each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.types import Predicate
from penstock.processor import Processor
from penstock.record import Record


class KStreamBranch(Operator):
    """Supplies processors that send each record to one child; a child more than predicates is the default branch.

    The lists may still grow until the topology is built.
    """

    def __init__(self, predicates: Sequence[Predicate], child_nodes: Sequence[str]) -> None:
        self.predicates = predicates
        self.child_nodes = child_nodes

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _KStreamBranchProcessor(self.predicates, self.child_nodes)


class _KStreamBranchProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    def __init__(self, predicates: Sequence[Predicate], child_nodes: Sequence[str]) -> None:
        self._branches = tuple(zip(predicates, child_nodes))
        self._default = child_nodes[len(predicates)] if len(child_nodes) > len(predicates) else None

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        child = self._child(record.key, record.value)
        if child is not None:
            self._forward(record, child)

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many records: each branch gets its rows at once."""
        chosen: dict[str, list[int]] = {child: [] for _, child in self._branches}
        if self._default is not None:
            chosen[self._default] = []
        for row, (key, value) in enumerate(zip(batch.keys, batch.values)):
            try:
                child = self._child(key, value)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc)
                continue
            if child is not None:
                chosen[child].append(row)
        for child, rows in chosen.items():
            self._context.forward_batch(batch.take(rows), child)

    def _child(self, key: Any, value: Any) -> str | None:
        for predicate, child in self._branches:
            if predicate(key, value):
                return child
        return self._default
