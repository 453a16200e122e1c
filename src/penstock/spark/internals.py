"""Every private name of Spark and pyspark that penstock uses: here and nowhere else, each with its reason.

Spark's public Python API does not choose the executor, the process and the environment of a function. A stream thread needs all
three, so this module uses names inside Spark. `tests/spark_versions` tries each of them on every minor version
(`make test-spark-versions`); a name that moves is bridged here. Only Spark's daemon is elsewhere (`pyspark_penstock/daemon.py`),
because it must not import penstock.

Two kinds of names count as private: what begins with an underscore in pyspark, and what pyspark itself reaches in the JVM, which
is `private[spark]` in Scala and public only in the bytecode.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import NoOpSerializer, PickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.context import SQLContext

# From this size on Spark sends functions as a broadcast of their own, if it is not told otherwise.
_LARGE = 1 << 20

# From the moment a JVM does not answer any more until its process is gone.
_ENDING_SECONDS = 1.0
_CONNECT_SECONDS = 1.0

UNANSWERED = (Py4JError, OSError)
"""What a call raises that a JVM does not answer which is gone, or going."""

__all__ = ["cloudpickle"]  # Spark's own copy, which it sends the user's functions with: what it can pickle, an application can be

# -- the driver's JVM -------------------------------------------------------------------------------------------------------


def jvm_of(spark: SparkContext) -> Any:
    """The driver's JVM, for Java's public API (`identity.py`) and for the rest of this module.

    Without it nothing below is possible, and the certificate of a run would need a library or a `keytool` on the path.
    """
    return spark._jvm


def running_gateway() -> Any:
    """The connection to the JVM that pyspark has started in this process, or None.

    It tells whether the next session starts a JVM, whose options are then read, and which of two JVMs is which. Without it
    settings for the JVM's start would be set where they have no effect.
    """
    return SparkContext._gateway


def forget_gateway(gateway: Any) -> None:
    """Have pyspark start a JVM anew for the next session, if this is the one it has.

    Without it a session after the end of its JVM fails with a refused connection.
    """
    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None


def active_context() -> SparkContext | None:
    """The SparkContext of this process, or None; `SparkContext.getOrCreate` would make one.

    Without it a JVM that is still in use could not be told from an idle one.
    """
    return SparkContext._active_spark_context


def has_ended(spark: SparkContext | None) -> bool:
    """Whether a context has ended: stopped here, stopped by itself in its JVM, or gone with it.

    pyspark notices only the first. Without it an application whose session was stopped would try again for ever.
    """
    if spark is None or is_cut_off(spark):
        return True
    java: Any = spark._jsc
    try:
        return java is None or bool(java.sc().isStopped())
    except UNANSWERED:  # a JVM that was killed refuses the connection
        deadline = time.monotonic() + _ENDING_SECONDS
        while not is_cut_off(spark) and time.monotonic() < deadline:  # it closes its connections a moment before it is gone
            time.sleep(0.01)
        return True


def is_cut_off(spark: SparkContext) -> bool:
    """What of `has_ended` shows without a word to the JVM: stopped here, or its process is gone. Takes microseconds.

    A call to the JVM takes a millisecond, and as long as it likes where the JVM does not get to answer. Without it the end of a
    JVM would show with the next turn only, which may be hours away.
    """
    gateway = getattr(spark, "_gateway", None)
    # A context that is just being made has none yet.
    return getattr(spark, "_jsc", None) is None or (gateway is not None and jvm_is_gone(gateway))


def was_stopped(spark: SparkContext) -> bool:
    """Whether somebody in this process has stopped a context: that was meant, unlike the end of its JVM.

    Without it a session that its user has stopped would come back.
    """
    return spark._jsc is None and "_gateway" not in vars(spark)  # see forget_lost_jvm and forget_ended


def jvm_is_gone(gateway: Any) -> bool:
    """Whether the process of a JVM has ended; nothing is asked of it, and nothing waited for."""
    process = vars(gateway).get("proc")  # none where others have started it, such as spark-submit
    return _lifeline.has_ended(gateway) if process is None else process.poll() is not None


def jvm_pid(spark: SparkContext) -> int | None:
    """The process of a context's JVM; None where pyspark has not started it itself.

    Without it the page could not tell how much CPU and memory the JVM takes.
    """
    process = vars(getattr(spark, "_gateway", None) or object).get("proc")
    return None if process is None else int(process.pid)


class _Lifeline:
    """A connection to a JVM that is no child of ours, over which nothing is ever sent: it ends with the JVM."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gateway: Any = None
        self._socket: socket.socket | None = None

    def has_ended(self, gateway: Any) -> bool:
        with self._lock:
            if self._gateway is gateway and self._socket is not None and _is_open(self._socket):
                return False
            if self._socket is not None:
                self._socket.close()
            self._gateway, self._socket = gateway, None
            try:
                self._socket = socket.create_connection(_address(gateway), _CONNECT_SECONDS)
            except OSError as exc:
                return isinstance(exc, ConnectionRefusedError)
            self._socket.setblocking(False)
            return False


