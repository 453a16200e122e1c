"""All private names of Spark and pyspark that penstock uses, each with its reason.

Spark's public Python API does not choose the executor, the process and the environment of a function. A stream thread needs
all three. `tests/spark_versions` tests each name on every minor version (`make test-spark-versions`); a name that moves is
bridged here. Only Spark's daemon is elsewhere (`pyspark_penstock/daemon.py`), because it must not import penstock.

Private names are names with an underscore in pyspark, and names in the JVM that are `private[spark]` in Scala and public only
in the bytecode.
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

# From this size on, Spark sends functions as a separate broadcast by default.
_LARGE = 1 << 20

# Time limit from a JVM's first unanswered call to the end of its process.
_ENDING_SECONDS = 1.0
_CONNECT_SECONDS = 1.0

UNANSWERED = (Py4JError, OSError)
"""Errors of calls to a JVM that has ended or is ending."""

__all__ = ["cloudpickle"]  # Spark's copy, which pickles the user's functions; an application is pickled by the same rules

# -- the driver's JVM -------------------------------------------------------------------------------------------------------


def jvm_of(spark: SparkContext) -> Any:
    """Return the driver's JVM, for Java's public API (`spark/identity.py`) and for this module.

    Without it nothing below is possible, and a run's certificate would need a library or `keytool`.
    """
    return spark._jvm


def running_gateway() -> Any:
    """Return the connection to the JVM that pyspark started in this process, or None.

    It shows whether the next session starts a JVM, which then reads its options, and distinguishes two JVMs. Without it,
    settings for the JVM's start could be set without effect.
    """
    return SparkContext._gateway


def forget_gateway(gateway: Any) -> None:
    """Make pyspark start a new JVM for the next session, if it uses this one.

    Without it, a session after the end of its JVM fails with a refused connection.
    """
    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None


def active_context() -> SparkContext | None:
    """Return the SparkContext of this process, or None. `SparkContext.getOrCreate` would make one.

    Without it a JVM in use could not be distinguished from an idle one.
    """
    return SparkContext._active_spark_context


def has_ended(spark: SparkContext | None) -> bool:
    """Return True if a context has ended: stopped here, stopped by itself in its JVM, or lost with it.

    pyspark notices only the first. Without it an application whose session was stopped would retry for ever.
    """
    if spark is None or is_cut_off(spark):
        return True
    java: Any = spark._jsc
    try:
        return java is None or bool(java.sc().isStopped())
    except UNANSWERED:  # a killed JVM refuses the connection
        deadline = time.monotonic() + _ENDING_SECONDS
        while not is_cut_off(spark) and time.monotonic() < deadline:  # its connections close a moment before its process ends
            time.sleep(0.01)
        return True


def is_cut_off(spark: SparkContext) -> bool:
    """Return True if the context was stopped here or its JVM process is gone, without a call to the JVM. Takes microseconds.

    A call to the JVM takes a millisecond, or for ever if the JVM hangs. Without it, the end of a JVM would be noticed only at
    the next residency, perhaps hours later.
    """
    gateway = getattr(spark, "_gateway", None)
    # A context that is being made has no gateway yet.
    return getattr(spark, "_jsc", None) is None or (gateway is not None and jvm_is_gone(gateway))


def was_stopped(spark: SparkContext) -> bool:
    """Return True if a context was stopped in this process, which was intended, unlike the end of its JVM.

    Without it a session that its user stopped would be made again.
    """
    return spark._jsc is None and "_gateway" not in vars(spark)  # see forget_lost_jvm and forget_ended


def jvm_is_gone(gateway: Any) -> bool:
    """Return True if a JVM's process has ended, without a call to it."""
    process = vars(gateway).get("proc")  # None if pyspark did not start the JVM, as with spark-submit
    return _lifeline.has_ended(gateway) if process is None else process.poll() is not None


