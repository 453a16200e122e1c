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

# No turn should take as long as the ends have to be still: reading beside one slowed the last of them from 1.3 to 2.1 s.
_LOOK_EVERY, _QUIET_SECONDS, _CHECK_EVERY = 0.05, 3.5, 3.0


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


class _Watch:
    """The committed ends of a topic: where they are, when they last moved, and for how long they have stood still at most."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._admin = Admin({"bootstrap.servers": bootstrap, "log_level": 2})
        self._watched = [TopicPartition(topic, number) for number in range(partitions)]
        self._began = time.process_time()
        self.ends: dict[TopicPartition, int] = {}
        self.first, self.moved, self.silence, self.cpu = 0.0, time.monotonic(), 0.0, 0.0

    def look(self) -> bool:
        """Ask for the ends; whether they have moved."""
        found, now = self._admin.log_ends(self._watched, committed_only=True), time.monotonic()
        if found == self.ends:
            return False
        self.silence = max(self.silence, now - self.moved)
        if self.ends or any(found.values()):
            self.first, self.moved = self.first or now, now
        self.ends, self.cpu = found, time.process_time() - self._began
        return True


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
    watch, output = _Watch(bootstrap, topic, partitions), Output()
    positions, checked, deadline = dict.fromkeys(range(partitions), 0), 0.0, time.monotonic() + timeout
    while True:
        moved, now = watch.look(), time.monotonic()
        if not moved and now - watch.moved > _QUIET_SECONDS and now - checked > _CHECK_EVERY and any(watch.ends.values()):
            if _read(bootstrap, watch, positions, output) and output.is_complete(expected):
                if expected.records is not None and output.records != expected.records:
                    raise AssertionError(f"{topic} has {output.records} records, not {expected.records}")
                return Finished(watch.first, watch.moved, output.records, watch.cpu, watch.silence)
            checked = time.monotonic()
        check_alive()
        tick()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: {output.missing(expected)}")
        time.sleep(_LOOK_EVERY)


def _read(bootstrap: str, watch: _Watch, positions: dict[int, int], output: Output) -> bool:
    """Read on up to the ends; False where they move meanwhile, since what comes then comes later than they last moved.

    A partition's last offset may be a transaction's marker, which no consumer sees. The consumer lives no longer than this: one
    that is open fetches ahead.
    """
    left = {p.partition: end for p, end in watch.ends.items() if positions[p.partition] < end}
    if not left:
        return True
    topic = next(iter(watch.ends)).topic
    settings = {"bootstrap.servers": bootstrap, "group.id": f"reader-{topic}", "isolation.level": "read_committed"}
    with closing(Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})) as reader:
        reader.assign([ClientPartition(topic, number, positions[number]) for number in left])
        unfinished = set(left)
        while unfinished:
            for message in reader.consume(5_000, 0.05):
                if message.error() is None:
                    if message.offset() < left[message.partition()]:
                        output.take(message.key(), message.value())
                        positions[message.partition()] = message.offset() + 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
            if watch.look():
                return False
    return True
