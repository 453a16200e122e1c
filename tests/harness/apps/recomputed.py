"""A stage before a shuffle, of which one lane has its part when an executor dies; says what another lane then makes of its own.

Once with records that are the same again, once with records that are not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from penstock.spark.batch import ShuffledBatch
from penstock.spark.blobs import Received, batch_blob, checksum, end_blob, read_blobs
from pyspark.sql import SparkSession

from penstock.errors import TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.driver.lanes import shuffled_bytes
from penstock.spark.internals import all_of_partition

_DRIVER, _PROCESS = 2, b"process "


def stage(repeats: bool, rows: Iterator[int]) -> Iterator[tuple[int, bytes]]:
    """A record for each of two lanes, then the ends; the driver also hears which process of Java it was."""
    for number in rows:
        value = b"the same" if repeats else os.urandom(8)
        blobs = [
            (lane, batch_blob(TopicPartition("words", lane), ShuffledBatch.of_rows([(b"key", value, 7, (), 0, number)])))
            for lane in (0, 1)
        ]
        yield from blobs
        known = checksum(blob for _, blob in blobs)
        yield from ((lane, end_blob(TaskId(0, number), int(lane != _DRIVER), known)) for lane in (0, 1, _DRIVER))
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        yield _DRIVER, _PROCESS + daemon.rpartition(") ")[2].split()[1].encode()


def outcome(first: Received, part: Received) -> str:
    """What a lane does with its part."""
    try:
        part.check(first.checksums)
    except TaskMigratedError as exc:
        return str(exc)
    return "taken"


def main(settings: dict[str, str]) -> None:
    """Print what becomes of the two parts, for records that repeat and for such that do not."""
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    context = builder.getOrCreate().sparkContext
    stages = [shuffled_bytes(context.parallelize(range(4), 4), partial(stage, repeats), 3) for repeats in (True, False)]
    told = [all_of_partition(context, rows, _DRIVER, 120) for rows in stages]
    first = [read_blobs(blob for blob in blobs if not blob.startswith(_PROCESS)) for blobs in told]
    parts = [[outcome(known, read_blobs(all_of_partition(context, rows, 0, 120)))] for known, rows in zip(first, stages)]
    # One that has run tasks of both stages: each has more tasks than an executor has cores.
    ran = [{int(blob[len(_PROCESS) :]) for blob in blobs if blob.startswith(_PROCESS)} for blobs in told]
    os.kill(min(ran[0] & ran[1]), signal.SIGKILL)
    for known, rows, outcomes in zip(first, stages, parts):
        outcomes.append(outcome(known, read_blobs(all_of_partition(context, rows, 1, 120))))
    print(json.dumps(parts), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