def jvm_pid(spark: SparkContext) -> int | None:
    """Return the process id of a context's JVM, or None if pyspark did not start it.

    Without it the console could not show the JVM's CPU and memory.
    """
    process = vars(getattr(spark, "_gateway", None) or object).get("proc")
    return None if process is None else int(process.pid)


class _Lifeline:
    """A silent connection to a JVM that is not a child process. It ends with the JVM."""

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
    """Return the address of a JVM's gateway."""
    return gateway.gateway_parameters.address, gateway.gateway_parameters.port


def _is_open(connection: socket.socket) -> bool:
    """Return True if the peer has not closed a silent connection."""
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def forget_lost_jvm() -> bool:
    """Remove a JVM that has ended from pyspark, with its context and sessions. Returns False if it has not ended.

    pyspark expects one JVM for the life of a process, and keeps its objects in class attributes. Without it this process
    could make no further session. Objects of the old context still refer to the old JVM and raise errors: in the next JVM
    their ids would be those of other objects.
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
        accumulators.shutdown()  # its listening thread
    gateway._gateway_client.is_connected = False  # stops garbage collection messages to the JVM
    gateway.shutdown()  # closes connections and ends the thread of these messages
    process = vars(gateway).get("proc")
    if process is not None:
        process.stdin.close()
    return True


def forget_ended(spark: SparkContext) -> None:
    """Remove a context from pyspark that has ended by itself in a live JVM. `was_stopped` remains False for it.

    Without it pyspark returns the ended session for new ones.
    """
    gateway: Any = SparkContext._gateway
    spark._gateway = gateway
    spark.stop()


def can_start_jvm() -> bool:
    """Return True if pyspark can start a JVM. A JVM that started this process cannot be started again."""
    return "PYSPARK_GATEWAY_PORT" not in os.environ


def connect_to_jvm() -> None:
    """Connect to the JVM that `spark-submit` started, so that `SparkConf` has the submitted settings.

    Without it `SparkConf` is empty before the first session, and penstock's settings would override the user's.
    """
    SparkContext._ensure_initialized()


def spark_home() -> str:
    """Return Spark's installation folder, which contains `conf/spark-defaults.conf`."""
    return str(_find_spark_home())


def start_gateway() -> Any:
    """Start a JVM with Spark's jars without a session; `end_gateway` ends it. Without it the resolver needs a session."""
    return launch_gateway()


def end_gateway(gateway: Any, seconds: float) -> None:
    """End a JVM that this process started, and wait until it has deleted its folders. A second call does nothing.

    Spark ends the JVM at the exit of this process without waiting, which can leave folders behind.
    """
    process = getattr(gateway, "proc", None)  # None if spark-submit started the JVM
    if process is None or process.poll() is not None:
        return
    gateway.shutdown()
    process.stdin.close()  # the JVM ends when its input closes
    process.wait(seconds)


def resolve_jars(gateway: Any, coordinates: str, folder: str) -> list[str]:
    """Download jars from Maven Central with their dependencies beyond Spark's jars, as `spark-submit --packages` does.

    Without it the development broker needs Maven or its own download code.
    """
    jvm = gateway.jvm
    utils = jvm.org.apache.spark.util.MavenUtils
    nothing, errors = jvm.scala.Option.empty(), getattr(jvm.java.lang.System, "err")  # noqa: B009 - py4j maps fields by getattr
    # Not the user's ~/.m2: if Maven stored a pom there without its jar, Ivy does not search further.
    settings = utils.buildIvySettings(nothing, jvm.scala.Option.apply(folder), False, errors)
    jars = utils.resolveMavenCoordinates(coordinates, settings, nothing, True, _scala(jvm, ()), False, errors)
    return [jars.apply(i) for i in range(jars.size())]


def _scala(jvm: Any, items: Iterable[Any]) -> Any:
    """Convert to a Scala Seq; py4j converts only to Java's collections."""
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return jvm.scala.jdk.CollectionConverters.ListHasAsScala(found).asScala().toSeq()


_JOB_GROUP = "spark.jobGroup.id"

