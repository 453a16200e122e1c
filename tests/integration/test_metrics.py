"""What a running application tells of itself in numbers."""

from __future__ import annotations

import json
import logging
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client.inside import inside
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, texts, topics, up_to
from tests.integration.topologies import count_by_key, remembering, word_count

Run = Callable[..., Any]


def value(streams: Any, name: str, group: str, **tags: str) -> Any:
    """The sum, or the one text, of all metrics of that name and group whose tags are these; NaN says that there is none."""
    wanted = {tag.replace("_", "-"): text for tag, text in tags.items()}.items()
    found = [
        m.metric_value for n, m in streams.metrics().items() if (n.name, n.group) == (name, group) and wanted <= n.tags.items()
    ]
    assert found, f"there is no {name} in {group} with {tags}"
    return found[0] if isinstance(found[0], str) else sum(number for number in found if not math.isnan(number))


def topic_value(streams: Any, topic: str) -> float:
    """How many records of a topic tasks have consumed, as far as they have reported it."""
    names = [n for n in streams.metrics() if n.name == "records-consumed-total" and n.tags.get("topic") == topic]
    return sum(float(streams.metrics()[name].metric_value) for name in names)


def test_should_count_what_client_threads_and_tasks_do(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("metrics")
    streams = run(count_by_key(source, out), {"application.id": application, "metrics.port": 0})
    kafka.feed(source, keyed("aabc"))
    assert counts(kafka, out, 4) == up_to(a=2, b=1, c=1)
    wait_until(lambda: value(streams, "process-total", "stream-thread-metrics") == 4, "four records are counted")

    assert value(streams, "state", "stream-metrics") == "RUNNING"
    assert value(streams, "application-id", "stream-metrics") == application
    assert value(streams, "alive-stream-threads", "stream-metrics", client_id=inside(streams).client_id) == 1
    assert value(streams, "failed-stream-threads", "stream-metrics") == 0
    assert value(streams, "topology-description", "stream-metrics").startswith("Topologies:")
    thread = f"{inside(streams).client_id}-StreamThread-1"
    wait_until(lambda: topic_value(streams, source) == 4, "what tasks measure is reported")
    assert value(streams, "state", "stream-thread-metrics", thread_id=thread) == "RUNNING"
    for name in ("commit-total", "poll-total", "process-latency-avg", "commit-ratio", "poll-records-max", "task-created-total"):
        assert value(streams, name, "stream-thread-metrics", thread_id=thread) > 0, name
    for task in ("0_0", "0_1"):
        assert value(streams, "dropped-records-total", "stream-task-metrics", thread_id=thread, task_id=task) == 0
    assert value(streams, "records-consumed-total", "stream-topic-metrics", topic=source) == 4
    assert value(streams, "records-produced-total", "stream-topic-metrics", topic=out) == 4
    assert value(streams, "bytes-consumed-total", "stream-topic-metrics", topic=source) > 4
    for part in ("fetch", "process", "commit", "batch"):
        assert value(streams, f"{part}-time-total", "penstock-batch-metrics") > 0, part
    assert value(streams, "record-total", "penstock-batch-metrics") == 4
    assert value(streams, "estimate-num-keys", "stream-state-metrics", rocksdb_state_id="counts") >= 0

    with urllib.request.urlopen(f"http://127.0.0.1:{streams.metrics_port}/metrics", timeout=LIMIT) as answer:
        lines = answer.read().decode().splitlines()
    assert f'penstock_stream_thread_process_total{{thread_id="{thread}"}} 4.0' in lines
    assert "# TYPE penstock_stream_thread_process_total counter" in lines
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{streams.metrics_port}/other", timeout=LIMIT)


def test_should_tell_every_metric_that_dashboard_and_alerts_use(kafka: Kafka, run: Run) -> None:
    """A store, a shuffle, and clients that tell their statistics: at the recording level one has without a setting."""
    source, out = topics(kafka, "in", "out", partitions=1)
    often = {f"{client}statistics.interval.ms": 100 for client in ("consumer.", "producer.", "admin.")}
    streams = run(word_count(source, out), {"application.id": unique("watched"), "metrics.port": 0, **often})
    deploy = Path(__file__).parents[2] / "deploy"
    used = set(re.findall(r"penstock_\w+", (deploy / "prometheus" / "alerts.yml").read_text()))
    used |= set(re.findall(r"penstock_\w+", (deploy / "grafana" / "penstock.json").read_text()))
    assert len(used) > 30

    def missing() -> set[str]:
        kafka.feed(source, texts(("1", "a b")))  # clients tell what they have counted when they are used
        with urllib.request.urlopen(f"http://127.0.0.1:{streams.metrics_port}/metrics", timeout=LIMIT) as answer:
            return used - set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.MULTILINE))

    deadline = time.monotonic() + LIMIT
    while (left := missing()) and time.monotonic() < deadline:
        pass
    assert not left
    wait_until(
        lambda: value(streams, "records-consumed-total", "consumer-fetch-manager-metrics") > 0, "the consumer has reported"
    )
    wait_until(lambda: value(streams, "record-send-total", "producer-topic-metrics", topic=out) > 0, "the producer has reported")
    wait_until(lambda: value(streams, "request-total", "admin-client-metrics") > 0, "the admin client has reported")


