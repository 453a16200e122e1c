"""What penstock asks of the executors of a cluster; run by `test_internals.py` with the cluster's settings."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from penstock.spark import internals
from penstock.spark.driver.thread_worker import ThreadWorker


def where(rows: Iterator[Any]) -> Iterable[bytes]:
    list(rows)
    yield internals.own_executor_id().encode()


def which(rows: Iterator[Any]) -> Iterable[bytes]:
    list(rows)
    yield str(os.getpid()).encode()


def stuck(path: str, rows: Iterator[Any]) -> Iterable[bytes]:
    Path(f"{path}.part").write_bytes(b"".join(which(rows)))
    Path(f"{path}.part").rename(path)
    time.sleep(3600)
    yield b""


def cancelled(context: Any, place: str) -> dict[str, Any]:
    """What comes of a thread's job that does not return, on an executor with one core, which it keeps."""
    thread = ThreadWorker(context, "cancelled", place)
    with tempfile.TemporaryDirectory() as folder:
        job, path = thread.submit(partial(stuck, f"{folder}/worker"), "run for ever", bytes), Path(folder, "worker")
        while not path.exists():
            time.sleep(0.05)
        worker, started = int(path.read_text()), time.monotonic()
        thread.cancel("it took too long")
        error = job.exception(60)
        seconds, is_there = time.monotonic() - started, Path(f"/proc/{worker}/exe").exists()
    another = int(thread.submit(which, "tell who it is", bytes).result(60)) != worker
    thread.close().result(60)
    return {"error": str(error), "gone": not is_there, "another": another, "seconds": seconds}


def main() -> None:
    builder = SparkSession.builder.appName("internals").config("spark.locality.wait", "60s")
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    deadline = time.monotonic() + 120
    while len(internals.known_executors(context)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    known = internals.known_executors(context)
    hosts = {executor: found.host for executor, found in known.items() if not found.refusal}
    places = {executor: internals.executor_place(host, executor) for executor, host in hosts.items()}
    placed = internals.yielding_bytes(internals.placed_rows(context, [places[i] for i in "1010"]), where).collect()
    environment = internals.worker_environment(context, {"PENSTOCK_TEST": "thread"})
    threads = []
    for executor in "010":
        java_rdd = internals.bytes_in_environment(internals.placed_rows(context, [places[executor]]), where, environment)
        threads.append(internals.first_of_partition(context, java_rdd, 0).decode())
    told = {
        "executors": hosts,
        "placed": [executor.decode() for executor in placed],
        "threads": threads,
        "cancelled": cancelled(context, places["0"]),
        "version": pyspark.__version__,
    }
    session.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
