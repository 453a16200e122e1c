"""Bytes as Kafka Streams 4.3.0 printed them for the same values."""

from __future__ import annotations

import pytest

from penstock.errors import SerializationError
from penstock.operators import (
    CombinedKey,
    CombinedKeySchema,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction, SubscriptionWrapperSerializer
from penstock.serdes.serde import Serdes, serialize_string
from tests.unit.operators.operator_kit import FakeContext

HASH = (1, -2)
HASH_HEX = "0000000000000001fffffffffffffffe"


@pytest.mark.parametrize("instruction", list(Instruction))
@pytest.mark.parametrize(
    ("version", "with_hash", "head", "tail"),
    [(0, False, "80", ""), (0, True, "00", ""), (1, False, "81", "00000005"), (1, True, "01", "00000005")],
)
def test_should_write_subscriptions_as_java_does(
    instruction: Instruction, version: int, with_hash: bool, head: str, tail: str
) -> None:
    serde = SubscriptionWrapperSerde(lambda: "pk", Serdes.string())
    wrapper = SubscriptionWrapper(HASH if with_hash else None, instruction, "pk1", version, 5)

    data = serde.serializer("t", wrapper)
    assert data is not None
    assert data.hex() == f"{head}0{instruction.value}{HASH_HEX if with_hash else ''}706b31{tail}"
    read = serde.deserializer("t", data)
    assert read == wrapper._replace(primary_partition=5 if version else None)


@pytest.mark.parametrize("value", [None, "right"])
@pytest.mark.parametrize(("original_hash", "head"), [(None, "80"), (HASH, "00" + HASH_HEX)])
def test_should_write_responses_as_java_does(value: str | None, original_hash: tuple[int, int] | None, head: str) -> None:
    serde = SubscriptionResponseWrapperSerde(Serdes.string())
    wrapper = SubscriptionResponseWrapper(original_hash, value, 3)

    data = serde.serializer("t", wrapper)
    assert data is not None
    assert data.hex() == head + ("" if value is None else "7269676874")
    # The partition only says where the answer goes.
    assert serde.deserializer("t", data) == wrapper._replace(primary_partition=None)


def test_should_read_an_empty_value_of_a_response_as_null() -> None:
    serde = SubscriptionResponseWrapperSerde(Serdes.string())

    data = serde.serializer("t", SubscriptionResponseWrapper(None, "", 3))
    assert data == b"\x80"
    read = serde.deserializer("t", data)
    assert read is not None
    assert read.foreign_value is None


def test_should_write_combined_keys_as_java_does() -> None:
    schema: CombinedKeySchema[str, int] = CombinedKeySchema("fk", Serdes.string(), "pk", Serdes.integer())

    assert schema.to_bytes("rhs", 7).hex() == "0000000372687300000007"
    assert schema.prefix_bytes("rhs").hex() == "00000003726873"
    assert schema.from_bytes(schema.to_bytes("rhs", 7)) == CombinedKey("rhs", 7)


def test_should_write_the_old_version_while_an_upgrade_goes_on() -> None:
    serializer = SubscriptionWrapperSerializer("pk", serialize_string)
    wrapper = SubscriptionWrapper(None, Instruction.DELETE_KEY_NO_PROPAGATE, "pk1", 1, 5)
    serializer.configure({"upgrade.from": "3.3"})
    assert serializer("t", wrapper).hex() == "8000706b31"
    serializer.configure({"upgrade.from": "3.4"})
    assert serializer("t", wrapper).hex() == "8100706b3100000005"


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x09", b"\x02\x00pk1\0\0\0\5", b"\x00\x00abc"])
def test_should_refuse_bytes_that_are_no_subscription(data: bytes) -> None:
    with pytest.raises(SerializationError, match="not a subscription"):
        SubscriptionWrapperSerde("pk", Serdes.string()).deserializer("t", data)


@pytest.mark.parametrize("data", [b"", b"\x01" + bytes(16), b"\x00abc"])
def test_should_refuse_bytes_that_are_no_response(data: bytes) -> None:
    with pytest.raises(SerializationError, match="not a response"):
        SubscriptionResponseWrapperSerde(Serdes.string()).deserializer("t", data)


def test_should_use_default_serdes_where_none_were_given() -> None:
    context = FakeContext()
    subscriptions, responses = SubscriptionWrapperSerde("pk", None), SubscriptionResponseWrapperSerde(None)
    for half in (subscriptions.serializer, subscriptions.deserializer, responses.serializer, responses.deserializer):
        half.set_if_unset(context)  # type: ignore[attr-defined]
    schema: CombinedKeySchema[str, str] = CombinedKeySchema(lambda: "fk", None, lambda: "pk", None)
    schema = schema.of_task(context)

    wrapper = SubscriptionWrapper(HASH, Instruction.DELETE_KEY_AND_PROPAGATE, "pk1", 1, 5)
    assert subscriptions.deserializer("t", subscriptions.serializer("t", wrapper)) == wrapper
    response = SubscriptionResponseWrapper(HASH, "value")
    assert responses.deserializer("t", responses.serializer("t", response)) == response
    assert schema.to_bytes("f", "p") == b"\0\0\0\1fp"
