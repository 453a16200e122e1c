"""A steady input, and every committed record of the output: when it came, in which partition, and whether it is the right one."""

from __future__ import annotations

import itertools
import math
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.kafka.admin import Admin

PARTITIONS, KEYS, STEP = 6, 5_000, 0.1
_PATIENCE = 120.0


class EventGaps(NamedTuple):
    """The longest gaps after an event, in seconds, apart for partitions whose thread stayed and those whose thread moved."""

    at: float
    what: str
    stayed: float | None
    moved: float | None
    partitions: tuple[int, ...]

    def __str__(self) -> str:
        stayed, moved = ("none" if gap is None else f"{gap:.1f} s" for gap in (self.stayed, self.moved))
        which = f" (partitions {', '.join(map(str, self.partitions))})" if self.partitions else ""
        return f"{self.what}: gap where the thread stayed {stayed}, where it moved {moved}{which}"


@dataclass
class Curve:
    """Records of output by partition and tenth of a second, what was done to the application when, and what that cost."""

    name: str
    seconds: float = 0.0
    output: dict[int, dict[int, int]] = field(default_factory=dict)
    events: list[tuple[float, str]] = field(default_factory=list)
    restored: list[tuple[float, int]] = field(default_factory=list)
    exact: str = "not checked"
    notes: list[str] = field(default_factory=list)
    places: list[tuple[float, dict[int, str]]] = field(default_factory=list)
    """The thread and the executor of each partition's task, whenever they changed; empty where there are no executors."""
    partitions: int = PARTITIONS

    def gap_of(self, partition: int, start: float = 0.0, end: float = math.inf) -> tuple[float, float]:
        """The longest time a partition was without output between two moments, and when that began; the load's end counts too."""
        end = min(end, self.seconds)
        times = [step * STEP for step in sorted(self.output.get(partition, ())) if start < step * STEP < end]
        marks = [start, *times, max(end, start)]
        return max(((later - earlier, earlier) for earlier, later in itertools.pairwise(marks)), default=(0.0, start))

    def longest_gap(self, start: float = 0.0) -> float:
        """The longest time that any of the partitions was without output."""
        return max(self.gap_of(partition, start)[0] for partition in range(self.partitions))

    def silence(self, start: float = 0.0) -> float:
        """The longest time that all of them were."""
        steps = {step for output in self.output.values() for step in output}
        marks = [start, *(step * STEP for step in sorted(steps) if start < step * STEP < self.seconds), max(self.seconds, start)]
        return max(later - earlier for earlier, later in itertools.pairwise(marks))

    def moved(self, start: float, end: float) -> set[int]:
        """The partitions whose tasks were in another thread or on another executor after a moment than at it."""
        before = next((places for at, places in reversed(self.places) if at <= start), {})
        return {
            partition
            for at, places in self.places
            if start < at <= end
            for partition, place in places.items()
            if partition in before and before[partition] != place
        }

    def by_event(self) -> list[EventGaps]:
        """After each event, until the next: the longest gaps of partitions that stayed where they were, and of others."""
        found = []
        ends = [*(at for at, _ in self.events[1:]), self.seconds]
        for (at, what), end in zip(self.events, ends, strict=False):
            moved = self.moved(at, end)
            gaps = {partition: self.gap_of(partition, at, end)[0] for partition in range(self.partitions)}
            stayed = max((gap for partition, gap in gaps.items() if partition not in moved), default=None)
            gone = max((gap for partition, gap in gaps.items() if partition in moved), default=None)
            found.append(EventGaps(at, what, stayed, gone, tuple(sorted(moved))))
        return found

    def replayed(self, start: float = 0.0) -> int:
        """How many records of changelogs tasks have read before they ran, after a moment."""
        return sum(records for at, records in self.restored if at >= start)

    @property
    def first_event(self) -> float:
        """When the application was first disturbed."""
        return self.events[0][0] if self.events else 0.0


