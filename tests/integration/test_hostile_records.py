"""Records made to run code in the worker, to end it, or to stop a partition."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.record_batches import MOST_UNPACKED
from penstock.spark.record_block import BLOCK_HEADER
from tests.abuse.test_blocks import HOSTILE
from tests.harness.hostile import feed_header_that_is_no_text, hostile_headers, payload
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.integration.topologies import all_that_is_shuffled, pipe, repartitioned_and_counted

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
        "task.spread": "always",  # over both threads, through Spark's shuffle
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


def test_should_take_hostile_blocks_in_repartition_topics_for_plain_records(kafka: Kafka, run: Run) -> None:
    """Handlers may be those that fail: any bytes are a text, so nobody is asked."""
    source, copies, counts = (unique(name) for name in ("in", "copies", "counts"))
    kafka.create(source, copies, counts, partitions=1)
    config = {"application.id": unique("blocks")}
    now = int(time.time() * 1000)
    kafka.feed(source, [Message(b"k", b"first", now)])
    streams = run(repartitioned_and_counted(source, copies, counts), config)
    kafka.read(copies, 1)
    hostile = [Message(b"hostile", made(), now, ((BLOCK_HEADER, b"1"),)) for made in HOSTILE.values()]
    small = [message for message in hostile if len(message.value or b"") < 900_000]
    for name in ("again", "words"):
        kafka.feed(f"{config['application.id']}-{name}-repartition", small)
    kafka.feed(source, [Message(b"k", b"first", now), Message(b"k", b"last", now)])
    copied = [(m.key, m.value) for m in kafka.read(copies, 3 + len(small)) if m.key != b"hostile"]
    assert copied == [(b"k", b"first"), (b"k", b"first"), (b"k", b"last")]
    wanted = {b"first": 2, b"last": 1, b"hostile": len(small)}
    wait_until(lambda: {m.key: int.from_bytes(m.value or b"", "big") for m in kafka.read(counts)} == wanted, "all is counted")
    assert streams.state.name == "RUNNING"
    assert streams.failure is None


CODECS = ("zstd", "gzip", "lz4", "snappy")
UNPACKED, LIMIT = 70_000_000, 60_000_000


def test_should_go_on_behind_records_that_unpack_to_more_than_consumers_take(kafka: Kafka, run: Run) -> None:
    """The first ones lie in the topic when the application starts, the others come while it runs."""
    source, out, dead = unique("in"), unique("out"), unique("dead")
    kafka.create(source, partitions=1, configs={"max.message.bytes": "10000000"})
    kafka.create(out, dead, partitions=1)
    now = int(time.time() * 1000)
    config = {
        "application.id": unique("bombs"),
        "consumer.receive.message.max.bytes": LIMIT,
        "deserialization.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": dead,
    }

    def feed(number: int) -> None:
        for codec in CODECS:
            settings = {"compression.type": codec, "message.max.bytes": 2 * UNPACKED}
            kafka.feed(source, [Message(b"k", codec.encode(), now)])
            kafka.feed(source, [Message(b"k", bytes(UNPACKED), now)], settings)
        kafka.feed(source, [Message(b"k", b"%d" % number, now)])

    feed(1)
    streams = run(pipe(source, out), config)
    kafka.read(out, 5)
    feed(2)
    values = [message.value for message in kafka.read(out, 10)]
    assert values == [value.upper().encode() for number in ("1", "2") for value in (*CODECS, number)]
    assert streams.failure is None
    letters = [dict(message.headers) for message in kafka.read(dead, 8)]
    assert [int(headers["__streams.errors.offset"]) for headers in letters] == [1, 3, 5, 7, 10, 12, 14, 16]
    assert {headers["__streams.errors.topic"] for headers in letters} == {source.encode()}


BOMBS, BOMB = 15, 40_000_000


def growth(kafka: Kafka, way: str, codec: str, settings: dict[str, Any]) -> int:
    """The memory that a process takes to read records of zeros; all of them fit into one fetch of the ordinary size."""
    source = unique("in")
    kafka.create(source, partitions=1, configs={"max.message.bytes": "10000000"})
    compressed = {"compression.type": codec, "message.max.bytes": 2 * BOMB, "batch.num.messages": 1}
    for number in range(BOMBS):
        kafka.feed(source, [Message(b"%d" % number, bytes(BOMB), 1)], compressed)
    given = way, kafka.bootstrap_servers, source, str(BOMBS), json.dumps(settings)
    command = [sys.executable, "-m", "tests.harness.apps.peak_memory", *given]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout)


@pytest.mark.parametrize("codec", CODECS)
def test_should_unpack_one_batch_at_a_time_with_the_smallest_fetches(kafka: Kafka, codec: str) -> None:
    """docs/security.md says what is in memory at a time: five of them."""
    assert growth(kafka, "follow", codec, {"consumer.fetch.max.bytes": 1_000}) < (16 << 20) + 5 * BOMB


@pytest.mark.parametrize("codec", ["zstd", "gzip", "lz4"])
def test_should_unpack_a_part_of_a_changelog_at_a_time(kafka: Kafka, codec: str) -> None:
    """docs/security.md says what is in memory at a time. Batches of snappy are left to librdkafka."""
    assert growth(kafka, "restore", codec, {}) < 5 * (MOST_UNPACKED + BOMB)
