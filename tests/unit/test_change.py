import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.change import Change, ChangedDeserializer, ChangedSerde, ChangedSerializer, read_varint, write_varint
from penstock.errors import SerializationError
from penstock.serdes.serde import Serdes

SERDE = ChangedSerde(Serdes.string())

LAYOUTS = [
    (Change("hello", None), "68656c6c6f 01"),
    (Change(None, "world"), "776f726c64 00"),
    (Change("hello", "world"), "0a 68656c6c6f 776f726c64 02"),
    (Change("", ""), "00 02"),
]


@pytest.mark.parametrize(("change", "expected"), LAYOUTS)
def test_should_write_changes_as_java_does(change, expected):
    assert SERDE.serializer("topic", change).hex() == expected.replace(" ", "")
    assert SERDE.deserializer("topic", bytes.fromhex(expected)) == change


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("776f726c64 01 03", Change(None, "world", True)),
        ("776f726c64 00 03", Change(None, "world", False)),
        ("68656c6c6f 00 04", Change("hello", None, False)),
        ("0a 68656c6c6f 776f726c64 01 05", Change("hello", "world", True)),
    ],
)
def test_should_read_the_formats_of_later_versions(data, expected):
    assert SERDE.deserializer("topic", bytes.fromhex(data)) == expected


@pytest.mark.parametrize("data", ["", "06", "ff", "02", "0a 02", "68 02 05", "03", "ffffffffffff 02"])
def test_should_refuse_bytes_that_are_no_change(data):
    with pytest.raises(SerializationError, match="orders"):
        SERDE.deserializer("orders", bytes.fromhex(data))


def test_should_refuse_a_change_without_values():
    with pytest.raises(SerializationError, match="both"):
        SERDE.serializer("topic", Change(None, None))


@given(st.none() | st.text(max_size=200), st.none() | st.text(max_size=200))
def test_should_read_changes_back(new, old):
    if new is None and old is None:
        return
    assert SERDE.deserializer("topic", SERDE.serializer("topic", Change(new, old))) == Change(new, old)


@given(st.integers(-(2**31), 2**31 - 1))
def test_should_read_varints_back(value):
    data = write_varint(value)
    assert read_varint(data + b"rest") == (value, len(data))


def test_should_take_the_default_value_serde_where_none_is_given():
    class Defaults:
        value_serde = Serdes.long()

    write, read = ChangedSerializer(None), ChangedDeserializer(None)
    write.set_if_unset(Defaults)
    read.set_if_unset(Defaults)
    assert read("topic", write("topic", Change(1, 2))) == Change(1, 2)


def test_should_be_a_value():
    assert Change(1, 2) == Change(1, 2) != Change(1, 2, is_latest=False)
    assert str(Change(1, None)) == "(1<-None)"
    assert pickle.loads(pickle.dumps(Change(1, 2))) == Change(1, 2)
    assert hash(Change(1, 2)) == hash(Change(1, 2))
