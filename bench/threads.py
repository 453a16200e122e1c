"""`python -m bench.threads`: what stream threads cost while there is nothing to do.

A count by key with one partition per stream thread starts, rests, and gets one record for each partition. Measured are the time
until RUNNING, CPU and memory at rest, and the time until the last of the results is committed. The driver is its Python process
and Spark's JVM, which is the executor too with a local master. Writes `threads.md` into `bench/results`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench import environment
from bench.load import create_topic, write
from bench.processes import ProcessStat, end_session, memory_mb, session_of
from penstock import Consumed, KafkaStreams, Materialized, Produced, Serdes, StreamsBuilder, Topology
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.dev_broker import DevBroker

_PAGE = Path(__file__).parent / "results" / "threads.md"
THREADS = (1, 4, 32, 128)
_START_SECONDS, _SETTLE_SECONDS, _REST_SECONDS = 300.0, 20.0, 30.0


@dataclass(frozen=True)
class Cost:
    """What so many stream threads take."""

    threads: int
    start: float
    driver_cpu: float
    workers_cpu: float
    memory: float
    first_results: float

    def row(self) -> str:
        """A line of the table."""
        cells = f"{self.start:.1f}", f"{self.driver_cpu:.1%}", f"{self.workers_cpu:.1%}", f"{self.memory:,.0f}"
        return f"| {self.threads} | {' | '.join(cells)} | {self.first_results:.2f} |"


def topology(source: str, sink: str) -> Topology:
    """Counts keys."""
    builder, string = StreamsBuilder(), Serdes.string()
    counts = builder.stream(source, Consumed(string, string)).group_by_key().count(Materialized("counts", string, Serdes.long()))
    counts.to_stream().to(sink, Produced(string, Serdes.long()))
    return builder.build()


def run_application(application: str, brokers: str, folder: str, threads: int) -> None:
    """The application, in a process of its own; ends when its standard input does."""
    config = {
        "application.id": application,
        "bootstrap.servers": brokers,
        "state.dir": folder,
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": threads,
    }
    with KafkaStreams(topology(f"{application}-in", f"{application}-out"), config) as streams:
        streams.start()
        streams.wait_until_running(_START_SECONDS)
        print("RUNNING", flush=True)
        sys.stdin.read()


def measure(brokers: str, threads: int) -> Cost:
    """One start of the application."""
    application = f"threads-{threads}-{time.time_ns()}"
    source, sink = f"{application}-in", f"{application}-out"
    for topic in (source, sink):
        create_topic(brokers, topic, threads)
    with tempfile.TemporaryDirectory(prefix="bench-threads-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "log.txt")
        with log.open("w") as errors:
            command = [sys.executable, "-m", "bench.threads", "--application", application, brokers, folder, str(threads)]
            started = time.monotonic()
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        try:
            assert child.stdout is not None
            if child.stdout.readline() != "RUNNING\n":
                raise RuntimeError(f"the application with {threads} threads did not start: {log.read_text()[-3000:]}")
            start = time.monotonic() - started
            time.sleep(_SETTLE_SECONDS)
            before = {stat.pid: stat for stat in session_of(child.pid)}
            time.sleep(_REST_SECONDS)
            now, memory = session_of(child.pid), memory_mb(child.pid)["pss"]
            used = {stat.pid: stat.own_seconds - before[stat.pid].own_seconds for stat in now if stat.pid in before}
            driver = sum(used[stat.pid] for stat in now if stat.pid in used and _is_driver(stat, child.pid))
            written = time.monotonic()
            write(brokers, source, ((b"k%d" % partition, b"v", 0, partition) for partition in range(threads)))
            _wait_for_results(brokers, sink, threads)
            results = time.monotonic() - written
            workers = sum(used.values()) - driver
            return Cost(threads, start, driver / _REST_SECONDS, workers / _REST_SECONDS, memory, results)
        finally:
            with suppress(OSError):
                child.stdin.close()  # type: ignore[union-attr]
            with suppress(subprocess.TimeoutExpired):
                child.wait(60)
            end_session(child.pid)


def _is_driver(stat: ProcessStat, leader: int) -> bool:
    return stat.pid == leader or stat.command == "java"


def _wait_for_results(brokers: str, topic: str, expected: int) -> None:
    admin = Admin({"bootstrap.servers": brokers, "log_level": 2})
    partitions = [TopicPartition(topic, partition) for partition in range(expected)]
    deadline = time.monotonic() + _START_SECONDS
    before = 0
    while True:
        ends = admin.log_ends(partitions, True)
        if sum(ends.values()) >= expected:  # results and the markers of their transactions
            if sum(ends.values()) == before:
                return
            before = sum(ends.values())
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} has {sum(ends.values())} of {expected} results")
        time.sleep(0.02)


def page(costs: list[Cost]) -> str:
    """The table of what was measured."""
    made = ", ".join(f"{key} {value}" for key, value in environment.describe().items())
    head = "| stream threads | until RUNNING (s) | driver CPU (of a core) | workers' CPU | memory (MB) | results (s) |"
    lines = [
        "# Stream threads at rest",
        "",
        (__doc__ or "").partition("\n\n")[2].strip(),
        "",
        head,
        "|---|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*lines, *(cost.row() for cost in costs), "", made, ""])


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="bench.threads", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=THREADS)
    parser.add_argument("--application", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.application:
        application, brokers, folder, threads = arguments.application
        run_application(application, brokers, folder, int(threads))
        return
    costs = []
    with DevBroker() as broker:
        for threads in arguments.threads:
            costs.append(measure(broker.bootstrap_servers, threads))
            print(costs[-1].row(), flush=True)
    _PAGE.write_text(page(costs))


if __name__ == "__main__":
    main()
