"""What Spark's workers make of the rows of a history: the bytes of keys and values, and the partition of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batches.serdes import serialize_column
from penstock.errors import StreamsError
from penstock.hashing import default_partitions
from penstock.serdes.codecs import serialize_string
from penstock.serdes.typed_json import TypedJsonDeserializer, TypedJsonSerializer


@dataclass(frozen=True)
class RowFormat:
    """How rows become records of a topic. `slots` has a number for each partition by which Spark spreads partitions evenly."""

    topic: str
    slots: tuple[int, ...]
    key_serializer: Any
    value_serializer: Any
    has_headers: bool
    names: tuple[str | None, str, str]
    """The columns of the table with key, value and timestamp, for messages."""


def row_writer(rows: RowFormat) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `DataFrame.mapInArrow`: columns key, value, timestamp and headers in, bytes and partitions out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield written(rows, batch)

    return write


def written(rows: RowFormat, batch: pa.RecordBatch) -> pa.RecordBatch:
    """One batch of rows as records."""
    times, (key_name, value_name, time_name) = batch.column("timestamp"), rows.names
    if times.null_count:
        raise StreamsError(
            f"the history of {rows.topic} has {times.null_count} rows without a timestamp (column {time_name}): leave them "
            "out, or give them one"
        )
    values = _bytes(batch.column("value"), rows.value_serializer, rows.topic, value_name)
    if key_name is None:
        keys = pa.nulls(batch.num_rows, pa.binary())
    else:
        keys = _bytes(batch.column("key"), rows.key_serializer, rows.topic, key_name)
    count = len(rows.slots)
    partitions = default_partitions(keys, count)
    if keys.null_count:  # such a record may go anywhere; the same row goes to the same partition if it is staged again
        partitions = np.where(partitions < 0, np.maximum(default_partitions(values, count), 0), partitions)
    columns = {
        "slot": pa.array(np.array(rows.slots, np.int32)[partitions]),
        "partition": pa.array(partitions.astype(np.int32)),
        "timestamp": times,
        "key": keys,
        "value": values,
    }
    if rows.has_headers:
        columns["headers"] = batch.column("headers")
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _bytes(column: pa.Array, serializer: Any, topic: str, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if serializer is serialize_string and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column.cast(pa.binary())
    try:
        values = column.to_pylist()
        if isinstance(serializer, TypedJsonSerializer):  # a struct comes as a dict
            read = TypedJsonDeserializer(serializer.annotation).from_plain
            values = [None if value is None else read(value) for value in values]
        return pa.array(serialize_column(serializer, topic, values), pa.binary())
    except Exception as exc:
        raise StreamsError(
            f"the history of {topic} does not fit the serde of its source: column {name} of type {kind} cannot be written "
            f"({type(exc).__name__}: {' '.join(str(exc).split())})"
        ) from exc