# The local property with the name of a job's stages. The default is `collectAsync at NativeMethodAccessorImpl.java:0`.
STAGE_NAME = "callSite.short"

# -- executors --------------------------------------------------------------------------------------------------------------


class KnownExecutor(NamedTuple):
    """An executor of the scheduler: its host, its cores, and the reason why it gets no more tasks (empty if it gets some)."""

    host: str
    cores: int
    refusal: str


def known_executors(spark: SparkContext) -> dict[str, KnownExecutor]:
    """Return the scheduler's executors by id, including those that get no more tasks.

    The scheduler knows which are registered and active; the status store knows their hosts and exclusions. An executor
    without a block manager has no host yet and is left out. Without it, threads could not be placed on executors and would
    lose their state with every job, or would stay on an executor that gets no tasks.
    """
    backend = spark._jsc.sc().schedulerBackend()
    found = {}
    for summary in _executor_summaries(spark):
        executor, host = str(summary.id()), str(summary.hostPort()).rpartition(":")[0]
        if host:
            found[executor] = KnownExecutor(host, int(summary.totalCores()), _refusal(backend, executor, summary))
    return found


def _refusal(backend: Any, executor: str, summary: Any) -> str:
    """Return why Spark gives an executor no more tasks, or an empty text."""
    if summary.isExcluded():
        return "is excluded after failures (spark.excludeOnFailure)"
    try:
        is_active = bool(backend.isExecutorActive(executor))
    except Py4JError:  # a cluster manager's backend without this method
        return ""
    return "" if is_active else "is being decommissioned, or about to end"


def request_one_executor(spark: SparkContext) -> None:
    """Request one more executor from the cluster.

    With dynamic allocation Spark requests executors only for waiting tasks, and threads get tasks only on an executor.
    Without this request such an application never starts. (`requestExecutors` is a developer API of the JVM that pyspark
    lacks.)
    """
    spark._jsc.sc().requestExecutors(1)


def groups_waiting(spark: SparkContext) -> set[str]:
    """Return the job groups that have waiting tasks and no running task.

    The scheduler is asked directly. `SparkContext.statusTracker()` is up to ten seconds late: it counts a task that starts
    within 100 ms of its stage only at the next heartbeat. Without it, a thread that waits for a core looks like one that
    works.
    """
    return {group for group, count in _running_tasks(spark).items() if count == 0}


def group_runs(spark: SparkContext, group: str) -> bool:
    """Return True if a task of a job group runs. Tasks of cancelled jobs count until their worker has ended.

    Without it the end of a cancelled job's work could not be detected.
    """
    return _running_tasks(spark).get(group, 0) > 0


def anybody_waits(spark: SparkContext) -> bool:
    """Return True if the scheduler has a task of any job that has not started.

    Without it a resident thread would release its core every two seconds, whether or not another job needs it.
    """
    return any(tasks.numTasks() - tasks.tasksSuccessful() > tasks.runningTasks() for tasks in _task_sets(spark))


def _running_tasks(spark: SparkContext) -> dict[str, int]:
    """Count the running tasks of each job group that the scheduler has."""
    running: dict[str, int] = {}
    for tasks in _task_sets(spark):
        properties = tasks.taskSet().properties()
        group = None if properties is None else properties.getProperty(_JOB_GROUP)
        if group is not None:
            running[group] = running.get(group, 0) + tasks.runningTasks()
    return running


def _task_sets(spark: SparkContext) -> Iterator[Any]:
    """Yield the scheduler's active task sets."""
    context: Any = spark._jsc.sc()
    pools = context.getAllPools()  # without the fair scheduler these are the task sets themselves
    for number in range(pools.size()):
        sets = pools.apply(number).getSortedTaskSetQueue()
        yield from (sets.apply(position) for position in range(sets.size()))


