"""What large applications commit, on a real broker."""

from __future__ import annotations

import pytest

from penstock import StreamsError
from penstock.ids import TopicPartition
from penstock.kafka.membership import group_metadata
from penstock.kafka.produce import ThreadProducer
from penstock.runtime.offset_metadata import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import commit, topics


@pytest.fixture
def producer(kafka: Kafka) -> ThreadProducer:
    return ThreadProducer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2}, unique("sizes"))


def test_should_commit_more_than_one_request_takes_in_one_transaction(kafka: Kafka, producer: ThreadProducer) -> None:
    """As 600 tasks do that are fed from 200 partitions and have little to do: all of them are in one thread then."""
    group = unique("large")
    (topic,) = topics(kafka, "words", partitions=300)
    commit(kafka, group, {(topic, 0): (0, "")})  # a broker's first group takes a while
    offsets = {TopicPartition(topic, p): OffsetAndMetadata(p + 1, "x" * 4_000) for p in range(300)}
    producer.begin()
    producer.commit(offsets, group_metadata(group, -1, ""))
    expected = {(topic, p): p + 1 for p in range(300)}
    wait_until(lambda: kafka.committed(group) == expected, "all offsets are committed")
    producer.close()


def test_should_say_whose_positions_a_broker_does_not_keep(kafka: Kafka, producer: ThreadProducer) -> None:
    (topic,) = topics(kafka, "words")
    group = unique("long")
    commit(kafka, group, {(topic, 0): (0, "")})
    long = TopicPartitionMetadata(0, ProcessorMetadata({f"store-{number:03}": number for number in range(300)})).encode()
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1), TopicPartition(topic, 1): OffsetAndMetadata(1, long)}
    producer.begin()
    with pytest.raises(StreamsError, match=rf"metadata of {topic}-1 has {len(long):,} bytes.*offset\.metadata\.max\.bytes"):
        producer.commit(offsets, group_metadata(group, -1, ""))
    producer.abort()
    producer.close()