_lifeline = _Lifeline()


def _address(gateway: Any) -> tuple[str, int]:
    """Where a JVM listens for this process."""
    return gateway.gateway_parameters.address, gateway.gateway_parameters.port


def _is_open(connection: socket.socket) -> bool:
    """Whether the other side has not closed a connection over which it says nothing."""
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def forget_lost_jvm() -> bool:
    """Where the JVM of this process is gone: have pyspark forget it, with its context and its sessions; False where it is not.

    pyspark has one JVM for the life of a process, and keeps all that hangs on it in class attributes. Without it no session could
    be made in this process any more. What still holds the old context stays with the old JVM, which refuses: in the next one the
    names of its objects are those of others.
    """
    with SparkContext._lock:
        gateway: Any = SparkContext._gateway
        if gateway is None or not jvm_is_gone(gateway):
            return False
        context: Any = SparkContext._active_spark_context
        if context is not None:
            context._gateway, context._jvm, context._jsc = gateway, SparkContext._jvm, None
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
    accumulators = getattr(context, "_accumulatorServer", None)
    if accumulators is not None:
        context._accumulatorServer = None
        accumulators.shutdown()  # a thread that listens
    gateway._gateway_client.is_connected = False  # the ends of its objects are told to nobody
    gateway.shutdown()  # closes connections, and ends the thread that would tell
    process = vars(gateway).get("proc")
    if process is not None:
        process.stdin.close()
    return True


def forget_ended(spark: SparkContext) -> None:
    """Have pyspark forget a context that has ended by itself in a JVM that lives; for `was_stopped` nobody has stopped it.

    Without it pyspark gives the session that has ended to whoever asks for one.
    """
    gateway: Any = SparkContext._gateway
    spark._gateway = gateway
    spark.stop()


def can_start_jvm() -> bool:
    """Whether pyspark starts a JVM for the next session; one that was started around this process does not come back."""
    return "PYSPARK_GATEWAY_PORT" not in os.environ


def connect_to_jvm() -> None:
    """Connect to the JVM that `spark-submit` has started, so that `SparkConf` shows what was submitted.

    Without it `SparkConf` is empty before the first session, and penstock's settings would override the user's.
    """
    SparkContext._ensure_initialized()


def spark_home() -> str:
    """Where Spark is installed: beside it lies `conf/spark-defaults.conf`."""
    return str(_find_spark_home())


def start_gateway() -> Any:
    """A JVM with Spark's jars that is no session's; `end_gateway` ends it. Without it the resolver needs a whole session."""
    return launch_gateway()


