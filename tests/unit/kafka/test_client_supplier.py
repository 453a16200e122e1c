"""`default.client.supplier`: clients of one's own in every place where penstock opens one of librdkafka."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from penstock import ConfigError, KafkaClientSupplier, KafkaStreams, Serdes, StreamsConfig, Topology
from penstock.kafka.batch_limits import largest_batch
from penstock.kafka.clients import (
    admin_config,
    consumer_config,
    global_consumer_config,
    open_client,
    producer_config,
    restore_consumer_config,
)

BASE = {"application.id": "a", "bootstrap.servers": "127.0.0.1:1"}


class Noting(KafkaClientSupplier):
    """Notes which client is made, with its id."""

    made: list[tuple[str, str]] = []  # noqa: RUF012 - of the class, so that copies note in the same place

    def get_producer(self, config: dict[str, Any]) -> Producer:
        self.made.append(("producer", config["client.id"]))
        return super().get_producer(config)

    def get_consumer(self, config: dict[str, Any]) -> Consumer:
        self.made.append(("consumer", config["client.id"]))
        return super().get_consumer(config)

    def get_restore_consumer(self, config: dict[str, Any]) -> Consumer:
        self.made.append(("restore", config["client.id"]))
        return super().get_restore_consumer(config)

    def get_global_consumer(self, config: dict[str, Any]) -> Consumer:
        self.made.append(("global", config["client.id"]))
        return super().get_global_consumer(config)

    def get_admin(self, config: dict[str, Any]) -> AdminClient:
        self.made.append(("admin", config["client.id"]))
        return super().get_admin(config)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Noting.made.clear()


@pytest.mark.parametrize("given", [Noting(), Noting, f"{__name__}:Noting", f"{__name__}.Noting"])
def test_should_make_every_client_with_the_supplier(given: Any) -> None:
    config = pickle.loads(pickle.dumps(StreamsConfig({**BASE, "default.client.supplier": given})))
    for what, settings in (
        ("producer", producer_config(config, "c")),
        ("consumer", consumer_config(config, "c")),
        ("consumer", restore_consumer_config(config, "c")),
        ("consumer", global_consumer_config(config, "c")),
        ("admin client", admin_config(config, "c")),
    ):
        client = open_client(what, lambda _: pytest.fail("not of the supplier"), settings)
        if hasattr(client, "close"):
            client.close()
    kinds = ["producer", "consumer", "restore", "global", "admin"]
    assert [kind for kind, _ in Noting.made] == kinds


def test_should_ask_for_an_admin_client_where_a_producer_needs_one() -> None:
    config = StreamsConfig({**BASE, "default.client.supplier": Noting()})

    class Refusing(Noting):
        def get_admin(self, config: dict[str, Any]) -> AdminClient:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        largest_batch(producer_config(config.with_values({"default.client.supplier": Refusing()}), "c"), ["topic"])


def test_should_leave_out_settings_that_a_supplied_client_does_not_know() -> None:
    config = StreamsConfig({**BASE, "default.client.supplier": Noting(), "admin.my.own": 1})
    open_client("admin client", AdminClient, admin_config(config, "c"))
    assert Noting.made == [("admin", "c-admin")] * 2


def test_should_take_a_supplier_as_an_argument_of_kafka_streams() -> None:
    bytes_of = Serdes.bytes().deserializer
    topology = Topology().add_source("in", "topic", key_deserializer=bytes_of, value_deserializer=bytes_of)
    streams = KafkaStreams(topology, BASE, client_supplier=Noting())
    settings = producer_config(streams._config, "c")
    open_client("producer", Producer, settings).close()
    assert Noting.made == [("producer", "c")]


@pytest.mark.parametrize("given", [object(), dict, "builtins:dict"])
def test_should_refuse_what_supplies_no_clients(given: Any) -> None:
    topology = Topology().add_source("in", "topic")
    with pytest.raises(ConfigError, match=r"default\.client\.supplier.*lacks get_producer.*KafkaClientSupplier"):
        KafkaStreams(topology, {**BASE, "default.client.supplier": given})
