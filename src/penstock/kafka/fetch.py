"""Read exact offset ranges of topic partitions, inside the process that needs them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from penstock.columns import RawColumns
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.clients import open_client, refused

# Below this many records a range is read with the consumer that does not prefetch: 3 ms instead of 26.
_SHORT = 2_000

_SHORT_READS = {
    "queued.min.messages": 1,
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": 256 * 1024,
    "fetch.max.bytes": 1 << 20,
    "message.max.bytes": 1 << 20,
}
_LONG_READS = {
    "queued.min.messages": 100_000,
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4 << 20,
}

_OF_THE_CONNECTION = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._SSL,
    KafkaError._AUTHENTICATION,
)


class FetchRange(NamedTuple):
    """Offsets `start` to `end` (not included) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}..{self.end})"


class RangeFetcher:
    """Reads offset ranges; keeps its consumers open from call to call.

    A range ends where its last offset does, whether or not a record is there: transaction markers, aborted and
    compacted records leave gaps.
    """

    def __init__(self, client_config: Mapping[str, Any], timeout: float = 60.0) -> None:
        self._config = dict(client_config)
        self._timeout = timeout
        self._consumers: dict[str, Consumer] = {}

    def fetch(self, ranges: Sequence[FetchRange]) -> dict[TopicPartition, RawColumns]:
        """All records of the ranges, in offset order per partition."""
        wanted = {TopicPartition(r.topic, r.partition): r for r in ranges if r.end > r.start}
        found = {partition: RawColumns(*partition, [], [], [], [], []) for partition in wanted}
        if not wanted:
            return found
        total = sum(r.end - r.start for r in wanted.values())
        consumer = self._consumer("short", _SHORT_READS) if total <= _SHORT else self._consumer("long", _LONG_READS)
        consumer.assign([ClientPartition(r.topic, r.partition, r.start) for r in wanted.values()])
        try:
            self._read(consumer, wanted, found)
        finally:
            consumer.unassign()
        for columns in found.values():
            columns.headers = columns.headers if any(columns.headers or ()) else None
        return found

    def watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset of a partition, and the one after the last that may be read."""
        consumer = self._consumer("short", _SHORT_READS)
        try:
            low, high = consumer.get_watermark_offsets(ClientPartition(*partition), timeout=self._timeout)
        except KafkaException as exc:
            raise refused(f"reading the offsets of {partition}", exc.args[0]) from exc
        return low, high

    def close(self) -> None:
        """Close the consumers."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _read(
        self, consumer: Consumer, wanted: Mapping[TopicPartition, FetchRange], found: Mapping[TopicPartition, RawColumns]
    ) -> None:
        ends = {partition: r.end for partition, r in wanted.items()}
        missing = {partition: r.start for partition, r in wanted.items()}  # partition -> the next offset it lacks
        deadline = time.monotonic() + self._timeout
        while missing:
            # consume() waits until it has as many as it was asked for: never ask for more than can come.
            messages = consumer.consume(min(10_000, sum(ends[p] - at for p, at in missing.items())), 0.05)
            if messages:
                deadline = time.monotonic() + self._timeout
                _take(messages, ends, missing, found)
            else:
                _drop_finished(consumer, ends, missing)
                if time.monotonic() > deadline:
                    left = ", ".join(str(wanted[p]) for p in missing)
                    raise BrokerError(f"no record of {left} arrived within {self._timeout:.0f} s: check that the brokers are up")

    def _consumer(self, kind: str, settings: Mapping[str, Any]) -> Consumer:
        if kind not in self._consumers:
            self._consumers[kind] = open_client("consumer", Consumer, {**settings, **self._config, "enable.partition.eof": True})
        return self._consumers[kind]


def _take(
    messages: Sequence[Message],
    ends: Mapping[TopicPartition, int],
    missing: dict[TopicPartition, int],
    found: Mapping[TopicPartition, RawColumns],
) -> None:
    """Move messages into the columns of their partitions, run by run: a broker answers with many of one partition together."""
    # Not by `==`: a KafkaError compared with None leaves an exception behind that the next call raises.
    plain = all(error is None for error in map(Message.error, messages))
    partitions = list(zip(map(Message.topic, messages), map(Message.partition, messages)))
    start = 0
    while start < len(messages):
        stop = _end_of_run(partitions, start)
        partition = TopicPartition(*partitions[start])
        run = messages if stop - start == len(messages) else messages[start:stop]
        if not plain:
            run = _without_errors(run, partition, ends, missing)
        if run:
            _take_run(run, partition, ends[partition], missing, found[partition])
        start = stop


def _end_of_run(partitions: Sequence[tuple[str, int]], start: int) -> int:
    """Where the entries that equal the one at `start` end; runs are long, so steps double while they stay inside."""
    first, stop, step = partitions[start], start + 1, 1
    while partitions[stop : stop + step] == [first] * step:
        stop, step = stop + step, 2 * step
    while stop < len(partitions) and partitions[stop] == first:
        stop += 1
    return stop


def _without_errors(
    messages: Sequence[Message], partition: TopicPartition, ends: Mapping[TopicPartition, int], missing: dict[TopicPartition, int]
) -> list[Message]:
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            _fail(error, partition)
        elif message.offset() >= ends.get(partition, 0):
            missing.pop(partition, None)
    return records


def _take_run(
    messages: Sequence[Message], partition: TopicPartition, end: int, missing: dict[TopicPartition, int], columns: RawColumns
) -> None:
    offsets = list(map(Message.offset, messages))
    last = offsets[-1]
    if last >= end:
        inside = bisect_left(offsets, end)
        messages, offsets = messages[:inside], offsets[:inside]
    columns.offsets += offsets  # type: ignore[operator]
    columns.timestamps += [timestamp for _, timestamp in map(Message.timestamp, messages)]
    columns.keys += map(Message.key, messages)
    columns.values += map(Message.value, messages)
    columns.headers += [tuple(headers) if headers else () for headers in map(Message.headers, messages)]  # type: ignore[operator]
    if last >= end - 1:
        missing.pop(partition, None)
    elif partition in missing:
        missing[partition] = last + 1


def _drop_finished(consumer: Consumer, ends: Mapping[TopicPartition, int], missing: dict[TopicPartition, int]) -> None:
    """Take out the partitions whose position passed the end over a gap, without a record to show it."""
    for position in consumer.position([ClientPartition(p.topic, p.partition) for p in missing]):
        partition = TopicPartition(position.topic, position.partition)
        if position.offset >= ends[partition]:
            del missing[partition]


def _fail(error: KafkaError, partition: TopicPartition) -> None:
    if error.code() == KafkaError.OFFSET_OUT_OF_RANGE or error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise BrokerError(
            f"offsets of {partition} that were to be read are no longer in the log: they were deleted by retention before "
            "the application read them; reset the application or raise the topic's retention"
        )
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        raise BrokerError(f"{partition} does not exist any more: the topic was deleted or recreated while the application runs")
    if error.fatal() or not error.retriable():
        if error.code() in _OF_THE_CONNECTION:
            return  # librdkafka reconnects by itself; the deadline decides
        raise refused(f"reading {partition}", error) from KafkaException(error)
