"""Serdes.json: objects of a type, and what plain JSON refuses because it would come back as something else."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import pickle
import sys
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Optional

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ConfigError, Consumed, Grouped, Materialized, Serdes, SerializationError, StreamsBuilder, TopologyTestDriver
from penstock.batches.serdes import deserialize_column, serialize_column
from penstock.query.columns import as_json, from_json

if sys.version_info >= (3, 11):
    from typing import NotRequired, TypedDict
else:
    from typing_extensions import NotRequired, TypedDict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Item:
    sku: str
    price: Decimal


@dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    items: list[Item]
    colour: Colour = Colour.RED
    note: str | None = None
    weights: dict[int, float] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    level: Optional[Level] = None  # noqa: UP045  (the old spelling too)
    pair: tuple[int, str] = (0, "")
    size: int | str = 0
    kind: Literal["new", "old"] = "new"
    day: datetime.date | None = None
    extra: Any = None
    data: bytes = b""


class User(TypedDict):
    name: str
    age: NotRequired[int]


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


class Model(pydantic.BaseModel):
    name: str
    at: datetime.datetime | None = None


class Struct(msgspec.Struct):
    name: str
    size: int = 0


@dataclass
class Mixed:
    model: Model
    struct: Struct


ORDER = Order(
    uuid.UUID(int=7),
    datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc),
    [Item("tea", Decimal("12.50"))],
    Colour.BLUE,
    "späť",
    {1: 0.5},
    frozenset({"b", "a"}),
    Level.LOW,
    (3, "x"),
    "large",
    "old",
    datetime.date(2024, 1, 2),
    {"free": [1, None]},
    b"\x00\xff",
)


def _through(annotation, value):
    serde = Serdes.json(annotation)
    return serde.deserializer("topic", serde.serializer("topic", value))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, ORDER),
        (Order, Order(uuid.UUID(int=1), datetime.datetime(2024, 1, 1), [])),
        (User, {"name": "ann"}),
        (User, {"name": "ann", "age": 7}),
        (Tree, Tree(1, [Tree(2), Tree(3, [Tree(4)])])),
        (Model, Model(name="m", at=datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc))),
        (Struct, Struct("s", 3)),
        (Mixed, Mixed(Model(name="m"), Struct("s"))),
        (dict[int, int], {1: 2}),
        (list[Item], [Item("a", Decimal("1E+3"))]),
        (Item | None, Item("a", Decimal(1))),
        (dict[uuid.UUID, set[int]], {uuid.UUID(int=1): {3, 1}}),
        (int | float, 1.0),
    ],
)
def test_should_read_what_was_written(annotation, value):
    found = _through(annotation, value)
    assert found == value
    assert type(found) is type(value)


def test_should_write_compact_json_in_the_order_of_the_fields():
    data = Serdes.json(Order).serializer("topic", ORDER)
    assert json.loads(data) == {
        "id": "00000000-0000-0000-0000-000000000007",
        "at": "2024-02-29T12:30:00+00:00",
        "items": [{"sku": "tea", "price": "12.50"}],
        "colour": "blue",
        "note": "späť",
        "weights": {"1": 0.5},
        "tags": ["a", "b"],
        "level": 1,
        "pair": [3, "x"],
        "size": "large",
        "kind": "old",
        "day": "2024-01-02",
        "extra": {"free": [1, None]},
        "data": "AP8=",
    }
    assert list(json.loads(data)) == [one.name for one in dataclasses.fields(Order)]
    assert Serdes.json(User).serializer("topic", {"age": 1, "name": "a"}) == b'{"name":"a","age":1}'


def test_should_follow_a_type_that_grows():
    @dataclass
    class Newer:
        name: str
        size: int = 3

    serde = Serdes.json(Newer)
    assert serde.deserializer("topic", b'{"name":"a","gone":[1]}') == Newer("a", 3)
    with pytest.raises(SerializationError, match=r"the field 'name' of .*Newer is missing"):
        serde.deserializer("topic", b'{"size":1}')


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (Order, dataclasses.replace(ORDER, items=[Item("a", 1.5)]), r"items\[0\]\.price: expected a Decimal, got 1\.5 \(float\)"),
        (Order, dataclasses.replace(ORDER, note=3), r"note: expected .*, got 3 \(int\)"),
        (Order, dataclasses.replace(ORDER, weights={"1": 0.5}), r"weights: the key '1' of a dict is no int"),
        (Order, dataclasses.replace(ORDER, extra={1: 2}), r"extra: the key 1 \(int\)"),
        (Order, {"id": 1}, r"expected Order, got .* \(dict\)"),
        (User, {"name": "a", "agee": 1}, "User has no key 'agee'"),
        (User, {}, "the key 'name' of User is missing"),
        (Model, {"name": "a"}, "expected Model"),
        (Item, Item("a", Decimal("NaN")), "price: NaN is no number"),
        (list[float], [float("nan")], "JSON"),
        (int, True, "expected int"),
    ],
)
def test_should_refuse_a_value_that_is_not_of_its_type_and_say_where(annotation, value, said):
    with pytest.raises(SerializationError, match=said):
        Serdes.json(annotation).serializer("topic", value)


@pytest.mark.parametrize(
    ("annotation", "data", "said"),
    [
        (Item, b'{"sku":1,"price":"1"}', "sku: expected str, got 1"),
        (Item, b'{"sku":"a","price":"x"}', "price: 'x' is not a Decimal"),
        (list[Item], b'[{"sku":"a","price":"1"},{"sku":"a"}]', r"\[1\]: the field 'price' of Item is missing"),
        (Item, b"[]", "expected an object with the fields of Item"),
        (Colour, b'"green"', "'green' is none of Colour: 'red', 'blue'"),
        (dict[int, int], b'{"01":1}', "the key '01' of an object is no int"),
        (Model, b"{}", "Field required"),
        (Model, b'{"name":NaN}', "JSON has no such number"),
        (Struct, b'{"name":1}', r"\$\.name"),
    ],
)
def test_should_refuse_json_that_is_not_of_the_type_and_say_where(annotation, data, said):
    with pytest.raises(SerializationError, match=said):
        Serdes.json(annotation).deserializer("topic", data)


def test_should_take_a_number_that_others_write_for_a_decimal():
    assert Serdes.json(Item).deserializer("topic", b'{"sku":"a","price":12.5}') == Item("a", Decimal("12.5"))


def test_should_say_which_field_has_a_type_that_is_not_supported():
    @dataclass
    class Inner:
        good: int
        bad: complex

    @dataclass
    class Outer:
        inner: list[Inner]

    # Classes of a function are not found by their names; whoever writes none gets them.
    Inner.__annotations__["bad"], Outer.__annotations__["inner"] = complex, list[Inner]
    with pytest.raises(
        ConfigError, match=r"Serdes\.json\(.*Outer\): the field inner\[\]\.bad is a complex, which has no form in JSON"
    ):
        Serdes.json(Outer)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Item | Order, "look alike in JSON"),
        (uuid.UUID | str, "look alike in JSON"),
        (dict[tuple[int, int], int], "cannot be the key of a dict in JSON"),
        (complex, "it is a complex"),
    ],
)
def test_should_refuse_types_that_could_not_be_read(annotation, said):
    with pytest.raises(ConfigError, match=said):
        Serdes.json(annotation)


def test_should_travel_to_workers_and_compare_by_the_type():
    serde = Serdes.json(Item)
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde != Serdes.json(Tree)
    assert hash(again) == hash(serde)
    assert repr(again) == "Serdes.json(Item)"
    assert again.deserializer("topic", again.serializer("topic", Item("a", Decimal(1)))) == Item("a", Decimal(1))


def test_should_process_batches_as_records():
    serde = Serdes.json(Item)
    values = [Item("a", Decimal(1)), None]
    data = serialize_column(serde.serializer, "topic", values)
    assert list(data) == [serde.serializer("topic", value) for value in values]
    assert list(deserialize_column(serde.deserializer, "topic", data)) == values


def test_should_aggregate_objects():
    builder = StreamsBuilder()
    orders = builder.stream("items", Consumed(Serdes.string(), Serdes.json(Item)))
    grouped = orders.group_by(lambda _, item: item.sku, Grouped("by-sku", Serdes.string(), Serdes.json(Item)))
    grouped.reduce(lambda one, two: Item(one.sku, one.price + two.price), Materialized("sums"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("items", Serdes.string(), Serdes.json(Item))
        topic.pipe_values([Item("tea", Decimal("1.10")), Item("tea", Decimal("2.20"))])
        assert driver.get_key_value_store("sums").get("tea") == Item("tea", Decimal("3.30"))


def test_should_answer_queries_with_objects():
    assert as_json(Mixed(Model(name="m"), Struct("s"))) == {
        "model": {"name": "m", "at": None},
        "struct": {"name": "s", "size": 0},
    }
    assert from_json({"sku": "a", "price": "1"}, Serdes.json(Item)) == Item("a", Decimal(1))
    with pytest.raises(ValueError, match="price"):
        from_json({"sku": "a"}, Serdes.json(Item))


# Plain JSON


@pytest.mark.parametrize("key", [1, 1.5, -1e300, True, None, Level.LOW])
@pytest.mark.parametrize("shape", [lambda d: d, lambda d: [d], lambda d: {"a": {"b": [1, (d,)]}}, lambda d: {"a": [], "b": d}])
def test_should_refuse_keys_that_would_come_back_as_text(key, shape):
    with pytest.raises(SerializationError, match=r"the key .* of a dict would come back as text; make it a str"):
        Serdes.json().serializer("topic", shape({key: 1}))


def test_should_say_how_keys_that_are_numbers_are_kept():
    with pytest.raises(SerializationError, match=r"the key 1 \(int\).*Serdes\.json\(dict\[int, Any\]\)"):
        Serdes.json().serializer("topic", {1: 2})
    with pytest.raises(SerializationError, match="the key 1"):
        serialize_column(Serdes.json().serializer, "topic", [{"a": 1}, {1: 2}])
    assert _through(dict[int, Any], {1: 2}) == {1: 2}


_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_plain)
def test_should_refuse_plain_json_exactly_where_it_would_change(value):
    changed = json.loads(json.dumps(value)) != value
    try:
        data = Serdes.json().serializer("topic", value)
    except SerializationError:
        assert changed
    else:
        assert not changed
        assert Serdes.json().deserializer("topic", data) == value
