"""Read dead letter topics for the console, and write records back. Each request opens its own clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import consumer_config, producer_config, reads_committed
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.kafka.produce import ThreadProducer
from penstock.record import ProducedRecord, RawRecord

_SECONDS = 8.0
_SLICE = 20
_MOST_BYTES = 8 * 1024 * 1024


class DeadLetterTopics:
    """Reads the last records of topics, and writes single records."""

    def __init__(self, config: StreamsConfig, admin: Admin, client_id: str) -> None:
        self._admin = admin
        self._consumer = consumer_config(config, f"{client_id}-page-consumer")
        self._committed_only = reads_committed(self._consumer)
        producer: dict[str, Any] = producer_config(config, f"{client_id}-page-producer")
        self._producer = {**producer, "delivery.timeout.ms": int(_SECONDS * 1000)}
        self._producer.pop("transaction.timeout.ms", None)

    def last(self, topic: str, most: int) -> list[RawRecord]:
        """Return about `most` of a topic's last records over all partitions, latest first; fewer if they are large."""
        count = self._admin.partition_counts([topic]).get(topic, 0)
        partitions = [TopicPartition(topic, number) for number in range(count)]
        if not partitions:
            return []
        starts, ends = self._admin.log_starts(partitions), self._admin.log_ends(partitions, self._committed_only)
        share = -(-most // len(partitions))
        found: list[RawRecord] = []
        size = 0
        fetcher = RangeFetcher(self._consumer, _SECONDS)
        try:
            for back in range(0, share, _SLICE):  # from the end backwards, so that the newest records come first
                slices = [
                    FetchRange(topic, p.partition, max(starts[p], ends[p] - min(share, back + _SLICE)), ends[p] - back)
                    for p in partitions
                    if ends[p] - back > starts[p]
                ]
                read = (
                    [columns[row] for columns in fetcher.fetch(slices).values() for row in range(len(columns))] if slices else []
                )
                found += read
                size += sum(len(record.key or b"") + len(record.value or b"") for record in read)
                if not slices or size > _MOST_BYTES:
                    break
        finally:
            fetcher.close()
        return sorted(found, key=lambda record: (record.timestamp, record.offset), reverse=True)[:most]

    def one(self, at: TopicPartition, offset: int) -> RawRecord | None:
        """Return the record at an offset, or None if there is none."""
        if not self._admin.partition_counts([at.topic]).get(at.topic, 0) > at.partition >= 0:
            return None
        start, end = self._admin.log_starts([at])[at], self._admin.log_ends([at], self._committed_only)[at]
        if not start <= offset < end:
            return None
        fetcher = RangeFetcher(self._consumer, _SECONDS)
        try:
            columns = fetcher.fetch([FetchRange(at.topic, at.partition, offset, offset + 1)])[at]
            return columns[0] if len(columns) else None
        finally:
            fetcher.close()

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """Return the number of partitions of each existing topic."""
        return dict(self._admin.partition_counts(topics))

    def write(self, record: ProducedRecord) -> TopicPartition:
        """Write a record, wait for the acknowledgement, and return its partition."""
        producer = ThreadProducer(self._producer, None)
        try:
            producer.begin()
            producer.write([record])
            producer.flush()
            if record.partition is None:
                raise BrokerError(f"a record for {record.topic} has no partition")
            return TopicPartition(record.topic, record.partition)
        finally:
            producer.close()
