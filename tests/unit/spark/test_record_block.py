"""Blocks of records: what is read is what was written, and other bytes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.batches.record_batch import ProducedBatch
from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.record import Headers, ProducedRecord
from penstock.spark.record_block import BLOCK_HEADER, MOST_ROWS, RecordBlock, block_of, is_block

TARGET = TopicPartition("again-repartition", 3)
Row = tuple[bytes | None, bytes | None, int]


def block(*rows: Row, headers: list[Headers] | None = None, weights: Any = None) -> RecordBlock:
    return RecordBlock(
        pa.array([key for key, _, _ in rows], pa.binary()),
        pa.array([value for _, value, _ in rows], pa.binary()),
        np.array([timestamp for _, _, timestamp in rows], np.int64),
        headers,
        None if weights is None else np.array(weights, np.int64),
    )


def rows_of(found: RecordBlock) -> list[tuple[Any, ...]]:
    columns = found.columns(TARGET, range(len(found)))
    return [(record.key, record.value, record.timestamp, record.headers) for record in columns]


def read(records: list[ProducedRecord]) -> list[tuple[Any, ...]]:
    return [row for record in records for row in rows_of(block_of(record.value, record.headers))]


ROWS: list[Row] = [(b"a", b"1", 7), (None, b"", 0), (b"", None, 2**62), (b"\0\xff", b"2", 7)]
HEADERS: list[Headers] = [(), (("name", b"value"), ("name", None)), (("ä", b""), ("", b"x")), (("\0", b"odd"),)]


@pytest.mark.parametrize("headers", [None, HEADERS, [(), (), (), ()]])
def test_should_read_what_it_wrote(headers: list[Headers] | None) -> None:
    written = block(*ROWS, headers=headers)
    found = RecordBlock.from_bytes(written.to_bytes())
    assert rows_of(found) == [(*row, some) for row, some in zip(ROWS, headers or [()] * 4)]
    assert found.weights is None
    assert found.records == 4


def test_should_read_the_weights_that_it_wrote() -> None:
    found = RecordBlock.from_bytes(block(*ROWS, weights=[3, 1, 2**31, 1]).to_bytes())
    assert found.weights is not None
    assert found.weights.tolist() == [3, 1, 2**31, 1]
    assert found.records == 2**31 + 5
    assert found.slice(0, 2).records == 4


def test_should_write_half_of_a_surrogate_pair_in_the_name_of_a_header_as_java_does() -> None:
    found = RecordBlock.from_bytes(block(ROWS[0], headers=[(("a\udcff", b"odd"),)]).to_bytes())
    assert found.headers == [(("a?", b"odd"),)]


def test_should_write_a_block_of_too_many_rows_as_several() -> None:
    count = 2 * MOST_ROWS + 1
    keys, whole = pa.array([b"k"] * count), np.arange(count)
    written = RecordBlock(keys, keys, whole).records_for(TARGET, 1 << 30)
    assert [timestamp for _, _, timestamp, _ in read(written)] == whole.tolist()
    assert all(len(block_of(record.value, record.headers)) <= MOST_ROWS for record in written)


def test_should_write_slices_and_chosen_rows_as_they_are() -> None:
    whole = block(*ROWS, headers=HEADERS)
    part = RecordBlock.from_bytes(whole.slice(1, 3).to_bytes())
    assert rows_of(part) == [(*row, some) for row, some in zip(ROWS[1:3], HEADERS[1:3])]
    chosen = RecordBlock.from_bytes(whole.take(np.array([3, 0])).to_bytes())
    assert rows_of(chosen) == [(*ROWS[3], HEADERS[3]), (*ROWS[0], HEADERS[0])]


def test_should_be_made_of_what_sinks_write() -> None:
    records = [ProducedRecord(*TARGET, *row, some) for row, some in zip(ROWS, HEADERS)]
    columns = ProducedBatch(*TARGET, *map(list, zip(*ROWS)), HEADERS)
    assert rows_of(RecordBlock.of_records(records)) == rows_of(RecordBlock.of_columns(columns))
    assert RecordBlock.of_records([record._replace(headers=()) for record in records]).headers is None


def test_should_be_one_kafka_record_with_the_latest_timestamp() -> None:
    [record] = block(*ROWS).records_for(TARGET, 1_000_000)
    assert (record.topic, record.partition, record.key, record.timestamp) == (*TARGET, None, 2**62)
    assert is_block(record.headers)
    assert read([record]) == [(*row, ()) for row in ROWS]


def test_should_be_several_kafka_records_if_it_is_too_large_for_one() -> None:
    rows = [(b"k%d" % number, b"v" * 100, number) for number in range(100)]
    records = block(*rows).records_for(TARGET, 3_000)
    assert len(records) > 3
    assert all(len(record.value or b"") <= 3_000 for record in records)
    assert read(records) == [(*row, ()) for row in rows]


def test_should_not_split_a_row() -> None:
    rows = [(b"a", b"x" * 5_000, 1), (b"b", b"y", 2)]
    records = block(*rows).records_for(TARGET, 1_000)
    assert len(records) == 2
    assert read(records) == [(*row, ()) for row in rows]


def test_should_give_each_partition_its_rows_in_their_order() -> None:
    rows = [(b"%d" % number, b"", number) for number in range(6)]
    found = dict(block(*rows, headers=[((f"{n}", b""),) for n in range(6)]).by_partition(np.array([2, 0, 2, 0, 0, 2])))
    assert {number: part.timestamps.tolist() for number, part in found.items()} == {0: [1, 3, 4], 2: [0, 2, 5]}
    assert found[2].headers == [(("0", b""),), (("2", b""),), (("5", b""),)]


def merged_one_by_one(blocks: list[list[int]]) -> list[tuple[int, int]]:
    """The lowest head first; of equal heads that of the first block."""
    left, found = [list(enumerate(times)) for times in blocks], list[tuple[int, int]]()
    latest = [-1] * len(blocks)
    while any(left):
        heads = [(max(latest[number], rows[0][1]), number) for number, rows in enumerate(left) if rows]
        latest[min(heads)[1]] = min(heads)[0]
        row, _ = left[min(heads)[1]].pop(0)
        found.append((min(heads)[1], row))
    return found


@pytest.mark.parametrize(
    "times",
    [[[1, 3, 5], [2, 4, 6]], [[5, 1, 2, 9], [3, 6]], [[1, 1], [1, 1]], [[7], [], [2, 8]], [[1, 2], [3, 4]], [[4, 5], [1]]],
)
def test_should_merge_blocks_by_time_and_keep_the_order_of_each(times: list[list[int]]) -> None:
    blocks = [block(*((b"%d" % n, b"%d" % row, at) for row, at in enumerate(some))) for n, some in enumerate(times)]
    found = RecordBlock.merged(blocks)
    assert [(int(key), int(value)) for key, value, _, _ in rows_of(found)] == merged_one_by_one(times)


def test_should_join_blocks_with_and_without_headers() -> None:
    found = RecordBlock.concat([block(ROWS[0]), block(ROWS[1], headers=[HEADERS[1]])])
    assert rows_of(found) == [(*ROWS[0], ()), (*ROWS[1], HEADERS[1])]


def test_should_read_no_block_of_another_version_or_without_a_value() -> None:
    data = block(*ROWS).to_bytes()
    assert len(block_of(data, ((BLOCK_HEADER, b"1"),))) == 4
    for value, version in ((data, b"2"), (data, None), (None, b"1"), (b"", b"1")):
        with pytest.raises(SerializationError):
            block_of(value, ((BLOCK_HEADER, version),))


def arrow(columns: dict[str, pa.Array], batches: int = 1) -> bytes:
    batch, sink = pa.RecordBatch.from_pydict(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


TEXT, NUMBER = pa.array([b"x"], pa.binary()), pa.array([1], pa.int64())
NAMES = pa.array([[{"name": None, "value": b""}]], pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())])))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"penstock",
        b"\xff" * 100,
        arrow({"key": TEXT, "value": TEXT}),
        arrow({"key": TEXT, "value": TEXT, "timestamp": TEXT}),
        arrow({"key": TEXT, "value": NUMBER, "timestamp": NUMBER}),
        arrow({"key": TEXT, "value": TEXT, "timestamp": NUMBER, "more": NUMBER}),
        arrow({"key": TEXT, "value": TEXT, "timestamp": pa.array([None], pa.int64())}),
        arrow({"key": TEXT, "value": TEXT, "timestamp": NUMBER, "weight": pa.array([None], pa.int64())}),
        arrow({"key": TEXT, "value": TEXT, "timestamp": NUMBER, "headers": NAMES}),
        arrow({"key": TEXT, "value": TEXT, "timestamp": NUMBER}, batches=2),
        arrow({"key": TEXT, "value": TEXT, "timestamp": NUMBER}, batches=0),
        arrow({"key": TEXT[:0], "value": TEXT[:0], "timestamp": NUMBER[:0]}),
        arrow({"key": TEXT.dictionary_encode(), "value": TEXT, "timestamp": NUMBER}),
    ],
)
def test_should_refuse_what_is_no_block(data: bytes) -> None:
    with pytest.raises(SerializationError):
        RecordBlock.from_bytes(data)


def test_should_refuse_a_name_of_a_header_that_is_no_text() -> None:
    kind = pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))
    headers = pa.array([[{"name": b"\xff\xfe", "value": b""}]], kind)
    with pytest.raises(SerializationError, match="UTF-8"):
        RecordBlock.from_bytes(arrow({"key": TEXT, "value": TEXT, "timestamp": NUMBER, "headers": headers}))


def test_should_refuse_or_read_every_prefix_and_every_flipped_byte() -> None:
    """Nothing else than SerializationError, and no rows that are not there."""
    data = block(*ROWS, headers=HEADERS).to_bytes()
    changed = [data[:length] for length in range(0, len(data), 7)]
    changed += [data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :] for at in range(len(data))]
    for some in changed:
        try:
            rows_of(RecordBlock.from_bytes(some))
        except SerializationError:
            continue