def end_gateway(gateway: Any, seconds: float) -> None:
    """End a JVM that this process has started, and wait: at its end it deletes its folders. Twice is fine.

    Spark's own way, the end of this process, is not waited for, and leaves what the JVM had no time to delete.
    """
    process = getattr(gateway, "proc", None)  # none where spark-submit has started it
    if process is None or process.poll() is not None:
        return
    gateway.shutdown()
    process.stdin.close()  # the JVM ends with its input
    process.wait(seconds)


def resolve_jars(gateway: Any, coordinates: str, folder: str) -> list[str]:
    """What `spark-submit --packages` does: jars from Maven Central with all they need beyond Spark's own, below `folder`.

    Without it the development broker needs Maven, or download code of our own.
    """
    jvm = gateway.jvm
    utils = jvm.org.apache.spark.util.MavenUtils
    nothing, errors = jvm.scala.Option.empty(), getattr(jvm.java.lang.System, "err")  # noqa: B009 - py4j maps fields by getattr
    # Not the user's ~/.m2: where Maven has left a pom there without its jar, Ivy looks no further.
    settings = utils.buildIvySettings(nothing, jvm.scala.Option.apply(folder), False, errors)
    jars = utils.resolveMavenCoordinates(coordinates, settings, nothing, True, _scala(jvm, ()), False, errors)
    return [jars.apply(i) for i in range(jars.size())]


def _scala(jvm: Any, items: Iterable[Any]) -> Any:
    """A Scala Seq; py4j converts to Java's collections only."""
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return jvm.scala.jdk.CollectionConverters.ListHasAsScala(found).asScala().toSeq()


_JOB_GROUP = "spark.jobGroup.id"

# The local property that names the stages of a job. Without it each is called `collectAsync at NativeMethodAccessorImpl.java:0`.
STAGE_NAME = "callSite.short"

# -- executors --------------------------------------------------------------------------------------------------------------


class KnownExecutor(NamedTuple):
    """An executor that the scheduler has: its host, its cores, and why Spark gives it no more tasks (empty if it does)."""

    host: str
    cores: int
    refusal: str


def known_executors(spark: SparkContext) -> dict[str, KnownExecutor]:
    """The executors that the scheduler has, by their ids, also those that get no more tasks.

    Two sources, since neither is enough: the scheduler knows which are registered and active, the status store where they are and
    which are excluded. An executor without a block manager has no host there yet: it does not count before. Without it threads
    could not be put on executors, and would lose their state with every job; or they would stay on one that gets no more tasks.
    """
    backend = spark._jsc.sc().schedulerBackend()
    found = {}
    for summary in _executor_summaries(spark):
        executor, host = str(summary.id()), str(summary.hostPort()).rpartition(":")[0]
        if host:
            found[executor] = KnownExecutor(host, int(summary.totalCores()), _refusal(backend, executor, summary))
    return found


def _refusal(backend: Any, executor: str, summary: Any) -> str:
    """Why Spark gives an executor no more tasks; empty if it does."""
    if summary.isExcluded():
        return "is excluded after failures (spark.excludeOnFailure)"
    try:
        is_active = bool(backend.isExecutorActive(executor))
    except Py4JError:  # the backend of a cluster manager that does not have it
        return ""
    return "" if is_active else "is being decommissioned, or about to end"


def request_one_executor(spark: SparkContext) -> None:
    """Ask the cluster for one more executor.

    With dynamic allocation Spark requests executors only for waiting tasks, and threads get tasks only on an executor. Without
    this request such an application never starts. (`requestExecutors` is a developer's API of the JVM which pyspark lacks.)
    """
    spark._jsc.sc().requestExecutors(1)


def groups_waiting(spark: SparkContext) -> set[str]:
    """The groups of jobs that have tasks for Spark and none that runs.

    Asked of the scheduler itself, which has it from one moment to the next. `SparkContext.statusTracker()` would tell it too, up
    to ten seconds late: a task that begins within 100 ms of its stage is not counted before the next heartbeat. Without it nobody
    could tell a thread that waits for a core from one that works.
    """
    return {group for group, count in _running_tasks(spark).items() if count == 0}


