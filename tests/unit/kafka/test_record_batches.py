"""Batches as brokers keep them, read as columns; kafka-python writes them."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from penstock.kafka import record_batches
from penstock.kafka.record_batches import Aborted, UnreadableBatchError, batch_end, offset_behind, read_batches

Entry = tuple[int, bytes | None, bytes | None]
"""A timestamp, a key and a value."""

GZIP, SNAPPY = 1, 2
HEADER = 61


def batch(
    first: int,
    entries: Sequence[Entry],
    *,
    offsets: Sequence[int] | None = None,
    compression: int = 0,
    producer: int = -1,
    attributes: int = 0,
) -> bytes:
    """One batch of records at these offsets, all that follow the first by default."""
    transactional = producer >= 0
    made = DefaultRecordBatchBuilder(
        *(2, compression, transactional, producer, 0 if transactional else -1, 0 if transactional else -1, 1 << 24)
    )
    for at, (timestamp, key, value) in zip(offsets or range(len(entries)), entries):
        made.append(at, timestamp, key, value, [("h", b"1")] if at % 3 == 1 else [])
    raw = bytearray(made.build())
    struct.pack_into(">q", raw, 0, first)
    (had,) = struct.unpack_from(">h", raw, 21)
    struct.pack_into(">h", raw, 21, had | attributes)
    return bytes(raw)


def marker(offset: int, producer: int, commits: bool) -> bytes:
    """The end of a transaction; the epoch of its coordinator looks like a commit."""
    key = struct.pack(">hh", 0, int(commits))
    return batch(offset, [(5, key, struct.pack(">hi", 0, 1))], producer=producer, attributes=0x20)


def read(data: bytes, position: int = 0, aborted: Sequence[Aborted] = ()) -> tuple[list[tuple[Any, ...]], int]:
    columns, behind, _ = read_batches("log", 3, data, position, aborted)
    assert (columns.topic, columns.partition, columns.headers) == ("log", 3, None)
    assert behind == offset_behind(data, position)
    return list(zip(columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True)), behind


_bytes = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=300)
_entries = st.lists(st.tuples(st.integers(0, 1 << 45), _bytes, _bytes), min_size=1, max_size=30)


@given(st.lists(st.tuples(_entries, st.sampled_from([0, GZIP])), max_size=4), st.integers(0, 40), st.integers(0, 80))
def test_should_read_what_was_written(batches: list[tuple[list[Entry], int]], position: int, cut: int) -> None:
    data, expected, first = b"", [], 0
    for entries, compression in batches:
        data += batch(first, entries, compression=compression)
        expected += [(first + at, *entry) for at, entry in enumerate(entries)]
        first += len(entries)
    more = batch(first, [(1, b"k", b"v" * 100)])
    found, behind = read(data + more[:cut], position)
    assert found == [row for row in expected if row[0] >= position]
    assert behind == max(first, position)


def test_should_read_over_what_compaction_has_taken() -> None:
    data = batch(10, [(1, b"a", b"1"), (2, b"b", b"2")], offsets=[1, 7])
    raw = bytearray(data)
    struct.pack_into(">i", raw, 23, 9)  # the last one is gone too
    assert read(bytes(raw), 10) == ([(11, 1, b"a", b"1"), (17, 2, b"b", b"2")], 20)


def test_should_leave_out_what_was_aborted() -> None:
    mine, other = 7, 8
    data = b"".join(
        [
            batch(0, [(1, b"committed", None)], producer=mine),
            marker(1, mine, commits=True),
            batch(2, [(1, b"aborted", None)], producer=mine),
            batch(3, [(1, b"of another", None)], producer=other),
            batch(4, [(1, b"aborted", None)], producer=mine),
            marker(5, mine, commits=False),
            batch(6, [(1, b"committed again", None)], producer=mine),
            batch(7, [(1, b"of none", None)]),
            marker(8, mine, commits=True),
            marker(9, other, commits=True),
        ]
    )
    found, behind = read(data, 0, [Aborted(mine, 2)])
    assert [row[2] for row in found] == [b"committed", b"of another", b"committed again", b"of none"]
    assert behind == 10
    everything, _ = read(data)
    assert [row[2] for row in everything].count(b"aborted") == 2


def test_should_take_the_time_of_the_broker_where_the_topic_says_so() -> None:
    by_broker = bytearray(batch(0, [(100, b"a", b""), (200, b"b", b"")], attributes=0x08))
    struct.pack_into(">q", by_broker, 35, 777)
    found, _ = read(bytes(by_broker) + batch(2, [(5, b"c", b"")]))
    assert [row[1] for row in found] == [777, 777, 5]


def test_should_read_nothing_where_there_is_nothing() -> None:
    assert read(b"", 5) == ([], 5)
    assert read(marker(5, 1, commits=True), 5) == ([], 6)


@pytest.mark.parametrize("broken", ["format", "snappy", "gzip", "length", "longer", "count", "size", "inside"])
def test_should_refuse_what_it_cannot_read(broken: str) -> None:
    value = b"value" * (100 if broken == "gzip" else 1)
    raw = bytearray(batch(0, [(1, b"key", value), (2, b"key", value)], compression=GZIP if broken == "gzip" else 0))
    if broken == "format":
        raw[16] = 1
    elif broken == "snappy":
        raw[22] |= SNAPPY
    elif broken == "gzip":
        raw[HEADER + 20 :] = b"\0" * (len(raw) - HEADER - 20)
    elif broken == "length":
        struct.pack_into(">i", raw, 8, 10)
    elif broken == "longer":
        raw += b"\0\0"
        struct.pack_into(">i", raw, 8, len(raw) - 12)
    elif broken == "count":
        struct.pack_into(">i", raw, 57, 3)
    elif broken == "size":
        raw[HEADER] += 2
    else:
        raw[HEADER + 4] = 126  # of the key
    with pytest.raises(UnreadableBatchError):
        read_batches("log", 0, bytes(raw), 0)


def test_should_not_unpack_more_than_a_batch_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(64 << 20)
    raw = batch(0, [(1, b"key", zeros)], compression=GZIP)
    assert len(raw) < 100_000
    monkeypatch.setattr("penstock.kafka.record_batches.LARGEST_BATCH", 8 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableBatchError, match="more than 8388608 bytes"):
            read_batches("log", 0, raw, 0)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_should_leave_batches_for_later_after_a_number_of_unpacked_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "MOST_UNPACKED", 3_000)
    data = b"".join(batch(first, [(1, b"k", bytes(1_000))], compression=GZIP) for first in range(10))
    found, position = [], 2
    while position < 10:
        columns, position, size = read_batches("log", 3, data, position)
        assert 1_000 <= size < 5_000
        found.append(list(columns.offsets))
    assert found == [[2, 3, 4], [5, 6, 7], [8, 9]]


@pytest.mark.parametrize("offsets", [[0, -1, 2], [0, 0, 1], [0, 2, 1, 3]])
def test_should_refuse_records_that_are_not_in_the_order_of_their_offsets(offsets: list[int]) -> None:
    data = batch(0, [(number, b"k", b"v") for number in range(len(offsets))], offsets=offsets)
    with pytest.raises(UnreadableBatchError, match="log-0 at offset 0 are not in the order"):
        read_batches("log", 0, data, 0)


@given(st.data())
def test_should_never_read_outside_of_what_it_was_given(data: st.DataObject) -> None:
    raw = bytearray(batch(0, [(number, b"key-%d" % number, b"v" * number) for number in range(20)]))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        columns = read_batches("log", 0, bytes(raw), 0).columns
    except UnreadableBatchError:
        return
    assert len(columns.keys) == len(columns.values) == len(columns.timestamps) == len(columns.offsets)
    assert all(np.array(columns.offsets) >= 0)


@pytest.mark.parametrize(("position", "end"), [(5, 8), (6, 8), (7, 8), (8, 9), (9, 10)])
def test_should_find_the_end_of_a_batch_without_looking_inside(position: int, end: int) -> None:
    damaged = bytearray(batch(5, [(1, b"k", b"v")] * 3, compression=GZIP))
    damaged[HEADER:] = bytes(len(damaged) - HEADER)
    assert batch_end(bytes(damaged) + batch(8, [(1, b"k", b"v")]), position) == end


@pytest.mark.parametrize("damage", [b"", b"\xff" * 200, bytes(200), b"short"])
def test_should_go_to_the_next_offset_if_the_header_of_a_batch_is_damaged_too(damage: bytes) -> None:
    assert batch_end(damage, 5) == 6
