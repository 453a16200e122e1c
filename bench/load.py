"""What the jobs read: topics, written as fast as one producer can, with bytes as Java's serdes write them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from confluent_kafka import Producer

from penstock.kafka.admin import Admin

# Key, value, timestamp in milliseconds (0: now), partition (-1: Java's default partitioner).
Item = tuple[bytes, bytes, int, int]


def long_bytes(number: int) -> bytes:
    """Java's LongSerializer."""
    return struct.pack(">q", number)


def create_topic(bootstrap: str, name: str, partitions: int, **configs: str) -> None:
    Admin({"bootstrap.servers": bootstrap, "log_level": 2}).create_topic(name, partitions, configs)


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete an application's topics, so that the broker's disk does not fill over many rounds."""
    admin = Admin({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.delete_topics(name for name in admin.partition_counts() if name.startswith(prefix))


def write(bootstrap: str, topic: str, items: Iterable[Item]) -> int:
    """Write all items and wait until the broker has them; returns how many."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,  # keeps the order also where the first batches to a new topic are sent twice
            "log_level": 2,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    count = 0
    for count, (key, value, timestamp, partition) in enumerate(items, 1):
        while True:
            try:
                producer.produce(topic, value, key, partition, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.05)
        if count % 50_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"not everything could be written to {topic}")
    return count
