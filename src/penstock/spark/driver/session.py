"""The Spark context of an application, made from the config's `spark.*` keys. Stream threads need only the context.

A SparkSession takes as long again to make, so it is made for tables only.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from penstock.errors import StreamsError
from penstock.scratch import ScratchFolder
from penstock.spark.driver.allocation import Allocation, cores_of, count_of
from penstock.spark.driver.placement import wait_for_executors
from penstock.spark.driver.preflight import check_task_cpus
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
    known_executors,
    running_gateway,
    spark_home,
)

_log = logging.getLogger(__name__)

_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS, _EXECUTOR_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
_DAEMON, _WORKER_PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"
# From the start of a session to its first executor: a growing cluster takes minutes for a new host.
_EXECUTOR_SECONDS = 600.0

_END_SECONDS = 30.0

_LOCAL_DIR, _LOCAL_DIRS = "spark.local.dir", "SPARK_LOCAL_DIRS"

_NO_JVM = "JAVA_GATEWAY_EXITED"

# A socket path has at most 107 bytes, and Spark names its sockets by a UUID.
_LONGEST_FOLDER = 60


# The JVM that penstock started, the settings of its start, and whether it listens on loopback.
_started: tuple[Any, frozenset[str], bool] = (None, frozenset(), False)

# The running JVM, and its folders for shuffles and blocks.
_scratch: tuple[Any, Sequence[ScratchFolder]] = (None, ())


def make_session(application_id: str, settings: Mapping[str, Any]) -> SparkSession:
    """Make a session with penstock's settings. The given settings take precedence."""
    return session_of(make_context(application_id, settings))