def executor_ids(spark: SparkContext) -> frozenset[str]:
    """Return the ids of the scheduler's current executors, with two calls to the JVM for any number of them.

    No public API has them. Without it, the loss of an executor would be noticed only when Spark has retried its tasks
    elsewhere and started a Python there.
    """
    ids = str(spark._jsc.sc().getExecutorIds().mkString(","))
    return frozenset(filter(None, ids.split(",")))


def _executor_summaries(spark: SparkContext) -> list[Any]:
    """Return the status store's summaries of the scheduler's executors."""
    ids, known = executor_ids(spark), spark._jsc.sc().statusStore().executorList(True)
    return [summary for summary in (known.apply(i) for i in range(known.size())) if summary.id() in ids]


def executor_place(host: str, executor: str) -> str:
    """Format an executor for preferred locations (`ExecutorCacheTaskLocation`). Its host alone could mean another executor.

    >>> executor_place("10.0.0.7", "3")
    'executor_10.0.0.7_3'
    """
    return f"executor_{host}_{executor}"


def split_place(place: str) -> tuple[str, str]:
    """Return the host and the id of an executor.

    >>> split_place("executor_10.0.0.7_3")
    ('10.0.0.7', '3')
    """
    host, _, executor = place.removeprefix("executor_").rpartition("_")
    return host, executor


