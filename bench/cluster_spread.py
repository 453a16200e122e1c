"""`python -m bench.cluster_spread`: who works on a cluster of three executors while the load grows, and how far behind it is.

A standalone cluster of three executors with a core each runs a count by key whose records take 5 ms each, most of it asleep: the
executors are busy without taking the cores from each other. The rate grows step by step, beyond what one executor can do, and
falls again. Writes a page into `bench/results`.
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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import environment
from bench.processes import ProcessStat, parse_stat
from penstock import Consumed, Grouped, KafkaStreams, Materialized, Produced, Serdes, StreamsBuilder, Topology
from penstock.client.inside import inside
from penstock.kafka.dev_broker import DevBroker
from tests.harness.cluster import Cluster

_PAGE = Path(__file__).parent / "results" / "cluster-spread.md"
_EXECUTORS, _PARTITIONS = 3, 6
_ASLEEP, _SPINS = 0.0045, 4_000


def topology(source: str, sink: str) -> Topology:
    """How often each key has come, of records that take about 5 ms each."""
    builder, string = StreamsBuilder(), Serdes.string()

    def slowly(value: str) -> str:
        time.sleep(_ASLEEP)
        sum(range(_SPINS))
        return value

    slow = builder.stream(source, Consumed(string, string)).map_values(slowly)
    counts = slow.group_by_key(Grouped(key_serde=string, value_serde=string)).count(Materialized("counts", string, Serdes.long()))
    counts.to_stream().to(sink, Produced(string, Serdes.long()))
    return builder.build()


class Load(threading.Thread):
    """Writes records at a rate that can be changed."""

    def __init__(self, brokers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 10})
        self._topic = topic
        self.rate, self.sent, self.ended = 0.0, 0, threading.Event()

    def run(self) -> None:
        """Until `ended` is set."""
        due, last = 0.0, time.monotonic()
        while not self.ended.wait(0.05):
            now = time.monotonic()
            due, last = due + self.rate * (now - last), now
            while self.sent < due:
                self._producer.produce(self._topic, b"v", str(self.sent % 600).encode(), self.sent % _PARTITIONS)
                self.sent += 1
            self._producer.poll(0)
        self._producer.flush(30)


@dataclass
class Step:
    """What was seen while the rate stayed the same."""

    rate: float
    seconds: float = 0.0
    lags: list[float] = field(default_factory=list)
    batches: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    cpu: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)

    def row(self, executors: Sequence[str]) -> str:
        """A line of the table."""
        late = self.lags[len(self.lags) // 2 :] or [0.0]  # the first half shows how it got there
        cells = [
            f"{self.rate:.0f}",
            " / ".join(str(self.tasks[executor]) for executor in executors),
            " / ".join(str(self.batches[executor]) for executor in executors),
            " / ".join(f"{self.work[executor] / self.seconds:.0%}" for executor in executors),
            # Workers that Spark has retired meanwhile, because they were idle, take what they had used with them.
            " / ".join(f"{cpu / self.seconds:.1%}" if (cpu := self.cpu[executor]) >= 0 else "-" for executor in executors),
            f"{statistics.median(late):.1f}",
            f"{max(late):.1f}",
            f"{max(self.lags or [0.0]):.1f}",
        ]
        return f"| {' | '.join(cells)} |"


HEAD = """| records/s | tasks | batches | at work | CPU | lag p50 (s) | lag max (s) | lag max, first half too (s) |
|---:|---|---|---|---|---:|---:|---:|"""


def python_cpu(executor: int) -> float:
    """CPU seconds so far of the Python processes under an executor."""
    stats: dict[int, ProcessStat] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            stats[int(entry.name)] = parse_stat(text)
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = 0.0, list(children.get(executor, ()))
    while waiting:
        process = waiting.pop()
        found += stats[process].cpu_seconds if "python" in stats[process].command else 0.0
        waiting += children.get(process, ())
    return found


def measure(spread: str, rates: Iterable[float], seconds: float) -> list[Step]:
    """Run the application at each of the rates."""
    with tempfile.TemporaryDirectory() as folder, DevBroker() as broker, Cluster(_EXECUTORS) as cluster:
        source, sink = "in", "out"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in (source, sink)]).values():
            created.result(60)
        config = {
            **cluster.settings,
            "application.id": "spread",
            "bootstrap.servers": broker.bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": folder,
            "task.spread": spread,
            "spark.executor.instances": str(_EXECUTORS),
        }
        streams = KafkaStreams(topology(source, sink), config)
        load = Load(broker.bootstrap_servers, source)
        step = Step(0)
        read = 0

        def on_batch(thread: int, batch: Any) -> None:
            nonlocal read
            read += batch.records
            executor = _executor(view.spark_threads.workers[thread].executor)
            step.batches[executor] += 1
            step.work[executor] += batch.took

        steps = []
        try:
            view = inside(streams)
            view.watch_batches(on_batch)
            streams.start()
            while streams.state.name != "RUNNING":
                assert streams.failure is None, streams.failure
                time.sleep(0.1)
            load.start()
            for rate in rates:
                step = Step(rate)
                load.rate = rate
                executors = cluster.executors()
                before, started = {name: python_cpu(pid) for name, pid in executors.items()}, time.monotonic()
                while time.monotonic() - started < seconds:
                    time.sleep(0.25)
                    step.lags.append((load.sent - read) / rate)
                    assert streams.failure is None, streams.failure
                step.seconds = time.monotonic() - started
                step.cpu.update({name: python_cpu(pid) - before[name] for name, pid in executors.items()})
                step.tasks.update(_executor(view.spark_threads.workers[index].executor) for index in view.tasks.values())
                steps.append(step)
                print(step.row(sorted(executors)), flush=True)
        finally:
            load.ended.set()
            if load.is_alive():
                load.join(30)
            streams.close(60_000)
    return steps


def _executor(place: str | None) -> str:
    return (place or "").rpartition("_")[2]


def write_page(measured: dict[str, list[Step]], seconds: float) -> None:
    """The tables, with what they mean."""
    executors = [str(number) for number in range(_EXECUTORS)]
    lines = ["# Load on three executors", ""]
    lines += [" ".join((__doc__ or "").split("\n\n", 1)[1].replace(" Writes a page into `bench/results`.", "").split()), ""]
    lines += [
        f"Each rate was kept for {seconds:.0f} s, one after the other. One executor can do about 200 records/s, three about 600.",
        "Numbers with strokes between them are those of the three executors: how many tasks they had at the end, how many",
        "batches they processed, which share of the time their stream thread was at work, and the CPU of their Python processes",
        "in shares of a core. Lag is what was written and not yet counted, in seconds of the rate, in the second half of the",
        "step; the last column has its first half too, in which tasks move and what the step before has left behind is worked",
        "off. A dash is an idle executor whose worker Spark has retired. The machine's load average was",
        f"{os.getloadavg()[1]:.0f} at the end.",
    ]
    for spread, steps in measured.items():
        lines += ["", f"## `task.spread = {spread}`", "", HEAD, *(step.row(executors) for step in steps)]
    made = environment.describe()
    lines += ["", f"| {' | '.join(made)} |", f"|{'---|' * len(made)}", f"| {' | '.join(made.values())} |", ""]
    _PAGE.write_text("\n".join(lines))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="bench.cluster_spread", description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[20, 50, 200, 400, 20])
    parser.add_argument("--seconds", type=float, default=45.0, help="how long each rate is kept")
    parser.add_argument("--spread", nargs="+", choices=["auto", "always"], default=["auto", "always"])
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("penstock.client.scheduling.owned_tasks").setLevel(logging.INFO)
    measured = {}
    for spread in arguments.spread:
        print(f"task.spread = {spread}\n{HEAD}", flush=True)
        measured[spread] = measure(spread, arguments.rates, arguments.seconds)
    write_page(measured, arguments.seconds)


if __name__ == "__main__":
    main()
