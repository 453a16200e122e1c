"""What the integration tests feed and read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.client.inside import inside
from penstock.ids import TaskId
from tests.harness.kafka import Kafka, Message, unique, wait_until


def topics(kafka: Kafka, *names: str, partitions: int = 2) -> list[str]:
    """New topics of these names, made unique."""
    found = [unique(name) for name in names]
    kafka.create(*found, partitions=partitions)
    return found


def texts(*pairs: tuple[str, str]) -> list[Message]:
    """Records of text, now."""
    now = int(time.time() * 1000)
    return [Message(key.encode(), value.encode(), now) for key, value in pairs]


def keyed(keys: Iterable[str]) -> list[Message]:
    """Records whose value does not matter."""
    return texts(*((key, "x") for key in keys))


def counts(kafka: Kafka, topic: str, at_least: int = 0) -> dict[str, list[int]]:
    """All counts of each key, in order."""
    found: dict[str, list[int]] = {}
    for message in kafka.read(topic, at_least):
        found.setdefault((message.key or b"").decode(), []).append(int.from_bytes(message.value or b"", "big"))
    return found


def up_to(**totals: int) -> dict[str, list[int]]:
    """1, 2, 3 … for each key."""
    return {key: list(range(1, total + 1)) for key, total in totals.items()}


def owned(streams: Any) -> set[TaskId]:
    """The tasks that an instance has."""
    return set(inside(streams).tasks)


def threads(streams: Any) -> set[int]:
    """The threads that have tasks."""
    return set(inside(streams).tasks.values())


def workers_of(streams: Any) -> list[str]:
    """Host and process of the worker of each turn from now on, as they come."""
    workers: list[str] = []
    inside(streams).watch_reports(
        lambda reports: workers.extend(report.worker for report in reports.values() for _ in report.batches)
    )
    return workers


def commit(kafka: Kafka, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
    """Commit for a group without members, as an application that died may have left it."""
    wanted = [TopicPartition(topic, p, offset, metadata) for (topic, p), (offset, metadata) in offsets.items()]
    # Not by the admin client: if this call for a broker's first group fails, librdkafka 2.16 keeps a reference to the broker, and
    # waits for the broker's thread forever when the client is destroyed.
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "log_level": 2})

    def is_committed() -> bool:
        try:
            return all(p.error is None for p in consumer.commit(offsets=wanted, asynchronous=False))
        except KafkaException:
            return False  # the broker's first group: it makes its topic of offsets

    try:
        wait_until(is_committed, "the group's coordinator has taken the offsets")
    finally:
        consumer.close()
