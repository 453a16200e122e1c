"""What a record costs, step by step: one stream thread in this process, with a real broker, under at-least-once.

`python -m bench.budget wordcount-lambda json-aggregate` prints microseconds of CPU for each input record. Other load on the
machine changes them by less than it changes seconds. The floor is librdkafka alone: to read the input, and to write as many
records as the job has written.
"""

from __future__ import annotations

import functools
import gc
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import report, topologies
from bench.job import Bench
from bench.jobs.operators import LINES, Operators
from bench.jobs.wordcount import SOURCE, feed_lines
from bench.load import create_topic
from bench.runner import BROKER_SETTINGS
from penstock.client.preparation import prepare
from penstock.config.streams_config import StreamsConfig
from penstock.kafka.admin import Admin
from penstock.kafka.dev_broker import DevBroker
from penstock.kafka.follow import Follower
from penstock.kafka.produce import ThreadProducer
from penstock.operators import flat_map_values
from penstock.operators import map as map_operator
from penstock.operators.aggregate import _KStreamAggregateProcessor
from penstock.operators.table_fold import TableFold
from penstock.runtime.collector import RecordCollector
from penstock.runtime.nodes import SourceNode
from penstock.runtime.task_metrics import TaskMetrics
from penstock.spark.messages import Application, Residency, TaskStart
from penstock.spark.worker.repartitioning import Repartitions
from penstock.spark.worker.stream_thread import StreamThread
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore

_PARTITIONS, _SCALE = 4, 0.4
_STEPS: list[tuple[Any, str, str]] = [
    (Follower, "wait", "fetch"),
    (Follower, "take", "fetch"),
    (SourceNode, "read_batch", "decode"),
    (SourceNode, "read_keys", "decode"),
    (flat_map_values, "each_row", "call functions"),
    (map_operator, "each_row", "call functions"),
    (TableFold, "_fold", "call functions, and keep aggregates between records"),
    (_KStreamAggregateProcessor, "_write_counts", "add counts"),
    (RecordCollector, "send_batch", "encode"),
    (Repartitions, "route", "repartition"),
    (MeteredKeyValueStore, "kept_rows_of", "read state"),
    (MeteredKeyValueStore, "write_rows_around", "write state and changelog"),
    (RocksDBStore, "commit", "write state and changelog"),
    (ThreadProducer, "write", "produce"),
    (ThreadProducer, "flush", "commit"),
    (TaskMetrics, "consumed", "metrics"),
    (TaskMetrics, "produced", "metrics"),
]


class _Clock:
    """CPU seconds of this thread by step; what a step calls of another step counts for that one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def wrap(self, owner: Any, name: str, step: str) -> None:
        """Account the calls of a function."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.thread_time()
            self._inner.append(0.0)
            try:
                return function(*arguments, **named)
            finally:
                took, inner = time.thread_time() - started, self._inner.pop()
                self.seconds[step] += took - inner
                self._inner[-1] += took

        setattr(owner, name, timed)


def measure(bootstrap: str, name: str, clock: _Clock) -> str:
    """Run one topology to the end of its input, and return its table."""
    source, other, count = _feed(bootstrap, name)
    sink = f"out-{name}"
    create_topic(bootstrap, sink, _PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="bench-budget-") as folder:
        config = StreamsConfig({"application.id": f"budget-{name}", "bootstrap.servers": bootstrap, "state.dir": folder})
        admin = Admin({"bootstrap.servers": bootstrap, "log_level": 2})
        prepared = prepare(topologies.named(name, source, other, sink), config, admin)
        plan = prepared.plan
        thread = StreamThread(Application(name, config, plan, prepared.global_topology, "budget", "budget"), 0)
        starts = {task: TaskStart({}, dict.fromkeys(plan.inputs(task), 0)) for task in plan.tasks()}
        gc.freeze()
        clock.seconds.clear()
        own, whole = time.thread_time(), time.process_time()
        thread.run(Residency(name, 0, 1, starts, seconds=600.0, idle_seconds=3.0))
        own, whole = time.thread_time() - own, time.process_time() - whole
        batches = thread.take_report().batches
        thread.close()
    produced = sum(batch.produced for batch in batches)
    steps = dict(sorted(clock.seconds.items(), key=lambda entry: -entry[1]))
    steps["everything else in the thread"] = own - sum(steps.values())
    steps["librdkafka's and RocksDB's threads"] = whole - own
    floor = _read_alone(bootstrap, source, count), _write_alone(bootstrap, produced)
    rows = [[step, f"{1e6 * seconds / count:.2f}"] for step, seconds in steps.items()]
    rows.append(["all", f"{1e6 * whole / count:.2f}"])
    rows += [["floor: librdkafka reads the input", f"{1e6 * floor[0] / count:.2f}"]]
    rows += [[f"floor: librdkafka writes {produced / count:.2f} records", f"{1e6 * floor[1] / count:.2f}"]]
    return f"{name}: {count:,} records in {len(batches)} batches\n\n" + report.table(["step", "µs a record"], rows)


def _feed(bootstrap: str, name: str) -> tuple[str, str, int]:
    if name not in LINES:
        bench = Bench(bootstrap, _SCALE)
        feed_lines(bench)
        return SOURCE, "-", bench.scaled(1_000_000)
    job = Operators(Bench(bootstrap, 1.0, only=frozenset({name})))
    job.feed()
    return LINES[name].source, LINES[name].other, job.records


def _read_alone(bootstrap: str, topic: str, count: int) -> float:
    """CPU seconds of a process that reads a topic and does nothing with it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "floor", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
    started, left = time.process_time(), count
    while left > 0:
        left -= len(consumer.consume(min(left, 10_000), 5.0))
    seconds = time.process_time() - started
    consumer.close()
    return seconds


def _write_alone(bootstrap: str, count: int) -> float:
    """CPU seconds of a process that writes records of a short key and eight bytes."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 10_000_000, "log_level": 2}
    producer, value = Producer(settings), bytes(8)
    topic = f"floor-{time.time_ns()}"
    create_topic(bootstrap, topic, _PARTITIONS)
    started = time.process_time()
    for number in range(count):
        producer.produce(topic, value, b"%07d" % (number % 50_000))
    producer.flush(60)
    return time.process_time() - started


def main(names: list[str]) -> None:
    """Measure the topologies of these names."""
    clock = _Clock()
    for owner, name, step in _STEPS:
        clock.wrap(owner, name, step)
    for name in names:
        with DevBroker(overrides=BROKER_SETTINGS).start(300) as broker:
            print(measure(broker.bootstrap_servers, name, clock), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["wordcount-lambda", "json-aggregate"])
