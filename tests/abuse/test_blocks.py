"""Blocks of repartition topics, as somebody writes them who may write there: read or refused, in bounded memory."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.batches.record_batch import RawBatch
from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.record import RawRecord
from penstock.spark.record_block import BLOCK_HEADER, MOST_RECORDS, MOST_ROWS, RecordBlock
from penstock.spark.worker.repartitioning import expand
from tests.abuse.hostile import assert_survives, confined

TARGET = TopicPartition("again-repartition", 0)
HEADERS = pa.list_(pa.struct([pa.field("name", pa.binary()), pa.field("value", pa.binary())]))
TEXT, NUMBER = pa.array([b"x"], pa.binary()), pa.array([1], pa.int64())
BLOCK = {"key": TEXT, "value": TEXT, "timestamp": NUMBER}
GIGABYTE = 1 << 30


def stream(
    columns: dict[str, Any],
    compression: str | None = None,
    metadata: dict[str, str] | None = None,
    of_batch: dict[str, str] | None = None,
    version: Any = pa.ipc.MetadataVersion.V5,
) -> bytes:
    """Columns as an Arrow stream."""
    batch = pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)
    sink, options = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression=compression, metadata_version=version)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, of_batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_of(data: bytes) -> list[RawRecord]:
    """The rows that a task gets of a record that is marked as a block."""
    raw = RawBatch.of(*TARGET, [RawRecord(*TARGET, 7, 1, b"key", data, ((BLOCK_HEADER, b"1"),))])
    parts = [part if isinstance(part, RawBatch) else part.columns(TARGET, [7] * len(part)) for part, _ in expand(raw, True)]
    return [row for part in parts for row in part]


def with_number(data: bytes, before: int, after: int) -> bytes:
    """Every number of 64 bits in the data that equals `before`, declared to be another one."""
    return data.replace(struct.pack("<q", before), struct.pack("<q", after))


def bomb(compression: str, declared: int | None = None) -> bytes:
    """A value of one gigabyte of zeros, in a few kilobytes; or of as many bytes as declared."""
    zeros = pa.array([bytes(GIGABYTE)], pa.binary()) if declared is None else pa.array([bytes(1 << 20)], pa.binary())
    data = stream({**BLOCK, "value": zeros}, compression)
    return data if declared is None else with_number(data, 1 << 20, declared)


def nested(depth: int) -> pa.Array:
    """Lists in lists."""
    kind = pa.binary()
    for _ in range(depth):
        kind = pa.list_(kind)
    return pa.nulls(1, kind)


MANY = pa.nulls(MOST_ROWS + 1, pa.binary())
HOSTILE = {
    "zstd": lambda: bomb("zstd"),
    "lz4": lambda: bomb("lz4"),
    "zstd that declares a terabyte": lambda: bomb("zstd", 1 << 40),
    "lz4 that declares all there is": lambda: bomb("lz4", (1 << 63) - 1),
    "compressed columns of no size": lambda: stream(BLOCK, "zstd"),
    "compressed as Arrow 0.17 did it": lambda: stream(
        {**BLOCK, "value": pa.array([struct.pack("<q", GIGABYTE) + bytes(100)])},
        of_batch={"ARROW:experimental_compression": "zstd"},
        version=pa.ipc.MetadataVersion.V4,
    ),
    "many messages": lambda: stream(BLOCK)[:-8] + stream(BLOCK)[-8 - len(stream(BLOCK)) // 2 :] * 100,
    "dictionary": lambda: stream({**BLOCK, "value": TEXT.dictionary_encode()}),
    "compressed dictionary": lambda: stream({**BLOCK, "value": TEXT.dictionary_encode()}, "zstd"),
    "nested": lambda: stream({**BLOCK, "value": nested(3)}),
    "deeply nested": lambda: stream({**BLOCK, "value": nested(60)}),
    "headers of another shape": lambda: stream({**BLOCK, "headers": pa.array([[[b"name"]]])}),
    "runs": lambda: stream(
        {**BLOCK, "value": pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), TEXT).slice(0, 1)}
    ),
    "many columns": lambda: stream({**BLOCK, **{f"c{number}": TEXT for number in range(20_000)}}),
    "no rows": lambda: stream({name: column[:0] for name, column in BLOCK.items()}),
    "too many rows": lambda: stream({"key": MANY, "value": MANY, "timestamp": np.zeros(len(MANY), np.int64)}),
    "rows that are not there": lambda: with_number(stream({**BLOCK, "timestamp": NUMBER}), 1, 1 << 40),
    "weight of none": lambda: stream({**BLOCK, "weight": [0]}),
    "negative weight": lambda: stream({**BLOCK, "weight": [-5]}),
    "weight of too many": lambda: stream({**BLOCK, "weight": [MOST_RECORDS + 1]}),
    "weight beyond all counts": lambda: stream({**BLOCK, "weight": [(1 << 63) - 1]}),
    "negative time": lambda: stream({**BLOCK, "timestamp": pa.array([-5])}),
    "name of a header with half of a surrogate pair": lambda: stream(
        {**BLOCK, "headers": pa.array([[{"name": b"\xed\xb3\xbf", "value": b"x"}]], HEADERS)}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_should_take_a_hostile_block_for_a_plain_record(name: str) -> None:
    """The deserialization exception handler decides about it, like about any record that a serde cannot read."""
    data = HOSTILE[name]()
    with confined():
        assert [(row.key, row.value) for row in rows_of(data)] == [(b"key", data)]
        with pytest.raises(SerializationError):
            RecordBlock.from_bytes(data)


def test_should_read_a_block_with_giant_metadata() -> None:
    """It takes no more memory than its bytes, which brokers bound."""
    with confined():
        assert len(rows_of(stream(BLOCK, metadata={"m" * 100: "x" * 10_000_000}))) == 1


def test_should_survive_whatever_is_marked_as_a_block() -> None:
    texts, numbers = pa.array([b"x", None]), np.array([1, 2], np.int64)
    valid = [
        RecordBlock(texts, texts, numbers).to_bytes(),
        RecordBlock(texts, texts, numbers, [(), (("name", b"value"), ("none", None))], numbers).to_bytes(),
        stream({**BLOCK, "value": pa.array([bytes(1_000)])}, "zstd"),
        stream({**BLOCK, "value": TEXT.dictionary_encode()}, "lz4"),
    ]
    assert_survives(rows_of, valid, ())
