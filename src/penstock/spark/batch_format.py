"""The bytes of a shuffled batch: one Arrow IPC stream of one record batch, whose columns are checked when it is read.

    key, value      binary, may be null
    timestamp       int64, as are
    source          the index of the source partition a row was made of
    offset          and its offset there
    headers         list<name: binary, value: binary>; names are UTF-8 in nearly all cases, values may be null
    side            struct<topic: binary, partition: int32>: where a row is to be written, null where it is to be processed
    weight, rank    int64, both or none

The last four are there only where some row has something to say in them. Nothing in it is ever run: whatever a producer has put
into keys, values and headers stays bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import SerializationError
from penstock.record import Headers

HEADERS = pa.list_(pa.struct([pa.field("name", pa.binary()), pa.field("value", pa.binary())]))
SIDE = pa.struct([pa.field("topic", pa.binary()), pa.field("partition", pa.int32())])

_ALWAYS = {"key": pa.binary(), "value": pa.binary(), "timestamp": pa.int64(), "source": pa.int64(), "offset": pa.int64()}
_SOMETIMES = {"headers": HEADERS, "side": SIDE, "weight": pa.int64(), "rank": pa.int64()}
_MAY_BE_NULL = frozenset({"key", "value", "side"})


def write_columns(columns: Mapping[str, pa.Array], head: bytes = b"") -> bytes:
    """The columns as bytes, behind a head whose length is a multiple of eight: the JVM moves them and never looks inside."""
    batch = pa.RecordBatch.from_pydict(dict(columns))
    sink = pa.BufferOutputStream()
    sink.write(head)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def read_columns(data: bytes | memoryview) -> dict[str, pa.Array]:
    """What `write_columns` wrote; raises `SerializationError` where it is anything else."""
    batches = _read_batches(data)
    if len(batches) != 1:
        raise SerializationError(f"a shuffled batch is one batch of Arrow, and this has {len(batches)}")
    ((names, found),) = batches
    columns = dict(zip(names, found))
    expected = {name: kind for name, kind in {**_ALWAYS, **_SOMETIMES}.items() if name in columns or name in _ALWAYS}
    kinds = {name: column.type for name, column in columns.items()}
    if len(columns) != len(names) or kinds != expected or ("weight" in columns) != ("rank" in columns):
        raise SerializationError(f"a shuffled batch has other columns than it should, or others in them: {', '.join(names)}")
    for name, column in columns.items():
        if column.null_count and name not in _MAY_BE_NULL:
            raise SerializationError(f"a shuffled batch has nulls in its column {name}")
    return columns


def _read_batches(data: bytes | memoryview) -> list[tuple[list[str], list[pa.Array]]]:
    try:
        batches = list(pa.ipc.open_stream(pa.py_buffer(data)))
        for batch in batches:
            batch.validate(full=True)  # 2 ns a row: no length or offset in it points beyond its bytes
        return [(batch.schema.names, batch.columns) for batch in batches]
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as exc:
        raise SerializationError(f"a shuffled batch cannot be read: {exc}") from exc


def headers_column(headers: Sequence[Headers]) -> pa.Array:
    """The headers of each row."""
    ends = np.cumsum([0, *map(len, headers)], dtype=np.int32)
    flat = list(chain.from_iterable(headers))
    names = pa.array([name.encode("utf-8", "surrogatepass") for name, _ in flat], pa.binary())
    values = pa.array([value for _, value in flat], pa.binary())
    return pa.ListArray.from_arrays(pa.array(ends), pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type)))


def headers_of(column: pa.Array) -> list[Headers]:
    """What `headers_column` was made of."""
    flat = column.flatten()
    if flat.null_count or flat.field(0).null_count:
        raise SerializationError("a shuffled batch has a header without a name")
    try:
        encoded = flat.field(0).dictionary_encode()  # the same few names in nearly all rows
        distinct = [name.decode("utf-8", "surrogatepass") for name in encoded.dictionary.to_pylist()]
        names = list(map(distinct.__getitem__, encoded.indices.to_numpy().tolist()))
    except UnicodeDecodeError as exc:
        raise SerializationError(f"a shuffled batch has a header whose name is not text: {exc}") from exc
    pairs = tuple(zip(names, flat.field(1).to_pylist()))
    ends = np.cumsum([0, *column.value_lengths().to_pylist()]).tolist()
    return [pairs[start:end] for start, end in pairwise(ends)]


def side_column(topics: Sequence[str | None], partitions: Sequence[int | None]) -> pa.Array:
    """Where each row is to be written; nowhere for those without a topic, which are to be processed."""
    encoded = pa.array([None if topic is None else topic.encode("utf-8", "surrogatepass") for topic in topics], pa.binary())
    mask = encoded.is_null()
    return pa.StructArray.from_arrays([encoded, pa.array(partitions, pa.int32())], fields=list(SIDE), mask=mask)


def side_of(column: pa.Array) -> list[tuple[str, int | None]]:
    """Topic and partition of rows that all are to be written."""
    rows: list[dict[str, Any]] = column.to_pylist()
    try:
        return [(row["topic"].decode("utf-8", "surrogatepass"), row["partition"]) for row in rows]
    except (TypeError, AttributeError, UnicodeDecodeError) as exc:
        raise SerializationError(f"a shuffled batch does not say where to write a record: {exc!r}") from exc
