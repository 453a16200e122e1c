"""KStream.filter: records for which the predicate holds, or does not."""

from __future__ import annotations

from typing import Any

from penstock.operators.types import Predicate
from penstock.processor import FixedKeyProcessor, FixedKeyProcessorContext
from penstock.record import FixedKeyRecord


class KStreamFilter:
    """Supplies processors that forward some records and drop the others."""

    def __init__(self, predicate: Predicate, filter_not: bool) -> None:
        self.predicate = predicate
        self.filter_not = filter_not

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        """A new processor."""
        return _KStreamFilterProcessor(self.predicate, self.filter_not)


class _KStreamFilterProcessor(FixedKeyProcessor[Any, Any, Any]):
    def __init__(self, predicate: Predicate, filter_not: bool) -> None:
        self._predicate = predicate
        self._filter_not = filter_not

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        # The predicate may return anything truthy.
        if (not self._predicate(record.key, record.value)) is self._filter_not:
            self._forward(record)
