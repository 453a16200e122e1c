"""The layouts and ranges of session keys, with the vectors of Kafka Streams."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.keys.prefixed import INDEX_PREFIX, IndexKeySchema
from penstock.state.keys.prefixed_session import TimeFirstSessionKeySchema
from penstock.state.keys.schema import ACCEPT, STOP, KeySchema
from penstock.state.keys.session import SessionKeySchema
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed

INDEX = IndexKeySchema(SessionKeySchema())


def index_key(key: bytes, start: int, end: int) -> bytes:
    return INDEX_PREFIX + SessionKeySchema.to_binary(key, start, end)


LAYOUTS: list[tuple[KeySchema, Callable[[bytes, int, int], bytes]]] = [
    (SessionKeySchema(), SessionKeySchema.to_binary),
    (TimeFirstSessionKeySchema(), TimeFirstSessionKeySchema.to_binary),
    (INDEX, index_key),
]
layouts = pytest.mark.parametrize(("schema", "to_binary"), LAYOUTS, ids=["changelog", "base", "index"])

KEYS = st.binary(min_size=1, max_size=4) | st.sampled_from([b"a", b"aa", b"a\x00", b"a\x00\x00", b"\xff", b"\xff\xff"])
TIMES = st.integers(0, 300) | st.integers(0, MAX_TIMESTAMP)
SESSIONS = st.tuples(KEYS, TIMES, TIMES).map(lambda session: (session[0], min(session[1:]), max(session[1:])))


def times(end: int, start: int) -> bytes:
    return struct.pack(">qq", end, start)


def test_should_put_the_end_before_the_start() -> None:
    assert SessionKeySchema.to_binary(b"key", 50, 100) == bytes.fromhex("6b6579 0000000000000064 0000000000000032")
    windowed = Windowed(b"key", SessionWindow(50, 100))
    assert SessionKeySchema.windowed_to_binary(windowed) == SessionKeySchema.to_binary(b"key", 50, 100)


def test_should_lay_out_time_first_and_key_first_keys() -> None:
    assert TimeFirstSessionKeySchema.to_binary(b"key", 50, 100) == b"\x00" + times(100, 50) + b"key"
    assert index_key(b"key", 50, 100) == b"\x01" + b"key" + times(100, 50)


@pytest.mark.parametrize(
    ("key", "to", "kept"), [("0a0b0c", MAX_TIMESTAMP, "0a"), ("0a8f9f", MAX_TIMESTAMP, "0a8f9f"), ("0a0b0c", 0, "0a")]
)
def test_should_cut_the_upper_range_since_the_end_is_open(key: str, to: int, kept: str) -> None:
    expected = bytes.fromhex(kept) + times(MAX_TIMESTAMP, to)
    assert SessionKeySchema().upper_range(bytes.fromhex(key), to) == expected
    assert INDEX.upper_range(bytes.fromhex(key), to) == b"\x01" + expected


def test_should_begin_the_lower_range_at_time_zero() -> None:
    assert SessionKeySchema().lower_range(b"\x0a\x0b", 42) == b"\x0a\x0b" + bytes(16)
    assert TimeFirstSessionKeySchema().lower_range(b"\x0a\x0b", 42) == b"\x00" + times(42, 0) + b"\x0a\x0b"


def test_should_bound_ranges_without_keys() -> None:
    assert SessionKeySchema().lower_range(None, 5) is None
    assert SessionKeySchema().upper_range(None, 5) is None
    assert TimeFirstSessionKeySchema().lower_range(None, 5) == b"\x00" + struct.pack(">q", 5)
    assert TimeFirstSessionKeySchema().upper_range(None, 5) == b"\x01"
    assert INDEX.lower_range(None, 5) == b"\x01"
    assert INDEX.upper_range(None, 5) == b"\x02"


@pytest.mark.parametrize("schema", [SessionKeySchema, TimeFirstSessionKeySchema])
@given(session=SESSIONS)
def test_should_read_back_what_was_written(schema: type, session: tuple[bytes, int, int]) -> None:
    key, start, end = session
    binary = schema.to_binary(key, start, end)
    assert schema.extract_start_timestamp(binary) == start
    assert schema.extract_end_timestamp(binary) == end
    assert schema().segment_timestamp(binary) == end
    assert schema.from_binary(binary) == Windowed(key, SessionWindow(start, end))


@given(session=SESSIONS)
def test_should_convert_between_layouts(session: tuple[bytes, int, int]) -> None:
    changelog = SessionKeySchema.to_binary(*session)
    schema = TimeFirstSessionKeySchema()
    base, index = schema.from_changelog_key(changelog), index_key(*session)
    assert base == schema.to_binary(*session)
    assert schema.to_changelog_key(base) == changelog
    assert schema.to_index_key(base) == index
    assert schema.from_index_key(index) == base
    assert INDEX.segment_timestamp(index) == schema.segment_timestamp(base)


@layouts
@settings(max_examples=100)
@given(
    sessions=st.lists(SESSIONS, max_size=12),
    key_from=st.none() | KEYS,
    key_to=st.none() | KEYS,
    earliest_end=TIMES,
    latest_start=TIMES,
    forward=st.booleans(),
)
def test_should_find_all_of_a_range_between_its_bounds(
    schema: KeySchema,
    to_binary: Callable[[bytes, int, int], bytes],
    sessions: list[tuple[bytes, int, int]],
    key_from: bytes | None,
    key_to: bytes | None,
    earliest_end: int,
    latest_start: int,
    forward: bool,
) -> None:
    expected = {
        to_binary(key, start, end)
        for key, start, end in sessions
        if end >= earliest_end
        and start <= latest_start
        and (key_from is None or key >= key_from)
        and (key_to is None or key <= key_to)
    }
    lower, upper = schema.lower_range(key_from, earliest_end), schema.upper_range(key_to, latest_start)
    match = schema.matcher(key_from, key_to, earliest_end, latest_start, forward)
    found = set()
    for binary in sorted({to_binary(*session) for session in sessions}, reverse=not forward):
        if (lower is None or binary >= lower) and (upper is None or binary <= upper):
            verdict = match(binary)
            if verdict == STOP:
                break
            if verdict == ACCEPT:
                found.add(binary)
    assert found == expected


@layouts
@given(session=SESSIONS, earliest_end=TIMES, latest_start=TIMES)
def test_should_find_all_of_one_key_between_its_bounds(
    schema: KeySchema,
    to_binary: Callable[[bytes, int, int], bytes],
    session: tuple[bytes, int, int],
    earliest_end: int,
    latest_start: int,
) -> None:
    key, start, end = session
    if end < earliest_end or start > latest_start:
        return
    binary = to_binary(key, start, end)
    assert schema.lower_range_fixed_size(key, earliest_end) <= binary
    assert binary <= schema.upper_range_fixed_size(key, latest_start)
    assert schema.matcher(key, key, earliest_end, latest_start, True)(binary) == ACCEPT
