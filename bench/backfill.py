"""`python -m bench.backfill`: windowed counts of a backlog, live and as a backfill from Kafka and Parquet, beside Kafka Streams.

All times are from the start of the process to the last committed result, so Spark's start and the staging of history are in them.
The limit is a Spark SQL job over the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from bench.application import Side
from bench.job import EXACTLY_ONCE, Bench, Measures, Row, Run, size_row, time_row
from bench.jobs.throughput import Throughput
from bench.load import create_topic, long_bytes, write
from bench.penstock_app import BACKFILL
from bench.probe import Expected
from bench.runner import BROKER_SETTINGS, run_rounds
from bench.topologies import HISTORY, WINDOW_MS
from penstock.kafka.dev_broker import DevBroker

RECORDS, KEYS = 10_000_000, 1_000
_START = 1_700_000_000_000
_FULL, _EMPTY = "events", "no-events"
_BATCH = """
import sys, time
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.master("local[2]").getOrCreate()
began = time.monotonic()
table = spark.read.parquet(sys.argv[1])
counts = table.groupBy("key", F.window("timestamp", "10 seconds")).count()
counts.write.format("noop").mode("overwrite").save()
print(time.monotonic() - began)
"""


class Backfill(Throughput):
    """Records of 1,000 keys in windows of 10 s, a result on every update; `live` reads the backlog like any application."""

    number, name = 11, "backfill"
    title = f"{RECORDS:,} records of {KEYS:,} keys, windowed counts, exactly-once"

    def feed(self) -> None:
        records = self.bench.scaled(RECORDS, 20_000)
        self.folder = Path(tempfile.mkdtemp(prefix="bench-history-"))
        chosen = numpy.random.default_rng(11).integers(0, KEYS, records)
        keys = [b"key-%d" % number for number in range(KEYS)]
        counts = Counter(zip(chosen.tolist(), ((_START + n) // WINDOW_MS * WINDOW_MS for n in range(records))))
        for topic in (_FULL, _EMPTY):
            create_topic(self.bench.bootstrap, topic, self.partitions)
        write(self.bench.bootstrap, _FULL, ((keys[key], b"x", _START + n, -1) for n, key in enumerate(chosen.tolist())))
        times = pa.array(_START + numpy.arange(records), pa.int64()).cast(pa.timestamp("ms", "UTC"))
        names = pa.DictionaryArray.from_arrays(pa.array(chosen), pa.array([key.decode() for key in keys])).cast(pa.string())
        values = pa.array(["x"] * records)
        pq.write_table(pa.table({"key": names, "value": values, "timestamp": times}), self.folder / "events.parquet")
        self.expected = Expected(
            {keys[key] + struct.pack(">q", start): long_bytes(count) for (key, start), count in counts.items()}
        )

    def variants(self) -> list[str]:
        return ["live", "from Kafka", "from Parquet"]

    def sides(self, variant: str) -> tuple[Side, ...]:
        return ("java", "penstock") if variant == "live" else ("penstock",)

    def run(self, side: Side, variant: str) -> Measures:
        own = {} if variant == "live" else {BACKFILL: "1"}
        if variant == "from Parquet":
            own[HISTORY] = str(self.folder)
        os.environ.update(own)
        try:
            source = _EMPTY if HISTORY in own else _FULL
            return self.measure(side, "windows-on-update", source, self.expected, settings=EXACTLY_ONCE, watch_memory=True)
        finally:
            for name in own:
                del os.environ[name]

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant in self.variants():
            rows.append(time_row(runs, variant, "with start-up", f"{variant}, with start-up"))
            rows.append(size_row(runs, variant, "cpu with start-up", f"{variant}, CPU of all processes", "CPU s"))
            rows.append(size_row(runs, variant, "rss", f"{variant}, peak memory", "MB"))
        return rows

    def batch_seconds(self) -> float:
        """The same counts by a Spark SQL job, without its start."""
        done = subprocess.run([sys.executable, "-c", _BATCH, str(self.folder)], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help=f"the part of {RECORDS:,} records to take")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with DevBroker(overrides=BROKER_SETTINGS).start(300) as broker:
        job = Backfill(Bench(broker.bootstrap_servers, arguments.scale))
        started = time.monotonic()
        job.feed()
        print(f"fed in {time.monotonic() - started:.1f} s", file=sys.stderr)
        try:
            runs = run_rounds(job, arguments.rounds, lambda line: print(line, file=sys.stderr))
            rows = [{"row": row.label, "unit": row.unit, "java": row.java, "penstock": row.penstock} for row in job.rows(runs)]
            rows.append({"row": "Spark SQL batch, without start-up", "unit": "s", "penstock": job.batch_seconds()})
            print("\n".join(map(json.dumps, rows)))
        finally:
            shutil.rmtree(job.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
