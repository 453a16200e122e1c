"""Positions and the logs they belong to: open transactions, logs made anew, logs that were cut."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition

from penstock import StateRestoreListener
from penstock.client.inside import inside
from penstock.kafka.produce import fence
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, texts, topics, up_to
from tests.integration.topologies import count_by_key, word_count

Run = Callable[..., Any]


class Begun(StateRestoreListener):
    """Tells when a restore has begun."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def on_restore_start(self, topic_partition: Any, store_name: str, starting_offset: int, ending_offset: int) -> None:
        self.event.set()


def open_transaction(kafka: Kafka, topic: str, partition: int, *records: tuple[str, str]) -> Producer:
    """A producer that has written to a partition and has not decided yet."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique("undecided")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, value, key, partition)
    assert producer.flush(60) == 0
    return producer


def test_should_restore_what_is_committed_behind_an_open_transaction(kafka: Kafka, run: Run) -> None:
    """A thread that died in the middle of a turn leaves its transaction open until it times out or is fenced."""
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("undecided"), "processing.guarantee": "exactly_once_v2"}
    kafka.feed(source, keyed("aaaaa"))
    first = run(count_by_key(source, out), config)
    assert counts(kafka, out, 5) == up_to(a=5)
    undecided = open_transaction(kafka, f"{config['application.id']}-counts-changelog", 0, ("zombie", "x"))
    kafka.feed(source, keyed("aaaaa"))
    assert counts(kafka, out, 10) == up_to(a=10)
    assert first.close()
    first.clean_up()
    kafka.feed(source, keyed("a"))
    begun = Begun()
    second = run(count_by_key(source, out), config, wait=False, set_global_state_restore_listener=begun)
    assert begun.event.wait(LIMIT)
    assert second.state.name == "REBALANCING"
    undecided.abort_transaction(60)
    assert counts(kafka, out, 11) == up_to(a=11)


@pytest.mark.parametrize("others", [0, pytest.param(30, marks=pytest.mark.slow)])
def test_should_follow_a_changelog_that_was_made_anew(others: int, kafka: Kafka, run: Run) -> None:
    """Whether its end comes before the position of the local state, or behind it."""
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("anew"), "processing.guarantee": "exactly_once_v2"}
    changelog = f"{config['application.id']}-counts-changelog"
    kafka.feed(source, keyed("a" * 10))
    first = run(count_by_key(source, out), config)
    assert counts(kafka, out, 10) == up_to(a=10)
    assert first.close()
    kafka.delete(changelog)
    kafka.create(changelog, partitions=1, configs={"cleanup.policy": "compact"})
    kafka.feed(changelog, [Message(key, (3).to_bytes(8, "big"), 1_000) for key in (b"a", *[b"b"] * others)])
    kafka.feed(source, keyed("a"))
    run(count_by_key(source, out), config)
    assert counts(kafka, out, 11) == {"a": [*range(1, 11), 4]}


@pytest.mark.parametrize("length", [5, 25])
def test_should_read_an_input_behind_a_shuffle_that_was_made_anew_from_its_start(length: int, kafka: Kafka, run: Run) -> None:
    """Brokers forget what is committed for a topic that is deleted, but not the vectors of the tasks behind it."""
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("anew"), "processing.guarantee": "exactly_once_v2"}
    kafka.feed(source, texts(*[("a", "a")] * 20))
    first = run(word_count(source, out), config)
    assert counts(kafka, out, 20) == up_to(a=20)
    assert first.close()
    kafka.delete(source)
    kafka.create(source, partitions=1)
    kafka.feed(source, texts(*[("a", "a")] * length))
    run(word_count(source, out), config)
    assert counts(kafka, out, 20 + length) == up_to(a=20 + length)


@pytest.mark.parametrize("topology", [count_by_key, word_count])
def test_should_go_on_where_retention_has_left_off(topology: Callable[..., Any], kafka: Kafka, run: Run) -> None:
    """The other partition of the turn that notices it is read once."""
    source, out = topics(kafka, "in", "out")
    streams = run(topology(source, out), {"application.id": unique("cut"), "processing.guarantee": "exactly_once_v2"})
    kafka.feed(source, texts(*[("a", "a")] * 3), partition=0)
    assert counts(kafka, out, 3) == up_to(a=3)
    streams.pause()
    wait_until(lambda: not inside(streams).is_processing, "no turn runs")
    kafka.feed(source, texts(*[("a", "a")] * 5), partition=0)
    kafka.feed(source, texts(*[("b", "b")] * 5), partition=1)
    cut = ClientPartition(source, 0, 6)
    kafka.admin.delete_records([cut])[cut].result(LIMIT)
    streams.resume()
    assert counts(kafka, out, 10) == up_to(a=5, b=5)


def test_should_read_on_beside_an_open_transaction_under_at_least_once(kafka: Kafka, run: Run) -> None:
    """As Java's consumers do by default, what is not committed yet is read."""
    source, out = topics(kafka, "in", "out")
    undecided = open_transaction(kafka, source, 0, ("a", "a"), ("a", "a"))
    kafka.feed(source, texts(("b", "b"), ("b", "b")), partition=1)
    run(word_count(source, out), {"application.id": unique("open")})
    assert counts(kafka, out, 4) == up_to(a=2, b=2)
    undecided.abort_transaction(60)


def test_should_wait_only_for_the_partition_with_the_open_transaction(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    kafka.feed(source, texts(("a", "a")), partition=0)
    undecided = open_transaction(kafka, source, 0, ("a", "a"), ("a", "a"))
    kafka.feed(source, texts(("b", "b"), ("b", "b")), partition=1)
    run(count_by_key(source, out), {"application.id": unique("open"), "consumer.isolation.level": "read_committed"})
    assert counts(kafka, out, 3) == up_to(a=1, b=2)
    undecided.commit_transaction(60)
    assert counts(kafka, out, 5) == up_to(a=3, b=2)


def test_should_end_what_a_thread_that_is_gone_has_left_open(kafka: Kafka) -> None:
    (topic,) = topics(kafka, "out", partitions=1)
    name = unique("thread")
    left = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
    left.init_transactions(60)
    left.begin_transaction()
    left.produce(topic, "x")
    assert left.flush(60) == 0
    assert kafka.ends(topic) == {0: 0}
    fence({"bootstrap.servers": kafka.bootstrap_servers}, name)
    assert kafka.ends(topic) == {0: 2}
    assert kafka.read(topic) == []
