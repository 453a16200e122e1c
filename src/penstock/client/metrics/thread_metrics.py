"""The metrics of one stream thread under Kafka Streams' names. The driver records them once per batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client.metrics.state_updater_metrics import measure_ratio
from penstock.client.stream_threads import StreamThread
from penstock.metrics.registry import (
    THREAD_GROUP,
    Metrics,
    Sensor,
    measure_count,
    measure_rate,
    measure_total,
    measure_total_rate,
)
from penstock.spark.messages import BatchReport, ThreadReport

_RATIO = "The ratio, over a rolling measurement window, of the time this thread spent {} to the total elapsed time in that window"
_RATIOS = {
    "poll": "polling records from the consumer",
    "process": "processing active tasks",
    "punctuate": "punctuating active tasks",
    "commit": "committing all tasks",
}


class ThreadMetrics:
    """The sensors of one stream thread. One batch is one iteration of the thread's loop."""

    def __init__(self, registry: Metrics, thread: StreamThread, process_id: str) -> None:
        self._registry = registry
        self._name = thread.name
        self._tags = {"thread-id": thread.name}
        self._latency = {step: self._timed(step, what) for step, what in _RATIOS.items()}
        self._processed = self._sensor("process-rate")
        self._add("process-rate", "The average per-second number of calls to process", self._processed, measure_total_rate)
        self._add("process-total", "The total number of calls to process", self._processed, measure_total)
        self._records = {step: self._batch(step) for step in ("poll", "process")}
        self._created = self._counted("task-created", "newly created tasks")
        self._closed = self._counted("task-closed", "closed tasks")
        self._blocked_ns = 0
        self._gauge("state", "The current state of the thread", lambda: thread.state.name)
        self._gauge("thread-state", "The current state of the thread", lambda: thread.state.value, {"process-id": process_id})
        self._gauge("thread-start-time", "The time that the thread was started", lambda: thread.started_ms)
        self._gauge(
            "blocked-time-ns-total",
            "The total time the thread spent blocked on kafka in nanoseconds",
            lambda: self._blocked_ns,
        )

    def opened(self, report: ThreadReport) -> None:
        _count(self._created, report.created)
        _count(self._closed, report.closed)

    def batch_done(self, batch: BatchReport) -> None:
        seconds = batch.seconds
        fetch, commit = seconds.get("fetch", 0.0), seconds.get("commit", 0.0) + seconds.get("store", 0.0)
        punctuate = seconds.get("punctuate", 0.0)
        self._latency["poll"].record(fetch * 1000)
        self._latency["process"].record(max(0.0, seconds.get("process", 0.0) - punctuate) * 1000)
        self._latency["commit"].record(commit * 1000)
        for _ in range(batch.punctuated):
            self._latency["punctuate"].record(punctuate * 1000 / batch.punctuated)
        self._processed.record(batch.processed)
        self._records["poll"].record(batch.records)
        self._records["process"].record(batch.processed)
        self._blocked_ns += int((fetch + commit) * 1e9)

    def close(self) -> None:
        self._registry.remove_with_tags(self._tags)

    def _timed(self, step: str, what: str) -> Sensor:
        """Add latency, ratio and number of calls. `process` has no number of calls: it counts records."""
        sensor = self._sensor(step)
        self._registry.add_avg_and_max(sensor, THREAD_GROUP, self._tags, f"{step}-latency", f"{step} latency")
        self._add(f"{step}-ratio", _RATIO.format(what), sensor, measure_ratio)
        if step != "process":
            self._add(f"{step}-rate", f"The average per-second number of calls to {step}", sensor, measure_rate)
            self._add(f"{step}-total", f"The total number of calls to {step}", sensor, measure_count)
        return sensor

    def _batch(self, step: str) -> Sensor:
        sensor = self._sensor(f"{step}-records")
        what = "number of records polled from consumer" if step == "poll" else "number of records processed"
        self._registry.add_avg_and_max(sensor, THREAD_GROUP, self._tags, f"{step}-records", f"{what} within an iteration")
        return sensor

    def _counted(self, name: str, what: str) -> Sensor:
        sensor = self._sensor(name)
        self._registry.add_rate_and_total(sensor, THREAD_GROUP, self._tags, name, what)
        return sensor

    def _sensor(self, name: str) -> Sensor:
        return self._registry.sensor(f"thread.{self._name}.{name}")

    def _add(self, name: str, description: str, sensor: Sensor, measure: Callable[[Sensor, int], float]) -> None:
        self._registry.add(sensor, self._registry.metric_name(name, THREAD_GROUP, description, self._tags), measure)

    def _gauge(self, name: str, description: str, read: Callable[[], Any], tags: dict[str, str] | None = None) -> None:
        name_with_tags = self._registry.metric_name(name, THREAD_GROUP, description, {**(tags or {}), **self._tags})
        self._registry.add_gauge(name_with_tags, read)


def _count(sensor: Sensor, times: int) -> None:
    for _ in range(times):
        sensor.record()
