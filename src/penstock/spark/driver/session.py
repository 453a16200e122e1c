"""The SparkSession an application runs on: the user's, or one made from the config's `spark.*` keys."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.driver.allocation import Allocation, cores_of
from penstock.spark.driver.placement import wait_for_executors
from penstock.spark.driver.session_settings import (
    JVM_OPTIONS,
    LOOPBACK,
    is_local_master,
    listens_on_loopback,
    own_settings,
    settings_elsewhere,
)
from penstock.spark.internals import (
    active_context,
    end_gateway,
    forget_ended,
    forget_gateway,
    forget_lost_jvm,
    has_ended,
    running_gateway,
    total_cores,
)

_log = logging.getLogger(__name__)

_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DAEMON, _WORKER_PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"
# From the start of a session to its first executor.
_EXECUTOR_SECONDS = 120.0

_END_SECONDS = 30.0

# The path of a socket has 107 bytes at most, and Spark's are named by a UUID.
_LONGEST_FOLDER = 60


# The JVM that penstock has started, what it was told at its start, and whether its environment keeps it on loopback.
_started: tuple[Any, frozenset[str], bool] = (None, frozenset(), False)


def make_session(application_id: str, settings: Mapping[str, Any]) -> SparkSession:
    """A session with penstock's settings, under the user's own; what is left of one that has ended is cleared away first."""
    global _started
    _clear_away()
    # Workers run this interpreter, with what is installed for it, unless told otherwise. Only spark-submit reads the setting.
    os.environ["PYSPARK_PYTHON"] = str(settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    given = {key: str(value) for key, value in settings.items() if key != _JAVA_OPTIONS}
    _leave_loopback(given)
    elsewhere = _elsewhere()
    own = own_settings(given, elsewhere)
    options = {**own, **given, **_daemon({**own, **elsewhere, **given})}
    # Log settings go to the JVM's start: Spark's own warnings come before `spark.log.level` is looked at. The user's come last.
    wanted = str(settings.get(_JAVA_OPTIONS) or elsewhere.get(_JAVA_OPTIONS, ""))
    options[_JAVA_OPTIONS] = (
        f"{JVM_OPTIONS} -Dlog4j2.configurationFile={_LOGGING.as_uri()} {_temporary_folder()} {wanted}".strip()
    )
    builder = SparkSession.builder.appName(application_id)
    for key, value in options.items():
        builder = builder.config(key, value)
    starts, loopback = running_gateway() is None, listens_on_loopback(given, elsewhere)
    with _environment({"SPARK_LOCAL_IP": LOOPBACK} if loopback and starts else {}):  # the address of the UI
        session = builder.getOrCreate()
    if starts:
        _started = running_gateway(), frozenset(options), loopback
        atexit.register(_end_jvm_at_exit, running_gateway(), os.getpid())
    return session


def _clear_away() -> None:
    """pyspark would give the session it has, even if that has ended in its JVM, or with it."""
    left = None if forget_lost_jvm() else active_context()
    if left is not None and has_ended(left):
        forget_ended(left)


def planned_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What a session that is made with these settings will have."""
    given, elsewhere = {key: str(value) for key, value in settings.items()}, _elsewhere()
    return {**own_settings(given, elsewhere), **elsewhere, **given}


def _elsewhere() -> dict[str, str]:
    gateway, passed, _ = _started
    return settings_elsewhere(passed if running_gateway() is gateway else frozenset())


def _leave_loopback(given: Mapping[str, str]) -> None:
    """A JVM that was started for a local master cannot be reached by executors: for another master one is started anew."""
    gateway, _, loopback = _started
    idle = running_gateway() is gateway is not None and active_context() is None
    if idle and loopback and not is_local_master(given.get("spark.master", "local")):
        _end_jvm(gateway)


def _temporary_folder() -> str:
    """A JVM takes no notice of TMPDIR, so that it is told; not of one in which the path of a socket would be too long."""
    folder = tempfile.gettempdir()
    return f'"-Djava.io.tmpdir={folder}"' if len(os.fsencode(folder)) <= _LONGEST_FOLDER else ""


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Variables for a process that is started meanwhile."""
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]


def _daemon(known: Mapping[str, str]) -> dict[str, str]:
    """On this machine workers run what is installed here, and can be forked with it imported; elsewhere nobody knows."""
    is_here = known["spark.master"].startswith("local")
    if not is_here or os.environ["PYSPARK_PYTHON"] != sys.executable or _DAEMON in known:
        return {}
    path = os.pathsep.join(filter(None, (known.get(_WORKER_PATH), str(Path(__file__).parents[3]))))
    return {_DAEMON: "penstock.spark.worker.daemon", _WORKER_PATH: path}


def lanes_of(spark: SparkSession, wanted: int | None = None, tasks: int = 1) -> int:
    """As many lanes as wanted, or as Spark runs tasks at a time; returns when the session has executors to put them on.

    With dynamic allocation that is what it can come to, and no more than there are tasks.
    """
    context = spark.sparkContext
    there = wait_for_executors(context, _EXECUTOR_SECONDS)
    settings = dict(context.getConf().getAll())
    cpus, allocation = int(settings.get("spark.task.cpus", "1")), Allocation.of(settings)
    if allocation is None:
        return max(1, int(context.defaultParallelism) // cpus) if wanted is None else wanted
    cores = cores_of(settings) or max(1, total_cores(context) // max(1, len(there)))
    lanes = allocation.lanes(cores // cpus, tasks) if wanted is None else wanted
    _log.info(
        "dynamic allocation: %d stream threads begin on %d executors, and Spark asks for more while their turns wait for a core; "
        "set num.stream.threads or spark.dynamicAllocation.maxExecutors for another number of threads, "
        "spark.dynamicAllocation.minExecutors for executors that always stay",
        *(lanes, len(there)),
    )
    return lanes


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
    if running_gateway() is not None:
        _end_jvm(running_gateway())


def _end_jvm_at_exit(gateway: Any, process_id: int) -> None:
    """Outlive the JVM, unless it is still in use: then all ends at once, and nobody is to hear of it."""
    if os.getpid() == process_id and active_context() is None:
        with suppress(Exception):
            _end_jvm(gateway)


def _end_jvm(gateway: Any) -> None:
    """End a JVM that this process has started, and wait: at its end it deletes its folders. Twice is fine."""
    forget_gateway(gateway)
    end_gateway(gateway, _END_SECONDS)