def group_runs(spark: SparkContext, group: str) -> bool:
    """Whether a task of a group of jobs runs, those of jobs that were cancelled included: they run until their worker is gone.

    Without it nobody could tell when what a cancelled job did has ended.
    """
    return _running_tasks(spark).get(group, 0) > 0


def anybody_waits(spark: SparkContext) -> bool:
    """Whether the scheduler has a task, of whatever job, that has not begun.

    Without it a thread that stays would be left every two seconds, whether or not somebody else wants its core.
    """
    return any(tasks.numTasks() - tasks.tasksSuccessful() > tasks.runningTasks() for tasks in _task_sets(spark))


def _running_tasks(spark: SparkContext) -> dict[str, int]:
    """How many tasks run of each group of jobs that the scheduler has tasks of."""
    running: dict[str, int] = {}
    for tasks in _task_sets(spark):
        properties = tasks.taskSet().properties()
        group = None if properties is None else properties.getProperty(_JOB_GROUP)
        if group is not None:
            running[group] = running.get(group, 0) + tasks.runningTasks()
    return running


def _task_sets(spark: SparkContext) -> Iterator[Any]:
    """The sets of tasks that the scheduler has and that are not over."""
    context: Any = spark._jsc.sc()
    pools = context.getAllPools()  # without the fair scheduler these are the sets of tasks themselves
    for number in range(pools.size()):
        sets = pools.apply(number).getSortedTaskSetQueue()
        yield from (sets.apply(position) for position in range(sets.size()))


def executor_ids(spark: SparkContext) -> frozenset[str]:
    """The executors that the scheduler has at this moment, by their ids: two calls to the JVM, however many there are.

    Nothing public tells it. Without it the loss of an executor would be noticed when Spark has tried its tasks elsewhere, for
    which it starts a Python there.
    """
    ids = str(spark._jsc.sc().getExecutorIds().mkString(","))
    return frozenset(filter(None, ids.split(",")))


def _executor_summaries(spark: SparkContext) -> list[Any]:
    """What the status store knows of the executors that the scheduler has."""
    ids, known = executor_ids(spark), spark._jsc.sc().statusStore().executorList(True)
    return [summary for summary in (known.apply(i) for i in range(known.size())) if summary.id() in ids]


def executor_place(host: str, executor: str) -> str:
    """An executor as Spark writes it in preferred locations (`ExecutorCacheTaskLocation`): its host alone could be another's.

    >>> executor_place("10.0.0.7", "3")
    'executor_10.0.0.7_3'
    """
    return f"executor_{host}_{executor}"


def split_place(place: str) -> tuple[str, str]:
    """The host and the id of an executor.

    >>> split_place("executor_10.0.0.7_3")
    ('10.0.0.7', '3')
    """
    host, _, executor = place.removeprefix("executor_").rpartition("_")
    return host, executor


