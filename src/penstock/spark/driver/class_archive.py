"""An archive of the classes that Spark's JVM loads at its start (class data sharing).

At every start a JVM loads and verifies thousands of classes: about half of the CPU of Spark's start. The archive is made once
for a Spark and a Java, about 80 MB in the user's cache folder, by `penstock warm-up` or in the background
(`spark/driver/archive_maker.py`). All sessions that penstock makes use it. A JVM ignores an archive that does not match.

Runs as a separate program (`python -m penstock.spark.driver.class_archive FILE`), because a JVM writes the archive when it
ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from penstock.errors import StreamsError
from penstock.kafka.guard import GuardedProcess
from penstock.spark.driver.session import class_archive, make_context
from penstock.spark.driver.thread_worker import ThreadWorker, close_workers
from penstock.spark.internals import end_gateway, running_gateway

# Writing the archive adds some seconds to the JVM's start and end, and far more on a busy machine.
_SECONDS: Final = 600.0
_LOOKS_EVERY: Final = 0.2
_ASIDE: Final = "--aside"


def make_archive(aside: bool = False, given_up: threading.Event | None = None) -> Path:
    """Make the archive for this Spark and this Java, and return its path. Replaces an existing one.

    `aside`: run at the lowest priority. It stops when `given_up` is set, and with this process.
    """
    file = class_archive()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    given_up = threading.Event() if given_up is None else given_up
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="making-") as folder:
        made, output = Path(folder) / file.name, Path(folder) / "output"
        command = [sys.executable, "-m", "penstock.spark.driver.class_archive", str(made), *([_ASIDE] if aside else [])]
        process, deadline = GuardedProcess(command, output, {**os.environ, "PYTHONSAFEPATH": "1"}), time.monotonic() + _SECONDS
        try:
            while process.is_running and time.monotonic() < deadline and not given_up.wait(_LOOKS_EVERY):
                continue
            has_ended = not process.is_running  # only then is it complete: a killed JVM may have written half of it
        finally:
            process.kill()
        if not has_ended or not made.exists():
            said = (output.read_text(errors="replace").strip() or "no output").splitlines()[-1]
            raise StreamsError(f"Making the archive of Spark's classes at {file} failed: {said}")
        made.chmod(0o600)
        made.replace(file)
    return file


def main() -> None:
    """Start Spark, run what a stream thread runs, and end it. Its JVM then writes the archive."""
    if _ASIDE in sys.argv:
        step_aside()
    context = make_context(
        "penstock-warm-up",
        {"spark.master": "local[2]", "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={sys.argv[1]}"},
    )
    worker = ThreadWorker(context, "penstock-warm-up")
    worker.submit(_said, "warm up", bytes).result(_SECONDS)
    _lose_a_row(context)
    close_workers([worker], _SECONDS)
    gateway = running_gateway()
    context.stop()
    end_gateway(gateway, _SECONDS)


def _lose_a_row(context: SparkContext) -> None:
    """Run a task that fails because its row is lost. The same happens on remaining executors when one is lost.

    To report it, Spark loads its error messages and a JSON library. On a busy machine that takes half a second, while threads
    wait for the core. With the archive it is faster.
    """
    rows = context.parallelize([0], 1)
    rows.localCheckpoint()
    rows.count()
    rows.unpersist()
    with suppress(Py4JJavaError):
        rows.count()


def step_aside() -> None:
    """Run this process and its children at the lowest priority."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _said(rows: Iterator[object]) -> Iterator[bytes]:
    yield str(len(list(rows))).encode()


if __name__ == "__main__":
    main()