def test_should_measure_nodes_stores_and_caches_where_asked_to(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("debug"), "metrics.recording.level": "DEBUG", "statestore.cache.max.bytes": 100_000}
    streams = run(count_by_key(source, out), config)
    kafka.feed(source, keyed("aab"))
    wait_until(lambda: counts(kafka, out).get("a", [0])[-1] == 2, "both are counted")
    wait_until(lambda: value(streams, "process-total", "stream-task-metrics") == 3, "three records are counted")
    scope = {"rocksdb_state_id": "counts"}
    assert value(streams, "get-latency-max", "stream-state-metrics", **scope) > 0
    assert value(streams, "put-rate", "stream-state-metrics", **scope) > 0
    assert any(n.name == "hit-ratio-avg" for n in streams.metrics())
    assert any(n.name == "record-e2e-latency-max" for n in streams.metrics())
    assert any(n.name == "record-lateness-max" for n in streams.metrics())


@pytest.mark.parametrize("threads", [1, 2])
def test_should_count_lines_before_a_repartition_and_words_behind_it(
    threads: int, kafka: Kafka, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kafka Streams does: once for each sub-topology that processes a record, also where only counts cross the repartition."""
    caplog.set_level(logging.INFO, "penstock")
    source, out = topics(kafka, "in", "out")
    config = {
        "application.id": unique("processed"),
        "num.stream.threads": threads,
        "task.spread": "always",
        "statestore.cache.max.bytes": 1 << 20,
        "metrics.recording.level": "DEBUG",
        "log.summary.interval.ms": 1000,
    }
    streams = run(word_count(source, out), config)
    kafka.feed(source, texts(*((str(i), "a b c a") for i in range(100))))
    wait_until(lambda: value(streams, "process-total", "stream-thread-metrics") == 500, "all lines and words are counted")
    assert set(inside(streams).tasks.values()) == set(range(threads))

    def of(subtopology: int) -> Any:
        tasks = [f"{subtopology}_{partition}" for partition in (0, 1)]
        return sum(value(streams, "process-total", "stream-task-metrics", task_id=task) for task in tasks)

    wait_until(lambda: (of(0), of(1)) == (100, 400), "so are they for each task")
    wait_until(lambda: topic_value(streams, source) == 100, "so are they for the topic")
    pattern = re.compile(r"Processed (\d+) total records")
    wait_until(
        lambda: sum(int(n) for line in caplog.messages for n in pattern.findall(line)) == 500, "the summary tells of all of them"
    )


def test_should_tell_of_warnings_and_dead_letters_of_workers_before_a_repartition(
    kafka: Kafka, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    source, out, dead = topics(kafka, "in", "out", "dead", partitions=2)
    config = {
        "application.id": unique("told"),
        "num.stream.threads": 2,
        "task.spread": "always",
        "application.server": "localhost:0",
        "processing.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": dead,
    }
    streams = run(word_count(source, out), config)
    before = time.time() * 1000
    kafka.feed(source, [*texts(*((str(i), "a b c d") for i in range(20))), Message(b"bad", None, int(before))])
    assert counts(kafka, out, 80) == up_to(a=20, b=20, c=20, d=20)

    def app() -> Any:
        with urllib.request.urlopen(f"http://{streams.server_host}/api/app", timeout=LIMIT) as answer:
            return json.load(answer)

    (letter,) = wait_until(lambda: app()["dead_letters"], "the page tells of the dead letter")
    assert (letter["topic"], letter["to"], letter["exception"]) == (source, dead, "TypeError")
    assert letter["time"] >= before - 1
    origin = f"{source}-{letter['partition']} @ {letter['offset']}"
    told = wait_until(
        lambda: [e for e in app()["errors"] if e["message"].startswith("stream-thread [")], "it tells of the warning"
    )
    assert told[0]["level"] == "WARNING"
    assert before - 1 <= told[0]["time"] <= time.time() * 1000 + 1
    wait_until(lambda: [r for r in caplog.records if origin in r.getMessage() and dead in r.getMessage()], "so does the log")


def test_should_sum_up_in_the_log(kafka: Kafka, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("summary"), "log.summary.interval.ms": 1000}
    streams = run(remembering(source, out, tmp_path, repartitioned=False), config)
    kafka.feed(source, texts(("a", "x"), ("b", "y")))

    def told() -> list[str]:
        return [m for m in caplog.messages if "punctuators" in m]

    wait_until(lambda: any("Processed 2 total records" in line for line in told()), "the summary tells of both records")
    assert any("ran 0 punctuators" not in line for line in told())
    assert value(streams, "punctuate-total", "stream-thread-metrics") > 0
    assert all(f"[{inside(streams).client_id}-StreamThread-1]" in line for line in told())
    assert any("State transition from REBALANCING to RUNNING" in line for line in caplog.messages)
