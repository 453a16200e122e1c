"""Rows of versions: layout, search, insertion, against a plain list."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.engines.versioned_segment_value import SegmentSearchResult, SegmentValue, min_timestamp, next_timestamp


def test_should_lay_out_versions_newest_first_and_values_oldest_first() -> None:
    row = SegmentValue.with_record(b"old", 10, 20)
    row.insert_as_latest(20, 25, None)
    row.insert_as_latest(25, 30, b"newer")
    assert row.serialize() == struct.pack(">qq", 30, 10) + struct.pack(">qiqiqi", 25, 5, 20, -1, 10, 3) + b"oldnewer"


def test_should_read_the_bounds_without_the_versions() -> None:
    row = SegmentValue.with_record(b"v", 10, 20).serialize()
    assert (min_timestamp(row), next_timestamp(row)) == (10, 20)


def test_should_fill_a_gap_before_a_later_version_with_a_tombstone() -> None:
    row = SegmentValue.with_record(b"v", 10, 20)
    row.insert_as_latest(30, 40, b"w")
    assert row.find(15) == SegmentSearchResult(2, 10, 20, b"v")
    assert row.find(25) == SegmentSearchResult(1, 20, 30, None)
    assert row.find(35) == SegmentSearchResult(0, 30, 40, b"w")


@pytest.mark.parametrize("timestamp", [9, 20])
def test_should_refuse_times_outside_of_a_row(timestamp: int) -> None:
    with pytest.raises(ValueError, match="Timestamp is too"):
        SegmentValue.with_record(b"v", 10, 20).find(timestamp)


def test_should_keep_a_lone_tombstone_as_a_degenerate_row() -> None:
    row = SegmentValue.deserialize(SegmentValue.with_record(None, 10, 10).serialize())
    assert row.is_degenerate
    row.insert_as_earliest(5, b"v")
    assert not row.is_degenerate
    assert row.find(7) == SegmentSearchResult(0, 5, 10, b"v")


def test_should_replace_a_degenerate_row_by_a_version_of_its_time() -> None:
    row = SegmentValue.with_record(None, 10, 10)
    row.insert_as_latest(10, 20, b"v")
    assert row.versions == [(10, b"v")]
    assert (row.min_timestamp, row.next_timestamp) == (10, 20)


def test_should_go_on_from_a_degenerate_row_with_a_tombstone() -> None:
    row = SegmentValue.with_record(None, 10, 10)
    row.insert_as_latest(15, 20, b"v")
    assert row.versions == [(15, b"v"), (10, None)]
    assert (row.min_timestamp, row.next_timestamp) == (10, 20)


def test_should_update_the_oldest_version_and_with_it_the_begin_of_the_row() -> None:
    row = SegmentValue.with_record(b"v", 10, 20)
    row.update_record(12, b"w", 0)
    assert SegmentValue.deserialize(row.serialize()).find(12) == SegmentSearchResult(0, 12, 20, b"w")
    assert row.min_timestamp == 12


@pytest.mark.parametrize(
    ("valid_from", "versions"),
    [(25, [(25, b"new"), (20, b"b"), (10, b"a")]), (20, [(20, b"new"), (10, b"a")]), (10, [(10, b"new")]), (5, [(5, b"new")])],
)
def test_should_cut_a_row_that_reaches_past_a_newer_version(valid_from: int, versions: list[tuple[int, bytes]]) -> None:
    row = SegmentValue.with_record(b"a", 10, 20)
    row.insert_as_latest(20, 30, b"b")
    row.insert_as_latest(valid_from, 40, b"new")
    assert row.versions == versions
    assert row.next_timestamp == 40
    assert SegmentValue.deserialize(row.serialize()).versions == versions


@given(
    versions=st.lists(st.tuples(st.integers(0, 1000), st.none() | st.binary(max_size=4)), min_size=1, unique_by=lambda v: v[0]),
    extra=st.integers(1, 50),
)
def test_should_read_back_what_was_written(versions: list[tuple[int, bytes | None]], extra: int) -> None:
    newest_first = sorted(versions, key=lambda version: -version[0])
    row = SegmentValue(newest_first, newest_first[-1][0], newest_first[0][0] + extra)
    again = SegmentValue.deserialize(row.serialize())
    assert again.versions == newest_first
    assert (again.min_timestamp, again.next_timestamp) == (row.min_timestamp, row.next_timestamp)
    valid_to = row.next_timestamp
    for index, (timestamp, value) in enumerate(newest_first):
        assert again.find(timestamp) == again.find(valid_to - 1) == SegmentSearchResult(index, timestamp, valid_to, value)
        valid_to = timestamp
    found = again.find_all(0, 2000)
    assert [result.value for result in found] == [value for _, value in newest_first if value is not None]
