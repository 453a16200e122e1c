"""Job 3: a tumbling-window count per key, with a result on every update and with one when a window closes."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterator

import numpy
from confluent_kafka import Producer

from bench.application import Side
from bench.job import EXACTLY_ONCE, Measures, Row, Run, size_row, time_row
from bench.jobs.throughput import Throughput
from bench.load import Item, create_topic, long_bytes, write
from bench.probe import Expected
from bench.topologies import WINDOW_MS

RECORDS, KEYS = 1_000_000, 1_000
_START = 1_700_000_000_000
SOURCE = "events"


class Windows(Throughput):
    """A record each millisecond, windows of 10 s: 100 windows of 1,000 keys with some 10 records each."""

    number, name = 3, "windows"
    title = f"Tumbling-window count per key, {RECORDS:,} records of {KEYS:,} keys in 100 windows, no grace, exactly-once"

    def feed(self) -> None:
        records = self.bench.scaled(RECORDS, 20_000)
        chosen = numpy.random.default_rng(3).integers(0, KEYS, records).tolist()
        keys = [b"key-%d" % number for number in range(KEYS)]
        counts: Counter[tuple[bytes, int]] = Counter()

        def items() -> Iterator[Item]:
            for number, key in enumerate(chosen):
                at = _START + number
                counts[keys[key], at - at % WINDOW_MS] += 1
                yield keys[key], b"x", at, -1

        create_topic(self.bench.bootstrap, SOURCE, self.partitions)
        write(self.bench.bootstrap, SOURCE, items())
        self.far = _START + records + 10 * WINDOW_MS
        self.ticker = Producer({"bootstrap.servers": self.bench.bootstrap, "log_level": 2})
        self._tick()
        self.expected = Expected({key + struct.pack(">q", start): long_bytes(count) for (key, start), count in counts.items()})
        self.on_close = Expected(self.expected.last, len(self.expected.last))

    def variants(self) -> list[str]:
        return ["windows-on-update", "windows-on-close"]

    def run(self, side: Side, variant: str) -> Measures:
        last = time.monotonic()

        def tick() -> None:
            # Kafka Streams looks for closed windows when a record comes, once a second at most.
            nonlocal last
            if time.monotonic() - last > 0.25:
                last = time.monotonic()
                self._tick()

        if variant == "windows-on-close":
            return self.measure(side, variant, SOURCE, self.on_close, tick=tick, settings=EXACTLY_ONCE)
        # What the far record itself counts is no part of the result.
        return self.measure(side, variant, SOURCE, self.expected, settings=EXACTLY_ONCE)

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant in self.variants():
            label = variant.replace("-", " ")
            rows.append(time_row(runs, variant, "seconds", f"{label}, from RUNNING", 2.0, headline=True))
            rows.append(time_row(runs, variant, "with start-up", f"{label}, with start-up"))
            rows.append(size_row(runs, variant, "cpu", f"{label}, CPU of all processes from RUNNING", "CPU s"))
        return rows

    def _tick(self) -> None:
        """A record far ahead in each partition: all windows before it are closed, and its own never is."""
        for number in range(self.partitions):
            self.ticker.produce(SOURCE, b"x", b"far-%d" % number, number, timestamp=self.far)
        self.ticker.poll(0)
