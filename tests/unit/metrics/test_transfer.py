"""Metrics that are recorded in one process and read in another."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from penstock.clock import ManualClock
from penstock.metrics.registry import MetricName, Metrics
from penstock.metrics.transfer import MetricsReceiver, MetricsSender, MetricsUpdate
from penstock.spark.messages import ThreadReport
from penstock.spark.reports import read_report, write_report


class Wire:
    """A registry, and its mirror behind updates that are sent with the reports of a thread."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.metrics = Metrics(num_samples=2, sample_window_ms=1000, clock=self.clock)
        self.sender = MetricsSender(self.metrics)
        self.receiver = MetricsReceiver(2, 1000, self.clock)

    def send(self) -> MetricsUpdate | None:
        update = self.sender.update()
        if update is not None:
            (sent,) = read_report(write_report(ThreadReport("worker", metrics=(update,)))).metrics
            self.receiver.take(sent)
        return update

    def values(self) -> dict[str, object]:
        return {name.name: metric.metric_value for name, metric in self.receiver.metrics().items()}


def test_should_show_the_same_values_on_both_sides() -> None:
    wire = Wire()
    sensor = wire.metrics.sensor("s")
    wire.metrics.add_rate_and_total(sensor, "g", {}, "s")
    wire.metrics.add_avg_and_max(sensor, "g", {}, "s")
    wire.metrics.add_gauge(MetricName("size", "g"), lambda: 42)
    sensor.record(3)
    sensor.record(5)
    wire.clock.advance(500)
    wire.send()
    assert wire.values() == {n.name: m.metric_value for n, m in wire.metrics.metrics().items()}
    assert wire.values()["s-rate"] == 4
    assert wire.values()["size"] == 42


def test_should_send_names_once_and_only_what_has_changed() -> None:
    wire = Wire()
    first, second = wire.metrics.sensor("first"), wire.metrics.sensor("second")
    for sensor in (first, second):
        wire.metrics.add_rate_and_total(sensor, "g", {}, sensor.name)
    update = wire.send()
    assert update is not None
    assert update.layout is not None
    assert wire.send() is None
    second.record()
    update = wire.send()
    assert update is not None
    assert update.layout is None
    assert list(update.sensors) == [1]
    assert wire.values()["second-total"] == 1
    wire.metrics.remove_sensor("first")
    wire.send()
    assert set(wire.values()) == {"second-rate", "second-total"}
    assert wire.values()["second-total"] == 1


def test_should_let_rates_fall_while_nothing_is_sent() -> None:
    wire = Wire()
    sensor = wire.metrics.sensor("s")
    wire.metrics.add_rate_and_total(sensor, "g", {}, "s")
    wire.metrics.add_avg_and_max(sensor, "g", {}, "s")
    sensor.record(7)
    wire.clock.advance(100)
    wire.send()
    wire.clock.advance(100_000)
    assert wire.values()["s-rate"] == 0
    assert wire.values()["s-total"] == 1
    assert math.isnan(float(str(wire.values()["s-max"])))


def test_should_leave_out_gauges_that_cannot_be_read_and_updates_that_do_not_fit() -> None:
    wire = Wire()
    wire.metrics.add_gauge(MetricName("broken", "g"), lambda: 1 // 0)
    wire.send()
    assert wire.values() == {}
    wire.receiver.take(MetricsUpdate(99, None, {7: ()}))
    assert wire.values() == {}


def test_should_send_what_a_way_of_the_users_own_reads_from_a_sensor() -> None:
    wire = Wire()
    sensor = wire.metrics.sensor("s")
    wire.metrics.add(sensor, MetricName("s-twice", "g"), lambda sensor, now_ms: sensor.total * 2)
    sensor.record(4)
    wire.send()
    assert wire.values() == {"s-twice": 8}


def test_should_send_what_is_not_plain_as_text_or_number() -> None:
    wire = Wire()
    tags: Any = {"shard": 7}
    wire.metrics.add_gauge(MetricName("path", "g", tags=tags), lambda: Path("here"))
    wire.metrics.add_gauge(MetricName("half", "g"), lambda: Fraction(1, 2))
    wire.send()
    assert wire.values() == {"path": "here", "half": 0.5}
    assert [name.tags for name in wire.receiver.metrics()] == [{"shard": "7"}, {}]
