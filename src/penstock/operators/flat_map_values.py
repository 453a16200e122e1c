"""KStream.flat_map_values: one record in, any number with the same key out."""

from __future__ import annotations

from typing import Any

from penstock.errors import StreamsError
from penstock.operators.types import FlatValueMapperWithKey
from penstock.processor import FixedKeyProcessor, FixedKeyProcessorContext
from penstock.record import FixedKeyRecord


class KStreamFlatMapValues:
    """Supplies processors that forward one record for each value `mapper(key, value)` yields."""

    def __init__(self, mapper: FlatValueMapperWithKey) -> None:
        self.mapper = mapper

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        """A new processor."""
        return _KStreamFlatMapValuesProcessor(self.mapper)


class _KStreamFlatMapValuesProcessor(FixedKeyProcessor[Any, Any, Any]):
    def __init__(self, mapper: FlatValueMapperWithKey) -> None:
        self._mapper = mapper

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        values = self._mapper(record.key, record.value)
        if values is None:
            raise StreamsError("the function given to flat_map_values returned None: it must return values, [] for none")
        forward = self._forward
        for value in values:
            forward(record.with_value(value))
