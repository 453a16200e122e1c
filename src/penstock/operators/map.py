"""KStream.map and select_key: one record in, one with a new key and value out."""

from __future__ import annotations

from typing import Any

from penstock.errors import StreamsError
from penstock.operators.types import KeyValuePairMapper
from penstock.processor import Processor, ProcessorContext
from penstock.record import Record


class KStreamMap:
    """Supplies processors that give each record the key and value the mapper returns as `(key, value)`."""

    def __init__(self, mapper: KeyValuePairMapper) -> None:
        self.mapper = mapper

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """A new processor."""
        return _KStreamMapProcessor(self.mapper)


class _KStreamMapProcessor(Processor[Any, Any, Any, Any]):
    def __init__(self, mapper: KeyValuePairMapper) -> None:
        self._mapper = mapper

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        pair = self._mapper(record.key, record.value)
        if pair is None:
            raise StreamsError("the function given to map returned None: it must return a pair (key, value)")
        key, value = pair
        self._forward(Record(key, value, record.timestamp, record.headers))
