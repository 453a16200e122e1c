"""KStream.flat_map_values: one record in, any number with the same key out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import sub
from typing import Any

from penstock.columns import Columns
from penstock.errors import StreamsError
from penstock.operators.functions import IgnoreKey
from penstock.operators.rows import spread
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
        self._context: Any = context
        self._forward = context.forward

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        forward = self._forward
        for value in _checked(self._mapper(record.key, record.value)):
            forward(record.with_value(value))

    def process_columns(self, columns: Columns) -> None:
        """The same for many records; what a record gave before it failed stays."""
        if type(self._mapper) is IgnoreKey:
            calls: Iterator[Any] = map(self._mapper.function, columns.values)
        else:
            calls = map(self._mapper, columns.keys, columns.values)
        values: list[Any] = []
        ends: list[int] = []
        while len(ends) < len(columns):
            try:
                for some in calls:
                    values.extend(_checked(some) if some is None else some)
                    ends.append(len(values))
                if len(ends) < len(columns):
                    raise StopIteration  # the function raised it: a loop takes it for the end
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(columns, len(ends), exc)
                ends.append(len(values))
        counts = list(map(sub, ends, [0, *ends]))
        self._context.forward_columns(spread(columns, None, values, counts))


def _checked(values: Iterable[Any] | None) -> Iterable[Any]:
    if values is None:
        raise StreamsError("the function given to flat_map_values returned None: it must return values, [] for none")
    return values
