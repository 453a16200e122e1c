"""The layouts and ranges of window keys, with the vectors of Kafka Streams."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.keys.prefixed import INDEX_PREFIX, IndexKeySchema, is_base_key
from penstock.state.keys.prefixed_window import TimeFirstWindowKeySchema
from penstock.state.keys.schema import ACCEPT, STOP, KeySchema
from penstock.state.keys.window import WindowKeySchema
from penstock.windows import MAX_TIMESTAMP, TimeWindow, Windowed

MAX_SEQNUM = 2**31 - 1
INDEX = IndexKeySchema(WindowKeySchema())


def index_key(key: bytes, timestamp: int, seqnum: int) -> bytes:
    return INDEX_PREFIX + WindowKeySchema.to_store_key_binary(key, timestamp, seqnum)


LAYOUTS: list[tuple[KeySchema, Callable[[bytes, int, int], bytes]]] = [
    (WindowKeySchema(), WindowKeySchema.to_store_key_binary),
    (TimeFirstWindowKeySchema(), TimeFirstWindowKeySchema.to_store_key_binary),
    (INDEX, index_key),
]
layouts = pytest.mark.parametrize(("schema", "to_binary"), LAYOUTS, ids=["changelog", "base", "index"])
classes = pytest.mark.parametrize("schema", [WindowKeySchema, TimeFirstWindowKeySchema])


def suffix(timestamp: int, seqnum: int) -> bytes:
    return struct.pack(">qi", timestamp, seqnum)


def test_should_lay_out_key_start_and_sequence_number() -> None:
    assert WindowKeySchema.to_store_key_binary(b"key", 50, 0) == bytes.fromhex("6b6579 0000000000000032 00000000")


def test_should_lay_out_time_first_keys() -> None:
    assert TimeFirstWindowKeySchema.to_store_key_binary(b"key", 50, 0) == bytes.fromhex("00 0000000000000032 6b6579 00000000")


def test_should_lay_out_key_first_keys() -> None:
    assert index_key(b"key", 50, 0) == bytes.fromhex("01 6b6579 0000000000000032 00000000")


@pytest.mark.parametrize(
    ("key", "to", "expected"),
    [
        ("0a0b0c", MAX_TIMESTAMP, bytes.fromhex("0a") + suffix(MAX_TIMESTAMP, MAX_SEQNUM)),
        ("0a8f9f", MAX_TIMESTAMP, bytes.fromhex("0a8f9f") + suffix(MAX_TIMESTAMP, MAX_SEQNUM)),
        ("0c0c09", 0x0AFFFFFFFFFFFFFF, bytes.fromhex("0c0c") + suffix(0x0AFFFFFFFFFFFFFF, MAX_SEQNUM)),
        ("0a0b0c", 0, bytes.fromhex("0a0b0c") + suffix(0, MAX_SEQNUM)),
    ],
)
def test_should_cut_the_upper_range_where_time_sorts_above_the_key(key: str, to: int, expected: bytes) -> None:
    assert WindowKeySchema().upper_range(bytes.fromhex(key), to) == expected
    assert INDEX.upper_range(bytes.fromhex(key), to) == b"\x01" + expected


def test_should_not_lose_a_key_that_the_upper_bound_begins_with() -> None:
    upper = WindowKeySchema().upper_range(b"a\x00", 1)
    assert upper is not None
    assert WindowKeySchema.to_store_key_binary(b"a", 1, 0) <= upper


@pytest.mark.parametrize("time", [0, 42, MAX_TIMESTAMP])
def test_should_begin_the_lower_range_at_time_zero(time: int) -> None:
    assert WindowKeySchema().lower_range(b"\x0a\x0b\x0c", time) == b"\x0a\x0b\x0c" + bytes(12)
    assert INDEX.lower_range(b"\x0a\x0b\x0c", time) == b"\x01\x0a\x0b\x0c" + bytes(12)


def test_should_bound_time_first_ranges_by_time() -> None:
    schema = TimeFirstWindowKeySchema()
    assert schema.lower_range(b"\x0a\x0b", 42) == b"\x00" + struct.pack(">q", 42) + b"\x0a\x0b"
    assert schema.upper_range(b"\x0a\x0b", 42) == b"\x00" + struct.pack(">q", 42) + b"\xff\xff" + struct.pack(">i", MAX_SEQNUM)


def test_should_bound_ranges_without_keys() -> None:
    assert WindowKeySchema().lower_range(None, 5) is None
    assert WindowKeySchema().upper_range(None, 5) is None
    assert TimeFirstWindowKeySchema().lower_range(None, 5) == b"\x00" + struct.pack(">q", 5)
    assert TimeFirstWindowKeySchema().upper_range(None, 5) == b"\x01"
    assert INDEX.lower_range(None, 5) == b"\x01"
    assert INDEX.upper_range(None, 5) == b"\x02"


@layouts
def test_should_not_bound_fixed_size_ranges_below_zero(schema: KeySchema, to_binary: Callable[[bytes, int, int], bytes]) -> None:
    assert schema.lower_range_fixed_size(b"k", -1) == schema.lower_range_fixed_size(b"k", 0) == to_binary(b"k", 0, 0)


@classes
@given(key=st.binary(), time=st.integers(0, MAX_TIMESTAMP - 10), seqnum=st.integers(0, MAX_SEQNUM))
def test_should_read_back_what_was_written(schema: type, key: bytes, time: int, seqnum: int) -> None:
    binary = schema.to_store_key_binary(key, time, seqnum)
    assert schema.extract_store_key_bytes(binary) == key
    assert schema.extract_store_timestamp(binary) == time
    assert schema.extract_store_sequence(binary) == seqnum
    assert schema().segment_timestamp(binary) == time
    assert schema.from_store_bytes_key(binary, 10) == Windowed(key, TimeWindow(time, time + 10))


@classes
def test_should_truncate_a_window_that_would_end_after_time(schema: type, caplog: pytest.LogCaptureFixture) -> None:
    binary = schema.to_store_key_binary(b"k", MAX_TIMESTAMP - 5, 0)
    assert schema.from_store_bytes_key(binary, 10).window.end == MAX_TIMESTAMP
    assert "truncated to Long.MAX" in caplog.text


@given(key=st.binary(), time=st.integers(0, MAX_TIMESTAMP), seqnum=st.integers(0, MAX_SEQNUM))
def test_should_convert_between_layouts(key: bytes, time: int, seqnum: int) -> None:
    changelog = WindowKeySchema.to_store_key_binary(key, time, seqnum)
    schema = TimeFirstWindowKeySchema()
    base, index = schema.from_changelog_key(changelog), index_key(key, time, seqnum)
    assert base == schema.to_store_key_binary(key, time, seqnum)
    assert schema.to_changelog_key(base) == changelog
    assert schema.to_index_key(base) == index
    assert schema.from_index_key(index) == base
    assert INDEX.segment_timestamp(index) == schema.segment_timestamp(base)
    assert is_base_key(base)
    assert not is_base_key(index)


KEYS = st.binary(min_size=1, max_size=4) | st.sampled_from([b"a", b"aa", b"a\x00", b"a\x00\x00", b"\xff", b"\xff\xff"])
TIMES = st.integers(0, 300) | st.integers(0, MAX_TIMESTAMP)


@layouts
@settings(max_examples=100)
@given(
    entries=st.lists(st.tuples(KEYS, TIMES), max_size=12),
    key_from=st.none() | KEYS,
    key_to=st.none() | KEYS,
    from_=TIMES,
    to=TIMES,
    forward=st.booleans(),
)
def test_should_find_all_of_a_range_between_its_bounds(
    schema: KeySchema,
    to_binary: Callable[[bytes, int, int], bytes],
    entries: list[tuple[bytes, int]],
    key_from: bytes | None,
    key_to: bytes | None,
    from_: int,
    to: int,
    forward: bool,
) -> None:
    expected = {
        to_binary(key, time, 0)
        for key, time in entries
        if from_ <= time <= to and (key_from is None or key >= key_from) and (key_to is None or key <= key_to)
    }
    lower, upper = schema.lower_range(key_from, from_), schema.upper_range(key_to, to)
    match = schema.matcher(key_from, key_to, from_, to, forward)
    found = set()
    for binary in sorted({to_binary(key, time, 0) for key, time in entries}, reverse=not forward):
        if (lower is None or binary >= lower) and (upper is None or binary <= upper):
            verdict = match(binary)
            if verdict == STOP:
                break
            if verdict == ACCEPT:
                found.add(binary)
    assert found == expected


@layouts
@given(key=KEYS, times=st.lists(TIMES, max_size=8), from_=TIMES, to=TIMES)
def test_should_find_all_of_one_key_between_its_bounds(
    schema: KeySchema, to_binary: Callable[[bytes, int, int], bytes], key: bytes, times: list[int], from_: int, to: int
) -> None:
    lower, upper = schema.lower_range_fixed_size(key, from_), schema.upper_range_fixed_size(key, to)
    for time in times:
        binary = to_binary(key, time, 7)
        if from_ <= time <= to:
            assert lower <= binary <= upper
            assert schema.matcher(key, key, from_, to, True)(binary) == ACCEPT


def test_should_stop_at_keys_of_the_other_layout() -> None:
    base = TimeFirstWindowKeySchema()
    assert base.matcher(None, None, 0, 100, True)(index_key(b"k", 5, 0)) == STOP
    assert INDEX.matcher(None, None, 0, 100, True)(base.to_store_key_binary(b"k", 5, 0)) == STOP


def test_should_stop_time_first_scans_past_the_range() -> None:
    schema = TimeFirstWindowKeySchema()
    late, early = (schema.to_store_key_binary(b"k", time, 0) for time in (11, 4))
    assert schema.matcher(None, None, 5, 10, True)(late) == STOP
    assert schema.matcher(None, None, 5, 10, True)(early) != STOP
    assert schema.matcher(None, None, 5, 10, False)(early) == STOP
