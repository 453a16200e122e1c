"""An archive of the classes that Spark's JVM loads at a start, in the form it can map into memory (class data sharing).

A JVM reads thousands of classes from jars, checks them and lays them out, at every start anew: about half of the CPU that Spark's
start takes. An archive of them is made once for a Spark and a Java, about 80 MB in the user's cache folder, by `penstock warm-up`
or beside an application that runs (`archive_maker.py`). Every session that penstock makes from then on uses it. One that does not
fit is left alone by the JVM.

Runs as a program of its own (`python -m penstock.spark.driver.class_archive FILE`): a JVM writes the archive at its end.
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

# A JVM that writes an archive takes some seconds longer to start and to end; far longer where others have the cores.
_SECONDS: Final = 600.0
_LOOKS_EVERY: Final = 0.2
_ASIDE: Final = "--aside"


def make_archive(aside: bool = False, given_up: threading.Event | None = None) -> Path:
    """Make the archive for this Spark and this Java, in the place of one that is there; returns where it is.

    `aside`: with what others leave of the processors. It ends when it is given up, and with this process.
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
            has_ended = not process.is_running  # by itself: one that is killed may have written half of the archive
        finally:
            process.kill()
        if not has_ended or not made.exists():
            said = (output.read_text(errors="replace").strip() or "it has said nothing").splitlines()[-1]
            raise StreamsError(f"the JVM has not made an archive of Spark's classes at {file}: {said}")
        made.chmod(0o600)
        made.replace(file)
    return file


def main() -> None:
    """Start Spark, have it do once what it does for threads, and end it: its JVM writes the archive then."""
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
    """A task that fails for want of its row, as the first does on each executor that is left when another is lost.

    To tell of it Spark reads all the messages it knows, for which it has to load a JSON library: half a second on a busy machine,
    while threads wait for the core.
    """
    rows = context.parallelize([0], 1)
    rows.localCheckpoint()
    rows.count()
    rows.unpersist()
    with suppress(Py4JJavaError):
        rows.count()


def step_aside() -> None:
    """Leave the processors to everybody else, with all that is started from here."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _said(rows: Iterator[object]) -> Iterator[bytes]:
    yield str(len(list(rows))).encode()


if __name__ == "__main__":
    main()