def session_of(_: SparkContext) -> SparkSession:
    """Return the process's session, or make one on its context."""
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def make_context(application_id: str, settings: Mapping[str, Any], threads: int = 0) -> SparkContext:
    """Make a context with penstock's settings and task slots for `threads` stream threads. The given settings take
    precedence.

    A context that has ended is removed first.
    """
    global _started, _scratch
    _clear_away()
    # Workers run this interpreter by default. Only spark-submit reads the setting.
    os.environ["PYSPARK_PYTHON"] = str(settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    given = {key: str(value) for key, value in settings.items() if key != _JAVA_OPTIONS}
    _leave_loopback(given)
    elsewhere = _elsewhere()
    own = own_settings(given, elsewhere, threads)
    options = {**own, **given, **_daemon({**own, **elsewhere, **given})}
    # Log settings go to the JVM's start: Spark logs warnings before it reads `spark.log.level`. The user's options come last.
    wanted = str(settings.get(_JAVA_OPTIONS) or elsewhere.get(_JAVA_OPTIONS, ""))
    archive = _archive_options(wanted)
    ours = JVM_OPTIONS, f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", _temporary_folder(), archive
    options[_JAVA_OPTIONS] = " ".join(filter(None, (*ours, wanted)))
    if own.get(_EXECUTOR_OPTIONS):  # on other hosts the file may be missing, which the JVM ignores
        options[_EXECUTOR_OPTIONS] = f"{own[_EXECUTOR_OPTIONS]} {archive}".strip()
    starts, loopback = running_gateway() is None, listens_on_loopback(given, elsewhere)
    local = _local_folders({**own, **elsewhere, **given}, starts)
    private = ",".join(str(folder.path) for folder in local)
    options |= {_LOCAL_DIR: private} if local else {}
    conf = SparkConf().setAppName(application_id).setAll(list(options.items()))
    if starts:
        threading.Thread(target=_import_ahead, name="penstock-imports", daemon=True).start()
    address = {"SPARK_LOCAL_IP": LOOPBACK} if loopback and starts else {}  # of the UI
    with _environment({**address, **({_LOCAL_DIRS: private} if local and _LOCAL_DIRS in os.environ else {})}):
        context = _context(conf)
    _scratch = running_gateway(), local
    if starts:
        _started = running_gateway(), frozenset(options), loopback
        atexit.register(_end_jvm_at_exit, running_gateway(), os.getpid())
    return context


def _context(conf: SparkConf) -> SparkContext:
    try:
        return SparkContext.getOrCreate(conf)
    except PySparkRuntimeError as exc:
        if _NO_JVM not in str(exc):
            raise
        raise StreamsError(
            f"Spark's JVM did not start ({_java()}). Its standard error has the reason. Spark needs a complete Java 17 "
            "or newer in JAVA_HOME or on the PATH, and valid JVM options"
        ) from exc


def _import_ahead() -> None:
    """Import pyspark's late imports (pandas, if installed) while the JVM starts: 0.3 s of CPU."""
    with suppress(Exception):  # pyspark reports a missing module itself
        importlib.import_module("pyspark.testing")


def _clear_away() -> None:
    """Remove a context that has ended. pyspark would return it otherwise."""
    left = None if forget_lost_jvm() else active_context()
    if left is not None and has_ended(left):
        forget_ended(left)


def planned_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that a session made from these will have."""
    given, elsewhere = {key: str(value) for key, value in settings.items()}, _elsewhere()
    return {**own_settings(given, elsewhere), **elsewhere, **given}


def _elsewhere() -> dict[str, str]:
    gateway, passed, _ = _started
    return settings_elsewhere(passed if running_gateway() is gateway else frozenset())


def _leave_loopback(given: Mapping[str, str]) -> None:
    """End a JVM that listens on loopback before another master is used: executors could not reach it."""
    gateway, _, loopback = _started
    idle = running_gateway() is gateway is not None and active_context() is None
    if idle and loopback and not is_local_master(given.get("spark.master", "local")):
        _end_jvm(gateway)


def _local_folders(known: Mapping[str, str], starts: bool) -> Sequence[ScratchFolder]:
    """Make folders for shuffles and blocks that only this user can read, inside the configured ones. Empty if Spark decides.

    Spark's own folders get the umask's rights, so other users of the host could read records. A JVM keeps its folders. On a
    cluster the administrator is responsible for the hosts' folders.
    """
    if not starts and running_gateway() is _scratch[0]:
        return _scratch[1]
    if not known["spark.master"].startswith("local") or (not starts and _LOCAL_DIRS in os.environ):
        return ()
    parents = (os.environ.get(_LOCAL_DIRS) or known.get(_LOCAL_DIR) or tempfile.gettempdir()).split(",")
    try:
        for parent in parents:
            Path(parent.strip()).mkdir(parents=True, exist_ok=True)
        return [ScratchFolder("penstock-spark-", parent.strip()) for parent in parents]
    except OSError as exc:
        _log.warning(
            "Spark's local folders are readable by other users of this host: making a folder in %s failed (%s)",
            *(",".join(parents), exc.strerror or exc),
        )
        return ()


def _temporary_folder() -> str:
    """Return the JVM option for TMPDIR, which a JVM ignores. Empty if socket paths in it would be too long."""
    folder = tempfile.gettempdir()
    return f'"-Djava.io.tmpdir={folder}"' if len(os.fsencode(folder)) <= _LONGEST_FOLDER else ""


def _java() -> Path:
    """Return the path of the Java that Spark starts."""
    return Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else Path(shutil.which("java") or "java")


def class_archive() -> Path:
    """Return the path of the class archive for this Spark and this Java (`spark/driver/class_archive.py`)."""
    home = spark_home()
    jars = Path(home, "jars")
    changed = int(jars.stat().st_mtime) if jars.is_dir() else 0  # images keep whole seconds
    name = hashlib.sha256(f"{_java().resolve()}\n{home}\n{pyspark.__version__}\n{changed}".encode()).hexdigest()[:16]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / f"spark-classes-{name}.jsa"


def takes_archive(options: str) -> bool:
    """Return True if the JVM options do not configure class data sharing."""
    return not any(option in options for option in ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare"))


def _archive_options(wanted: str) -> str:
    """Return the options to use the class archive, if it exists and only this user can write it.

    A JVM silently ignores an archive for another class path.
    """
    if not takes_archive(wanted):
        return ""
    file = class_archive()
    try:
        found = file.stat()
    except OSError:
        return ""
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or '"' in str(file):
        return ""
    return f'"-XX:SharedArchiveFile={file}" -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off'


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a process that is started inside."""
    before = {name: os.environ.pop(name, None) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _daemon(known: Mapping[str, str]) -> dict[str, str]:
    """Return settings that fork workers with imported modules. Only with a local master, which runs what is installed here."""
    is_here = known["spark.master"].startswith("local")
    if not is_here or os.environ["PYSPARK_PYTHON"] != sys.executable or _DAEMON in known:
        return {}
    path = os.pathsep.join(filter(None, (known.get(_WORKER_PATH), str(Path(__file__).parents[3]))))
    return {_DAEMON: "pyspark_penstock.daemon", _WORKER_PATH: path}


def threads_of(context: SparkContext, wanted: int | None = None, tasks: int = 1, check: Callable[[], None] = lambda: None) -> int:
    """Return `wanted`, or the number of Spark's task slots, after the executors have registered.

    With dynamic allocation it is the largest possible number, at most the number of tasks. `check` raises to end the wait.
    """
    there = wait_for_executors(context, _EXECUTOR_SECONDS, check)
    settings = dict(context.getConf().getAll())
    cpus, allocation = count_of(settings, "spark.task.cpus", 1), Allocation.of(settings)
    if there and cpus > 1:
        check_task_cpus(cpus, _executor_cores(context))
    if allocation is None:
        slots = max(1, int(context.defaultParallelism) // cpus)
        if wanted is not None and wanted > slots:
            _log.warning(
                "num.stream.threads is %d, but Spark runs %d tasks at a time. A stream thread that waits for a task slot is idle "
                "for up to two seconds. Set spark.master to local[%d] when the session is made, or use executors with more "
                "cores",
                *(wanted, slots, wanted),
            )
        return slots if wanted is None else wanted
    cores = cores_of(settings) or max(_executor_cores(context), default=1)
    threads = allocation.threads(cores // cpus, tasks) if wanted is None else wanted
    _log.info(
        "Dynamic allocation: %d stream threads start on %d executors, and Spark adds more while threads wait for a core. "
        "Set num.stream.threads or spark.dynamicAllocation.maxExecutors for another number of threads, "
        "spark.dynamicAllocation.minExecutors for permanent executors",
        *(threads, len(there)),
    )
    return threads


def _executor_cores(context: SparkContext) -> list[int]:
    """Return the number of cores of each executor."""
    return [executor.cores for executor in known_executors(context).values()]


@contextmanager
def quiet_jvm(log: Path) -> Iterator[None]:
    """Redirect standard error of a JVM started inside to a file: some of its messages cannot be disabled."""
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def end_session(spark: SparkSession) -> None:
    """Stop a session and its JVM, and wait until both have ended."""
    spark.stop()
    if running_gateway() is not None:
        _end_jvm(running_gateway())


def _end_jvm_at_exit(gateway: Any, process_id: int) -> None:
    """End the JVM at exit, unless a context still uses it: then the JVM ends with the process."""
    if os.getpid() == process_id and active_context() is None:
        with suppress(Exception):
            _end_jvm(gateway)


def _end_jvm(gateway: Any) -> None:
    """End a JVM that this process started, and wait until it has deleted its folders. A second call does nothing."""
    global _scratch
    forget_gateway(gateway)
    end_gateway(gateway, _END_SECONDS)
    if gateway is _scratch[0]:
        for folder in _scratch[1]:
            folder.close()
        _scratch = None, ()
