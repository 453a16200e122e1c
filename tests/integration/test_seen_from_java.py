"""What an application leaves for others to go on from, or to look at: read as Kafka Streams and its tools read it."""

from __future__ import annotations

import base64
import logging
import struct
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from penstock import QueryableStoreTypes, State, StoreQueryParameters
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, topics
from tests.integration.topologies import count_by_key, word_count

Run = Callable[..., Any]

EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


def committed(kafka: Kafka, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Offsets with the metadata as it is, every byte of it."""
    client = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        found = client.list_group_offsets([group])[group]
        return {(p.topic, p.partition): (o.offset, o.metadata) for p, o in found.items()}
    finally:
        client.close()


def partition_time(metadata: str) -> int:
    """As Kafka Streams reads it: base64 of a version and the time."""
    version, time = struct.unpack_from(">bq", base64.b64decode(metadata, validate=True))
    assert version == 2
    return int(time)


def at(time: int, *words: str) -> list[Message]:
    return [Message(word.encode(), word.encode(), time, (), 0) for word in words]


def test_should_leave_offsets_and_times_that_java_goes_on_from(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("heir")
    repartition = f"{application}-counts-repartition"
    streams = run(word_count(source, out), {"application.id": application, **EXACTLY_ONCE, "num.stream.threads": 2})
    for partition in (0, 1):
        kafka.feed(source, at(5_000 + partition, *"abcdefgh") * 50, partition=partition)
    kafka.read(out, 800)
    assigned = kafka.admin.describe_consumer_groups([application])[application].result(LIMIT).members
    shown = {(p.topic, p.partition) for member in assigned for p in member.assignment.topic_partitions}
    assert shown == {(topic, partition) for topic in (source, repartition) for partition in (0, 1)}
    assert streams.close()
    left = committed(kafka, application)
    assert {p: offset for p, (offset, _) in left.items() if p[0] == source} == {(source, 0): 400, (source, 1): 400}
    assert {partition_time(left[repartition, partition][1]) for partition in (0, 1)} == {5_001}


def test_should_keep_the_first_millisecond_of_all_apart_from_today(kafka: Kafka, run: Run) -> None:
    """In outputs, through a repartition topic, and in what is restored from a changelog."""
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("zero"), **EXACTLY_ONCE, "repartition.transport": "topic"}
    kafka.feed(source, at(1, "a", "b"))
    streams = run(word_count(source, out, 0), config)
    assert {message.timestamp for message in kafka.read(out, 2)} == {1}
    assert streams.close()
    streams.clean_up()
    again = run(word_count(source, out, 0), config)
    store = again.store(StoreQueryParameters("counts", QueryableStoreTypes.timestamped_key_value_store()))
    assert {key: value.timestamp for key, value in store.all()} == {"a": 1, "b": 1}


@pytest.mark.slow  # a session of the group's runs out; tests/unit/kafka/test_other_kinds.py plays it
def test_should_wait_for_members_of_another_kind_and_then_take_over(kafka: Kafka, run: Run, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    source, out = topics(kafka, "in", "out")
    application = unique("kinds")
    other = KafkaConsumer(source, bootstrap_servers=kafka.bootstrap_servers, group_id=application, client_id="somebody-else")
    wait_until(lambda: other.poll(timeout_ms=100) is not None and other.assignment(), "the other has joined")
    kafka.feed(source, at(5_000, "a"))
    streams = run(count_by_key(source, out), {"application.id": application, **EXACTLY_ONCE}, wait=False)
    try:
        wait_until(
            lambda: "members of another kind: consumers (assignor range), 1 member: somebody-else" in caplog.text, "it is told"
        )
        assert streams.state is State.REBALANCING
        assert other.poll(timeout_ms=500) is not None
        assert other.assignment()
    finally:
        other.close(autocommit=False)
    wait_until(lambda: counts(kafka, out) == {"a": [1]}, "the instance has joined")
