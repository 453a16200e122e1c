"""The SparkSession an application runs on: the user's, or one made from the config's `spark.*` keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.spark.placement import wait_for_executors

_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DAEMON, _WORKER_PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"
# The JVM hands out tasks and moves blobs; Python does the work. Its second compiler costs as much as all the rest of it in the
# first minutes: 39 -> 20 s of CPU for starting and 100 shuffles.
_JVM = "-XX:TieredStopAtLevel=1"

_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # halves the cost of a Python task: 136 -> 72 ms for four
    "spark.shuffle.reduceLocality.enabled": "false",  # a lane's place is our decision, not the shuffle's
    "spark.locality.wait": "60s",  # a lane's state is on its executor: wait for a core there; a lost one is not waited for
    "spark.executor.extraJavaOptions": _JVM,
    "spark.speculation": "false",  # a second attempt beside the first would only be refused
    "spark.shuffle.compress": "false",  # the blobs are read back on the spot; their time matters, not their size
    "spark.sql.shuffle.partitions": "4",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "1000",
}


# From the start of a session to its first executor.
_EXECUTOR_SECONDS = 120.0


def make_session(application_id: str, settings: Mapping[str, Any]) -> SparkSession:
    """A session with penstock's settings, under the user's own."""
    # Workers run this interpreter, with what is installed for it, unless told otherwise. Only spark-submit reads the setting.
    os.environ["PYSPARK_PYTHON"] = str(settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    builder = SparkSession.builder.appName(application_id)
    given = {key: str(value) for key, value in settings.items() if key != _JAVA_OPTIONS}
    for key, value in {**_DEFAULTS, **given, **_daemon(given)}.items():
        builder = builder.config(key, value)
    # Log settings go to the JVM's start: Spark's own warnings come before `spark.log.level` is looked at. The user's come last.
    builder = builder.config(
        _JAVA_OPTIONS, f"{_JVM} -Dlog4j2.configurationFile={_LOGGING.as_uri()} {settings.get(_JAVA_OPTIONS, '')}".strip()
    )
    return builder.getOrCreate()


def _daemon(given: Mapping[str, str]) -> dict[str, str]:
    """On this machine workers run what is installed here, and can be forked with it imported; elsewhere nobody knows."""
    is_here = given.get("spark.master", _DEFAULTS["spark.master"]).startswith("local")
    if not is_here or os.environ["PYSPARK_PYTHON"] != sys.executable or _DAEMON in given:
        return {}
    path = os.pathsep.join(filter(None, (given.get(_WORKER_PATH), str(Path(__file__).parents[2]))))
    return {_DAEMON: "penstock.spark.daemon", _WORKER_PATH: path}


def lanes_of(spark: SparkSession, wanted: int | None = None) -> int:
    """As many lanes as wanted, or as Spark has cores; returns when the session has executors to put them on."""
    wait_for_executors(spark.sparkContext, _EXECUTOR_SECONDS)
    return max(1, int(spark.sparkContext.defaultParallelism)) if wanted is None else wanted


@contextmanager
def quiet_jvm(log: Path) -> Iterator[None]:
    """A JVM started meanwhile writes its standard error to a file: it has things to say that no setting keeps back."""
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def end_session(spark: SparkSession) -> None:
    """Stop a session and its JVM, so that nothing of it is left when this returns."""
    spark.stop()
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM ends with its input
        process.wait(30)
