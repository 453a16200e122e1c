"""The parts of the WordCount demo: topology, input, and reader of the output."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed, Grouped, Materialized, Produced
from penstock.serdes.serde import Serdes
from penstock.topology.topology import Topology

LINES, WORD_COUNTS = "lines", "word-counts"
WORDS_PER_LINE = 5
_TEXT = """
    the of and to in a is that it was for on are with as his they be at one have this from or had by hot word but what some we
    can out other were all there when up use your how said an each she which do their time if will way about many then them
    write would like so these her long make thing see him two has look more day could go come did number sound no most people
    my over know water than call first who may down side been now find kafka spark stream table window join state
"""
_WORDS = _TEXT.split()
_WEIGHTS = [1 / rank for rank in range(1, len(_WORDS) + 1)]  # as in a language: the second word is half as frequent as the first
_LATENCY_SECONDS = 5.0


def wordcount() -> Topology:
    builder = StreamsBuilder()
    text = Serdes.string()
    words = builder.stream(LINES, Consumed(text, text)).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, Grouped("words", text, text)).count(Materialized("counts"))
    counts.to_stream().to(WORD_COUNTS, Produced(text, Serdes.long()))
    return builder.build()


class Feeder:
    """Writes lines of random words and counts them."""

    def __init__(self, bootstrap: str, seconds: float | None, records: int | None, rate: int | None) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._seconds, self._records, self._rate = seconds, records, rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="demo-feeder", daemon=True)
        self._random = random.Random(7)  # noqa: S311 - words of a demo
        self.fed: Counter[str] = Counter()
        self.lines = 0
        self.seconds = 0.0

    def start(self) -> None:
        self._thread.start()

    @property
    def is_feeding(self) -> bool:
        """True until all lines are written."""
        return self._thread.is_alive()

    @property
    def words(self) -> int:
        """The number of words written."""
        return self.lines * WORDS_PER_LINE

    def stop(self) -> None:
        """Stop writing."""
        self._stop.set()

    def close(self) -> None:
        """Stop writing and wait."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()
        self._producer.flush(10)

    def _feed(self) -> None:
        started = time.monotonic()
        while not self._stop.is_set():
            self.seconds = time.monotonic() - started
            if self._seconds is not None and self.seconds >= self._seconds:
                break
            due = 200 if self._rate is None else int(self.seconds * self._rate) - self.lines
            if self._records is not None:
                due = min(due, self._records - self.lines)
                if self.lines >= self._records:
                    break
            self._write(due)
            if self._rate is not None:
                self._stop.wait(0.01)
        self._producer.flush(30)
        self.seconds = time.monotonic() - started

    def _write(self, lines: int) -> None:
        words = self._random.choices(_WORDS, _WEIGHTS, k=max(0, lines) * WORDS_PER_LINE)
        for start in range(0, len(words), WORDS_PER_LINE):
            line = " ".join(words[start : start + WORDS_PER_LINE]).encode()
            while True:
                try:
                    self._producer.produce(LINES, line, timestamp=time.time_ns() // 1_000_000)
                    break
                except BufferError:  # the queue is full, because the broker is slower
                    self._producer.poll(0.05)
        self._producer.poll(0)
        self.fed.update(words)
        self.lines += max(0, lines)


class CountReader:
    """Reads committed counts and measures their latency."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "penstock-demo-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(WORD_COUNTS, partition, 0) for partition in range(partitions)])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read, name="demo-reader", daemon=True)
        self._latencies: deque[tuple[float, float]] = deque()
        self.all_latencies: list[float] = []
        self.counts: dict[str, int] = {}
        self.words = 0
        self.updates = 0
        self.backwards = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._consumer.close()

    def recent_latencies(self) -> list[float]:
        """Return recent latencies in milliseconds, from a line's timestamp to its count."""
        return [latency for _, latency in list(self._latencies)]

    def _read(self) -> None:
        deserialize = Serdes.long().deserializer
        while not self._closing.is_set():
            for message in self._consumer.consume(1000, 0.05):
                if message.error() is None:
                    self._take(message.key().decode(), deserialize(WORD_COUNTS, message.value()), message.timestamp()[1])

    def _take(self, word: str, count: int | None, timestamp: int) -> None:
        assert count is not None  # a count is never deleted
        now = time.time()
        before = self.counts.get(word, 0)
        self.backwards += count <= before
        self.counts[word] = count
        self.words += count - before
        self.updates += 1
        latency = now * 1000 - timestamp
        self.all_latencies.append(latency)
        self._latencies.append((now, latency))
        while self._latencies and self._latencies[0][0] < now - _LATENCY_SECONDS:
            self._latencies.popleft()
