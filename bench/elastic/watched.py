"""A load on four partitions of which the last has trouble, and what comes out of them: how late, with which gaps, how often."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.hashing import default_partition
from penstock.kafka.admin import Admin

PARTITIONS = 4
TROUBLED = PARTITIONS - 1
NEIGHBOURS = tuple(range(TROUBLED))
_KEYS = 8


class Seen(NamedTuple):
    """A record of the output: when it was read and when its input was written, in seconds, and which of its key it is."""

    at: float
    written: float
    partition: int
    key: str
    number: int


@dataclass
class Output:
    """All that came out, and how many records of each key went in."""

    seen: list[Seen] = field(default_factory=list)
    written: Counter[str] = field(default_factory=Counter)

    def latencies(self, partitions: Iterable[int], start: float, end: float) -> list[float]:
        """Seconds from write to read of all that was written between two moments, in order of size."""
        wanted = set(partitions)
        return sorted(s.at - s.written for s in self.seen if s.partition in wanted and start <= s.written < end)

    def gap(self, partitions: Iterable[int], start: float, end: float) -> float:
        """The longest time between two moments that one of these partitions was without output."""
        longest = 0.0
        for partition in partitions:
            times = sorted(s.at for s in self.seen if s.partition == partition and start < s.at < end)
            longest = max(longest, *(later - earlier for earlier, later in itertools.pairwise([start, *times, end])))
        return longest

    def repeated(self, partitions: Iterable[int]) -> int:
        """How many records came out that had come out before, or were never written."""
        wanted = set(partitions)
        counts = Counter((s.key, s.number) for s in self.seen if s.partition in wanted)
        return sum(count - 1 if number <= self.written[key] else count for (key, number), count in counts.items())

    def missing(self, partitions: Iterable[int]) -> int:
        """How many of the records that were written have not come out."""
        wanted, there = set(partitions), {(s.key, s.number) for s in self.seen}
        keys = [key for key in self.written if partition_of(key) in wanted]
        return sum((key, number) not in there for key in keys for number in range(1, self.written[key] + 1))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of them lies; NaN where there are none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def partition_of(key: str) -> int:
    """Where Kafka's own partitioner puts a key, in the input as well as behind a shuffle."""
    return default_partition(key.encode(), PARTITIONS)


def names_in(partition: int, prefix: str, count: int = 1) -> list[str]:
    """So many names that belong to a partition.

    >>> [partition_of(name) for name in names_in(3, "slow", 2)]
    [3, 3]
    """
    found = (name for number in itertools.count() if partition_of(name := f"{prefix}{number}") == partition)
    return list(itertools.islice(found, count))


class Load:
    """Writes to the neighbours at a steady rate, and to the troubled partition what it is told; a context manager.

    Where records cross a shuffle (`shuffled`) the name of a key is in the value, and every input partition has all of them.
    """

    def __init__(
        self, brokers: str, source: str, sink: str, rate: float, *, shuffled: bool, counted: bool, committed: bool
    ) -> None:
        admin = Admin({"bootstrap.servers": brokers})
        for topic in (source, sink):
            admin.create_topic(topic, PARTITIONS, {})
        self._producer: Producer | None = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 2})
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"{sink}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.assign([TopicPartition(sink, p, 0) for p in range(PARTITIONS)])
        self._source, self._rate, self._shuffled, self._counted = source, rate, shuffled, counted
        self._steady = [names_in(p, "k", _KEYS) for p in NEIGHBOURS]
        self._troubled: tuple[str, float] | None = None
        self._lock = threading.Lock()
        self._sent = 0
        self._stopped, self._done = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._feed, self._take)]
        self.output = Output()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._done.set()
        self._threads[1].join()
        self._consumer.close()
        self._producer = None  # it would look for its broker for ever

    def also(self, key: str, every: float) -> None:
        """Write a key of the troubled partition every so many seconds, instead of the one before."""
        self._troubled = key, every

    def write(self, key: str) -> None:
        """Write one record now."""
        with self._lock:
            producer = self._producer
            assert producer is not None
            self.output.written[key] += 1
            number = self.output.written[key]
            name, value = (str(self._sent), key) if self._shuffled else (key, str(number))
            partition = self._sent % PARTITIONS if self._shuffled else partition_of(key)
            self._sent += 1
            producer.produce(self._source, value.encode(), name.encode(), partition, timestamp=int(time.time() * 1000))
            producer.poll(0)

    def stop(self) -> None:
        """Write no more."""
        self._stopped.set()
        self._threads[0].join()
        if self._producer is not None:
            self._producer.flush(30)

    def wait_for_rest(self, partitions: Iterable[int], timeout: float) -> bool:
        """Until all of it has come out; then a moment longer, for what may come twice."""
        deadline, partitions = time.monotonic() + timeout, tuple(partitions)
        while self.output.missing(partitions) and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(2.0)
        return not self.output.missing(partitions)

    def _feed(self) -> None:
        started, steady, troubled_at = time.monotonic(), 0, 0.0
        while not self._stopped.wait(0.005):
            now = time.monotonic() - started
            while steady < now * self._rate:
                for names in self._steady:
                    self.write(names[steady % _KEYS])
                steady += 1
            troubled = self._troubled
            if troubled is not None and now >= troubled_at:
                self.write(troubled[0])
                troubled_at = now + troubled[1]

    def _take(self) -> None:
        while not self._done.is_set():
            first = self._consumer.poll(0.1)
            if first is not None:
                now = time.time()
                for message in (first, *self._consumer.consume(500, 0)):
                    if message.error() is None:
                        self._note(message, now)

    def _note(self, message: Any, now: float) -> None:
        number = int.from_bytes(message.value(), "big") if self._counted else int(message.value())
        self.output.seen.append(Seen(now, message.timestamp()[1] / 1000, message.partition(), message.key().decode(), number))
