"""KStream.flat_map: one record in, any number out."""

from __future__ import annotations

from typing import Any

from penstock.errors import StreamsError
from penstock.operators.types import FlatMapper
from penstock.processor import Processor, ProcessorContext
from penstock.record import Record


class KStreamFlatMap:
    """Supplies processors that forward one record for each `(key, value)` the mapper yields."""

    def __init__(self, mapper: FlatMapper) -> None:
        self.mapper = mapper

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """A new processor."""
        return _KStreamFlatMapProcessor(self.mapper)


class _KStreamFlatMapProcessor(Processor[Any, Any, Any, Any]):
    def __init__(self, mapper: FlatMapper) -> None:
        self._mapper = mapper

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        pairs = self._mapper(record.key, record.value)
        if pairs is None:
            raise StreamsError("the function given to flat_map returned None: it must return pairs (key, value), [] for none")
        forward, timestamp, headers = self._forward, record.timestamp, record.headers
        for key, value in pairs:
            forward(Record(key, value, timestamp, headers))
