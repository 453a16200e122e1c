"""The entries of a store as Arrow batches: what tables of Spark SQL are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.query.columns import as_column, sql_type
from penstock.runtime.queries.entries import Entry
from penstock.runtime.queries.opening import ReadableStore

_BATCH = 10_000
BATCH_BYTES = 16 * 1024 * 1024
"""A batch ends with the entry that takes its keys and values beyond this size."""

_AS_IT_IS = frozenset({"bigint", "int", "smallint", "double", "float", "boolean"})

Columns = Sequence[tuple[str, str]]


def columns_of(store: ReadableStore) -> list[tuple[str, str]]:
    """The columns of a store's table, with their SQL types."""
    columns = [("key", sql_type(store.key_serde))]
    if store.kind in ("window", "session"):
        columns += [("window_start", "bigint"), ("window_end", "bigint")]
    columns.append(("value", sql_type(store.value_serde)))
    if store.kind == "versioned" or (store.values != "plain" and store.kind != "session"):
        columns.append(("timestamp", "bigint"))
    return columns


def schema_of(columns: Columns) -> pa.Schema:
    """The same in Arrow's words."""
    return pa.schema([(name, _arrow_type(kind)) for name, kind in columns])


def batches_of(entries: Iterator[Entry], columns: Columns) -> Iterator[pa.RecordBatch]:
    """Entries as batches of these columns."""
    schema = schema_of(columns)
    positions = [Entry._fields.index(name) for name, _ in columns]
    for part in _parts(entries):
        arrays = [
            pa.array([entry[at] for entry in part] if kind in _AS_IT_IS else [as_column(e[at], kind) for e in part], field.type)
            for at, (_, kind), field in zip(positions, columns, schema)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _parts(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    part: list[Entry] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += _size(entry.key) + _size(entry.value)
        if len(part) == _BATCH or size > BATCH_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _size(value: Any) -> int:
    """About how many bytes a key or a value takes."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(name) + _size(held) for name, held in value.items())
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 8


def _arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("array<"):
        return pa.list_(pa.field("element", _arrow_type(kind[6:-1])))  # as Spark calls it
    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "smallint": pa.int16(),
        "double": pa.float64(),
        "float": pa.float32(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "void": pa.null(),
    }[kind]
