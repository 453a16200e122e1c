"""Settings on their way to the clients: every prefix arrives, Java's names are translated, nothing unknown stops a client."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from penstock import ConfigError, StreamsConfig
from penstock.kafka import fetch, follow
from penstock.kafka.clients import (
    admin_config,
    consumer_config,
    global_consumer_config,
    is_access_error,
    max_poll_seconds,
    member_config,
    open_client,
    producer_config,
    restore_consumer_config,
)


def config(**given: Any) -> StreamsConfig:
    return StreamsConfig({"application.id": "a", "bootstrap.servers": "127.0.0.1:1", **given})


@pytest.mark.parametrize(
    ("prefix", "reached"),
    [
        ("", {"main", "restore", "global", "producer", "admin"}),
        ("consumer.", {"main", "restore", "global"}),
        ("main.consumer.", {"main"}),
        ("restore.consumer.", {"restore"}),
        ("global.consumer.", {"global"}),
        ("producer.", {"producer"}),
        ("admin.", {"admin"}),
    ],
)
def test_should_pass_each_prefix_to_its_clients(prefix: str, reached: set[str]) -> None:
    given = config(**{f"{prefix}reconnect.backoff.ms": 77})
    clients = {
        "main": consumer_config(given, "c"),
        "restore": restore_consumer_config(given, "c"),
        "global": global_consumer_config(given, "c"),
        "producer": producer_config(given, "c"),
        "admin": admin_config(given, "c"),
    }
    assert {name for name, found in clients.items() if found.get("reconnect.backoff.ms") == 77} == reached
    assert (member_config(given, "c").get("reconnect_backoff_ms") == 77) == ("main" in reached)


def test_should_translate_java_names() -> None:
    given = config(
        **{
            "consumer.fetch.max.wait.ms": timedelta(milliseconds=30),
            "receive.buffer.bytes": -1,
            "send.buffer.bytes": 65536,
            "consumer.max.poll.records": 10,
            "consumer.fetch.max.bytes": 500_000,
            "producer.max.request.size": 2_000_000,
            "producer.delivery.timeout.ms": 9_000,
            "request.timeout.ms": 7_000,
        }
    )
    consumer = consumer_config(given, "c")
    assert consumer["fetch.wait.max.ms"] == 30
    assert (consumer["socket.receive.buffer.bytes"], consumer["socket.send.buffer.bytes"]) == (0, 65536)
    assert "max.poll.records" not in consumer
    assert (consumer["fetch.max.bytes"], consumer["message.max.bytes"]) == (500_000, 500_000)
    assert consumer["socket.timeout.ms"] == 7_000
    producer = producer_config(given, "c")
    assert (producer["message.max.bytes"], producer["delivery.timeout.ms"]) == (2_000_000, 9_000)
    assert member_config(given, "c")["request_timeout_ms"] == 7_000


@pytest.mark.parametrize("reads", [follow._SETTINGS, fetch._SHORT_READS, fetch._LONG_READS], ids=["follow", "short", "long"])
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({}, None),
        ({"fetch.max.bytes": 1_000}, 100_000_000),
        ({"fetch.max.bytes": 1_000, "receive.message.max.bytes": 5_000_000}, 5_000_000),
        ({"receive.message.max.bytes": 1_000_000}, 1_000_000),
        ({"receive.message.max.bytes": 60_000_000, "message.max.bytes": 50_000_000}, 60_000_000),
        ({"fetch.max.bytes": 200_000_000}, 200_000_512),
    ],
)
def test_should_take_any_limit_of_answers_and_fetches(reads: Any, given: dict[str, int], answer: int | None) -> None:
    found = consumer_config(config(**{f"consumer.{key}": value for key, value in given.items()}), "c")
    assert found.get("receive.message.max.bytes") == answer
    open_client("consumer", Consumer, {**reads, **found}).close()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_write_records_as_large_as_javas_producer_does(guarantee: str) -> None:
    given = {"processing.guarantee": guarantee}
    assert producer_config(config(**given), "c")["message.max.bytes"] == 1_048_576
    for key in ("max.request.size", "producer.max.request.size"):
        assert producer_config(config(**given, **{key: 5_000_000}), "c")["message.max.bytes"] == 5_000_000


def test_should_keep_requests_within_their_transaction() -> None:
    given = config(**{"processing.guarantee": "exactly_once_v2", "request.timeout.ms": 60_000, "delivery.timeout.ms": 120_000})
    producer = producer_config(given, "c")
    assert producer["socket.timeout.ms"] == 9_900
    assert "delivery.timeout.ms" not in producer
    open_client("producer", Producer, {**producer, "transactional.id": "t"}).close()


@pytest.mark.parametrize("make", [consumer_config, restore_consumer_config, global_consumer_config])
def test_should_open_consumers_with_everything_kafka_streams_knows(make: Any) -> None:
    known = {
        "receive.buffer.bytes": 32 * 1024, "send.buffer.bytes": 128 * 1024, "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000, "retry.backoff.ms": 100, "request.timeout.ms": 40_000,
        "metadata.max.age.ms": 300_000, "connections.max.idle.ms": 540_000, "metadata.recovery.strategy": "rebootstrap",
        "metadata.recovery.rebootstrap.trigger.ms": 300_000, "security.protocol": "PLAINTEXT", "client.rack": "eu",
        "consumer.max.partition.fetch.bytes": 1 << 20, "consumer.fetch.min.bytes": 1, "consumer.check.crcs": True,
        "consumer.session.timeout.ms": 45_000, "consumer.heartbeat.interval.ms": 3_000,
    }  # fmt: skip
    open_client("consumer", Consumer, make(config(**known), "c")).close()


def test_should_open_a_producer_with_what_java_applications_set() -> None:
    known = {
        "producer.acks": "all", "producer.batch.size": 16384, "producer.buffer.memory": 1 << 25, "producer.linger.ms": 20,
        "producer.compression.type": "lz4", "producer.max.block.ms": 60_000, "producer.retries": 5,
        "producer.max.in.flight.requests.per.connection": 5, "producer.partitioner.class": "x",
    }  # fmt: skip
    found = producer_config(config(**known), "c")
    assert (found["linger.ms"], found["compression.type"]) == (20, "lz4")
    open_client("producer", Producer, found).close()


def test_should_leave_out_what_a_client_does_not_know(caplog: pytest.LogCaptureFixture) -> None:
    open_client("admin client", AdminClient, {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "my.own": 1, "other": 2})
    assert "my.own is unknown to the admin client" in caplog.text
    assert "other is unknown" in caplog.text


def test_should_say_which_setting_a_client_refuses() -> None:
    with pytest.raises(ConfigError, match=r"The producer cannot be opened.*batch\.num\.messages"):
        open_client("producer", Producer, {"bootstrap.servers": "127.0.0.1:1", "batch.num.messages": "many"})


@pytest.mark.parametrize(
    ("told", "is_one"),
    [
        ("SASL authentication error: Authentication failed", True),
        ("SASL SCRAM mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: PLAIN", True),
        (
            "SASL OAUTHBEARER mechanism handshake failed: Local: Broker transport failure: broker's supported mechanisms: (n/a)",
            False,
        ),
        ("SASL OAUTHBEARER mechanism handshake failed: Broker: Request not valid in current SASL state: broker's", False),
    ],
)
def test_should_tell_a_refused_login_from_a_line_that_broke(told: str, is_one: bool) -> None:
    assert is_access_error(KafkaError(KafkaError._AUTHENTICATION, told)) == is_one


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 300.0),
        ({"max.poll.interval.ms": 1500}, 1.5),
        ({"consumer.max.poll.interval.ms": "2000"}, 2.0),
        ({"main.consumer.max.poll.interval.ms": timedelta(seconds=3), "consumer.max.poll.interval.ms": 1}, 3.0),
        ({"restore.consumer.max.poll.interval.ms": 1}, 300.0),
    ],
)
def test_should_know_how_long_a_turn_may_take(given: dict[str, Any], seconds: float) -> None:
    assert max_poll_seconds(config(**given)) == seconds


@pytest.mark.filterwarnings("ignore::penstock.UnknownConfigWarning")
def test_should_hand_librdkafkas_own_settings_on_without_a_prefix() -> None:
    given = config(**{"queued.max.messages.kbytes": 1024, "my.object": object()})
    for make in (consumer_config, restore_consumer_config, global_consumer_config, producer_config, admin_config):
        made = make(given, "client")
        assert made["queued.max.messages.kbytes"] == 1024
        assert "my.object" not in made
