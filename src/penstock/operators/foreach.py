"""KStream.foreach: call a function for each record, the end of the line."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import Operator
from penstock.operators.types import ForeachAction
from penstock.processor import Processor
from penstock.record import Record


class ForeachProcessor(Processor[Any, Any, Any, Any]):
    """Calls the action for each record and forwards nothing."""

    def __init__(self, action: ForeachAction) -> None:
        self._action = action

    def process(self, record: Record[Any, Any]) -> None:
        """Call the action."""
        self._action(record.key, record.value)


class ForeachProcessorSupplier(Operator):
    """Supplies `ForeachProcessor`s."""

    def __init__(self, action: ForeachAction) -> None:
        self.action = action

    def __call__(self) -> ForeachProcessor:
        return ForeachProcessor(self.action)
