"""The metrics of consumers, producers and admin clients: librdkafka's statistics under the names of Kafka's clients.

librdkafka reports statistics every `statistics.interval.ms` (10 s by default, 0: never) when the client is polled. An idle
client would queue them: `RangeFetcher.serve` polls idle consumers, and `Admin` polls before requests. Only statistics with the
same meaning as in Kafka's clients are included.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from penstock.metrics.registry import MetricName, Metrics, Sensor, measure_total, measure_total_rate

_log = logging.getLogger(__name__)

_INTERVAL = "statistics.interval.ms"
_INTERVAL_MS = 10_000

CONSUMER, PRODUCER, ADMIN = "consumer", "producer", "admin-client"

_SUMMED = frozenset({"connection-count", "buffer-available-bytes", "buffer-total-bytes"})


class Reading(NamedTuple):
    """One number of one client with its group, name and tags. A total counts since the client was opened."""

    group: str
    name: str
    tags: tuple[tuple[str, str], ...]
    value: float
    is_total: bool = False


class ClientMetrics:
    """Adds the statistics of one client id to a registry. Clients that share an id are distinguished by `part`.

    If `deferred`, statistics wait for `read_pending`: any thread may poll a client, but only one may change the registry.
    """

    def __init__(self, registry: Metrics, kind: str, client_id: str, *, deferred: bool = False) -> None:
        self._registry, self._kind, self._client_id = registry, kind, client_id
        self._deferred = deferred
        self._waiting: dict[str, str] = {}
        self._told: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], float] = {}
        self._sensors: dict[MetricName, Sensor] = {}
        self._gauges: dict[MetricName, dict[str, float]] = {}

    def settings(self, given: Mapping[str, Any], part: str = "") -> dict[str, Any]:
        """Return the client's settings with a statistics callback. A client that is opened again replaces the numbers of its
        `part`.
        """
        interval = given.get(_INTERVAL, _INTERVAL_MS)
        if int(interval) <= 0:
            return dict(given)
        return {**given, _INTERVAL: interval, "stats_cb": partial(self._take, part, given.get("stats_cb"))}

    def close(self) -> None:
        """Remove the client's metrics from the registry."""
        self._registry.remove_with_tags({"client-id": self._client_id})

    def read_pending(self) -> None:
        """Add the latest reported statistics."""
        for part in list(self._waiting):
            self._read(part, self._waiting.pop(part))

    def _take(self, part: str, others: Callable[[str], Any] | None, text: str) -> None:
        if others is not None:
            others(text)
        if self._deferred:
            self._waiting[part] = text  # totals are cumulative, so an unread report can be replaced
        else:
            self._read(part, text)

    def _read(self, part: str, text: str) -> None:
        """Never raise: the error would reach the caller of the client's `poll` during a batch."""
        try:
            found = list(readings(self._kind, json.loads(text)))
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            _log.debug("The statistics of %s cannot be read: %s", self._client_id, exc)
            return
        for values in self._gauges.values():
            values.pop(part, None)
        for reading in found:
            if reading.is_total:
                self._count(part, reading)
            else:
                self._gauge(part, reading)
        for name in [name for name, values in self._gauges.items() if not values]:
            del self._gauges[name]
            self._registry.remove_metric(name)

    def _count(self, part: str, reading: Reading) -> None:
        key = (part, *reading[:3])
        before = self._told.get(key, 0)
        self._told[key] = reading.value
        name = self._name(reading, "-total", "The total number of {}")
        sensor = self._sensors.get(name)
        if sensor is None:
            sensor = self._sensors[name] = self._registry.sensor(
                f"{self._client_id}.{reading.group}.{reading.name}.{reading.tags}"
            )
            self._registry.add(sensor, name, measure_total)
            self._registry.add(sensor, self._name(reading, "-rate", "The number of {} per second"), measure_total_rate)
        grown = reading.value - before if reading.value >= before else reading.value  # the total of a reopened client begins at 0
        if grown:
            sensor.record(grown)

    def _gauge(self, part: str, reading: Reading) -> None:
        name = self._name(reading, "", "{}")
        if name not in self._gauges:
            self._gauges[name] = {}
            self._registry.add_gauge(name, partial(_together, self._gauges[name], name.name))
        self._gauges[name][part] = reading.value

    def _name(self, reading: Reading, suffix: str, text: str) -> MetricName:
        what = reading.name.replace("-", " ")
        tags = {"client-id": self._client_id, **dict(reading.tags)}
        return self._registry.metric_name(f"{reading.name}{suffix}", reading.group, text.format(what), tags)


def _together(values: Mapping[str, float], name: str) -> float:
    """Combine the values of all clients with one id: the sum, the mean for `-avg`, else the maximum."""
    found = [value for value in values.values() if not math.isnan(value)] or [0.0 if name in _SUMMED else math.nan]
    if name in _SUMMED:
        return sum(found)
    return sum(found) / len(found) if name.endswith("-avg") else max(found)


