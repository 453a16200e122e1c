"""The stream threads of an application on Spark. A residency is a Spark job in the thread's own worker process.

Nothing here waits: requests return futures, so that threads do not delay each other.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from weakref import WeakSet

from pyspark import Broadcast, SparkContext

from penstock.ids import TaskId, TopicPartition
from penstock.operators.joins.lookup_table import PackedTable
from penstock.spark.driver.allocation import Allocation, count_of, request_executor
from penstock.spark.driver.core_sharing import POOL, CoreWaits
from penstock.spark.driver.placement import (
    NoExecutorsError,
    SessionStoppedError,
    choose_places,
    executors,
    known_places,
    wait_for_executors,
)
from penstock.spark.driver.state_updaters import StateUpdaters
from penstock.spark.driver.thread_worker import ThreadWorker, close_workers, is_reachable, remaining, wait_for
from penstock.spark.hosts import host_of, is_local
from penstock.spark.internals import (
    UNANSWERED,
    anybody_waits,
    executor_ids,
    groups_waiting,
    has_ended,
    is_cut_off,
    jvm_pid,
    known_executors,
    split_place,
)
from penstock.spark.messages import Application, Failure, Residency, TaskStart, ThreadReport
from penstock.spark.queries.query_client import ask_doing, ask_report, ask_to_close, ask_to_leave
from penstock.spark.reports import read_report
from penstock.spark.worker.residency import close_thread, packed, run_residency
from penstock.state.directory import site_here

_log = logging.getLogger(__name__)

# Limit for closing a thread.
_RESTART_SECONDS = 10.0

# From a new session, which replaces one that has ended, to its first executor.
_RENEW_SECONDS = 60.0


_OURS = frozenset(
    {"penstock", "pyspark_penstock", "pyspark", "confluent_kafka", "rocksdict", "pyarrow", "numpy", "msgspec", "kafka"}
)
_BROKEN_PYTHON = ("ModuleNotFoundError", "ImportError", "PYTHON_VERSION_MISMATCH", "Cannot run program")


# The stream threads of all applications in this process: applications of one session share its executors.
_ALL: WeakSet[SparkThreads] = WeakSet()
_CHOOSING = threading.Lock()


class SparkThreads:
    """Submits the residencies of an application's stream threads to Spark."""

    def __init__(self, spark: SparkContext, application: Application, names: Sequence[str]) -> None:
        self._spark = spark
        self._application = application
        self._packed = packed(application)
        self._pool = application.config.spark_configs.get(POOL)
        self.is_elastic = Allocation.of(dict(self._spark.getConf().getAll())) is not None
        """True if Spark adds and removes executors (dynamic allocation)."""
        self._empty: set[int] = set()
        self._tables: Mapping[str, PackedTable] = {}
        self._broadcast: Broadcast[Mapping[str, PackedTable]] | None = None
        self._broadcast_before: Broadcast[Mapping[str, PackedTable]] | None = None
        self.tables_version = 0
        """Counts the changes of the tables; a thread that has begun before the last one is called back."""
        self.waits = CoreWaits(
            lambda: groups_waiting(self._spark), anybody=lambda: anybody_waits(self._spark), refusal=self._refusal_of
        )
        self.workers: dict[int, ThreadWorker] = {}
        self.working: frozenset[int] = frozenset()
        """The threads that have tasks or are about to get some."""
        self.refusals: Mapping[int, str] = {}
        """The threads whose executors get no more tasks from Spark, with the reason, as of the last check."""
        self._planned: dict[int, str | None] = {}
        """The executors to which threads are about to move."""
        self._make_workers(dict(enumerate(names)), executors(self._spark))
        _ALL.add(self)
        self.updaters = StateUpdaters(self._spark, application, self._packed)
        self._answered: dict[int, ThreadReport] = {}
        self._sockets: set[Path] = set()

    def set_tables(self, tables: Mapping[str, PackedTable]) -> None:
        """Give these tables to all threads with their next residency."""
        self._tables = tables
        old, self._broadcast_before, self._broadcast = self._broadcast_before, self._broadcast, self._spark.broadcast(tables)
        self.tables_version += 1
        if old is not None:  # the one before may still be read by a job that has not begun
            old.destroy()

    @property
    def jvm_pid(self) -> int | None:
        """The process id of the driver's JVM, or None if penstock did not start it."""
        return jvm_pid(self._spark)

    def _make_workers(self, names: Mapping[int, str], there: Sequence[str]) -> None:
        made: dict[int, ThreadWorker] = {}
        with _CHOOSING:
            try:
                for (index, name), place in zip(names.items(), choose_places([None] * len(names), there, self._taken())):
                    made[index] = self._worker(index, name, place)
            except BaseException:
                for worker in made.values():
                    worker.forsake()
                raise
            self.workers = made

    def _others(self) -> list[SparkThreads]:
        """Return the stream threads of the session's other applications."""
        return [other for other in list(_ALL) if other is not self and other.is_on(self._spark)]

    def is_on(self, spark: SparkContext) -> bool:
        """Return True if the threads run on this context."""
        return spark is self._spark

    def _taken(self) -> Counter[str]:
        """Count other applications' stream threads on each executor, including those that are about to start."""
        places = [
            other._planned.get(index, worker.executor) for other in self._others() for index, worker in other.workers.items()
        ]
        return Counter(place for place in places if place is not None)

    @property
    def neighbours(self) -> Counter[int]:
        """The number of other applications' working threads on the executor of each thread."""
        busy = Counter(
            other.workers[index].executor for other in self._others() for index in other.working if index in other.workers
        )
        return Counter({index: busy[worker.executor] for index, worker in self.workers.items()})

    def _worker(self, index: int, name: str, place: str | None) -> ThreadWorker:
        return ThreadWorker(self._spark, name, place, f"{self._application.config['application.id']}-{index + 1}", self._pool)

    def add_thread(self, index: int, name: str) -> None:
        """Add a thread on the executor with the fewest. It opens nothing yet."""
        with _CHOOSING:
            before = [*(worker.executor for worker in self.workers.values()), None]
            places = choose_places(before, executors(self._spark), self._taken())
            self.workers = {**self.workers, index: self._worker(index, name, places[-1])}

    def take_thread(self, index: int) -> ThreadWorker:
        """Remove a thread and return its worker. The caller must end it with `end_thread`."""
        worker = self.workers[index]
        self.workers = {i: other for i, other in self.workers.items() if i != index}
        self._answered.pop(index, None)
        self._empty.discard(index)
        return worker

    def pass_on(self, index: int, successor: int, name: str) -> Future[bytes]:
        """Replace a thread by a new one with another name in the same worker. The future is done when the old tasks are
        closed.

        A new worker would have to start and import everything, which slows all other threads of the machine.
        """
        worker = self.take_thread(index)
        closing = self._submit_close(index, worker)
        worker.name = name
        self.workers = {**self.workers, successor: worker}
        return closing

    def end_thread(self, index: int, worker: ThreadWorker, timeout: float = _RESTART_SECONDS) -> None:
        """Close the open tasks of a removed thread, then its worker, and wait."""
        with suppress(Exception):  # a worker that has died has nothing to close
            self._submit_close(index, worker).result(timeout)
        close_workers([worker], timeout)

    def replace_application(self, application: Application) -> None:
        """Use another application plan. Threads close the old one and open this one."""
        self._application = application
        self._packed = packed(application)
        self._empty.clear()
        self.updaters.replace_application(application, self._packed)

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each thread. The empty string if there is only one machine."""
        return {index: "" if worker.executor is None else host_of(worker.executor) for index, worker in self.workers.items()}

    def place_thread(self, index: int) -> bool:
        """Ensure that a thread has a live executor. Returns True if its executor changed.

        Raises NoExecutorsError if there is none, SessionStoppedError if the session has ended.
        """
        if self.has_ended:
            raise SessionStoppedError
        if is_local(self._spark):
            return False
        worker = self.workers[index]
        try:
            found = known_places(self._spark)
        except UNANSWERED as exc:  # the session has ended since the check
            raise SessionStoppedError from exc
        if not found.usable:
            if self.is_elastic:
                request_executor(self._spark)
            raise NoExecutorsError(f"{self._spark.master} currently has no executor for {worker.name}{found.explain()}")
        if worker.executor in found.usable:
            return False
        with _CHOOSING:
            before = [worker.executor for worker in self.workers.values()]
            place = dict(zip(self.workers, choose_places(before, found.usable, self._taken())))[index]
            self.move_thread(index, place)
        return True

    def is_alive(self, index: int) -> bool:
        """Return True if the thread's executor runs tasks, also if the session does not answer."""
        try:
            return is_local(self._spark) or self.workers[index].executor in executors(self._spark)
        except UNANSWERED:
            return True

    def lost_threads(self) -> dict[int, str]:
        """Return the threads whose executors are lost, with these executors. Fast for any number of executors.

        Their jobs are cancelled: Spark would retry them four times on other executors, and take a core for 0.1 to 0.2 s each.
        Empty if the session does not answer: `check_session` notices its end.
        """
        try:
            return self._cancel_lost()
        except UNANSWERED as exc:
            _log.debug("Asking Spark for lost executors failed: %s", exc)
            return {}

    def _cancel_lost(self) -> dict[int, str]:
        if is_local(self._spark) or is_cut_off(self._spark):
            return {}
        places = {index: worker.executor for index, worker in list(self.workers.items())}
        there = executor_ids(self._spark)
        lost = {index: place for index, place in places.items() if place is not None and split_place(place)[1] not in there}
        for index, place in lost.items():
            worker = self.workers.get(index)
            if worker is not None and worker.executor == place:
                worker.cancel(f"{place} is gone")
        self.updaters.cancel_lost(there)
        return lost

    def better_places(self) -> dict[int, str | None]:
        """Return the threads that should move: their executor gets no more tasks, or another one has fewer threads.

        Raises SessionStoppedError if the session has ended.
        """
        if self.has_ended:
            raise SessionStoppedError
        try:
            found = known_places(self._spark)
        except UNANSWERED as exc:
            _log.debug("Asking Spark for executors failed: %s", exc)
            return {}
        with _CHOOSING:
            before = {index: worker.executor for index, worker in self.workers.items()}
            self.refusals = {
                index: found.refused[place] for index, place in before.items() if place is not None and place in found.refused
            }
            if not found.usable:
                return {}
            places = dict(zip(before, choose_places(list(before.values()), found.usable, self._taken())))
            self._planned = {index: place for index, place in places.items() if place != before[index]}
            return dict(self._planned)

    def slots(self) -> int:
        """Return the number of task slots of the current executors. 0 in local mode or if the session does not answer."""
        if is_local(self._spark):
            return 0
        cpus = count_of(dict(self._spark.getConf().getAll()), "spark.task.cpus", 1)
        try:
            return sum(found.cores // cpus for found in known_executors(self._spark).values() if not found.refusal)
        except UNANSWERED:
            return 0

    def move_thread(self, index: int, place: str | None) -> None:
        """Run the next jobs of a thread on another executor."""
        worker = self.workers[index]
        if worker.executor == place:
            return
        why = f", which {self.refusals[index]}" if index in self.refusals else ""
        _log.info("%s moves from %s%s to %s", worker.name, worker.executor, why, place)
        worker.move(place)
        self._planned.pop(index, None)
        self.refusals = {other: why for other, why in self.refusals.items() if other != index}

    def close_worker(self, index: int) -> bool:
        """Close the open tasks of a thread's worker after its residency. Returns True if it did.

        The worker is asked over its own connection: a decommissioned or excluded executor gets no Spark task.
        """
        address = self.query_address(index)
        return address is not None and ask_to_close(address, self._application)

    def _refusal_of(self, name: str) -> str:
        return next(
            (why for index, why in self.refusals.items() if index in self.workers and self.workers[index].name == name), ""
        )

    def reside(
        self,
        thread: int,
        number: int,
        tasks: Mapping[TaskId, TaskStart],
        group_metadata: bytes,
        *,
        seconds: float,
        idle_seconds: float,
        commit_seconds: float,
        max_records: int,
        drains: bool = False,
        until: Mapping[TopicPartition, int] | None = None,
    ) -> Future[ThreadReport]:
        """Run a residency of a thread. The future has its last report.

        With dynamic allocation a thread without tasks runs no residency: it would keep an executor, or make Spark add one.
        Its worker may be gone with its executor, but has nothing open.
        """
        if self.is_elastic and not tasks and not seconds and thread in self._empty:
            nothing: Future[ThreadReport] = Future()
            nothing.set_result(ThreadReport(held=()))
            return nothing
        found = self.workers[thread]
        residency = Residency(
            self._application.key,
            thread,
            number,
            dict(tasks),
            group_metadata,
            seconds,
            idle_seconds,
            commit_seconds,
            max_records,
            drains,
            until,
            self._packed,
            found.executor,
            self._broadcast,
        )
        what = "process" if seconds else "open"
        description = f"{found.name}: {what} {', '.join(map(str, sorted(tasks))) or 'nothing'}"
        running = found.submit(partial(run_residency, residency), description, read_report)
        running.add_done_callback(partial(self._resided, thread, not tasks))
        return running

    def _resided(self, thread: int, empty: bool, running: Future[ThreadReport]) -> None:
        report = None if running.cancelled() or running.exception(0) is not None else running.result(0)
        if report is None or report.failure is not None or report.lost:
            self._empty.discard(thread)
            return
        self._answered[thread] = report
        (self._empty.add if empty else self._empty.discard)(thread)
        if isinstance(report.query_address, str):
            self._sockets.add(Path(report.query_address))

    def answer(self, residency: Future[ThreadReport]) -> ThreadReport:
        """Return the last report of a residency. If its job failed as a whole (a worker or executor died), the thread is
        lost.
        """
        try:
            return residency.result(0)
        except Exception as exc:  # noqa: BLE001 - Spark reports a dead worker as one of many exceptions
            return ThreadReport("gone", lost=True, failure=self.failure(exc))

    def failure(self, error: BaseException) -> Failure:
        """Return the failure for a job that failed as a whole."""
        text = str(error) or type(error).__name__
        return Failure("SessionStopped", text, text) if has_ended(self._spark) else _failure_of_job(text, self._spark.pythonExec)

    @property
    def application(self) -> Application:
        return self._application

    def is_on_this_host(self, thread: int) -> bool:
        """Return True if the thread's files are on the driver's host."""
        return self.workers[thread].executor is None or self.site_of(thread) == site_here()

    def site_of(self, thread: int) -> str:
        """Return the host of a thread's files in the form of `site_here`. Empty while unknown."""
        answer = self._answered.get(thread)
        return "" if answer is None else answer.site

    def thread_on(self, host: str) -> int | None:
        """Return a thread on a host, or None."""
        return next((index for index, found in self.hosts.items() if found == host), None)

    def query_address(self, thread: int) -> str | tuple[str, int] | None:
        """Return the address at which a thread answers queries, or None while it is not open."""
        answer, executor = self._answered.get(thread), self.workers[thread].executor
        if answer is None or answer.query_address is None:
            return None
        if isinstance(answer.query_address, str):
            return answer.query_address
        return "localhost" if executor is None else split_place(executor)[0], answer.query_address

    def doing(self, thread: int) -> str | None:
        """Return a sentence for the log about what a thread currently does, also during a batch.

        None if it does not answer within two seconds: it is starting, it has died, or native code blocks it.
        """
        address = self.query_address(thread)
        told = None if address is None else ask_doing(address, self._application)
        return None if told is None else str(told)

    def call_back(self, thread: int, residency: int) -> bool:
        """Ask a resident thread to end its residency after the current batch. Waits for the answer; True if it was received."""
        address = self.query_address(thread)
        return address is not None and ask_to_leave(address, self._application, residency)

    def report(self, thread: int, residency: int) -> ThreadReport | None:
        """Return a resident thread's report since the last one, or None if it does not answer. Waits for the answer."""
        address = self.query_address(thread)
        return None if address is None else ask_report(address, self._application, residency)

    def cancel(self, thread: int, reason: str) -> None:
        """Cancel the running job of a thread and end its worker (see `ThreadWorker.cancel`). Its tasks must be opened again."""
        self.workers[thread].cancel(reason)

    def check_session(self) -> None:
        """Raise SessionStoppedError if the session was stopped here or its JVM is gone, without a request to Spark.

        `has_ended` also detects a session that has ended by itself in a live JVM.
        """
        if is_cut_off(self._spark):
            raise SessionStoppedError

    @property
    def has_ended(self) -> bool:
        """True if the session has ended for any reason."""
        return has_ended(self._spark)

    def forsake(self) -> None:
        """Replaces `close` if the session has ended: ends its workers on this host without asking Spark."""
        _ALL.discard(self)
        self.updaters.forsake()
        for worker in self.workers.values():
            worker.forsake()
        self._answered.clear()
        self._empty.clear()
        self._remove_sockets()
        self._sockets.clear()

    def renew(self, spark: SparkContext, check: Callable[[], None] = lambda: None) -> None:
        """Continue on another session after the last one ended: the same thread numbers and names, with nothing open.

        Raises NoExecutorsError, or Spark's error, if threads cannot be made now. It may be called again with the same or
        another session. `check` raises to end the wait for executors.

        1. End remaining workers on this host: they may have open stores, and be about to commit.
        2. Wait for executors.
        3. Make the threads.
        """
        self.forsake()
        self._spark = spark
        self._broadcast = self._broadcast_before = None
        if self._tables:
            self.set_tables(self._tables)
        self.updaters.renew(self._spark)
        names = {index: worker.name for index, worker in self.workers.items()}
        there = wait_for_executors(self._spark, _RENEW_SECONDS, check)
        self._planned, self.refusals = {}, {}
        self._make_workers(names, there)
        _ALL.add(self)

    def close(self, timeout: float | None = None) -> None:
        """Close the threads' tasks and end their workers, all in parallel. Skip threads without an executor."""
        _ALL.discard(self)
        deadline = None if timeout is None else time.monotonic() + timeout
        there = self._usable()
        updating = threading.Thread(
            target=self.updaters.close, args=(timeout, there), name="penstock-updaters-close", daemon=True
        )
        updating.start()
        left = {index: worker for index, worker in self.workers.items() if is_reachable(worker, there)}
        for index, worker in self.workers.items():
            if index not in left:
                worker.cancel(f"{worker.executor} gets no more tasks")
                worker.forsake()
        wait_for([self._submit_close(index, worker) for index, worker in left.items()], deadline)
        close_workers(left.values(), None if deadline is None else _RESTART_SECONDS)
        updating.join(remaining(deadline))
        self._remove_sockets()

    def _usable(self) -> Collection[str] | None:
        """Return the usable executors. None in local mode or if the session does not answer."""
        try:
            return None if is_local(self._spark) else executors(self._spark)
        except UNANSWERED:
            return None

    def _remove_sockets(self) -> None:
        """Remove the socket folders of workers that were killed and could not do it."""
        for folder in {path.parent for path in self._sockets if path.parent.name.startswith("penstock-")}:
            shutil.rmtree(folder, ignore_errors=True)

    def _submit_close(self, index: int, worker: ThreadWorker) -> Future[bytes]:
        return worker.submit(partial(close_thread, self._application.key, index), f"{worker.name}: close", bytes)


def _failure_of_job(text: str, interpreter: str) -> Failure:
    broken = next((line.strip() for line in text.splitlines() if any(sign in line for sign in _BROKEN_PYTHON)), None)
    if broken is None:
        return Failure("ThreadLost", text.splitlines()[0], text)
    missing = re.search(r"No module named '(\w+)", broken)
    if missing is not None and missing.group(1) not in _OURS:
        message = (
            f"The executors have no module {missing.group(1)}, which the application uses. Add it to "
            f"spark.submit.pyFiles, or install it for the executors' Python, {interpreter} (running-on-a-cluster.md)"
        )
        return Failure("StreamsError", message, text)
    advice = "Install penstock-streams for it, or set PYSPARK_PYTHON before the session is made"
    message = f"The executors' Python, {interpreter}, cannot run penstock: {broken}. {advice} (running-on-a-cluster.md)"
    return Failure("StreamsError", message, text)
