from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.kafka.client_metrics import ADMIN, CONSUMER, PRODUCER, ClientMetrics
from penstock.metrics.registry import Metrics

BROKERS = {
    "GroupCoordinator": {"nodeid": -1, "state": "UP", "connects": 1},
    "localhost:9092/1": {
        "nodeid": 1,
        "state": "UP",
        "connects": 2,
        "disconnects": 1,
        "tx": 10,
        "rx": 9,
        "rtt": {"cnt": 4, "sum": 8000, "max": 5000},
        "int_latency": {"cnt": 2, "sum": 3000, "max": 2000},
        "throttle": {"cnt": 0, "sum": 0, "max": 0},
    },
}


def statistics(**more: Any) -> str:
    partitions = {
        "-1": {"rxmsgs": 99},
        "0": {"consumer_lag": 7, "rxmsgs": 5, "rxbytes": 50, "txmsgs": 3, "txbytes": 30},
        "1": {"consumer_lag": -1, "rxmsgs": 1, "rxbytes": 10, "txmsgs": 1, "txbytes": 10},
    }
    topic = {
        "partitions": partitions,
        "batchsize": {"cnt": 2, "sum": 400, "max": 300},
        "batchcnt": {"cnt": 2, "sum": 4, "max": 3},
    }
    totals = {"tx": 10, "rx": 9, "tx_bytes": 1000, "rx_bytes": 2000, "rxmsgs": 6, "rxmsg_bytes": 60, "txmsgs": 4}
    buffer = {"msg_size": 25, "msg_size_max": 100}
    return json.dumps({"brokers": BROKERS, "topics": {"orders": topic}, **totals, **buffer, **more})


def told(kind: str, *texts: str, part: str = "") -> tuple[Metrics, ClientMetrics]:
    registry = Metrics()
    metrics = ClientMetrics(registry, kind, "app-client")
    for text in texts:
        metrics.settings({}, part)["stats_cb"](text)
    return registry, metrics


@pytest.mark.parametrize(
    ("kind", "name", "group", "value"),
    [
        (ADMIN, "connection-count", "admin-client-metrics", 2),
        (ADMIN, "connection-creation-total", "admin-client-metrics", 3),
        (ADMIN, "network-io-total", "admin-client-metrics", 3000),
        (CONSUMER, "records-consumed-total", "consumer-fetch-manager-metrics", 6),
        (CONSUMER, "bytes-consumed-total", "consumer-fetch-manager-metrics", 60),
        (CONSUMER, "records-lag-max", "consumer-fetch-manager-metrics", 7),
        (CONSUMER, "records-lag", "consumer-fetch-manager-metrics", 7),
        (CONSUMER, "request-latency-avg", "consumer-node-metrics", 2.0),
        (PRODUCER, "record-send-total", "producer-metrics", 4),
        (PRODUCER, "record-send-total", "producer-topic-metrics", 4),
        (PRODUCER, "byte-total", "producer-topic-metrics", 40),
        (PRODUCER, "request-latency-max", "producer-metrics", 5.0),
        (PRODUCER, "record-queue-time-avg", "producer-metrics", 1.5),
        (PRODUCER, "batch-size-max", "producer-metrics", 300),
        (PRODUCER, "records-per-request-avg", "producer-metrics", 2),
        (PRODUCER, "buffer-available-bytes", "producer-metrics", 75),
    ],
)
def test_should_tell_librdkafkas_statistics_by_kafkas_names(kind: str, name: str, group: str, value: float) -> None:
    registry, _ = told(kind, statistics())
    assert registry.value(name, group, {"client-id": "app-client"}) == value


def test_should_add_up_what_comes_after_the_client_was_opened_anew() -> None:
    registry, _ = told(CONSUMER, statistics(rxmsgs=6), statistics(rxmsgs=10), statistics(rxmsgs=3))
    assert registry.value("records-consumed-total", "consumer-fetch-manager-metrics") == 13


def test_should_take_the_clients_of_one_id_together() -> None:
    registry, metrics = told(CONSUMER, statistics(), part="short")
    metrics.settings({}, "long")["stats_cb"](statistics())
    assert registry.value("records-consumed-total", "consumer-fetch-manager-metrics") == 12
    assert registry.value("connection-count", "consumer-metrics") == 4
    assert registry.value("request-latency-max", "consumer-node-metrics") == 5.0


def test_should_forget_partitions_that_are_not_read_any_more() -> None:
    registry, _ = told(CONSUMER, statistics(), statistics(topics={}))
    assert not [name for name in registry.metrics() if name.name == "records-lag"]


def test_should_wait_with_what_another_thread_tells_until_it_is_asked_for() -> None:
    registry = Metrics()
    metrics = ClientMetrics(registry, ADMIN, "app-admin", deferred=True)
    for requests in (10, 25):
        metrics.settings({})["stats_cb"](statistics(tx=requests))
    assert not registry.metrics()
    metrics.read_pending()
    assert registry.value("request-total", "admin-client-metrics") == 25


def test_should_leave_the_registry_as_it_was() -> None:
    registry, metrics = told(PRODUCER, statistics())
    metrics.close()
    assert not registry.metrics()


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"brokers": {"b": 7}}', '{"topics": {"t": {"partitions": {"x": {}}}}}'])
def test_should_not_disturb_a_turn_with_statistics_that_cannot_be_read(text: str) -> None:
    registry, _ = told(CONSUMER, text)
    assert not registry.metrics()


def test_should_leave_clients_alone_whose_statistics_are_off() -> None:
    metrics = ClientMetrics(Metrics(), CONSUMER, "c")
    assert metrics.settings({"statistics.interval.ms": 0}) == {"statistics.interval.ms": 0}
    assert metrics.settings({"statistics.interval.ms": "500"})["statistics.interval.ms"] == "500"


def test_should_tell_a_callback_of_the_users_too() -> None:
    heard: list[str] = []
    ClientMetrics(Metrics(), CONSUMER, "c").settings({"stats_cb": heard.append})["stats_cb"]("{}")
    assert heard == ["{}"]
