"""What a client shows, from what its threads report."""

from typing import Any

import pytest

from penstock.client.metrics.application_metrics import ApplicationMetrics
from penstock.client.state import State
from penstock.client.stream_threads import StreamThreads, ThreadState
from penstock.config.streams_config import StreamsConfig
from penstock.metrics.registry import Metrics
from penstock.metrics.transfer import MetricsSender
from penstock.spark.messages import BatchReport, ThreadReport


class Client:
    def __init__(self) -> None:
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})
        self.threads = StreamThreads("client")
        self.threads.add()
        self.threads.set_all(ThreadState.STARTING, ThreadState.PARTITIONS_ASSIGNED, ThreadState.RUNNING)
        self.metrics = ApplicationMetrics(
            config, "client", lambda: "p", "1.0", lambda: "Topologies:", lambda: State.RUNNING, self.threads, lambda: None
        )

    def value(self, name: str, group: str, **tags: str) -> Any:
        wanted = {tag.replace("_", "-"): text for tag, text in tags.items()}.items()
        found = [
            metric.metric_value
            for n, metric in self.metrics.metrics().items()
            if (n.name, n.group) == (name, group) and wanted <= n.tags.items()
        ]
        if len(found) != 1:
            raise KeyError(name)
        return found[0]


def test_should_show_javas_client_metrics() -> None:
    client = Client()
    group = "stream-metrics"
    shown = {n.name: m.metric_value for n, m in client.metrics.metrics().items() if n.group == group}
    assert shown == {
        "version": "1.0",
        "commit-id": "unknown",
        "application-id": "app",
        "topology-description": "Topologies:",
        "state": "RUNNING",
        "client-state": 2,
        "alive-stream-threads": 1,
        "failed-stream-threads": 0,
        "recording-level": 0,
    }


def test_should_count_batches_for_their_thread() -> None:
    client = Client()
    seconds = {"fetch": 0.01, "process": 0.03, "punctuate": 0.01, "commit": 0.02, "store": 0.005}
    batch = BatchReport(0.0, 0.1, {"in": 10}, processed=12, punctuated=2, waiting=3, seconds=seconds)
    client.metrics.batch_done(0, batch)
    group, tags = "stream-thread-metrics", {"thread_id": "client-StreamThread-1"}
    for name, expected in {
        "process-total": 12,
        "process-latency-avg": 20,
        "process-records-max": 12,
        "poll-total": 1,
        "poll-latency-max": 10,
        "poll-records-avg": 10,
        "commit-total": 1,
        "commit-latency-avg": 25,
        "punctuate-total": 2,
        "punctuate-latency-max": 5,
        "blocked-time-ns-total": 35_000_000,
        "state": "RUNNING",
        "thread-state": 4,
    }.items():
        value = client.value(name, group, **tags)
        assert value == (expected if isinstance(expected, str) else pytest.approx(expected)), name
    own = "penstock-batch-metrics"
    assert client.value("record-total", own) == 10
    assert client.value("backlog-records", own) == 3
    assert client.value("commit-time-total", own) == pytest.approx(20)
    assert client.value("batch-time-max", own) == pytest.approx(100)


def test_should_show_what_threads_report_as_long_as_their_thread_lives() -> None:
    client = Client()
    registry = Metrics()
    sensor = registry.sensor("s")
    registry.add_rate_and_total(sensor, "stream-task-metrics", {"task-id": "0_0"}, "process")
    sensor.record()
    update = MetricsSender(registry).update()
    assert update is not None
    client.metrics.reported({0: ThreadReport(created=2, metrics=(update,))})
    assert client.value("process-total", "stream-task-metrics", task_id="0_0") == 1
    assert client.value("task-created-total", "stream-thread-metrics") == 2
    client.threads.discard(client.threads.all()[0])
    with pytest.raises(KeyError):
        client.value("process-total", "stream-task-metrics")
    with pytest.raises(KeyError):
        client.value("task-created-total", "stream-thread-metrics")
