"""Bytes as Kafka Streams 4.3.0 printed them for the same values."""

from __future__ import annotations

import pytest

from penstock.errors import SerializationError
from penstock.operators import LeftOrRightValue, LeftOrRightValueSerde, TimestampedKeyAndJoinSide, TimestampedKeyAndJoinSideSerde
from penstock.serdes.serde import Serdes
from tests.unit.operators.operator_kit import FakeContext


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (TimestampedKeyAndJoinSide("key", 50, is_left_side=True), "0000000000000032016b6579"),
        (TimestampedKeyAndJoinSide("key", 50, is_left_side=False), "0000000000000032006b6579"),
    ],
)
def test_should_write_keys_as_java_does(key: TimestampedKeyAndJoinSide, expected: str) -> None:
    serde = TimestampedKeyAndJoinSideSerde(Serdes.string())

    data = serde.serializer("t", key)
    assert data is not None
    assert data.hex() == expected
    assert serde.deserializer("t", data) == key


@pytest.mark.parametrize(
    ("value", "expected"), [(LeftOrRightValue("v", None), "0176"), (LeftOrRightValue(None, 7), "000000000000000007")]
)
def test_should_write_values_as_java_does(value: LeftOrRightValue, expected: str) -> None:
    serde = LeftOrRightValueSerde(Serdes.string(), Serdes.long())

    data = serde.serializer("t", value)
    assert data is not None
    assert data.hex() == expected
    assert serde.deserializer("t", data) == value


def test_should_use_default_serdes_where_none_were_given() -> None:
    context = FakeContext()
    keys, values = TimestampedKeyAndJoinSideSerde(None), LeftOrRightValueSerde(None, None)
    for half in (keys.serializer, keys.deserializer, values.serializer, values.deserializer):
        half.set_if_unset(context)  # type: ignore[attr-defined]

    key, value = TimestampedKeyAndJoinSide("k", 1, True), LeftOrRightValue(None, "r")
    assert keys.deserializer("t", keys.serializer("t", key)) == key
    assert values.deserializer("t", values.serializer("t", value)) == value


def test_should_refuse_a_null_key_and_pass_null_values_through() -> None:
    with pytest.raises(SerializationError, match="cannot be null"):
        TimestampedKeyAndJoinSideSerde(Serdes.string()).serializer("t", TimestampedKeyAndJoinSide(None, 1, True))

    values = LeftOrRightValueSerde(Serdes.string(), Serdes.string())
    assert values.serializer("t", None) is None
    assert values.deserializer("t", b"") is None
