"""Values of a stream as rows of an Arrow schema; a value that does not fit is refused, and nothing of it is lost in silence."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.errors import StreamsError
from penstock.operators.arrow_types import refuse_loss

_KEPT: Final = (
    bytes,
    datetime.datetime,
    datetime.date,
    datetime.time,
    decimal.Decimal,
)


class RowConverter:
    """Makes batches of a schema from dicts, dataclasses, named tuples, msgspec Structs and pydantic models.

    >>> RowConverter(pa.schema([("id", pa.string())])).batch_of([{"id": "a"}, {}]).to_pylist()
    [{'id': 'a'}, {'id': None}]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._struct = pa.struct(list(schema))
        self._names = frozenset(schema.names)
        self._is_nested = any(pa.types.is_nested(field.type) for field in schema)
        self._required = [(index, field.name) for index, field in enumerate(schema) if not field.nullable]

    def batch_of(self, values: Sequence[Any]) -> pa.RecordBatch:
        """One row for each value; StreamsError if one of them does not fit."""
        try:
            rows = [value if type(value) is dict else _plain(value) for value in values]
            for row in rows:
                if not self._names.issuperset(row):
                    extra = sorted(str(name) for name in set(row) - self._names)
                    raise ValueError(f"the schema has no column {', '.join(extra)}")
                if self._is_nested:
                    refuse_loss(row, self._struct)
            batch = pa.RecordBatch.from_struct_array(self._structs(rows))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as exc:
            raise StreamsError(
                f"a value does not fit the columns of the files: {exc}. Change it in map_values(), or the schema of to_files()"
            ) from exc
        for index, name in self._required:
            if batch.column(index).null_count:
                raise StreamsError(f"a value has nothing for the column {name!r}, which the schema of to_files() requires")
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _structs(self, rows: list[Any]) -> pa.StructArray:
        try:
            return pa.array(rows, self._struct)
        except (pa.ArrowException, TypeError):
            # Objects inside of dicts, such as UUIDs and dataclasses.
            return pa.array([msgspec.to_builtins(row, builtin_types=_KEPT) for row in rows], self._struct)


def _plain(value: Any) -> Any:
    if hasattr(value, "__pydantic_serializer__"):
        return msgspec.to_builtins(value.model_dump(), builtin_types=_KEPT)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return msgspec.to_builtins(value, builtin_types=_KEPT)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a row is a dict or an object with fields, not a {type(value).__qualname__}")
