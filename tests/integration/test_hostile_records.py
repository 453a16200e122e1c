"""Records made to run code in the worker, or to end the application, go through Spark's shuffle like any others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.hostile import feed_header_that_is_no_text, hostile_headers, payload
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.integration.topologies import all_that_is_shuffled

Run = Callable[..., Any]

RECORDS = 100


def test_should_run_nothing_that_a_record_brings_and_go_on(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    suffix = unique("")
    lines, numbers, audit, copies, counts, dead, never = (
        f"{name}{suffix}" for name in ("lines", "numbers", "audit", "copies", "counts", "dead", "never")
    )
    kafka.create(lines, numbers, audit, copies, counts, dead, never, partitions=2)
    mark = tmp_path / "ran"
    data = payload(mark)
    headers = hostile_headers(data)
    now = int(time.time() * 1000)
    hostile = [Message(data, data, now + number, headers) for number in range(RECORDS // 2)]
    for topic in (lines, numbers):
        for partition in (0, 1):
            kafka.feed(topic, hostile, partition=partition)
        feed_header_that_is_no_text(kafka.bootstrap_servers, topic, b"k", b"plain")
    config = {
        "application.id": unique("hostile"),
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 2,
        "task.spread": "always",  # over both lanes, through Spark's shuffle
        "statestore.cache.max.bytes": 1 << 20,
        "deserialization.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": dead,
    }
    first = run(all_that_is_shuffled(suffix), config)
    for topic in (audit, copies, dead):
        kafka.read(topic, RECORDS + 1)
    wait_until(lambda: kafka.has_consumed(config["application.id"], lines, numbers), "all is consumed")
    assert first.state.name == "RUNNING"
    assert first.close()
    kafka.feed(lines, [Message(b"k", b"last", now + 1_000, headers)])
    again = run(all_that_is_shuffled(suffix), config)  # what kills an application once would kill it after every restart
    kafka.read(copies, RECORDS + 2)
    assert again.state.name == "RUNNING"
    assert not mark.exists()
    for topic, count in ((audit, RECORDS + 2), (copies, RECORDS + 2), (dead, RECORDS + 1)):
        written = kafka.read(topic, count)
        assert len(written) == count
        plain = [message for message in written if message.value in (b"plain",)]
        assert len(plain) == 1
        assert {m.headers[: len(headers)] for m in written if m not in plain} == {headers}
    assert {m.headers for m in kafka.read(counts) if m.key != b"plain"} == {headers}
