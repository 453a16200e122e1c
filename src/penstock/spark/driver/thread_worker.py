"""The Python worker of a stream thread, seen from the driver.

Spark runs a Python task in any idle worker with the same environment variables. The jobs of a stream thread set one variable of
their own. So Spark always runs them in the same worker, and no other tasks there. At most one job runs in a worker at a time.

The functions of these jobs yield bytes, which reach the driver unchanged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from pyspark import RDD, SparkContext

from penstock.errors import StreamsError
from penstock.spark.driver.core_sharing import POOL
from penstock.spark.driver.placement import anchored, known_places, located
from penstock.spark.driver.worker_names import give_back, take_name
from penstock.spark.hosts import is_local
from penstock.spark.internals import (
    STAGE_NAME,
    bytes_in_environment,
    first_of_partition,
    group_runs,
    stop_workers,
    worker_environment,
)
from penstock.spark.worker.worker_process import (
    VARIABLE,
    MisplacedError,
    WorkerProcess,
    end_daemon,
    end_daemon_on,
    end_left,
    end_process,
    read_from_worker,
    run_in_worker,
    wait_for_end,
)

_log = logging.getLogger(__name__)

# The environment of the worker that ends the workers of stream threads on an executor that they have left.
_ENDS_OTHERS = "penstock-ends-workers"

# The old worker of a thread that moved has nothing open any more. It is ended after this time.
_LEFT_SECONDS = 10.0

# Attempts to reach the daemon of a worker: Spark may run the job on another executor if this one has no free core.
_ATTEMPTS = 3

# The pause before a job that Spark tried on another executor is submitted again.
_MISPLACED_PAUSE = 0.2

# Spark looks every two seconds whether a job was cancelled, and gives its Python two more (spark.python.task.killTimeout).
_SPARK_ENDS_IN = 6.0
# After that the worker is ended by a job of its own, which needs a core.
_ENDED_WITHIN = 10.0

T = TypeVar("T")
WorkerFunction = Callable[[Iterator[Any]], Iterable[bytes]]


class JobCancelledError(StreamsError):
    """A job was cancelled, and its worker was ended with it."""


class _Job:
    """A Spark job that runs in a worker."""

    def __init__(self, group: str, description: str) -> None:
        self.group = group
        self.description = description
        self.cancelled: str | None = None
        """The reason for the cancellation."""
        self.is_over = threading.Event()
        """Set when Spark has reported the result."""
        self.is_done = False
        """True when the function has returned: the worker can be used again."""
        self.has_ended = threading.Event()
        """Set when nothing of a cancelled job runs any more."""


class ThreadWorker:
    """A Python worker on one executor, with the driver's thread that submits its jobs.

    Spark knows the worker by `worker_name`. The name is the same at every start, because Spark keeps a thread for each name.
    """

    def __init__(
        self,
        spark: SparkContext,
        name: str,
        executor: str | None = None,
        worker_name: str | None = None,
        pool: str | None = None,
    ) -> None:
        self.name = name
        self._pool = pool
        self._spark = spark
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.last_used = time.monotonic()
        self._process: WorkerProcess | None = None
        self._anchored_at: str | None = None
        self._closing: Future[None] | None = None
        self._job: _Job | None = None
        self._job_lock = threading.Lock()
        self._is_forsaken = False
        self._busy: str | None = None
        """The executor whose cores other jobs have used for longer than `spark.locality.wait`."""
        self.executor: str | None = None
        self._worker_name = take_name(worker_name or name)
        try:
            self._environment = worker_environment(spark, {VARIABLE: self._worker_name})
            self.move(executor)
        except BaseException:
            give_back(self._worker_name)
            raise

    def move(self, executor: str | None) -> None:
        """Run later jobs on another executor. The old worker keeps what it has open until its process ends."""
        left = self.executor
        self.executor = executor
        self._base, self._anchored_at = located(self._spark, executor), None
        if left is not None and left != executor and self._process is not None:
            threading.Thread(target=self._end_left, args=(left, self._process), name=f"{self.name}-left", daemon=True).start()

    def submit(self, function: WorkerFunction, description: str, read: Callable[[bytes], T]) -> Future[T]:
        """Run `function` as a Spark job of one task in this worker. The future holds `read` of the first bytes that it yields."""
        return self._thread.submit(self._run, self._base, self.executor, function, description, read)

    def close(self) -> Future[None]:
        """Refuse new jobs. When the submitted ones are done, end the worker and the daemon that started it."""
        if self._closing is None:
            self._closing = self._thread.submit(self._end)
            self._thread.shutdown(wait=False)
        return self._closing

    def abandon(self) -> None:
        """End a worker that does not close. Another worker repeats what it had not committed."""
        self.cancel("its worker does not close")  # on a cluster, ending the worker may have to wait for a core
        threading.Thread(
            target=self._end_process, args=(self.executor, self._process), name=f"{self.name}-abandoned", daemon=True
        ).start()

    @property
    def running(self) -> str | None:
        """The description of the running job, if there is one."""
        job = self._job
        return None if job is None else job.description

    def cancel(self, reason: str) -> None:
        """End the running job and its worker. Return at once; do nothing if no job runs.

        The future of the job ends within about five seconds: with a `JobCancelledError` when the worker is gone and can write
        nothing more, or with its result if that came first. The next job gets a new worker, in which nothing is open.
        """
        with self._job_lock:
            job = self._job
            if job is None or job.cancelled is not None:
                return
            job.cancelled = reason
        threading.Thread(target=self._cancel, args=(job,), name=f"{self.name}-cancelled", daemon=True).start()

    def forsake(self) -> None:
        """Refuse new jobs and end the worker on this host without asking Spark, because the session has ended.

        Return when the worker and its locks are gone. Waiting jobs are cancelled. A running job has failed.
        """
        if self._is_forsaken:
            return
        self._is_forsaken = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            end_left(self._worker_name, self._process)
        give_back(self._worker_name)

    def _run(
        self, rows: RDD[Any], executor: str | None, function: WorkerFunction, description: str, read: Callable[[bytes], T]
    ) -> T:
        """Run a job on the worker's executor. Submit it again if Spark tried another executor, where nothing was run."""
        while True:
            try:
                return self._run_once(rows, executor, function, description, read)
            except MisplacedError as exc:
                found = known_places(self._spark)
                if self._is_forsaken or self.executor != executor or executor not in found.usable:
                    why = found.refused.get(executor or "", "is gone or was left")
                    raise StreamsError(f"{self.name} belongs on {executor}, which {why}, and {exc}") from exc
                _log.log(
                    logging.WARNING if executor != self._busy else logging.DEBUG,
                    "%s waits for a core of %s, where its state is: %s meanwhile and did nothing there. Set spark.locality.wait "
                    "to 60s, so that Spark does not try it elsewhere",
                    *(self.name, executor, exc),
                )
                self._busy = executor
                time.sleep(_MISPLACED_PAUSE)

    def _run_once(
        self, rows: RDD[Any], executor: str | None, function: WorkerFunction, description: str, read: Callable[[bytes], T]
    ) -> T:
        self.last_used = time.monotonic()
        job = self._job = _Job(self.name, description)
        # Not interrupted: after an interrupt Spark would forget the worker and leave it running.
        self._spark.setJobGroup(job.group, description, interruptOnCancel=False)
        self._spark.setLocalProperty(POOL, self._pool)  # None: the session's default
        self._spark.setLocalProperty(STAGE_NAME, description)
        in_worker = partial(run_in_worker, self._worker_name, executor, self._process, function)
        try:
            java_rdd = bytes_in_environment(rows, in_worker, self._environment)
            self._process, ended, said = read_from_worker(first_of_partition(java_rdd))
            job.is_done = True
        except Exception as exc:
            if not isinstance(exc, MisplacedError):
                self._loosen()
            if job.cancelled is not None:
                raise JobCancelledError(f"the job of {self.name} was ended: {job.cancelled}") from exc
            raise
        finally:
            self._await_end(job)
        if ended:
            _log.warning(
                "Spark runs %s in process %d now. Its previous process %d was ended",
                *(self.name, self._process.process, ended),
            )
        if self.executor != self._anchored_at:
            self._anchored_at = self.executor
            with suppress(RuntimeError):  # the thread is closing
                self._thread.submit(self._anchor, self.executor)
        return read(said)

    def _loosen(self) -> None:
        """Make a new base row for the jobs after a failure: a user who clears Spark's storage removes it."""
        if self._anchored_at is not None:
            with suppress(Exception):  # the session has ended, so nothing is needed
                self._base, self._anchored_at = located(self._spark, self.executor), None

    def _anchor(self, executor: str | None) -> None:
        """Make later jobs fail at once if their executor is lost, instead of being tried on another one."""
        if executor is None or executor != self.executor:
            return
        job = self._job = _Job(self.name, f"{self.name}: stay at {executor}")
        self._spark.setJobGroup(job.group, job.description, interruptOnCancel=False)
        self._spark.setLocalProperty(POOL, self._pool)
        try:
            base = anchored(self._spark, executor)
            job.is_done = True
        except Exception as exc:  # noqa: BLE001 - without an anchor, Spark retries elsewhere, and the worker there refuses
            _log.debug("%s could not be anchored at %s: %s", self.name, executor, exc)
            return
        finally:
            self._await_end(job)
        if base is not None and executor == self.executor:
            self._base = base

    def _await_end(self, job: _Job) -> None:
        """Wait until nothing of a cancelled job runs any more, before the next job begins."""
        with self._job_lock:
            self._job = None
            job.is_over.set()
        if job.cancelled is not None and not job.has_ended.wait(_ENDED_WITHIN):
            _log.warning("The worker of %s has not ended within %.0f s after its job was cancelled", self.name, _ENDED_WITHIN)

    def _cancel(self, job: _Job) -> None:
        """Cancel Spark's job first, so that its task is not tried again. Then make sure that its worker ends.

        Spark ends the worker by itself within a few seconds. On this machine it is ended directly.
        """
        deadline = time.monotonic() + _SPARK_ENDS_IN
        try:
            while True:
                self._spark.cancelJobGroup(job.group)
                if job.is_over.wait(0.2) or time.monotonic() > deadline:  # repeated: the job may not have started yet
                    break
            if job.is_done:
                return
            if is_local(self._spark):
                if self._process is not None:
                    end_process(self._worker_name, self._process.process)  # SIGKILL, which it cannot ignore
                self._end_process(None, self._process)
            while (runs := group_runs(self._spark, job.group)) and time.monotonic() < deadline:
                time.sleep(0.02)
            if runs:
                self._end_process(self.executor, self._process)
        except Exception as exc:  # noqa: BLE001 - with the session its workers end too
            _log.debug("Cancelling the job of %s failed: %s", self.name, exc)
        finally:
            job.has_ended.set()

    def _end(self) -> None:
        self._end_process(self.executor, self._process)
        give_back(self._worker_name)

    def _end_process(self, executor: str | None, process: WorkerProcess | None) -> None:
        try:
            if is_local(self._spark):
                self._end_here(process)
            elif executor is not None and process is not None and process.daemon:
                self._end_on(executor, process.daemon)
        except Exception as exc:  # noqa: BLE001 - the worker ends with the session or its executor
            _log.debug("Ending the worker of %s failed: %s", self.name, exc)

    def _end_left(self, executor: str, process: WorkerProcess) -> None:
        """End the worker that a moved thread has left. Wait first: the job that ends it takes CPU from running threads."""
        time.sleep(_LEFT_SECONDS)
        if self.executor != executor:
            self._end_process(executor, process)

    def _end_here(self, process: WorkerProcess | None) -> None:
        stopped = 0
        with suppress(Exception):  # on an error it is ended by its process id
            stopped = stop_workers(self._spark, VARIABLE, self._worker_name)
        if process is not None and process.daemon:
            if stopped:
                wait_for_end(process.daemon)
            else:
                end_daemon(self._worker_name, process.daemon)

    def _end_on(self, executor: str, daemon: int) -> None:
        """End the worker through a job in another worker: its own would end before it could answer.

        That worker has an environment of its own. Without one, Spark would start the daemon of the session's other workers, and
        running threads would wait for its imports.
        """
        self._spark.setLocalProperty("spark.job.description", f"{self.name}: end its worker")
        ending = partial(end_daemon_on, executor, self._worker_name, daemon)
        environment = worker_environment(self._spark, {VARIABLE: _ENDS_OTHERS})
        for _ in range(_ATTEMPTS):
            if executor not in known_places(self._spark).usable:
                return
            rows = bytes_in_environment(located(self._spark, executor), ending, environment)
            if first_of_partition(rows) == b"ended":
                return


def is_reachable(worker: ThreadWorker, there: Collection[str] | None) -> bool:
    """Whether jobs of a worker can run. `there` has the usable executors; None if they are unknown, and in local mode."""
    return there is None or worker.executor is None or worker.executor in there


def remaining(deadline: float | None) -> float | None:
    """Return the remaining seconds, None without a deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def wait_for(closing: Iterable[Future[Any]], deadline: float | None) -> None:
    """Wait until all futures are done. Errors are ignored."""
    for future in closing:
        with suppress(Exception):  # a worker that has died has nothing to close
            future.result(remaining(deadline))


def close_workers(workers: Iterable[ThreadWorker], timeout: float | None) -> None:
    """Close workers and wait until they have ended. Workers that are too slow are killed."""
    closing = [(worker, worker.close()) for worker in workers]
    deadline = None if timeout is None else time.monotonic() + timeout
    for worker, closed in closing:
        try:
            closed.result(remaining(deadline))
        except FutureTimeoutError:
            _log.warning("%s has not closed within %.0f s. Its worker is killed", worker.name, timeout)
            worker.abandon()
