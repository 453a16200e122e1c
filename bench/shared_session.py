"""`python -m bench.shared_session`: an application in a session that its user works in, and that a second application shares.

WordCount through a repartition counts 1,000 words a second, exactly-once, while the user runs RDD jobs, UDFs and counts of the
live table in the same session, and another application counts beside it. The session is the user's: two local cores, all
settings Spark's own. Latency is from the time a record was produced until its count can be read by a read_committed consumer. At
the end every word has to be counted 1, 2, 3 ... to its last, and no job of the user's may have failed or seen a thread's worker.
Writes a page into `bench/results`.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from bench import environment
from penstock import Consumed, Grouped, KafkaStreams, Materialized, Produced, Serdes, StreamsBuilder, Topology
from penstock.kafka.dev_broker import DevBroker

_PAGE = Path(__file__).parent / "results" / "shared-session.md"
_PARTITIONS, _WORDS = 4, 500
_QUIET = 10.0


def topology(source: str, sink: str) -> Topology:
    """How often each word has come, through a repartition."""
    builder, string = StreamsBuilder(), Serdes.string()
    words = builder.stream(source, Consumed(string, string)).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, Grouped("words", string, string)).count(Materialized("counts"))
    counts.to_stream().to(sink, Produced(string, Serdes.long()))
    return builder.build()


class Load(threading.Thread):
    """Writes words at a rate, until it is ended."""

    def __init__(self, brokers: str, topic: str, rate: float) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
        self._topic, self._rate = topic, rate
        self.sent, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Keep to the rate on the whole, also where a moment was missed."""
        started = time.monotonic()
        while not self.ended.wait(0.01):
            while self.sent < self._rate * (time.monotonic() - started):
                word = f"w{self.sent % _WORDS}".encode()
                self._producer.produce(self._topic, word, None, self.sent % _PARTITIONS)
                self.sent += 1
            self._producer.poll(0)
        self._producer.flush(30)

    @property
    def expected(self) -> dict[str, int]:
        """How often each word has been written."""
        return dict(Counter({f"w{i}": (self.sent + _WORDS - 1 - i) // _WORDS for i in range(_WORDS)}))


class Reader(threading.Thread):
    """Reads committed counts: whether they go up, and how old the records are that they are of."""

    def __init__(self, brokers: str, topic: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": brokers, "group.id": "reader", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
        self._consumer.subscribe([topic])
        self.counts: dict[str, int] = {}
        self.wrong: list[str] = []
        self.latencies: list[float] = []
        self.ended = threading.Event()

    def run(self) -> None:
        """Counts of a word grow; a cache may leave some out, none comes again."""
        decode = Serdes.long().deserializer
        while not self.ended.is_set():
            messages = self._consumer.consume(1000, 0.05)
            now = time.time()
            for message in messages:
                word, count = message.key().decode(), decode("", message.value())
                if count <= self.counts.get(word, 0):
                    self.wrong.append(f"{word}: {self.counts.get(word)}, then {count}")
                self.counts[word] = count
                self.latencies.append(now - message.timestamp()[1] / 1000)
        self._consumer.close()


class UsersJobs:
    """Threads that each run a job again and again; how often, how long, and what went wrong."""

    def __init__(self, jobs: dict[str, Callable[[], Any]]) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in jobs}
        self.wrong: list[str] = []
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=job, daemon=True) for job in jobs.items()]

    def start(self) -> None:
        """Begin all of them."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait for those that run."""
        self.ended.set()
        for thread in self._threads:
            thread.join(120)

    def _run(self, name: str, job: Callable[[], Any]) -> None:
        while not self.ended.wait(0.05):
            started = time.monotonic()
            try:
                job()
            except Exception as exc:  # noqa: BLE001 - the page tells
                self.wrong.append(f"{name}: {str(exc).splitlines()[0]}")
            self.seconds[name].append(time.monotonic() - started)


def users_jobs(spark: SparkSession, streams: KafkaStreams) -> dict[str, Callable[[], Any]]:
    """What a user might do meanwhile; each fails where it finds itself in a thread's worker."""
    context, thread = spark.sparkContext, "PENSTOCK_THREAD"

    def look(_: Any) -> str | None:
        return os.environ.get(thread)

    look_in_udf = udf(look, "string", useArrow=False)

    def refuse(found: list[Any]) -> None:
        if any(found):
            raise AssertionError(f"a user's function ran in the worker of {next(filter(None, found))}")

    return {
        "RDD": lambda: refuse(context.parallelize(range(4), 2).map(look).collect()),
        "UDF": lambda: refuse([row.thread for row in spark.range(4).select(look_in_udf("id").alias("thread")).collect()]),
        "live table": lambda: streams.store_dataframe("counts").count(),
    }


def measure(seconds: float, rate: float) -> list[str]:
    """Run it; the lines of the page."""
    spark = SparkSession.builder.master("local[2]").appName("the user's").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder, DevBroker() as broker:
        brokers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": brokers})
        names = [f"{topic}-{number}" for topic in ("in", "out") for number in (1, 2)]
        for created in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in names]).values():
            created.result(60)
        settings = {"bootstrap.servers": brokers, "processing.guarantee": "exactly_once_v2", "state.dir": folder}
        applications = [
            KafkaStreams(topology(f"in-{n}", f"out-{n}"), {**settings, "application.id": f"shared-{n}"}, spark=spark)
            for n in (1, 2)
        ]
        loads = [Load(brokers, "in-1", rate), Load(brokers, "in-2", rate / 10)]
        readers = [Reader(brokers, f"out-{n}") for n in (1, 2)]
        jobs = UsersJobs(users_jobs(spark, applications[0]))
        try:
            for application in applications:
                application.start()
            for thread in (*loads, *readers):
                thread.start()
            _wait(lambda: all(reader.counts for reader in readers), "the first counts", applications)
            time.sleep(_QUIET)
            alone = _latest(readers[0])
            jobs.start()
            begun = time.monotonic()
            while time.monotonic() - begun < seconds:
                time.sleep(1.0)
                _check(applications)
            shared = _latest(readers[0])
            jobs.end()
            for load in loads:
                load.ended.set()
                load.join(60)
            for load, reader in zip(loads, readers):
                _wait(lambda load=load, reader=reader: reader.counts == load.expected, "the last counts", applications)
            exact = [reader.wrong or "exact" for reader in readers]
        finally:
            jobs.ended.set()
            for thread in (*loads, *readers):
                thread.ended.set()
            for application in applications:
                application.close(60_000)
    works = spark.range(10).count() == 10
    spark.stop()
    sent = [load.sent for load in loads]
    return [
        f"{seconds:.0f} s with the user's jobs, {rate:.0f} and {rate / 10:.0f} records/s. Records counted: {sent[0]:,} and "
        f"{sent[1]:,}, {exact[0]} and {exact[1]}. The session works after both applications have closed: {works}.",
        "",
        "| latency of the first application | p50 (ms) | p95 (ms) | p99 (ms) | longest (ms) |",
        "|---|---:|---:|---:|---:|",
        _row("before the user's jobs", alone),
        _row("beside them", shared),
        "",
        "| the user's jobs | number | median (s) | longest (s) |",
        "|---|---:|---:|---:|",
        *(f"| {n} | {len(t)} | {statistics.median(t):.2f} | {max(t):.2f} |" for n, t in jobs.seconds.items() if t),
        "",
        *(f"{count} times: {what}" for what, count in Counter(jobs.wrong).most_common(5)),
        "No job has failed, and none ran in a thread's worker." if not jobs.wrong else "",
    ]


def _latest(reader: Reader) -> list[float]:
    found, reader.latencies = reader.latencies, []
    return sorted(found)


def _row(what: str, latencies: list[float]) -> str:
    shares = [latencies[min(len(latencies) - 1, int(len(latencies) * share))] * 1000 for share in (0.5, 0.95, 0.99, 1.0)]
    return f"| {what} | {' | '.join(f'{share:.0f}' for share in shares)} |"


def _check(applications: list[KafkaStreams]) -> None:
    for application in applications:
        assert application.failure is None, application.failure


def _wait(condition: Callable[[], bool], what: str, applications: list[KafkaStreams], seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        _check(applications)
        assert time.monotonic() < deadline, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.1)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="bench.shared_session", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=1_000.0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    lines = measure(arguments.seconds, arguments.rate)
    made = environment.describe()
    about = " ".join((__doc__ or "").split("\n\n", 1)[1].replace(" Writes a page into `bench/results`.", "").split())
    table = [f"| {' | '.join(made)} |", f"|{'---|' * len(made)}", f"| {' | '.join(made.values())} |"]
    _PAGE.write_text("\n".join(["# A session that is shared", "", about, "", *lines, "", *table, ""]))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
