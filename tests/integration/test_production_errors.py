"""Records that the brokers refuse: the production exception handler decides, under both guarantees."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import ProductionError, StreamsConfig
from penstock.kafka.clients import producer_config
from penstock.kafka.membership import group_metadata
from penstock.kafka.produce import ThreadProducer
from penstock.record import ProducedRecord
from penstock.spark.worker.write_batch import TaskOutputs, write_batch
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.integration.helpers import topics
from tests.integration.topologies import GivesUpChangelogs, count_by_key, last_by_new_key, pipe

Run = Callable[..., Any]
GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
LIMIT = 2_000


def small_topic(kafka: Kafka, partitions: int = 1) -> str:
    name = unique("small")
    kafka.create(name, partitions=partitions, configs={"max.message.bytes": str(LIMIT)})
    return name


def some_large(count: int, large: set[int]) -> list[Message]:
    now = int(time.time() * 1000)
    return [Message(b"k", f"v{i}-".encode() + b"x" * (5_000 + i if i in large else 100), now) for i in range(count)]


def numbers_of(messages: list[Message]) -> list[int]:
    return [int((m.value or b"").partition(b"-")[0][1:]) for m in messages]


@GUARANTEES
def test_should_fail_and_name_topic_and_partition(guarantee: str, kafka: Kafka, run: Run) -> None:
    (source,), sink = topics(kafka, "in", partitions=1), small_topic(kafka)
    kafka.feed(source, some_large(3, {1}))
    application = unique("too-large")
    streams = run(pipe(source, sink), {"application.id": application, "processing.guarantee": guarantee}, wait=False)
    wait_until(lambda: streams.state.name == "ERROR", "the application stops")
    assert isinstance(streams.failure, ProductionError)
    assert f"{sink}-0" in str(streams.failure)
    assert "task 0_0" in str(streams.failure)
    assert "MSG_SIZE_TOO_LARGE" in str(streams.failure)
    assert not kafka.committed(application).get((source, 0), 0) > 0
    if guarantee == "exactly_once_v2":
        assert kafka.read(sink) == []
        assert kafka.ends(sink) == kafka.ends(sink, committed=False)  # no transaction is left open


@GUARANTEES
def test_should_go_on_without_the_records_that_are_refused(guarantee: str, kafka: Kafka, run: Run) -> None:
    (source,), (letters,), sink = topics(kafka, "in", partitions=1), topics(kafka, "letters", partitions=1), small_topic(kafka)
    large = {3, 17, 18, 40, 99}
    kafka.feed(source, some_large(100, large))
    config = {
        "application.id": unique("dropped"),
        "processing.guarantee": guarantee,
        "production.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": letters,
    }
    streams = run(pipe(source, sink), config)
    wait_until(lambda: kafka.has_consumed(config["application.id"], source), "everything is processed")
    found = numbers_of(kafka.read(sink))
    expected = [i for i in range(100) if i not in large]
    assert (found if guarantee == "exactly_once_v2" else list(dict.fromkeys(found))) == expected
    assert len(kafka.read(letters)) == len(large)
    kafka.feed(source, some_large(2, {1}))
    kafka.read(sink, len(found) + 1)
    assert streams.state.name == "RUNNING"


@GUARANTEES
def test_should_give_up_the_one_record_for_which_its_batch_is_refused(guarantee: str, kafka: Kafka, run: Run) -> None:
    (source,), sink = topics(kafka, "in", partitions=1), unique("recent")
    kafka.create(sink, partitions=1, configs={"message.timestamp.before.max.ms": "3600000"})
    records = some_large(30, set())
    records[7] = records[7]._replace(timestamp=1_000)  # of 1970: the broker refuses it, and the batch it is in
    kafka.feed(source, records)
    application = unique("old")
    config = {
        "application.id": application,
        "processing.guarantee": guarantee,
        "production.exception.handler": "log_and_continue",
    }
    run(pipe(source, sink), config)
    wait_until(lambda: kafka.has_consumed(application, source), "everything is processed")
    found = numbers_of(kafka.read(sink))
    expected = [i for i in range(30) if i != 7]
    assert (found if guarantee == "exactly_once_v2" else sorted(set(found))) == expected


@GUARANTEES
def test_should_split_batches_that_are_too_large_without_asking_anybody(guarantee: str, kafka: Kafka, run: Run) -> None:
    (source,), sink = topics(kafka, "in", partitions=1), small_topic(kafka)
    kafka.feed(source, some_large(200, set()))
    streams = run(pipe(source, sink), {"application.id": unique("batches"), "processing.guarantee": guarantee})
    found = numbers_of(kafka.read(sink, 200))
    assert (found if guarantee == "exactly_once_v2" else list(dict.fromkeys(found))) == list(range(200))
    assert streams.failure is None


@GUARANTEES
def test_should_ask_about_changelog_records_too(guarantee: str, kafka: Kafka, run: Run) -> None:
    source, sink = topics(kafka, "in", "out", partitions=1)
    topology = count_by_key(source, sink, topic_config={"max.message.bytes": "300"})
    now = int(time.time() * 1000)
    kafka.feed(source, [Message(key, b"v", now) for key in (b"a", b"k" * 1_000, b"a")])
    config = {
        "application.id": unique("changelog"),
        "processing.guarantee": guarantee,
        "production.exception.handler": GivesUpChangelogs(),
    }
    run(topology, config)
    wait_until(lambda: kafka.has_consumed(config["application.id"], source), "everything is processed")
    counts = [int.from_bytes(m.value or b"", "big") for m in kafka.read(sink) if m.key == b"a"]
    assert counts[-1] == 2
    assert {m.key for m in kafka.read(f"{config['application.id']}-counts-changelog")} == {b"a"}


# What Java's producer counts for a record beside its key, value and headers: 61 bytes of its batch, 21 of the record.
OVERHEAD = 82
DEFAULT = 1_048_576  # max.request.size


@pytest.mark.parametrize("topic_limit", [None, 3_000_000], ids=["brokers' limit", "larger topic limit"])
@pytest.mark.parametrize("given", [None, 3_000_000], ids=["default request size", "larger request size"])
@GUARANTEES
def test_should_write_the_largest_record_that_javas_producer_and_the_topic_take_and_refuse_larger_ones(
    topic_limit: int | None, given: int | None, guarantee: str, kafka: Kafka
) -> None:
    topic = unique("large")
    kafka.create(topic, partitions=1, configs={} if topic_limit is None else {"max.message.bytes": str(topic_limit)})
    settings: dict[str, Any] = {
        "application.id": unique("large"),
        "bootstrap.servers": kafka.bootstrap_servers,
        "processing.guarantee": guarantee,
    }
    if given is not None:
        settings["producer.max.request.size"] = given
    transactional_id = settings["application.id"] if guarantee == "exactly_once_v2" else None
    producer = ThreadProducer(producer_config(StreamsConfig(settings), "c"), transactional_id)
    limit = min(given or DEFAULT, topic_limit or DEFAULT)
    collector: Any = SimpleNamespace(handle_send_error=lambda record, error: refused.append(error), drain=lambda: ([],))
    refused: list[Exception] = []
    fits, does_not = (
        ProducedRecord(topic, 0, b"key", bytes(limit - len(b"key") - OVERHEAD + more), 1_000, ()) for more in (0, 1_000)
    )

    def finish() -> None:
        producer.commit({}, group_metadata(transactional_id, -1, "")) if transactional_id else producer.flush()

    write_batch(producer, [TaskOutputs(collector, [fits, does_not], [])], finish)
    producer.close()
    written = [len(message.value or b"") for message in kafka.read(topic)]
    # After a broker's refusal, at-least-once writes the records of the topic again.
    assert (written if transactional_id else sorted(set(written))) == [len(fits.value or b"")]
    assert ["MSG_SIZE_TOO_LARGE" in str(error) for error in refused] == [True]


def test_should_take_records_of_a_megabyte_through_repartition_topics_and_changelogs(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    values = [os.urandom(size) for size in (990_000, 1_010_000, 1_048_000)]  # not to be compressed
    kafka.feed(source, [Message(b"k", value, 1_000) for value in values], {"message.max.bytes": DEFAULT})
    application = unique("megabyte")
    run(last_by_new_key(source, out), {"application.id": application, "repartition.transport": "topic"})
    assert kafka.read(out, 3)[-1].value == values[-1]
    assert kafka.read(f"{application}-last-changelog")[-1].value[-1_048_000:] == values[-1]  # type: ignore[index]
