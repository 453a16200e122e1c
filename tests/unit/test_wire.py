import enum
import random
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SerializationError
from penstock.wire import MAX_DEPTH, Codec


class Place(NamedTuple):
    topic: str
    partition: int


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


@dataclass
class Answer:
    worker: str
    places: dict[Place, int] = field(default_factory=dict)
    colour: Colour = Colour.RED


CODEC = Codec(Place, Colour, Answer)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=30,
)


@given(PLAIN)
def test_should_read_back_every_plain_value(value):
    assert CODEC.decode(CODEC.encode(value)) == value


def test_should_keep_the_types_of_values():
    found = CODEC.decode(CODEC.encode([True, 1, 1.0, (1,), [1], Place("orders", 3), Colour.GREEN]))
    assert [type(value) for value in found] == [bool, int, float, tuple, list, Place, Colour]


def test_should_read_back_objects_within_objects():
    answer = Answer("host:1", {Place("orders", 0): 7}, Colour.GREEN)
    assert CODEC.decode(CODEC.encode({"answers": [answer]})) == {"answers": [answer]}


@pytest.mark.parametrize("count", [7, 8, 1_000])
def test_should_read_back_many_pairs_of_bytes(count):
    pairs = [(b"key-%d" % n, None if n % 3 == 0 else b"v" * (n % 5)) for n in range(count)]
    assert CODEC.decode(CODEC.encode(pairs)) == pairs


def test_should_take_numbers_of_numpy():
    assert CODEC.decode(CODEC.encode([np.int64(7), np.float64(0.5)])) == [7, 0.5]


def test_should_keep_text_that_is_no_unicode():
    assert CODEC.decode(CODEC.encode("\ud800")) == "\ud800"


def test_should_refuse_to_write_what_is_not_plain():
    with pytest.raises(SerializationError, match="object is not plain data"):
        CODEC.encode([object()])


def test_should_refuse_a_class_it_does_not_know():
    class Stranger(NamedTuple):
        name: str

    with pytest.raises(SerializationError, match="class 1, of which nothing is known"):
        Codec(Place).decode(CODEC.encode(Colour.RED))
    with pytest.raises(SerializationError, match="Stranger is not plain"):
        CODEC.encode(Stranger("x"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends too early"),
        (b"x", "unknown tag"),
        (b"NN", "follow the end"),
        (b"b\xff\xff\xff\xff", "longer than it is"),
        (b"l\xff\xff\xff\xffN", "longer than it is"),
        (b"p\x00\x00\x00\x01" + struct.pack(">II", 0xFFFFFFFE, 0), "ends too early"),
        (b"s\x00\x00\x00\x01\xff", "no UTF-8"),
        (b"m\x00\x00\x00\x01l\x00\x00\x00\x00N", "key that cannot be one"),
        (b"l\x00\x00\x00\x01" * (MAX_DEPTH + 2) + b"N", "nested"),
        (b"o\x00t\x00\x00\x00\x01N", "other fields"),
        (b"o\x00N", "other fields"),
        (b"e\x01N", "no Colour"),
        (b"e\x01l\x00\x00\x00\x00", "no Colour"),
    ],
)
def test_should_refuse_hostile_bytes_with_a_reason(data, reason):
    with pytest.raises(SerializationError, match=reason):
        CODEC.decode(data)


def test_should_raise_nothing_but_its_own_error_for_broken_messages():
    chance = random.Random(14)
    whole = CODEC.encode([Answer("host:1", {Place("orders", 0): 1 << 80}), [(b"k", None)] * 9, {"a": (0.5, "t")}])
    for _ in range(2_000):
        broken = bytearray(whole[: chance.randrange(1, len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            CODEC.decode(bytes(broken))
        except SerializationError:
            continue
