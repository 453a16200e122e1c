"""Every deserializer that comes with penstock gives a value or a SerializationError, whatever a producer sends."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock import Serdes, SerializationError, Window, Windowed, WindowedSerdes
from penstock.batches.serdes import deserialize_column
from penstock.change import Change, ChangedSerde
from penstock.operators.joins.foreign_key.combined_key import CombinedKeySchema
from penstock.operators.joins.foreign_key.response_wrapper import SubscriptionResponseWrapper, SubscriptionResponseWrapperSerde
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction, SubscriptionWrapper, SubscriptionWrapperSerde
from penstock.operators.joins.outer_join_store import (
    LeftOrRightValue,
    LeftOrRightValueSerde,
    TimestampedKeyAndJoinSide,
    TimestampedKeyAndJoinSideSerde,
)
from penstock.schema_registry import AvroSerde
from penstock.windows import SessionWindow
from tests.abuse.hostile import assert_survives, hostile

PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "string": (Serdes.string(), ["", "a", "äöü €", "x" * 300]),
    "long": (Serdes.long(), [0, -1, 2**63 - 1]),
    "integer": (Serdes.integer(), [0, -1, 2**31 - 1]),
    "short": (Serdes.short(), [0, -1, 2**15 - 1]),
    "double": (Serdes.double(), [0.0, -1.5, float("inf")]),
    "float": (Serdes.float(), [0.0, -1.5]),
    "boolean": (Serdes.boolean(), [True, False]),
    "bytes": (Serdes.bytes(), [b"", b"abc"]),
    "byte_array": (Serdes.byte_array(), [b"", b"abc"]),
    "byte_buffer": (Serdes.byte_buffer(), [b"", b"abc"]),
    "uuid": (Serdes.uuid(), [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
    "void": (Serdes.void(), []),
    "json": (Serdes.json(), [{"a": [1, 2.5, None, True, "ä"]}, [], "text", 12, [[[[]]]]]),
}
LISTS: dict[str, tuple[Any, list[Any]]] = {
    name: (Serdes.list_of(serde), [[], *([[None], [*values, None, *values]] if values else [])])
    for name, (serde, values) in PLAIN.items()
}
NESTED = {f"list of {name}": (Serdes.list_of(serde), [[], [*values, None]]) for name, (serde, values) in LISTS.items() if values}


def written(serde: Any, values: list[Any]) -> list[bytes]:
    return [data for value in values if (data := serde.serializer("topic", value)) is not None]


def reading(serde: Any) -> Callable[[bytes], Any]:
    return lambda data: serde.deserializer("topic", data)


def test_should_know_every_serde_there_is() -> None:
    factories = {name for name in vars(Serdes) if not name.startswith("_")}
    assert factories == {*PLAIN, "list_of", "serde", "serde_from", "pickle"}
    assert {name for name in vars(WindowedSerdes) if not name.startswith("_")} == {"time_windowed", "session_windowed"}


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_or_refuse_any_bytes(name: str) -> None:
    serde, values = PLAIN[name]
    assert_survives(reading(serde), written(serde, values))


@dataclass
class Order:
    id: uuid.UUID
    price: Decimal
    at: datetime | None = None
    counts: dict[int, list[float]] = field(default_factory=dict)


def test_should_read_or_refuse_any_json_of_a_type() -> None:
    order = Order(uuid.UUID(int=1), Decimal("1.50"), datetime(2024, 1, 1), {1: [0.5]})
    assert_survives(reading(Serdes.json(Order)), written(Serdes.json(Order), [order]))


def test_should_read_or_refuse_any_avro() -> None:
    serde = AvroSerde({"type": "array", "items": ["null", "string"]}, {"schema.registry.url": "mock://abuse"})
    assert_survives(reading(serde), written(serde, [["a", None], []]))


@pytest.mark.parametrize("name", LISTS)
def test_should_read_or_refuse_any_list(name: str) -> None:
    serde, values = LISTS[name]
    assert_survives(reading(serde), written(serde, values))


@pytest.mark.parametrize("name", NESTED)
def test_should_read_or_refuse_any_list_of_lists(name: str) -> None:
    serde, values = NESTED[name]
    assert_survives(reading(serde), written(serde, values))


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_or_refuse_any_windowed_key(name: str) -> None:
    inner, values = PLAIN[name]
    serde = WindowedSerdes.time_windowed(inner, 10)
    valid = written(serde, [Windowed(value, Window(start, start + 10)) for value in values for start in (0, 50)])
    assert_survives(reading(serde), valid)
    assert_survives(reading(serde.for_changelog()), [data + bytes(4) for data in valid])
    sessions = WindowedSerdes.session_windowed(inner)
    assert_survives(reading(sessions), written(sessions, [Windowed(value, SessionWindow(5, 9)) for value in values]))


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_or_refuse_any_change_of_a_row(name: str) -> None:
    inner, values = PLAIN[name]
    serde = ChangedSerde(inner)
    changes = [change for value in values for change in (Change(value, None), Change(None, value), Change(value, value))]
    assert_survives(reading(serde), written(serde, changes))


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_or_refuse_whatever_a_foreign_key_join_is_told(name: str) -> None:
    inner, values = PLAIN[name]
    subscriptions = SubscriptionWrapperSerde("topic", inner)
    told = [
        SubscriptionWrapper(hashed, instruction, value, version, 3)
        for value in values
        for hashed in (None, (1, -2))
        for instruction in Instruction
        for version in (0, 1)
    ]
    assert_survives(reading(subscriptions), written(subscriptions, told))
    responses = SubscriptionResponseWrapperSerde(inner)
    answers = [SubscriptionResponseWrapper(hashed, value) for value in [None, *values] for hashed in (None, (1, -2))]
    assert_survives(reading(responses), written(responses, answers))


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_or_refuse_any_combined_key(name: str) -> None:
    inner, values = PLAIN[name]
    schema: CombinedKeySchema[Any, Any] = CombinedKeySchema("foreign", inner, "primary", inner)
    assert_survives(schema.from_bytes, [schema.to_bytes(value, value) for value in values])


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_or_refuse_whatever_waits_for_an_outer_join(name: str) -> None:
    inner, values = PLAIN[name]
    keys = TimestampedKeyAndJoinSideSerde(inner)
    assert_survives(
        reading(keys), written(keys, [TimestampedKeyAndJoinSide(value, 7, side) for value in values for side in (True, False)])
    )
    sides = LeftOrRightValueSerde(inner, inner)
    waiting = [LeftOrRightValue(value, None) for value in values] + [LeftOrRightValue(None, value) for value in values]
    assert_survives(reading(sides), written(sides, waiting))


@pytest.mark.parametrize("name", PLAIN)
def test_should_read_columns_as_it_reads_single_values(name: str) -> None:
    serde, values = PLAIN[name]
    columns = [
        written(serde, values) * 3,
        *([data, *written(serde, values)] for data in hostile(written(serde, values), count=400)),
    ]
    for column in columns:
        assert repr(_outcome(lambda c=column: list(deserialize_column(serde.deserializer, "topic", c)))) == repr(
            _outcome(lambda c=column: [serde.deserializer("topic", data) for data in c])
        )


def _outcome(read: Callable[[], Any]) -> Any:
    try:
        return [bytes(value) if isinstance(value, memoryview) else value for value in read()]
    except SerializationError as exc:
        return str(exc)
