"""JSON is read and written by msgspec where that makes no difference; here it is held against Python's own."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serdes.codecs import NotPlainJson, decode_json, encode_json, parse_json, read_json


class Colour(str, Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _written_by_python(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


@given(VALUES)
def test_should_write_the_bytes_that_python_writes(value: Any) -> None:
    assert encode_json(value) == _written_by_python(value)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_should_read_what_python_reads(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(read_json(text.encode())) == repr(parse_json(text))


def test_should_write_every_character_as_python_does() -> None:
    for start in range(0, 0x110000, 0x800):
        if start != 0xD800:  # halves of surrogate pairs are no characters
            text = "".join(map(chr, range(start, start + 0x800)))
            assert encode_json({text: text}) == _written_by_python({text: text})


@pytest.mark.parametrize(
    "value",
    [1e16, 1e-5, 5e-324, 1.7976931348623157e308, -0.0, 2**63, -(2**63), 2**64, 10**40, Colour.RED, Size.LARGE, (1, (2,))],
    ids=repr,
)
def test_should_write_numbers_and_kinds_of_str_and_int_as_python_does(value: Any) -> None:
    assert encode_json({"a": value}) == _written_by_python({"a": value})


@pytest.mark.parametrize("value", [b"a", {1}, Decimal(1), {1: 2}, {"a": {None: 1}}, float("nan"), "\ud800", object()])
def test_should_refuse_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_json({"a": value})


def test_should_take_nothing_that_the_strict_reader_refuses_and_read_it_the_same() -> None:
    chance = random.Random(21)
    pieces = [
        b'{"a":1}', b"[", b"]", b",", b":", b'"', b"\\", b"\\ud800", b"\\udc00", b"\\u0000", b"e", b"1e999", b"-", b"0", b"1.5",
        b"NaN", b"Infinity", b"true", b"null", b" ", b"\t", b"\x00", b"\x1f", b"\x7f", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf",
        b"18446744073709551616", b"0.1", b"E+5", b"/", b"'", b"\xc3\xa9",
    ]  # fmt: skip
    for _ in range(20_000):
        data = b"".join(chance.choices(pieces, k=chance.randrange(1, 6)))
        try:
            found = decode_json(data)
        except (NotPlainJson, UnicodeDecodeError):
            continue
        assert repr(found) == repr(parse_json(str(data, "utf-8"))), data


@pytest.mark.parametrize("depth", [100, 5_000])
def test_should_read_nested_values_or_say_that_they_are_too_deep(depth: int) -> None:
    data = b"[" * depth + b"]" * depth
    try:
        expected = repr(parse_json(data.decode()))
    except RecursionError:
        with pytest.raises(RecursionError):
            read_json(data)
    else:
        assert repr(read_json(data)) == expected
