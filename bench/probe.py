"""When did an application finish? Seen from outside, in the same way for both sides, at next to no cost while it works.

Reading millions of output records in Python would take a core from the application that is measured. So while it works, only the
committed ends of its output topic (last stable offsets) are asked for, twenty times a second; the time that counts is when they
last moved. What was written is read and compared when they have been still for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin

_LOOK_EVERY, _QUIET_SECONDS, _CHECK_EVERY = 0.05, 1.5, 3.0


@dataclass
class Expected:
    """What must be in the output topic: the last value of each key, and how many records if that is known."""

    last: Mapping[bytes, bytes]
    records: int | None = None


@dataclass
class Output:
    """The committed records of an output topic as far as they were read."""

    last: dict[bytes, bytes] = field(default_factory=dict)
    records: int = 0

    def take(self, key: bytes, value: bytes) -> None:
        self.last[key] = value
        self.records += 1

    def is_complete(self, expected: Expected) -> bool:
        return self.records >= (expected.records or 0) and all(self.last.get(key) == v for key, v in expected.last.items())

    def missing(self, expected: Expected) -> str:
        wrong = sum(self.last.get(key) != value for key, value in expected.last.items())
        return f"{wrong} of {len(expected.last)} keys are missing or not final, {self.records} records of {expected.records}"


@dataclass(frozen=True)
class Finished:
    """When the first and the last result were committed (monotonic clock), and how many records the output has."""

    first: float
    at: float
    records: int
    probe_cpu: float  # CPU seconds that this looking took until then
    silence: float = 0.0  # the longest time in which nothing was committed, from the beginning to the last result


def wait_until_finished(
    bootstrap: str,
    topic: str,
    partitions: int,
    expected: Expected,
    check_alive: Callable[[], None],
    timeout: float = 1800.0,
    tick: Callable[[], None] = lambda: None,
) -> Finished:
    """Returns when the output is complete and right; raises where it is too much, or does not come."""
    admin, output = Admin({"bootstrap.servers": bootstrap, "log_level": 2}), Output()
    watched = [TopicPartition(topic, number) for number in range(partitions)]
    ends: dict[TopicPartition, int]
    first, cpu, silence, began = 0.0, 0.0, 0.0, time.process_time()
    deadline, ends, moved = time.monotonic() + timeout, {}, time.monotonic()
    positions, checked = dict.fromkeys(range(partitions), 0), 0.0
    while True:
        found = admin.log_ends(watched, committed_only=True)
        now = time.monotonic()
        if found != ends:
            first = first or (now if any(found.values()) else 0.0)
            silence = max(silence, now - moved)
            ends, moved, cpu = found, (now if ends or first else moved), time.process_time() - began
        elif now - moved > _QUIET_SECONDS and now - checked > _CHECK_EVERY and any(ends.values()):
            _read(bootstrap, ends, positions, output)
            if output.is_complete(expected):
                if expected.records is not None and output.records != expected.records:
                    raise AssertionError(f"{topic} has {output.records} records, not {expected.records}")
                return Finished(first, moved, output.records, cpu, silence)
            checked = time.monotonic()
        check_alive()
        tick()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: {output.missing(expected)}")
        time.sleep(_LOOK_EVERY)


def _read(bootstrap: str, ends: Mapping[TopicPartition, int], positions: dict[int, int], output: Output) -> None:
    """Read on up to the ends; a partition's last offset may be a transaction's marker, which no consumer sees.

    The consumer lives no longer than that: one that is open fetches ahead.
    """
    left = [p for p, end in ends.items() if positions[p.partition] < end]
    if not left:
        return
    settings = {"bootstrap.servers": bootstrap, "group.id": f"reader-{left[0].topic}", "isolation.level": "read_committed"}
    with closing(Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})) as reader:
        reader.assign([ClientPartition(p.topic, p.partition, positions[p.partition]) for p in left])
        unfinished = {p.partition for p in left}
        while unfinished:
            for message in reader.consume(20_000, 0.1):
                if message.error() is None:
                    output.take(message.key(), message.value())
                    positions[message.partition()] = message.offset() + 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
