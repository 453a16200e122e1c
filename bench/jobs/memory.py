"""Job 8: the memory of all processes during WordCount, beside Kafka Streams plus a Spark session that has nothing to do."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.application import Side
from bench.job import Measures, Row, Run, medians
from bench.jobs.throughput import Throughput
from bench.jobs.wordcount import EOS, SOURCE, feed_lines, settings_of
from bench.processes import MemoryWatch, end_session

# A session as `pip install pyspark` gives it, that has run one Python task on each core and now waits.
_IDLE_SESSION = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.range(8, numSlices=2).map(lambda number: number + 1).collect()
print("READY", flush=True)
sys.stdin.read()
spark.stop()
"""
_IDLE_SECONDS = 5.0


class Memory(Throughput):
    """Samples once a second, from RUNNING to the last count; the largest one counts."""

    number, name = 8, "memory"
    title = "Memory of all processes during WordCount (job 1), exactly-once"
    max_rounds = 1

    def feed(self) -> None:
        self.expected = feed_lines(self.bench)
        self.notes.append(
            "Proportional set size: pages that processes share are divided among them. Kafka Streams' JVM runs with its "
            "defaults, a heap of up to a quarter of the machine; Spark's with its default of 1 GB. The idle session has run one "
            "task on each core."
        )

    def variants(self) -> list[str]:
        return [EOS]

    def run(self, side: Side, variant: str) -> Measures:
        measures = self.measure(side, "wordcount", SOURCE, self.expected, settings=settings_of(variant), watch_memory=True)
        if side == "java":
            idle = idle_session_memory()
            measures |= {"idle pss": idle.peak_pss, "idle rss": idle.peak_rss}
        return measures

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for measure, name in (("pss", "proportional"), ("rss", "resident")):
            java, ours, _ = medians(runs, EOS, measure)
            idle = sorted(run.measures[f"idle {measure}"] for run in runs if run.side == "java")[0]
            assert java is not None
            both = java + idle
            rows.append(Row(f"{name}, Kafka Streams alone", "MB", java, ours, ours / java, None, "at most"))
            rows.append(Row(f"{name}, an idle Spark session alone", "MB", idle, ours, ours / idle, None, "at most"))
            goal = 1.0 if measure == "pss" else None
            label = f"{name}, Kafka Streams and an idle Spark session"
            rows.append(Row(label, "MB", both, ours, ours / both, goal, "at most", headline=goal is not None))
        return rows


def idle_session_memory() -> MemoryWatch:
    """What a Spark session takes that has nothing to do."""
    process = subprocess.Popen(
        [sys.executable, "-c", _IDLE_SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "READY":
            raise RuntimeError("an idle Spark session could not be started")
        with MemoryWatch(process.pid) as watch:
            time.sleep(_IDLE_SECONDS)
        process.stdin.close()
        process.wait(60)
    finally:
        end_session(process.pid)
        process.stdout.close()
    return watch
