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

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin

_LOOK_EVERY, _QUIET_SECONDS = 0.05, 1.5


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
    admin, output = Admin({"bootstrap.servers": bootstrap, "log_level": 3}), Output()
    watched = [TopicPartition(topic, number) for number in range(partitions)]
    ends: dict[TopicPartition, int]
    first = 0.0
    deadline, ends, moved = time.monotonic() + timeout, {}, time.monotonic()
    settings = {"bootstrap.servers": bootstrap, "group.id": f"reader-{topic}", "isolation.level": "read_committed"}
    with closing(Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 10})) as reader:
        reader.assign([ClientPartition(topic, number, 0) for number in range(partitions)])
        positions = dict.fromkeys(range(partitions), 0)
        while True:
            now, found = time.monotonic(), admin.log_ends(watched, committed_only=True)
            if found != ends:
                first = first or (now if any(found.values()) else 0.0)
                ends, moved = found, now
            elif now - moved > _QUIET_SECONDS and any(ends.values()):
                _read(reader, ends, positions, output)
                if output.is_complete(expected):
                    if expected.records is not None and output.records != expected.records:
                        raise AssertionError(f"{topic} has {output.records} records, not {expected.records}")
                    return Finished(first, moved, output.records)
            check_alive()
            tick()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: {output.missing(expected)}")
            time.sleep(_LOOK_EVERY)


def _read(reader: Consumer, ends: Mapping[TopicPartition, int], positions: dict[int, int], output: Output) -> None:
    """Read on up to the ends; a partition's last offset may be a transaction's marker, which no consumer sees."""
    quiet = 0
    while quiet < 5 and any(positions[p.partition] < end for p, end in ends.items()):
        messages = reader.consume(20_000, 0.1)
        quiet = 0 if messages else quiet + 1
        for message in messages:
            if message.error() is None:
                output.take(message.key(), message.value())
        for at in reader.position([ClientPartition(p.topic, p.partition) for p in ends]):
            positions[at.partition] = max(positions[at.partition], at.offset)