def readings(kind: str, stats: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield a client's statistics under Kafka's names."""
    brokers = [broker for broker in stats.get("brokers", {}).values() if broker.get("nodeid", -1) >= 0]
    yield from _network(f"{kind}-metrics", stats, list(stats.get("brokers", {}).values()))
    for broker in brokers:
        yield from _node(f"{kind}-node-metrics", broker)
    if kind == CONSUMER:
        yield from _consumer(stats, brokers)
    elif kind == PRODUCER:
        yield from _producer(stats, brokers)


def _network(group: str, stats: Mapping[str, Any], brokers: list[Any]) -> Iterator[Reading]:
    yield Reading(group, "connection-count", (), sum(broker.get("state") == "UP" for broker in brokers))
    sent, received = stats.get("tx_bytes", 0), stats.get("rx_bytes", 0)
    for name, value in (
        ("connection-creation", sum(broker.get("connects", 0) for broker in brokers)),
        ("connection-close", sum(broker.get("disconnects", 0) for broker in brokers)),
        ("request", stats.get("tx", 0)),
        ("response", stats.get("rx", 0)),
        ("outgoing-byte", sent),
        ("incoming-byte", received),
        ("network-io", sent + received),
    ):
        yield Reading(group, name, (), value, is_total=True)


def _node(group: str, broker: Mapping[str, Any]) -> Iterator[Reading]:
    tags = (("node-id", f"node-{broker['nodeid']}"),)
    yield Reading(group, "request", tags, broker.get("tx", 0), is_total=True)
    yield Reading(group, "response", tags, broker.get("rx", 0), is_total=True)
    yield from _window(group, "request-latency", tags, [broker.get("rtt", {})], 1000)


def _consumer(stats: Mapping[str, Any], brokers: list[Any]) -> Iterator[Reading]:
    group = "consumer-fetch-manager-metrics"
    yield Reading(group, "records-consumed", (), stats.get("rxmsgs", 0), is_total=True)
    yield Reading(group, "bytes-consumed", (), stats.get("rxmsg_bytes", 0), is_total=True)
    yield from _window(group, "fetch-throttle-time", (), [broker.get("throttle", {}) for broker in brokers], 1)
    lags = []
    for topic, number, partition in _partitions(stats):
        if partition.get("consumer_lag", -1) >= 0:
            lags.append(partition["consumer_lag"])
            yield Reading(group, "records-lag", (("topic", topic), ("partition", number)), partition["consumer_lag"])
    if lags:
        yield Reading(group, "records-lag-max", (), max(lags))
    for topic, partitions in _by_topic(stats).items():
        for name, key in (("records-consumed", "rxmsgs"), ("bytes-consumed", "rxbytes")):
            yield Reading(group, name, (("topic", topic),), sum(p.get(key, 0) for p in partitions), is_total=True)


def _producer(stats: Mapping[str, Any], brokers: list[Any]) -> Iterator[Reading]:
    group = "producer-metrics"
    yield Reading(group, "record-send", (), stats.get("txmsgs", 0), is_total=True)
    yield from _window(group, "request-latency", (), [broker.get("rtt", {}) for broker in brokers], 1000)
    yield from _window(group, "record-queue-time", (), [broker.get("int_latency", {}) for broker in brokers], 1000)
    yield from _window(group, "produce-throttle-time", (), [broker.get("throttle", {}) for broker in brokers], 1)
    topics = list(stats.get("topics", {}).values())
    yield from _window(group, "batch-size", (), [topic.get("batchsize", {}) for topic in topics], 1)
    per_request = list(_window(group, "records-per-request", (), [t.get("batchcnt", {}) for t in topics], 1))
    yield from (reading for reading in per_request if reading.name.endswith("-avg"))
    most = stats.get("msg_size_max", 0)
    yield Reading(group, "buffer-total-bytes", (), most)
    yield Reading(group, "buffer-available-bytes", (), max(0, most - stats.get("msg_size", 0)))
    for topic, partitions in _by_topic(stats).items():
        for name, key in (("record-send", "txmsgs"), ("byte", "txbytes")):
            value = sum(p.get(key, 0) for p in partitions)
            yield Reading("producer-topic-metrics", name, (("topic", topic),), value, is_total=True)


def _window(
    group: str, name: str, tags: tuple[tuple[str, str], ...], windows: list[Mapping[str, Any]], divisor: int
) -> Iterator[Reading]:
    """Yield mean and maximum of a librdkafka window. Both are NaN if nothing was measured, as in Kafka."""
    counted = [window for window in windows if window.get("cnt", 0)]
    times = sum(window["cnt"] for window in counted)
    mean = sum(window["sum"] for window in counted) / times / divisor if times else math.nan
    yield Reading(group, f"{name}-avg", tags, mean)
    yield Reading(group, f"{name}-max", tags, max((window["max"] for window in counted), default=math.nan) / divisor)


def _partitions(stats: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for topic, told in stats.get("topics", {}).items():
        for number, partition in told.get("partitions", {}).items():
            if int(number) >= 0:  # -1 is librdkafka's own, for records without a partition yet
                yield topic, number, partition


def _by_topic(stats: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for topic, _, partition in _partitions(stats):
        found.setdefault(topic, []).append(partition)
    return found
