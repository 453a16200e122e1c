"""KStream.split: each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.operators.types import Predicate
from penstock.processor import Processor, ProcessorContext
from penstock.record import Record


class KStreamBranch:
    """Supplies processors that send each record to one child; a child more than predicates is the default branch.

    The lists may still grow until the topology is built.
    """

    def __init__(self, predicates: Sequence[Predicate], child_nodes: Sequence[str]) -> None:
        self.predicates = predicates
        self.child_nodes = child_nodes

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """A new processor."""
        return _KStreamBranchProcessor(self.predicates, self.child_nodes)


class _KStreamBranchProcessor(Processor[Any, Any, Any, Any]):
    def __init__(self, predicates: Sequence[Predicate], child_nodes: Sequence[str]) -> None:
        self._branches = tuple(zip(predicates, child_nodes))
        self._default = child_nodes[len(predicates)] if len(child_nodes) > len(predicates) else None

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        for predicate, child in self._branches:
            if predicate(record.key, record.value):
                self._forward(record, child)
                return
        if self._default is not None:
            self._forward(record, self._default)
