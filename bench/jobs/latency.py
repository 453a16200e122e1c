"""Job 5: from the moment a record is produced until a read_committed consumer has the result, with a repartition and without."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple

import numpy
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from bench.application import Application, Side, Spec
from bench.job import EXACTLY_ONCE, Job, Measures, Row, Run, size_row
from bench.load import create_topic
from bench.processes import CpuWatch

RATES = (100, 5_000)
# With more partitions than this, records that are due together go to one of them: librdkafka makes a request of each partition's
# records, and 5,000 requests a second keep the broker so busy that all there is to measure is how it catches up.
_BY_KEY = 4
_QUANTILES = {"p50": 50, "p95": 95, "p99": 99}


class _Variant(NamedTuple):
    """What is run: a topology over so many partitions, what it is called, and how much of Kafka Streams' latency it may be."""

    topology: str
    partitions: int
    label: str
    goals: dict[str, float | None]
    settings: Mapping[str, str] = MappingProxyType({})


_VARIANTS = {
    "wordcount": _Variant("wordcount", 4, "", {"p50": 0.25, "p95": None, "p99": 0.4}),
    "wordcount-2": _Variant("wordcount", 4, ", two threads", {"p50": 0.5, "p95": None, "p99": 0.6}, {"num.stream.threads": "2"}),
    "count": _Variant("count", 4, ", without a repartition", {"p50": 0.6, "p95": None, "p99": None}),
    "wordcount-64": _Variant("wordcount", 64, ", 64 partitions", {"p50": 1.0, "p95": None, "p99": 1.0}),
}


LINES = tuple(_VARIANTS)


class Latency(Job):
    """WordCount of lines with one word each, all different: every record has a result of its own. Then a count by key of them.

    One start of each side serves both rates; between them it is left alone for a while, to see what it costs when idle.
    """

    number, name = 5, "latency"
    title = "Latency at 100 and at 5,000 records/s, exactly-once, produced to read_committed"

    def feed(self) -> None:
        self.runs = 0
        self.warm, self.seconds, self.idle = (6.0, 14.0, 6.0) if self.bench.quick or self.bench.scale < 1 else (15.0, 40.0, 20.0)
        self.notes.append(
            f"Per rate {self.warm:.0f} s of warm-up, then {self.seconds:.0f} s measured. CPU is that of all processes of a side: "
            "penstock's Python driver, its JVM and its workers; Kafka Streams' JVM. Idle: no records for some seconds."
        )

    def variants(self) -> list[str]:
        only = self.bench.only or LINES
        return [name for name in only if _VARIANTS[name].partitions <= 4 or not self.bench.quick]

    def run(self, side: Side, variant: str) -> Measures:
        self.runs += 1
        source = f"words-{self.runs}"
        topology, partitions = _VARIANTS[variant].topology, _VARIANTS[variant].partitions
        create_topic(self.bench.bootstrap, source, partitions)
        measures: Measures = {}
        settings = {**EXACTLY_ONCE, **_VARIANTS[variant].settings}
        with self.application(side, topology, source, partitions=partitions, settings=settings) as (app, spec):
            app.wait_until_running()
            for rate in RATES:
                latencies, cpu = trickle(app, spec, partitions, rate, self.warm, self.seconds)
                for name, percent in _QUANTILES.items():
                    measures[f"{rate}/s {name}"] = float(numpy.percentile(latencies, percent)) * 1000
                measures[f"{rate}/s cpu"] = cpu.share * 100
                if rate == RATES[0]:
                    time.sleep(self.idle / 4)
                    with CpuWatch(app.pid) as quiet:
                        time.sleep(self.idle)
                    measures["idle cpu"] = quiet.share * 100
        return measures

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = [
            size_row(
                *(runs, variant, f"{rate}/s {name}", f"{rate:,} records/s{_VARIANTS[variant].label}, {name}", "ms", goal),
                headline=goal is not None,
            )
            for variant in LINES
            if any(run.variant == variant for run in runs)
            for rate in RATES
            for name, goal in _VARIANTS[variant].goals.items()
        ]
        variant = LINES[0]
        if not any(run.variant == variant for run in runs):
            return rows
        rows.append(size_row(runs, variant, "100/s cpu", "CPU at 100 records/s", "% of a core", 1.0, headline=True))
        rows.append(size_row(runs, variant, "5000/s cpu", "CPU at 5,000 records/s", "% of a core"))
        rows.append(size_row(runs, variant, "idle cpu", "CPU when idle", "% of a core", headline=True))
        return rows


