"""What crosses the shuffle comes out as it went in, and what is no batch of ours is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.columns import records_of
from penstock.errors import SerializationError
from penstock.spark.batch import ShuffledBatch

LONGS = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=8)
HEADERS = st.lists(st.tuples(st.text(st.characters(codec=None), max_size=4), BYTES), max_size=3).map(tuple)
ROWS = st.lists(st.tuples(BYTES, BYTES, LONGS, HEADERS, st.integers(0, 3), LONGS), max_size=8)
SIDE = st.just((None, None)) | st.tuples(st.text(max_size=4), st.none() | st.integers(0, 9))


def rows_of(batch: ShuffledBatch) -> list[Any]:
    headers = batch.headers or [()] * len(batch)
    columns = (batch.keys.to_pylist(), batch.values.to_pylist(), batch.timestamps.tolist(), headers)
    return list(zip(*columns, batch.sources.tolist(), batch.offsets.tolist()))


@given(rows=ROWS, counted=st.booleans(), data=st.data())
def test_should_come_out_as_it_went_in(rows: Any, counted: bool, data: st.DataObject) -> None:
    sides = data.draw(st.lists(SIDE, min_size=len(rows), max_size=len(rows))) if rows else None
    read = ShuffledBatch.from_bytes(ShuffledBatch.of_rows(rows, counted, sides).to_bytes())
    assert rows_of(read) == rows
    own, riding = read.without_side()
    assert rows_of(own) == [row for row, (topic, _) in zip(rows, sides or ()) if topic is None]
    written = [] if riding is None else list(records_of(riding.side_outputs()))
    assert [tuple(record) for record in written] == [
        (topic, partition, *row[:4]) for row, (topic, partition) in zip(rows, sides or ()) if topic is not None
    ]


def test_should_keep_what_rides_along_when_batches_are_put_together() -> None:
    row: Any = (b"k", b"v", 1, (), 0, 0)
    plain = ShuffledBatch.of_rows([row])
    together = ShuffledBatch.concat([plain, ShuffledBatch.of_rows([row, row], side=[("audit", 3), (None, None)]), plain])
    own, riding = together.without_side()
    assert len(own) == 3
    assert riding is not None
    assert [(p.topic, p.partition, len(p)) for p in riding.side_outputs()] == [("audit", 3, 1)]


def arrow(**columns: Any) -> bytes:
    """A stream of one batch with these columns beside those of a plain row."""
    longs = pa.array(np.array([1]))
    plain = {"key": pa.array([b"k"]), "value": pa.array([b"v"]), "timestamp": longs, "source": longs, "offset": longs}
    batch = pa.RecordBatch.from_pydict({name: column for name, column in {**plain, **columns}.items() if column is not None})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def test_should_read_a_plain_row() -> None:
    assert len(ShuffledBatch.from_bytes(arrow())) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no arrow",
        arrow()[:-30],
        arrow(key=None),
        arrow(offset=pa.array([None], pa.int64())),
        arrow(timestamp=pa.array([1.0])),
        arrow(value=pa.array(["text"])),
        arrow(weight=pa.array([1])),
        arrow(other=pa.array([1])),
        arrow(headers=pa.array([b"pickled"])),
        arrow(headers=pa.array([None], pa.list_(pa.struct({"name": pa.binary(), "value": pa.binary()})))),
        arrow(
            headers=pa.array([[{"name": None, "value": b""}]], pa.list_(pa.struct({"name": pa.binary(), "value": pa.binary()})))
        ),
        arrow(
            headers=pa.array(
                [[{"name": b"\xff", "value": b""}]], pa.list_(pa.struct({"name": pa.binary(), "value": pa.binary()}))
            )
        ),
    ],
)
def test_should_refuse_what_is_no_batch(data: bytes) -> None:
    with pytest.raises(SerializationError, match="shuffled batch"):
        ShuffledBatch.from_bytes(data)


def test_should_refuse_a_row_that_rides_nowhere() -> None:
    side = pa.array([{"topic": None, "partition": 1}], pa.struct({"topic": pa.binary(), "partition": pa.int32()}))
    _, riding = ShuffledBatch.from_bytes(arrow(side=side)).without_side()
    assert riding is not None
    with pytest.raises(SerializationError, match="where to write"):
        riding.side_outputs()


@given(data=st.data())
def test_should_survive_bytes_that_were_changed_on_the_way(data: st.DataObject) -> None:
    whole = bytearray(ShuffledBatch.of_rows([(b"k", b"v", 1, (("h", b"1"),), 0, 0)] * 3, True, [("audit", 1)] * 3).to_bytes())
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        whole[at] = byte
    try:
        own, riding = ShuffledBatch.from_bytes(bytes(whole)).without_side()
        rows_of(own)
        _ = [] if riding is None else riding.side_outputs()
    except SerializationError:
        pass
