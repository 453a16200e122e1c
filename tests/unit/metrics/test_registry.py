import math

import pytest

from penstock.clock import ManualClock
from penstock.metrics.registry import MetricName, Metrics, RecordingLevel, measure_min, measure_total_rate


def test_should_compute_rate_total_average_and_maximum():
    clock = ManualClock(0)
    metrics = Metrics(clock=clock)
    sensor = metrics.sensor("process")
    metrics.add_rate_and_total(sensor, "group", {"task-id": "0_0"}, "process")
    metrics.add_avg_and_max(sensor, "group", {"task-id": "0_0"}, "process-latency")
    for value in (1, 2, 6):
        sensor.record(value)
    clock.advance(1500)
    assert metrics.value("process-rate", "group") == 2
    assert metrics.value("process-total", "group") == 3
    assert metrics.value("process-latency-avg", "group") == 3
    assert metrics.value("process-latency-max", "group", {"task-id": "0_0"}) == 6


def test_should_forget_old_samples_but_not_the_total():
    clock = ManualClock(0)
    metrics = Metrics(num_samples=2, sample_window_ms=1000, clock=clock)
    sensor = metrics.sensor("s")
    metrics.add_rate_and_total(sensor, "group", {}, "s")
    metrics.add_avg_and_max(sensor, "group", {}, "s")
    sensor.record(100)
    for _ in range(3):
        clock.advance(1000)
        metrics.roll()
        sensor.record(1)
    assert metrics.value("s-max", "group") == 1
    assert metrics.value("s-total", "group") == 4
    assert sensor.total == 103


def test_should_be_nan_before_anything_was_recorded():
    metrics = Metrics()
    sensor = metrics.sensor("s")
    metrics.add_avg_and_max(sensor, "group", {}, "s")
    metrics.add(sensor, MetricName("s-min", "group"), measure_min)
    for name in ("s-avg", "s-max", "s-min"):
        assert math.isnan(metrics.value(name, "group"))


def test_should_keep_nothing_above_the_recording_level():
    metrics = Metrics("INFO")
    sensor = metrics.sensor("debug", RecordingLevel.DEBUG)
    metrics.add_rate_and_total(sensor, "group", {}, "debug")
    sensor.record()
    assert not sensor.enabled
    assert sensor.count == 0
    assert metrics.metrics() == {}
    assert Metrics("DEBUG").sensor("debug", RecordingLevel.DEBUG).enabled
    assert Metrics.from_config({"metrics.recording.level": "TRACE"}).should_record(RecordingLevel.TRACE)


def test_should_pass_records_to_parents_and_read_gauges():
    clock = ManualClock(0)
    metrics = Metrics(clock=clock)
    parent = metrics.sensor("parent")
    metrics.sensor("child", parents=[parent]).record(5)
    metrics.add_sum(parent, "group", {}, "bytes-total")
    metrics.add(parent, MetricName("bytes-rate", "group"), measure_total_rate)
    metrics.add_gauge(MetricName("state", "group"), lambda: "RUNNING")
    clock.advance(1000)
    assert metrics.value("bytes-total", "group") == 5
    assert metrics.value("bytes-rate", "group") == 5
    assert metrics.value("state", "group") == "RUNNING"
    assert metrics.sensor("parent") is parent


def test_should_forget_what_is_removed():
    metrics = Metrics()
    for task in ("0_0", "0_1"):
        metrics.add_rate_and_total(metrics.sensor(task), "group", {"task-id": task}, "x")
        metrics.add_gauge(MetricName("g", "group", tags={"task-id": task}), lambda: 1)
    metrics.remove_with_tags({"task-id": "0_0"})
    assert {name.tags["task-id"] for name in metrics.metrics()} == {"0_1"}
    metrics.remove_sensor("0_1")
    assert [name.name for name in metrics.metrics()] == ["g"]
    with pytest.raises(KeyError, match="x-total"):
        metrics.value("x-total", "group")


def test_should_tell_names_apart_by_group_and_tags():
    assert MetricName("n", "g", "one", {"a": "1"}) == MetricName("n", "g", "two", {"a": "1"})
    assert len({MetricName("n", "g", "", {"a": "1"}), MetricName("n", "g", "", {"a": "2"})}) == 2
