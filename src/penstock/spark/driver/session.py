"""What of Spark an application runs on, made from the config's `spark.*` keys: its context, which is all that threads need.

A SparkSession on top of it takes as long again, and is for tables only.
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
# From the start of a session to its first executor: a cluster that grows with its load takes minutes for a host.
_EXECUTOR_SECONDS = 600.0

_END_SECONDS = 30.0

_LOCAL_DIR, _LOCAL_DIRS = "spark.local.dir", "SPARK_LOCAL_DIRS"

_NO_JVM = "JAVA_GATEWAY_EXITED"

# The path of a socket has 107 bytes at most, and Spark's are named by a UUID.
_LONGEST_FOLDER = 60


# The JVM that penstock has started, what it was told at its start, and whether its environment keeps it on loopback.
_started: tuple[Any, frozenset[str], bool] = (None, frozenset(), False)

# The JVM that runs, and where it keeps shuffles and blocks.
_scratch: tuple[Any, Sequence[ScratchFolder]] = (None, ())


def make_session(application_id: str, settings: Mapping[str, Any]) -> SparkSession:
    """A session with penstock's settings, under the user's own."""
    return session_of(make_context(application_id, settings))


def session_of(_: SparkContext) -> SparkSession:
    """The session on the context of this process, which there is one of: made now, where nobody has asked for it before."""
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def make_context(application_id: str, settings: Mapping[str, Any], threads: int = 0) -> SparkContext:
    """Make a context with penstock's settings, under the user's own, and with task slots for so many stream threads.

    What is left of a context that has ended is cleared away first.
    """
    global _started, _scratch
    _clear_away()
    # Workers run this interpreter, with what is installed for it, unless told otherwise. Only spark-submit reads the setting.
    os.environ["PYSPARK_PYTHON"] = str(settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    given = {key: str(value) for key, value in settings.items() if key != _JAVA_OPTIONS}
    _leave_loopback(given)
    elsewhere = _elsewhere()
    own = own_settings(given, elsewhere, threads)
    options = {**own, **given, **_daemon({**own, **elsewhere, **given})}
    # Log settings go to the JVM's start: Spark's own warnings come before `spark.log.level` is looked at. The user's come last.
    wanted = str(settings.get(_JAVA_OPTIONS) or elsewhere.get(_JAVA_OPTIONS, ""))
    archive = _archive_options(wanted)
    ours = JVM_OPTIONS, f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", _temporary_folder(), archive
    options[_JAVA_OPTIONS] = " ".join(filter(None, (*ours, wanted)))
    if own.get(_EXECUTOR_OPTIONS):  # on other hosts there may be no such file, which is left alone too
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
            f"Spark's JVM did not start ({_java()}); what it wrote to standard error tells why. Spark needs a complete Java 17 "
            "or newer, which JAVA_HOME names or the PATH has, and options that it takes"
        ) from exc


def _import_ahead() -> None:
    """While the JVM starts, import what pyspark imports with its first call to it (pandas, where there is one): 0.3 s of CPU."""
    with suppress(Exception):  # if it is missed, pyspark says so
        importlib.import_module("pyspark.testing")


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


def _local_folders(known: Mapping[str, str], starts: bool) -> Sequence[ScratchFolder]:
    """Folders for shuffles and blocks that only this user can read, inside those that are configured; none where Spark decides.

    Spark makes its own folders with the rights that the umask leaves, so other users of the host could read records. A JVM keeps
    the folders that it began with. On a cluster the hosts' folders are for its administrator.
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
            "Spark's local folders are not kept from other users of this host: no folder can be made in %s (%s)",
            *(",".join(parents), exc.strerror or exc),
        )
        return ()


def _temporary_folder() -> str:
    """A JVM takes no notice of TMPDIR, so that it is told; not of one in which the path of a socket would be too long."""
    folder = tempfile.gettempdir()
    return f'"-Djava.io.tmpdir={folder}"' if len(os.fsencode(folder)) <= _LONGEST_FOLDER else ""


def _java() -> Path:
    """What Spark starts."""
    return Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else Path(shutil.which("java") or "java")


def class_archive() -> Path:
    """Where an archive of the classes of this Spark for this Java is, if there is one (`class_archive.py`)."""
    home = spark_home()
    jars = Path(home, "jars")
    changed = int(jars.stat().st_mtime) if jars.is_dir() else 0  # images keep whole seconds
    name = hashlib.sha256(f"{_java().resolve()}\n{home}\n{pyspark.__version__}\n{changed}".encode()).hexdigest()[:16]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / f"spark-classes-{name}.jsa"


def takes_archive(options: str) -> bool:
    """Whether options of a JVM do not say what is to be done about shared classes."""
    return not any(option in options for option in ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare"))


def _archive_options(wanted: str) -> str:
    """Have the JVM use the archive of its classes, where there is one that only this user can have written.

    One that does not fit, since the class path is another, is left alone without a word.
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
    """Variables for a process that is started meanwhile."""
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
    """On this machine workers run what is installed here, and can be forked with it imported; elsewhere nobody knows."""
    is_here = known["spark.master"].startswith("local")
    if not is_here or os.environ["PYSPARK_PYTHON"] != sys.executable or _DAEMON in known:
        return {}
    path = os.pathsep.join(filter(None, (known.get(_WORKER_PATH), str(Path(__file__).parents[3]))))
    return {_DAEMON: "pyspark_penstock.daemon", _WORKER_PATH: path}


def threads_of(context: SparkContext, wanted: int | None = None, tasks: int = 1, check: Callable[[], None] = lambda: None) -> int:
    """As many threads as wanted, or as Spark runs tasks at a time; returns when the context has executors to put them on.

    With dynamic allocation that is what it can come to, and no more than there are tasks. `check` raises to end the waiting.
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
                "num.stream.threads is %d, and Spark runs %d tasks at a time: a stream thread that waits for a task slot stands "
                "still for up to two seconds. Set spark.master to local[%d] when the session is made, or use executors with more "
                "cores",
                *(wanted, slots, wanted),
            )
        return slots if wanted is None else wanted
    cores = cores_of(settings) or max(_executor_cores(context), default=1)
    threads = allocation.threads(cores // cpus, tasks) if wanted is None else wanted
    _log.info(
        "dynamic allocation: %d stream threads begin on %d executors, and Spark asks for more while their turns wait for a core; "
        "set num.stream.threads or spark.dynamicAllocation.maxExecutors for another number of threads, "
        "spark.dynamicAllocation.minExecutors for executors that always stay",
        *(threads, len(there)),
    )
    return threads


def _executor_cores(context: SparkContext) -> list[int]:
    """How many cores each executor has."""
    return [executor.cores for executor in known_executors(context).values()]


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
    global _scratch
    forget_gateway(gateway)
    end_gateway(gateway, _END_SECONDS)
    if gateway is _scratch[0]:
        for folder in _scratch[1]:
            folder.close()
        _scratch = None, ()
