"""A steady input, and the committed output counted ten times a second."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Producer

from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin

PARTITIONS, KEYS, STEP = 6, 5_000, 0.1


@dataclass
class Curve:
    """Records of output by time, and what was done to the application when."""

    name: str
    points: list[tuple[float, int]] = field(default_factory=list)
    partitions: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    events: list[tuple[float, str]] = field(default_factory=list)

    def longest_gap(self, start: float = 0.0) -> float:
        """The longest time that a partition was without output after a moment, and then had some."""
        return max((_gap(points, start) for points in self.partitions.values()), default=0.0)


def _gap(points: list[tuple[float, int]], start: float) -> float:
    times = [at for (at, now), (_, before) in zip(points[1:], points) if now > before and at >= start]
    return max((later - earlier for earlier, later in zip([start, *times], times)), default=0.0)


class Load:
    """Writes so many records a second until stopped; a context manager that also samples the output."""

    def __init__(self, brokers: str, source: str, sink: str, rate: int, name: str) -> None:
        self._admin = Admin({"bootstrap.servers": brokers})
        for topic in (source, sink):
            self._admin.create_topic(topic, PARTITIONS, {})
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
        self._source, self._rate = source, rate
        self._outputs = [TopicPartition(sink, p) for p in range(PARTITIONS)]
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._feed, self._sample)]
        self.curve = Curve(name)

    def __enter__(self) -> Load:
        self._started = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def now(self) -> float:
        return time.monotonic() - self._started

    def note(self, what: str) -> float:
        """Mark a moment in the curve."""
        at = self.now
        self.curve.events.append((at, what))
        return at

    def _feed(self) -> None:
        written = 0
        while not self._stopped.wait(0.02):
            due = int(self.now * self._rate)
            for number in range(written, due):
                self._producer.produce(self._source, b"x", str(number % KEYS).encode())
            written = max(written, due)
            self._producer.poll(0)
        self._producer.flush(10)

    def _sample(self) -> None:
        while not self._stopped.wait(STEP):
            ends, now = self._admin.log_ends(self._outputs, True), self.now
            self.curve.points.append((now, sum(ends.values())))
            for partition, end in ends.items():
                self.curve.partitions.setdefault(partition.partition, []).append((now, end))
