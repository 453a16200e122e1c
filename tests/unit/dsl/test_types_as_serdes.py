"""A type where a serde is wanted means the serde of that type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import pytest

from penstock import (
    ConfigError,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    Serde,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TopologyTestDriver,
)


@dataclass(frozen=True)
class Order:
    """What a user writes."""

    product: str
    amount: int


class Place(TypedDict):
    name: str


@pytest.mark.parametrize(
    ("python_type", "serde"),
    [
        (str, Serdes.string()),
        (int, Serdes.long()),
        (float, Serdes.double()),
        (bytes, Serdes.bytes()),
        (Order, Serdes.json(Order)),
        (Place, Serdes.json(Place)),
        (list[Order], Serdes.json(list[Order])),
    ],
)
def test_should_take_the_serde_of_a_type(python_type: type, serde: Serde) -> None:
    options = [
        Consumed(python_type),
        Produced(python_type),
        Grouped(key_serde=python_type),
        Materialized(key_serde=python_type),
        Joined(python_type),
        StreamJoined(python_type),
        Repartitioned(key_serde=python_type),
    ]
    assert {repr(one.key_serde) for one in options} == {repr(serde)}
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), python_type, python_type)
    assert repr(store.key_serde) == repr(store.value_serde) == repr(serde)


def test_should_read_and_write_by_types_from_end_to_end() -> None:
    builder = StreamsBuilder()
    totals = Materialized("totals", str, int)
    orders = builder.stream("orders", Consumed(str, Order)).group_by(lambda _, order: order.product, Grouped("by", str, Order))
    orders.aggregate(lambda: 0, lambda _, order, total: total + order.amount, totals).to_stream().to("out", Produced(str, int))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("orders", str, Order).pipe_values([Order("tea", 2), Order("tea", 3)])
        assert driver.create_output_topic("out", str, int).read_key_values() == [("tea", 2), ("tea", 5)]
        assert driver.get_key_value_store(totals).get("tea") == 5
        assert driver.get_timestamped_key_value_store(totals).get("tea").value == 5


def test_should_say_which_type_has_no_serde() -> None:
    class Opaque:
        """Nothing is known of it."""

    with pytest.raises(TypeError, match=r"test_types_as_serdes.*value_serde: no built-in serde for .*Opaque"):
        Consumed(str, Opaque)
    with pytest.raises(ConfigError, match="no built-in serde"):
        Serdes.serde_from(Opaque)


def test_should_still_refuse_the_class_of_a_serde() -> None:
    class Own(Serde[str]):
        """A serde of one's own."""

    with pytest.raises(TypeError, match=r"Own\(\)"):
        Consumed(str, Own)


def test_should_say_that_a_materialized_without_a_name_names_no_store() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).group_by_key().count()
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(ValueError, match="has no store name"):
        driver.get_key_value_store(Materialized())
