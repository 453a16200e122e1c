"""Prometheus' text."""

import urllib.error
import urllib.request

import pytest

from penstock.client.metrics.prometheus import render
from penstock.client.metrics.server import MetricsServer
from penstock.config.streams_config import StreamsConfig
from penstock.errors import StreamsError
from penstock.metrics.registry import Metric, MetricName
from tests.harness.waiting import LIMIT


def metrics(*pairs: tuple[MetricName, object]) -> dict[MetricName, Metric]:
    return {name: Metric(name, value) for name, value in pairs}


def test_should_put_metrics_of_one_name_together_under_one_help_and_type() -> None:
    text = render(
        metrics(
            (MetricName("put-rate", "stream-state-metrics", "puts", {"rocksdb-state-id": "b"}), 0.5),
            (MetricName("process-total", "stream-task-metrics", "calls", {"task-id": "0_0"}), 7),
            (MetricName("put-rate", "stream-state-metrics", "puts", {"rocksdb-state-id": "a"}), 2.0),
        )
    )
    assert text == (
        "# HELP penstock_stream_state_put_rate puts\n"
        "# TYPE penstock_stream_state_put_rate gauge\n"
        'penstock_stream_state_put_rate{rocksdb_state_id="a"} 2.0\n'
        'penstock_stream_state_put_rate{rocksdb_state_id="b"} 0.5\n'
        "# HELP penstock_stream_task_process_total calls\n"
        "# TYPE penstock_stream_task_process_total counter\n"
        'penstock_stream_task_process_total{task_id="0_0"} 7.0\n'
    )


def test_should_escape_labels_and_help() -> None:
    text = render(metrics((MetricName("x", "stream-metrics", "a\\b\nc", {"client-id": 'a"b\\c\nd'}), 1)))
    assert "# HELP penstock_stream_x a\\\\b\\nc\n" in text
    assert 'penstock_stream_x{client_id="a\\"b\\\\c\\nd"} 1.0\n' in text


def test_should_show_text_as_a_label_and_numbers_that_are_none() -> None:
    state = MetricName("state", "stream-metrics", tags={"client-id": "c"})
    values = [MetricName(f"v{n}", "penstock-batch-metrics") for n in range(4)]
    text = render(metrics((state, "RUNNING"), *zip(values, (float("nan"), float("inf"), float("-inf"), True))))
    assert 'penstock_stream_state{client_id="c",value="RUNNING"} 1.0\n' in text
    assert [line for line in text.splitlines() if line.startswith("penstock_batch")] == [
        "penstock_batch_v0 NaN",
        "penstock_batch_v1 +Inf",
        "penstock_batch_v2 -Inf",
        "penstock_batch_v3 1.0",
    ]
    assert render({}) == ""


def serving_on(port: int) -> StreamsConfig:
    return StreamsConfig({"application.id": "app", "bootstrap.servers": "localhost:9", "metrics.port": port})


def test_should_serve_the_text_until_closed() -> None:
    texts = iter(["one 1\n", ValueError("no")])

    def text() -> str:
        given = next(texts)
        if isinstance(given, Exception):
            raise given
        return given

    server = MetricsServer(serving_on(0), text, "metrics")
    address = f"http://127.0.0.1:{server.port}"
    with urllib.request.urlopen(f"{address}/metrics?x=1", timeout=LIMIT) as answer:
        assert answer.read() == b"one 1\n"
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(f"{address}/metrics", timeout=LIMIT)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/else", timeout=LIMIT)
    with pytest.raises(StreamsError, match=r"metrics\.port = .*another port"):
        MetricsServer(serving_on(server.port), text, "second")
    server.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/metrics", timeout=LIMIT)
