"""From the filters of a query to what is read of a store."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes
from penstock.query.table_filters import Filter, both, filters_from, read_for
from penstock.query.table_read import (
    ALL,
    MAX_KEYS,
    TableRead,
    key_bytes,
    key_format_of,
    ranges_of,
    read_of_options,
)


@pytest.mark.parametrize(
    ("filters", "key_format", "read"),
    [
        ([], "string", ALL),
        ([("key", "=", "a")], "string", TableRead(("a",))),
        ([("key", "=", "a"), ("key", "=", "b")], "string", TableRead(())),
        ([("key", "in", ["a", "b", "a", None])], "string", TableRead(("a", "b"))),
        ([("key", "in", ["a", "b"]), ("key", "=", "b")], "string", TableRead(("b",))),
        ([("key", ">=", "a"), ("key", "<", "c"), ("key", ">", "b")], "string", TableRead(low="b", high="c")),
        ([("key", "prefix", "ab")], "string", TableRead(low="ab", high="ac")),
        ([("key", "prefix", "a\ud7ff")], "string", TableRead(low="a\ud7ff", high="a\ue000")),
        ([("key", "prefix", "\U0010ffff")], "string", TableRead(low="\U0010ffff")),
        ([("key", "=", "a")], None, ALL),  # only the serde knows its bytes
        ([("key", "=", 7)], "bigint", TableRead((7,))),
        ([("key", "=", 2**31)], "int", TableRead(())),  # no key is that
        ([("key", "=", "YWI=")], "binary", TableRead((b"ab",))),
        ([("key", "=", "C0FFEE00-0000-0000-0000-000000000001")], "uuid", TableRead(("c0ffee00-0000-0000-0000-000000000001",))),
        ([("key", "=", "what")], "uuid", TableRead(())),
        ([("key", ">", "c0ffee00-0000-0000-0000-000000000001")], "uuid", ALL),
        ([("window_start", ">=", 10), ("window_start", "<", 20)], "string", TableRead(start_low=10, start_high=20)),
        ([("window_start", "=", 10), ("key", "=", "a")], "string", TableRead(("a",), start_low=10, start_high=10)),
        ([("value", "=", "a"), ("window_end", ">", 3), ("timestamp", "<", 9)], "string", ALL),
        ([("key", "like", "a")], "string", ALL),
    ],
)
def test_should_read_what_filters_need(filters: list[tuple[str, str, Any]], key_format: str | None, read: TableRead) -> None:
    assert read_for(filters_from(json.dumps(filters)), key_format) == read


def test_should_read_all_for_more_keys_than_are_worth_looking_up() -> None:
    keys = [f"k{number}" for number in range(MAX_KEYS + 1)]
    assert read_for([Filter("key", "in", keys)], "string") == ALL
    assert read_for([Filter("key", "in", keys[1:])], "string").keys == tuple(keys[1:])


@given(st.lists(st.integers(-300, 300)), st.integers(-300, 300) | st.none(), st.integers(-300, 300) | st.none())
def test_should_find_a_range_of_numbers_in_the_order_of_their_bytes(keys: list[int], low: int | None, high: int | None) -> None:
    wanted = {key for key in keys if (low is None or key >= low) and (high is None or key <= high)}
    ranges = [(key_bytes(first, "smallint"), key_bytes(last, "smallint")) for first, last in ranges_of(low, high, "smallint")]
    assert all(first <= last for first, last in ranges)
    assert {key for key in keys if any(first <= key_bytes(key, "smallint") <= last for first, last in ranges)} == wanted


@given(st.text(max_size=3), st.text(max_size=3))
def test_should_miss_no_key_with_a_prefix(prefix: str, rest: str) -> None:
    read = read_for([Filter("key", "prefix", prefix)], "string")
    key = (prefix + rest).encode()
    assert read.low.encode() <= key
    assert read.high is None or key <= read.high.encode()


@pytest.mark.parametrize(
    ("serde", "key"),
    [
        (Serdes.string(), "ä"),
        (Serdes.long(), -5),
        (Serdes.integer(), 5),
        (Serdes.short(), 5),
        (Serdes.bytes(), b"ab"),
    ],
)
def test_should_know_the_bytes_of_a_key(serde: Any, key: Any) -> None:
    key_format = key_format_of(serde)
    assert key_format is not None
    assert key_bytes(key, key_format) == serde.serializer("topic", key)
    read = TableRead((key,), key, key, 1, 2)
    assert TableRead.from_text(read.to_text(), key_format) == read


def test_should_leave_keys_to_serdes_that_are_not_known() -> None:
    own = Serdes.serde(lambda topic, value: value, lambda topic, data: data)
    for serde in (Serdes.json(), Serdes.double(), Serdes.list_of(Serdes.long()), own):
        assert key_format_of(serde) is None


@pytest.mark.parametrize(
    "text",
    ['{"keys": "a"}', '{"keys": [1]}', '{"keys": [null]}', '{"what": 1}', "[]", "{", '{"start_low": "1"}', '{"start_low": true}',
     '{"low": ["a"]}', '{"keys": ["\\ud800"]}', '{"start_high": 1e3}', "[" * 100_000],
)  # fmt: skip
def test_should_refuse_what_is_no_read(text: str) -> None:
    with pytest.raises(ValueError):
        TableRead.from_text(text, "string")
    if "key" in text:
        with pytest.raises(ValueError):
            TableRead.from_text(text, None)


def test_should_read_what_options_say() -> None:
    assert read_of_options({}, None) == ALL
    assert read_of_options({"key": "7"}, "bigint") == TableRead((7,))
    options = {"key.from": "a", "key.to": "b", "window.from": "1", "window.to": "2"}
    assert read_of_options(options, "string") == TableRead(None, "a", "b", 1, 2)
    with pytest.raises(ValueError, match="only its serde"):
        read_of_options({"key": "7"}, None)
    with pytest.raises(ValueError):
        read_of_options({"key": "seven"}, "bigint")
    assert both(TableRead(("a", "b")), TableRead(("b", "c"), start_low=3)) == TableRead(("b",), start_low=3)