def trickle(
    app: Application, spec: Spec, partitions: int, rate: int, warm: float, seconds: float
) -> tuple[list[float], CpuWatch]:
    """Produce at a steady rate; the latencies of what was produced after the warm-up, and the CPU used meanwhile."""
    return _Stream(spec.bootstrap, spec.source, spec.sink, partitions, app.check_alive).measure(app, rate, warm, seconds)


class _Stream:
    """Produces at a steady rate on one thread and reads the results on another."""

    def __init__(self, bootstrap: str, source: str, sink: str, partitions: int, check_alive: Callable[[], None]) -> None:
        self._source, self._partitions, self._check_alive = source, partitions, check_alive
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "log_level": 2, "linger.ms": 1, "partitioner": "murmur2_random"}
        )
        settings = {"bootstrap.servers": bootstrap, "group.id": f"reader-{sink}", "isolation.level": "read_committed"}
        self._reader = Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 50})
        ends = [ClientPartition(sink, number) for number in range(partitions)]
        offsets = [self._reader.get_watermark_offsets(end, 10)[1] for end in ends]
        self._reader.assign([ClientPartition(sink, number, offset) for number, offset in enumerate(offsets)])
        self._sent: list[float] = []
        self._stop = threading.Event()

    def measure(self, app: Application, rate: int, warm: float, seconds: float) -> tuple[list[float], CpuWatch]:
        """Latencies of the records produced after the warm-up, and the CPU used meanwhile."""
        total = int(rate * (warm + seconds))
        prefix = f"{rate}-{time.time_ns()}-"
        received: dict[int, float] = {}
        sender = threading.Thread(target=self._send, args=(prefix, rate, total), daemon=True)
        cpu = CpuWatch(app.pid)
        with closing(self._reader):
            sender.start()
            started, entered = time.monotonic(), False
            try:
                while len(received) < total:
                    if not entered and time.monotonic() - started > warm:
                        entered = True
                        cpu.__enter__()
                    message = self._reader.poll(0.1)
                    if message is not None and message.error() is None and message.key().startswith(prefix.encode()):
                        received.setdefault(int(message.key()[len(prefix) :]), time.monotonic())
                    elif message is None:
                        self._check_alive()
                    if time.monotonic() - started > warm + seconds + 120:
                        raise TimeoutError(f"{total - len(received)} of {total} results of {self._source} are missing")
            finally:
                self._stop.set()
                sender.join()
        cpu.__exit__()
        first = int(rate * warm)
        return [received[number] - self._sent[number] for number in range(first, total)], cpu

    def _send(self, prefix: str, rate: int, total: int) -> None:
        started, wakes = time.monotonic(), 0
        for number in range(total):
            due = started + number / rate
            if (wait := due - time.monotonic()) > 0:
                time.sleep(max(wait, 0.002))  # not more than 500 wake-ups a second: they would take CPU from what is measured
                wakes += 1
            self._sent.append(time.monotonic())
            word = f"{prefix}{number}".encode()
            where = -1 if self._partitions <= _BY_KEY else wakes % self._partitions
            # The key is the word too: a count per key gives the same results.
            self._producer.produce(self._source, word, word, where)
            if number % 100 == 0:
                self._producer.poll(0)
            if self._stop.is_set():
                break
        self._producer.flush(30)
