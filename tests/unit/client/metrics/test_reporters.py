from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock import ConfigError, KafkaMetric, MetricsReporter, StreamsConfig, StreamsError
from penstock.client.metrics.reporters import Reporters, make_reporters
from penstock.metrics.registry import Metrics, RecordingLevel
from tests.harness.kafka import wait_until

HEARD: list[tuple[str, Any]] = []


class Listening(MetricsReporter):
    def configure(self, configs: Any) -> None:
        HEARD.append(("configure", configs["application.id"]))

    def init(self, metrics: Any) -> None:
        HEARD.append(("init", [metric.metric_name.name for metric in metrics]))

    def metric_change(self, metric: KafkaMetric) -> None:
        HEARD.append(("change", (metric.metric_name.name, metric.metric_value)))

    def metric_removal(self, metric: KafkaMetric) -> None:
        HEARD.append(("removal", (metric.metric_name.name, metric.metric_value)))

    def close(self) -> None:
        HEARD.append(("close", None))


class Failing:
    def metric_change(self, metric: KafkaMetric) -> None:
        raise OSError("nobody listens")


def config(*reporters: Any) -> StreamsConfig:
    return StreamsConfig({"application.id": "shop", "bootstrap.servers": "b:9", "metric.reporters": list(reporters)})


def test_should_tell_reporters_which_metrics_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    HEARD.clear()
    registry = Metrics()
    first, second = registry.metric_name("first", "g"), registry.metric_name("second", "g")
    registry.add_gauge(first, lambda: 1)
    reporters = Reporters(config(Listening, Failing), registry.metrics, "reporters")
    reporters.start()
    wait_until(lambda: len(HEARD) == 2, "it is told of what there is")
    registry.add_gauge(second, lambda: 2)
    wait_until(lambda: len(HEARD) == 3, "it is told of what has come")
    registry.remove_metric(first)
    wait_until(lambda: len(HEARD) == 4, "it is told of what has gone")
    reporters.close()
    assert HEARD == [
        ("configure", "shop"),
        ("init", ["first"]),
        ("change", ("second", 2)),
        ("removal", ("first", None)),
        ("close", None),
    ]
    failed = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert failed == ["metric_change of the metrics reporter Failing failed"]


@pytest.mark.parametrize("method", ["configure", "init"])
def test_should_not_start_with_a_reporter_that_cannot_be_configured(method: str) -> None:
    def fail(self: Any, given: Any) -> None:
        raise OSError("nobody listens")

    reporters = Reporters(config(type("Own", (MetricsReporter,), {method: fail})), Metrics().metrics, "reporters")
    with pytest.raises(StreamsError, match=f"{method} of Own failed") as raised:
        reporters.start()
    assert isinstance(raised.value.__cause__, OSError)
    reporters.close()


def test_should_tell_a_reporter_of_the_next_metric_after_it_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    class Own(MetricsReporter):
        def metric_change(self, metric: KafkaMetric) -> None:
            told.append(metric.metric_name.name)
            raise OSError("nobody listens")

    registry = Metrics()
    reporters = Reporters(config(Own), registry.metrics, "reporters")
    for number in range(3):
        registry.add_gauge(registry.metric_name(str(number), "g"), lambda: 1)
        reporters.look()
    assert told == ["0", "1", "2"]
    assert caplog.text.count("metric_change of the metrics reporter Own failed") == 3


def test_should_take_import_paths_and_leave_out_those_of_java(caplog: pytest.LogCaptureFixture) -> None:
    made = make_reporters(config("org.apache.kafka.common.metrics.JmxReporter", "penstock.MetricsReporter"))
    assert [type(reporter) for reporter in made] == [MetricsReporter]
    assert "is a Java class and has no effect" in caplog.text


@pytest.mark.parametrize(
    ("given", "reason"), [("no.such.module", "cannot be imported"), (dict, "not a reporter"), ("x", "cannot be")]
)
def test_should_refuse_what_cannot_report(given: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make_reporters(config(given))


def test_should_make_sensors_of_the_users_own_as_java_names_them() -> None:
    metrics = Metrics(recording_level="INFO")
    sensor = metrics.add_latency_rate_total_sensor("shop", "orders", "refund", RecordingLevel.INFO, "region", "eu")
    sensor.record(20)
    sensor.record(40)
    tags = {"shop-id": "orders", "region": "eu"}
    found = {name.name: metric.metric_value for name, metric in metrics.metrics().items() if tags.items() <= name.tags.items()}
    assert (found["refund-total"], found["refund-latency-avg"], found["refund-latency-max"]) == (2, 30, 40)
    assert found.keys() == {"refund-rate", "refund-total", "refund-latency-avg", "refund-latency-max"}
    metrics.remove_sensor(sensor)
    assert not metrics.metrics()


def test_should_record_nothing_above_the_level_and_read_sensors_by_name() -> None:
    metrics = Metrics(recording_level="INFO")
    silent = metrics.add_sensor("quiet", RecordingLevel.DEBUG)
    metrics.add(silent, metrics.metric_name("quiet-max", "g"), "max")
    loud = metrics.add_sensor("loud")
    metrics.add(loud, metrics.metric_name("loud-max", "g"), "max")
    loud.record(7)
    assert {name.name: metric.metric_value for name, metric in metrics.metrics().items()} == {"loud-max": 7}
    with pytest.raises(ValueError, match="has no value"):
        metrics.add_rate_total_sensor("a", "b", "c", RecordingLevel.INFO, "region")
