"""Columns of JSON and text: the same as value by value, whatever is in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batches.serdes import deserialize_column, serialize_column, serialize_to_arrow
from penstock.errors import SerializationError
from penstock.serdes.codecs import deserialize_json, serialize_json, serialize_string

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), PLAIN, max_size=3)
RAW = st.sampled_from(
    [b"{}", b' {"a": 1} ', b"[1,2]", b'"\\ud800"', b'"\\ud83d\\ude00"', b"NaN", b"1e999", b"{", b"", b"\xff", b"1 2", None]
)


def outcome(call: Any, *arguments: Any) -> Any:
    try:
        return repr(call(*arguments))
    except SerializationError as exc:
        return str(exc)


@given(values=st.lists(OBJECTS | PLAIN))
def test_should_write_json_as_value_by_value(values: list[Any]) -> None:
    expected = outcome(lambda: [serialize_json("topic", value) for value in values])
    assert outcome(lambda: list(serialize_column(serialize_json, "topic", values))) == expected


@given(values=st.lists(st.text(max_size=4) | st.none() | st.sampled_from(["\ud800", b"bytes", 1])))
def test_should_write_text_to_arrow_as_value_by_value(values: list[Any]) -> None:
    expected = outcome(lambda: [serialize_string("topic", value) for value in values])
    assert outcome(lambda: list(serialize_to_arrow(serialize_string, "topic", values))) == expected


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1: 2}}, {"a": float("nan")}, {"a": {"b": object()}}, [1], {"a": (1, 2)}])
def test_should_refuse_what_json_cannot_hold_by_columns_too(value: Any) -> None:
    expected = outcome(lambda: [serialize_json("topic", value)])
    assert (
        outcome(lambda: list(serialize_column(serialize_json, "topic", [value]))).split(" at 0x")[0]
        == expected.split(" at 0x")[0]
    )


@given(data=st.lists(RAW | OBJECTS.map(lambda value: serialize_json("topic", value))))
def test_should_read_json_as_value_by_value(data: list[Any]) -> None:
    expected = outcome(lambda: [deserialize_json("topic", one) for one in data])
    assert outcome(lambda: list(deserialize_column(deserialize_json, "topic", data))) == expected