def own_executor_id() -> str:
    """Return the executor id of this worker process, empty if unknown.

    pyspark does not expose it to tasks. YARN and Kubernetes set it in the environment; a standalone cluster has it only in
    the address of the executor's log. Without it a thread could open on another executor than the one with its state.
    """
    told = os.environ.get("SPARK_EXECUTOR_ID")
    if told:
        return told
    match = re.search(r"[?&]executorId=(\w+)", os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return match.group(1) if match else ""


def is_executor(place: str | None) -> bool:
    """Return True if this worker process belongs to the executor, or if either is unknown."""
    here = own_executor_id()
    return place is None or not here or split_place(place)[1] == here


# -- RDDs -------------------------------------------------------------------------------------------------------------------


def placed_rows(spark: SparkContext, places: Sequence[str | None]) -> RDD[int]:
    """Return an RDD of rows (0, 1, 2 ...), one partition for each place, with that preferred location. None leaves it to
    Spark.

    `makeRDD` with locations has no counterpart in Python. Without it Spark runs a thread's task on any executor with a free
    core.
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
    """Store the row of `placed_rows` on its executor, so that jobs over it fail if the executor is lost. Returns False if it
    is stored elsewhere.

    Spark retries a task of a lost executor elsewhere and starts a Python there, which takes seconds of CPU while the
    remaining executors do the work of two. A row that is checkpointed locally (`localCheckpoint`) is lost with its executor,
    and the task fails before a Python starts. The scheduler's preferred location shows where the row is stored.
    """
    rows._jrdd.rdd().localCheckpoint()
    for _ in range(2):  # the scheduler uses its old locations until the next job
        rows._jrdd.count()  # not `collectAsync`, which does not checkpoint
    return str(spark._jsc.sc().getPreferredLocs(rows._jrdd.rdd(), 0).mkString(",")) == place


def worker_environment(spark: SparkContext, own: Mapping[str, str]) -> Any:
    """Return a copy, in the JVM, of the session's worker environment with additional variables.

    Spark gives a Python task to any idle worker with exactly the same environment. One variable makes a worker exclusive as
    long as the others do not change, so the environment is copied once. The session's own environment is never changed: all
    threads that build functions read it.
    """
    copied = jvm_of(spark).java.util.HashMap()
    for name, value in {**spark.environment, **own}.items():
        copied.put(name, value)
    return copied


def bytes_in_environment(rows: RDD[Any], function: Callable[[Iterator[Any]], Iterable[bytes]], environment: Any) -> Any:
    """Return an RDD whose function runs in a worker of this environment and yields bytes, for `first_of_partition`.

    pyspark does the same for the JVM side of an RDD, but only with the session's environment. Without it a thread's own
    worker would require changing that environment, which the user's jobs share.
    """
    spark: Any = rows.ctx
    kept = _kept(spark)
    # Profilers belong to the session. A large function is sent as a broadcast, which lives as long as this RDD.
    command = (partial(_on_partition, function), None, rows._jrdd_deserializer, NoOpSerializer())
    pickled, broadcasts = cloudpickle.dumps(command), kept.nothing
    if len(pickled) > _LARGE or any(True for _ in spark._pickled_broadcast_vars):
        pickled, broadcasts, _, _ = _prepare_for_python_RDD(spark, command)
    includes = spark._python_includes or kept.nothing
    wrapped = kept.python_function(
        bytearray(pickled), environment, includes, spark.pythonExec, spark.pythonVer, broadcasts, spark._javaAccumulator
    )
    return kept.python_rdd(rows._jrdd.rdd(), wrapped, False, False).asJavaRDD()  # no partitioning kept, no barrier


def _on_partition(function: Callable[[Iterator[Any]], Iterable[bytes]], _: int, rows: Iterator[Any]) -> Iterable[bytes]:
    """Call the function without the partition number, which a worker passes first."""
    return function(rows)


def first_of_partition(java_rdd: Any) -> bytes:
    """Run a job over an RDD of one partition and return its first element.

    It uses Spark's public Java API only. pyspark's way (`PythonRDD.runJob`) starts a thread and a socket for each job, and
    Spark searches the bytecode of `PythonRDD` and `SparkContext` for `return`: 3 to 4 ms more of about 15 ms CPU in the JVM.
    """
    return bytes(java_rdd.collectAsync().get().get(0))


class _Kept:
    """JVM classes that are looked up once per session: py4j searches the class path for each name."""

    def __init__(self, spark: SparkContext) -> None:
        jvm = jvm_of(spark)
        self.python_function = jvm.SimplePythonFunction
        self.python_rdd = jvm.PythonRDD
        self.nothing = jvm.java.util.ArrayList()


_KEPT: WeakKeyDictionary[SparkContext, _Kept] = WeakKeyDictionary()


def _kept(spark: SparkContext) -> _Kept:
    """Return the cached classes of this session's JVM. Without it each job looks up all names: 3 to 5 ms of CPU in the JVM."""
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
    """Stop the daemon and workers of each environment with this variable, in local mode. Returns how many there were.

    Spark keeps a worker factory for each environment until the session ends, and restarts its daemon when it needs a worker.
    Without it a daemon can only be killed by its process id, which Spark logs as a failure.
    """
    # No method of SparkEnv is called: py4j would inspect all of them, and some use classes that pyspark does not include.
    field = jvm_of(spark).java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")
    field.setAccessible(True)
    entries = field.get(spark._jsc.sc().env()).toSeq()
    stopped = 0
    for index in range(entries.size()):
        key, factory = entries.apply(index)._1(), entries.apply(index)._2()
        found = key.productElement(3).get(name)  # its environment, after the interpreter and two modules
        if found.isDefined() and found.get() == value:
            factory.stop()
            stopped += 1
    return stopped


# -- tables -------------------------------------------------------------------------------------------------------------------

# Compiled classes and their JVM. There is one JVM at a time.
_compiled: tuple[Any, dict[str, Any]] = (None, {})


def compiled_class(spark: SparkContext, name: str, source: str) -> Any:
    """Compile a Java class with Spark's own compiler (Janino) in the driver, once for each JVM.

    Python data sources keep pushed filters with the table and mix up queries of one table (`spark/queries/live_table.py`).
    Without a Java table, filters could not be pushed down, or every session would need a jar.
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
    """Return a DataFrame over a catalog API table that is in no catalog, made by the Java class's constructor.

    Without it the session's settings would need a catalog of penstock.
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


def analyzed_plan(frame: DataFrame) -> str:
    """What a DataFrame asks for, as Spark has understood it: text with numbered columns (`name#12`)."""
    return str(frame._jdf.queryExecution().analyzed().toString())