def own_executor_id() -> str:
    """Spark's id of the executor that this worker process belongs to; empty where it cannot be told.

    pyspark does not tell a task where it runs. YARN and Kubernetes say it in the environment, a standalone cluster only inside
    the address of the executor's log. Without it a thread that Spark has put elsewhere would be opened there, beside its state.
    """
    told = os.environ.get("SPARK_EXECUTOR_ID")
    if told:
        return told
    match = re.search(r"[?&]executorId=(\w+)", os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return match.group(1) if match else ""


def is_executor(place: str | None) -> bool:
    """Whether this worker process belongs to an executor; also where that cannot be told, or is nobody's business."""
    here = own_executor_id()
    return place is None or not here or split_place(place)[1] == here


# -- RDDs -------------------------------------------------------------------------------------------------------------------


def placed_rows(spark: SparkContext, places: Sequence[str | None]) -> RDD[int]:
    """As many rows (0, 1, 2 ...) as places, each in a partition of its own that prefers its place; None leaves it to Spark.

    `makeRDD` with locations has no counterpart in Python. Without it Spark puts a thread's task on any executor with a free core.
    """
    jvm = jvm_of(spark)
    rows = [
        jvm.scala.Tuple2(bytearray(pickle.dumps(index)), _scala(jvm, () if place is None else (place,)))
        for index, place in enumerate(places)
    ]
    bytes_tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    java_rdd = spark._jsc.sc().makeRDD(_scala(jvm, rows), bytes_tag).toJavaRDD()
    return RDD(java_rdd, spark, PickleSerializer())


def anchor(spark: SparkContext, rows: RDD[int], place: str) -> bool:
    """Keep the row of `placed_rows` on its executor, so that jobs over it fail when that is lost; False where it is elsewhere.

    A task whose executor is lost Spark tries elsewhere at once, for which it starts a Python there: seconds of a core's time when
    those who are there have the work of two, and for a thread that does no work there anyway. A row that is checkpointed where it
    is (`localCheckpoint`) is gone then, and the task fails before there is a Python. Where it is kept is where the scheduler
    would like to read it, which only that tells.
    """
    rows._jrdd.rdd().localCheckpoint()
    for _ in range(2):  # the scheduler keeps what it knew before the first job until the next
        rows._jrdd.count()  # not `collectAsync`: what is asked for in that way is not checkpointed
    return str(spark._jsc.sc().getPreferredLocs(rows._jrdd.rdd(), 0).mkString(",")) == place


def worker_environment(spark: SparkContext, own: Mapping[str, str]) -> Any:
    """The environment that Spark gives the workers of this session, and `own`: a copy, in the JVM.

    Spark hands a Python task to any idle worker of exactly the same environment. One variable makes a worker somebody's own, as
    long as the rest does not change either; so it is copied once. The session's own environment is everybody's, read by all
    threads that build functions: it is never changed.
    """
    copied = jvm_of(spark).java.util.HashMap()
    for name, value in {**spark.environment, **own}.items():
        copied.put(name, value)
    return copied


def bytes_in_environment(rows: RDD[Any], function: Callable[[Iterator[Any]], Iterable[bytes]], environment: Any) -> Any:
    """An RDD whose function runs in a worker of this environment and yields bytes, for `first_of_partition`.

    It is what pyspark does when an RDD is asked for its JVM side, which takes the session's environment and no other. Without it
    a thread could have a worker of its own only by changing the session's environment under the user's jobs.
    """
    spark: Any = rows.ctx
    kept = _kept(spark)
    # Profilers are the session's; a function that is large travels as a broadcast, which lives as long as what is made here.
    command = (partial(_on_partition, function), None, rows._jrdd_deserializer, NoOpSerializer())
    pickled, broadcasts = cloudpickle.dumps(command), kept.nothing
    if len(pickled) > _LARGE or any(True for _ in spark._pickled_broadcast_vars):
        pickled, broadcasts, _, _ = _prepare_for_python_RDD(spark, command)
    includes = spark._python_includes or kept.nothing
    wrapped = kept.python_function(
        bytearray(pickled), environment, includes, spark.pythonExec, spark.pythonVer, broadcasts, spark._javaAccumulator
    )
    return kept.python_rdd(rows._jrdd.rdd(), wrapped, False, False).asJavaRDD()  # keeps no partitioner, is no barrier


def _on_partition(function: Callable[[Iterator[Any]], Iterable[bytes]], _: int, rows: Iterator[Any]) -> Iterable[bytes]:
    """What a worker calls: with the partition's number first."""
    return function(rows)


def first_of_partition(java_rdd: Any) -> bytes:
    """Run a job over an RDD of one partition, and give the first thing it yields.

    All of it is Spark's public Java API. pyspark's own way (`PythonRDD.runJob`) has a thread and a socket for each job, and has
    Spark look for `return` in the bytecode of `PythonRDD` and of `SparkContext`: 3 to 4 ms more of CPU in the JVM, of about 15.
    """
    return bytes(java_rdd.collectAsync().get().get(0))


class _Kept:
    """What is asked of the JVM once for a session: py4j looks through the class path for a name each time."""

    def __init__(self, spark: SparkContext) -> None:
        jvm = jvm_of(spark)
        self.python_function = jvm.SimplePythonFunction
        self.python_rdd = jvm.PythonRDD
        self.nothing = jvm.java.util.ArrayList()


_KEPT: WeakKeyDictionary[SparkContext, _Kept] = WeakKeyDictionary()


def _kept(spark: SparkContext) -> _Kept:
    """What is kept of this session's JVM. Without it each job looks all names up: 3 to 5 ms of CPU in the JVM."""
    found = _KEPT.get(spark)
    if found is None:
        found = _KEPT[spark] = _Kept(spark)
    return found


# -- Python workers -----------------------------------------------------------------------------------------------------------


def own_daemon_id() -> int | None:
    """The process id of the daemon that forked this worker; None if Spark started the worker directly.

    Spark makes one daemon per environment, so the daemon of a stream thread serves only that thread. It leads the process group
    of its worker. The daemon of a closed thread would stay until the session ends, with about 45 MB, so it is ended by this id.
    """
    main = sys.modules["__main__"].__spec__
    parent = os.getppid()
    started_alone = main is not None and main.name == "pyspark.worker"  # its parent is the JVM
    return None if started_alone or os.getpgid(0) != parent else parent


def stop_workers(spark: SparkContext, name: str, value: str) -> int:
    """Stop the daemon, with its workers, of each environment with this variable, in local mode; how many there were.

    Spark keeps a factory of workers for each environment until the session ends, and starts its daemon anew when it is asked for
    a worker again. Without it a daemon can only be ended by its process id, which Spark takes for an accident, and logs.
    """
    # No method of SparkEnv is called: py4j would look at all of them, and in some are classes that pyspark comes without.
    field = jvm_of(spark).java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")
    field.setAccessible(True)
    entries = field.get(spark._jsc.sc().env()).toSeq()
    stopped = 0
    for index in range(entries.size()):
        key, factory = entries.apply(index)._1(), entries.apply(index)._2()
        found = key.productElement(3).get(name)  # its environment, behind the interpreter and the two modules it runs
        if found.isDefined() and found.get() == value:
            factory.stop()
            stopped += 1
    return stopped


# -- tables -------------------------------------------------------------------------------------------------------------------

# Compiled classes with the JVM they belong to: one JVM at a time.
_compiled: tuple[Any, dict[str, Any]] = (None, {})


def compiled_class(spark: SparkContext, name: str, source: str) -> Any:
    """A Java class that Spark's own compiler (Janino) makes in the driver, once for each JVM.

    Python data sources keep what a query has pushed with the table, and so mix up queries of one table (`live_table.py`). Without
    a table of our own, filters could not be pushed; and a jar would have to be given to every session.
    """
    global _compiled
    gateway: Any = SparkContext._gateway
    if _compiled[0] is not gateway:
        _compiled = gateway, {}
    known = _compiled[1]
    if name not in known:
        jvm = jvm_of(spark)
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(source)
        known[name] = compiler.getClassLoader().loadClass(name)
    return known[name]


def dataframe_over_table(spark: Any, java_class: Any, source: str, schema: str, options: Mapping[str, str]) -> DataFrame:
    """A DataFrame over a table of the catalog's API that is in no catalog, made of a Java class with such a constructor.

    Without it a table would need a catalog of ours among the session's settings.
    """
    context = spark.sparkContext
    jvm = jvm_of(context)
    told = jvm.java.util.HashMap()
    for name, value in options.items():
        told.put(name, value)
    arguments = context._gateway.new_array(jvm.java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = source, jvm.org.apache.spark.sql.types.StructType.fromDDL(schema), told
    table = java_class.getConstructors()[0].newInstance(arguments)
    none = jvm.scala.Option.empty()
    relation = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.create(table, none, none)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, relation), spark)
