"""A test's view of the brokers: create topics, feed records, read what was committed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.waiting import LIMIT, wait_until

_QUIET = {"log_level": 2, "socket.timeout.ms": 30_000}


class Message(NamedTuple):
    """A record as it lies in a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = 0


def unique(name: str) -> str:
    """A name nobody else uses on this broker."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


class Kafka:
    """One broker, seen by ordinary clients."""

    def __init__(self, bootstrap_servers: str, security: Mapping[str, Any] | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._base = {**_QUIET, **(security or {}), "bootstrap.servers": bootstrap_servers}
        self.admin = AdminClient(self._base)

    def create(self, *topics: str, partitions: int = 2, configs: Mapping[str, str] | None = None) -> None:
        """Create topics and wait until the broker knows them. Records of long ago stay, which it would delete soon."""
        config = {"retention.ms": "-1", **(configs or {})}
        wanted = [NewTopic(t, num_partitions=partitions, replication_factor=-1, config=config) for t in topics]
        for future in self.admin.create_topics(wanted).values():
            future.result(LIMIT)
        wait_until(lambda: set(topics) <= set(self.topics()), f"topics {topics} exist")

    def topics(self) -> dict[str, int]:
        """All topics with their number of partitions."""
        return {name: len(topic.partitions) for name, topic in self.admin.list_topics(timeout=LIMIT).topics.items()}

    def delete(self, *topics: str) -> None:
        """Delete topics."""
        for future in self.admin.delete_topics(list(topics)).values():
            future.result(LIMIT)
        wait_until(lambda: not set(topics) & set(self.topics()), f"topics {topics} are gone")

    def feed(
        self,
        topic: str,
        records: Iterable[Message | tuple[Any, ...]],
        configs: Mapping[str, Any] | None = None,
        partition: int = -1,
    ) -> None:
        """Write records in their order, partitioned by Kafka's default; returns when all are acknowledged."""
        settings = {"partitioner": "murmur2_random", "linger.ms": 5, "enable.idempotence": True}
        producer = Producer({**self._base, **settings, **(configs or {})})
        failed: list[KafkaError] = []
        for given in records:
            record = given if isinstance(given, Message) else Message(*given)
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        partition,
                        on_delivery=lambda error, _: error and failed.append(error),
                        timestamp=record.timestamp,
                        headers=list(record.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(120) == 0, "records were not acknowledged"
        assert not failed, failed[0]

    def read(self, topic: str, at_least: int = 0, timeout: float = LIMIT, committed: bool = True) -> list[Message]:
        """All records of a topic up to its end, in order per partition; waits until there are `at_least` so many."""
        deadline = time.monotonic() + timeout
        while True:
            found = self._read_once(topic, committed)
            if len(found) >= at_least:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} has {len(found)} of {at_least} records after {timeout:.0f} s")
            time.sleep(0.1)

    def _read_once(self, topic: str, committed: bool) -> list[Message]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                **self._base,
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": level,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=LIMIT).topics[topic].partitions
            consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
            found, ended, deadline = [], set(), time.monotonic() + LIMIT
            while len(ended) < len(partitions):
                message = consumer.poll(1.0)
                if message is None:
                    assert time.monotonic() < deadline, f"the end of {topic} could not be read"
                elif message.error() is None:
                    found.append(_message(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif message.error().fatal():
                    raise KafkaException(message.error())
            return found
        finally:
            consumer.close()

    def ends(self, topic: str, committed: bool = True) -> dict[int, int]:
        """The offset after the last record of each partition; with `committed`, before the first open transaction."""
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer({**self._base, "group.id": "tests", "isolation.level": level})
        try:
            count = self.topics()[topic]
            return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=LIMIT)[1] for p in range(count)}
        finally:
            consumer.close()

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that group tools show."""
        # Not by the admin client: librdkafka 2.16 ends the process where the coordinator has just moved.
        asked = [TopicPartition(topic, p) for topic, count in self.topics().items() for p in range(count)]
        consumer = Consumer({**self._base, "group.id": group, "isolation.level": "read_uncommitted"})
        try:
            return {(p.topic, p.partition): p.offset for p in consumer.committed(asked, 60) if p.offset >= 0}
        finally:
            consumer.close()

    def members(self, group: str) -> set[str]:
        """The client ids of those who are in a group now."""
        return {member.client_id for member in self.admin.describe_consumer_groups([group])[group].result(LIMIT).members}

    def has_consumed(self, group: str, *topics: str) -> bool:
        """Whether the group has committed the ends of these topics."""
        done = self.committed(group)
        return all(done.get((topic, p), 0) >= end for topic in topics for p, end in self.ends(topic).items())


def _message(message: Any) -> Message:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Message(message.key(), message.value(), message.timestamp()[1], headers, message.partition(), message.offset())
