"""Job 10: an application that was running is started again: how long until its first result."""

from __future__ import annotations

import shutil
import tempfile
import time

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from bench.application import Application, Side, Spec
from bench.job import EXACTLY_ONCE, Job, Measures, Row, Run, medians
from bench.load import create_topic, delete_topics, write

RECORDS, MORE, KEYS = 20_000, 100, 1_000
# At most so many seconds, whatever Kafka Streams takes: Spark alone takes five of them.
GOAL_SECONDS = 6.0
_TOPOLOGIES = {"count": "a count by key", "wordcount": "WordCount, with a repartition"}
_PATIENCE = 120.0


class Restart(Job):
    """Counts some records and is closed; then some more are written, and it is started again with its state.

    What counts is from the start of the process to the first committed result that a reader has.
    """

    number, name = 10, "restart"
    title = "A running application is started again: from the start of the process to its first result, exactly-once"

    def feed(self) -> None:
        self.runs = 0
        self.notes.append(
            f"{RECORDS:,} records of {KEYS:,} keys are counted before, {MORE} wait when it starts again. Both sides leave the "
            "group when they are closed. With `penstock warm-up` done before on this machine penstock's JVM maps its classes "
            "from an archive; Kafka Streams' JVM runs as it comes."
        )

    def variants(self) -> list[str]:
        return list(_TOPOLOGIES)

    def run(self, side: Side, variant: str) -> Measures:
        self.runs += 1
        name, folder = f"restart-{side}-{variant}-{self.runs}", tempfile.mkdtemp(prefix="bench-state-")
        source, sink, servers = f"{name}-in", f"{name}-out", self.bench.bootstrap
        for topic in (source, sink):
            create_topic(servers, topic, self.partitions)
        reader = Consumer(
            {"bootstrap.servers": servers, "group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False}
        )
        reader.assign([ClientPartition(sink, number, 0) for number in range(self.partitions)])
        spec = Spec(variant, name, servers, folder, source, sink, settings=EXACTLY_ONCE)
        try:
            self._write(source, RECORDS)
            with Application(side, spec) as app:
                _first(reader, app)
                app.wait_until_running()
                while reader.poll(2.0) is not None:
                    continue
            self._write(source, MORE)
            with Application(side, spec) as app:
                seconds = _first(reader, app)
                up = app.wait_until_running()
            delete_topics(servers, name)
        finally:
            reader.close()
            shutil.rmtree(folder, ignore_errors=True)
        return {"first result": seconds, "running": up}

    def _write(self, topic: str, records: int) -> None:
        names = (b"key-%d" % (number % KEYS) for number in range(records))
        write(self.bench.bootstrap, topic, ((name, name, 0, -1) for name in names))

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant, title in _TOPOLOGIES.items():
            java, ours, ratio = medians(runs, variant, "first result")
            goal = None if java is None else GOAL_SECONDS / java
            rows.append(Row(f"{title}, first result", "s", java, ours, ratio, goal, "at most", headline=variant == "count"))
        return rows


def _first(reader: Consumer, app: Application) -> float:
    """Seconds from the start of the process until the first result is read."""
    while time.monotonic() - app.started < _PATIENCE:
        message = reader.poll(0.02)
        if message is not None and message.error() is None:
            return time.monotonic() - app.started
        app.check_alive()
    raise TimeoutError(f"no result within {_PATIENCE:.0f} s:\n{app.last_words()}")