class Load:
    """Writes `ahead` records at once and then so many a second, and reads the output; a context manager.

    With `words` what is counted is the value, and records have no keys: they go to any partition, and cross a repartition.
    """

    def __init__(
        self,
        brokers: str,
        source: str,
        sink: str,
        rate: int,
        ahead: int,
        name: str,
        *,
        partitions: int = PARTITIONS,
        words: bool = False,
    ) -> None:
        admin = Admin({"bootstrap.servers": brokers})
        for topic in (source, sink):
            admin.create_topic(topic, partitions, {})
        # Kafka's own partitioner, as the applications have it: the task of an input partition writes to the same of the output.
        settings = {"bootstrap.servers": brokers, "linger.ms": 5, "log_level": 2, "partitioner": "murmur2_random"}
        self._producer: Producer | None = Producer(settings)
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"{sink}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(sink, p, 0) for p in range(partitions)])
        self._source, self._rate, self._ahead, self._words = source, rate, ahead, words
        self._stopped, self._done = threading.Event(), threading.Event()
        self._written, self._read = 0, 0
        self._counts: Counter[bytes] = Counter()
        self._partitions: dict[bytes, int] = {}
        self._wrong, self._strayed = 0, 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._feed, self._take)]
        self.curve = Curve(name, partitions=partitions)

    def __enter__(self) -> Load:
        self._started = time.monotonic()
        return self

    def begin(self) -> None:
        """Start to write and to read; returns when what was written at once has come out."""
        self._started = time.monotonic()
        self.curve.places = [(0.0, places) for _, places in self.curve.places[-1:]]
        for thread in self._threads:
            thread.start()
        self.wait(lambda: self._read >= self._ahead, "the first output", _PATIENCE)

    def finish(self) -> None:
        """Write no more, and check that every record has been counted once."""
        self._stopped.set()
        self._threads[0].join()
        self.curve.seconds = self.now
        self.curve.exact = self._check()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._done.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._consumer.close()
        self._producer = None  # it would look for its broker for ever

    @property
    def now(self) -> float:
        return time.monotonic() - self._started

    def note(self, what: str) -> float:
        """Mark a moment in the curve."""
        at = self.now
        self.curve.events.append((at, what))
        return at

    def wait(self, condition: Callable[[], bool], what: str, timeout: float) -> bool:
        """Until something holds; whether it does."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                self.curve.notes.append(f"after {timeout:.0f} s still not: {what}")
                return False
            time.sleep(0.05)
        return True

    def all_flow(self, since: float) -> bool:
        """Whether every partition has had output after a moment."""
        first = int(since / STEP) + 1
        return all(max(self.curve.output.get(p, {0: 0})) > first for p in range(self.curve.partitions))

    def _feed(self) -> None:
        producer = self._producer
        assert producer is not None
        while True:
            due = self._ahead + int(self.now * self._rate)
            for number in range(self._written, due):
                while True:
                    try:
                        key = str(number % KEYS).encode()
                        if self._words:
                            producer.produce(self._source, key)
                        else:
                            first = self._delivered if number < KEYS else None
                            producer.produce(self._source, b"x", key, on_delivery=first)
                        break
                    except BufferError:
                        producer.poll(0.1)
            self._written = max(self._written, due)
            producer.poll(0)
            if self._stopped.wait(0.02):
                break
        producer.flush(30)

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self._partitions[message.key()] = message.partition()

    def _take(self) -> None:
        """Every key must be counted 1, 2, 3 ..., without a gap or a repeat."""
        while not self._done.is_set():
            messages = self._consumer.consume(2_000, 0.05)
            step, taken = int(self.now / STEP), defaultdict[int, int](int)
            for message in messages:
                if message.error() is None:
                    taken[message.partition()] += 1
                    key = message.key()
                    self._wrong += struct.unpack(">q", message.value())[0] != self._counts[key] + 1
                    self._counts[key] += 1
                    self._strayed += self._partitions.get(key, message.partition()) != message.partition()
            for partition, count in taken.items():
                output = self.curve.output.setdefault(partition, {})
                output[step] = output.get(step, 0) + count
            self._read += sum(taken.values())

    def _check(self) -> str:
        self.wait(lambda: self._read >= self._written, "all has come out", _PATIENCE)
        time.sleep(2.0)  # what came twice would still come
        expected = Counter({str(key).encode(): len(range(key, self._written, KEYS)) for key in range(min(KEYS, self._written))})
        if self._strayed:
            raise RuntimeError(f"{self._strayed} records came out in another partition than their task's: gaps would not be seen")
        if self._wrong or self._counts != expected:
            return f"no: {self._read} of {self._written} records, {self._wrong} of them out of order"
        return f"yes: {self._written:,} records, each counted once"
