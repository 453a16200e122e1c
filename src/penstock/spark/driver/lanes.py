"""Lanes, seen from the driver: sticky Python workers, each on the executor it was given.

Spark hands a Python task to any idle worker of the same environment. A lane's functions are built with an environment of their
own, which differs from the session's in one variable, so Spark gives each lane its own worker and always that one, and nobody
else. At most one job runs in a lane at a time.

What a lane's functions yield is bytes, and comes to the driver as they are: Spark only tells where they begin and end.
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
from penstock.spark.driver.lane_names import give_back, take_name
from penstock.spark.driver.placement import anchored, known_places, located
from penstock.spark.hosts import is_local
from penstock.spark.internals import (
    STAGE_NAME,
    bytes_in_environment,
    first_of_partition,
    group_runs,
    stop_workers,
    worker_environment,
)
from penstock.spark.worker.lane_process import (
    VARIABLE,
    LaneProcess,
    MisplacedError,
    end_daemon,
    end_daemon_on,
    end_left,
    end_process,
    read_from_lane,
    run_in_lane,
    wait_for_end,
)

_log = logging.getLogger(__name__)

# The worker that ends those of lanes, one on each executor that a lane has left.
_ENDS_OTHERS = "penstock-ends-workers"

# So long after a lane has moved its old worker is ended, in which nothing is open any more.
_LEFT_SECONDS = 10.0

# How often a daemon is looked for on its executor: Spark may put the job elsewhere when that has no core to spare.
_ATTEMPTS = 3

# So soon a job is submitted again that Spark has tried on another executor.
_MISPLACED_PAUSE = 0.2

# Spark looks every two seconds whether a job was cancelled, and gives its Python two more (spark.python.task.killTimeout).
_SPARK_ENDS_IN = 6.0
# What is left then is ended as at the end of a lane, which takes a core.
_ENDED_WITHIN = 10.0

T = TypeVar("T")
LaneFunction = Callable[[Iterator[Any]], Iterable[bytes]]


class LaneCancelledError(StreamsError):
    """A job of a lane was ended before it was done, and its worker with it."""


class _Job:
    """A job that runs in a lane."""

    def __init__(self, group: str, description: str) -> None:
        self.group = group
        self.description = description
        self.cancelled: str | None = None
        """Why it is to be ended."""
        self.is_over = threading.Event()
        """Spark has said what came of it."""
        self.is_done = False
        """It came to its end: its worker may live on."""
        self.has_ended = threading.Event()
        """Nothing of it runs any more, where it was cancelled."""


class Lane:
    """One lane of an application: a thread of the driver that submits jobs, and the worker that runs them.

    `worker_name` is what Spark knows the worker by: the same at every start, so that nothing piles up there.
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
        self._process: LaneProcess | None = None
        self._anchored_at: str | None = None
        self._closing: Future[None] | None = None
        self._job: _Job | None = None
        self._job_lock = threading.Lock()
        self._is_forsaken = False
        self._busy: str | None = None
        """The executor whose cores are known to be busy with other jobs for longer than `spark.locality.wait`."""
        self.executor: str | None = None
        self._worker_name = take_name(worker_name or name)
        try:
            self._environment = worker_environment(spark, {VARIABLE: self._worker_name})
            self.move(executor)
        except BaseException:
            give_back(self._worker_name)
            raise

    def move(self, executor: str | None) -> None:
        """Run the jobs to come on another executor; what is open on the old one stays there until its process ends."""
        left = self.executor
        self.executor = executor
        self._base, self._anchored_at = located(self._spark, executor), None
        if left is not None and left != executor and self._process is not None:
            threading.Thread(target=self._end_left, args=(left, self._process), name=f"{self.name}-left", daemon=True).start()

    def submit(self, function: LaneFunction, description: str, read: Callable[[bytes], T]) -> Future[T]:
        """Run `function` as one Spark job of one task in this lane's worker; the future holds the first thing it yields, read."""
        return self._thread.submit(self._run, self._base, self.executor, function, description, read)

    def close(self) -> Future[None]:
        """Take no more jobs; those there are run to their end, and then the worker is ended, with the daemon it comes from."""
        if self._closing is None:
            self._closing = self._thread.submit(self._end)
            self._thread.shutdown(wait=False)
        return self._closing

    def abandon(self) -> None:
        """End the worker of a lane that does not close, whatever runs in it: what is not committed is done again elsewhere."""
        self.cancel("the lane is closed, and does not come to its end")  # on a cluster the rest may have to wait for its core
        threading.Thread(
            target=self._end_process, args=(self.executor, self._process), name=f"{self.name}-abandoned", daemon=True
        ).start()

    @property
    def running(self) -> str | None:
        """The description of the job that runs now; None where none does."""
        job = self._job
        return None if job is None else job.description

    def cancel(self, reason: str) -> None:
        """End the job that runs now, whatever it does, and the worker that runs it; returns at once.

        Its future ends with a `LaneCancelledError` within about five seconds, when the worker is gone and can write nothing more;
        or with its result, where that came first. The next job gets a new worker then, in which nothing is open. Where no job
        runs, nothing happens.
        """
        with self._job_lock:
            job = self._job
            if job is None or job.cancelled is not None:
                return
            job.cancelled = reason
        threading.Thread(target=self._cancel, args=(job,), name=f"{self.name}-cancelled", daemon=True).start()

    def forsake(self) -> None:
        """The session has ended: take no more jobs, and end what is left of the worker on this host, without a word to Spark.

        Returns when the worker is gone, and with it the locks it had. Jobs that wait are cancelled, one that runs has failed.
        """
        if self._is_forsaken:
            return
        self._is_forsaken = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            end_left(self._worker_name, self._process)
        give_back(self._worker_name)

    def _run(
        self, rows: RDD[Any], executor: str | None, function: LaneFunction, description: str, read: Callable[[bytes], T]
    ) -> T:
        """Run a job on the lane's executor; again if Spark has tried it elsewhere, where nothing was run."""
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
        self, rows: RDD[Any], executor: str | None, function: LaneFunction, description: str, read: Callable[[bytes], T]
    ) -> T:
        self.last_used = time.monotonic()
        job = self._job = _Job(self.name, description)
        # Not to be interrupted where it is cancelled: then Spark would let go of the worker, and leave it running.
        self._spark.setJobGroup(job.group, description, interruptOnCancel=False)
        self._spark.setLocalProperty(POOL, self._pool)  # None: the session's default
        self._spark.setLocalProperty(STAGE_NAME, description)
        in_lane = partial(run_in_lane, self._worker_name, executor, self._process, function)
        try:
            java_rdd = bytes_in_environment(rows, in_lane, self._environment)
            self._process, ended, said = read_from_lane(first_of_partition(java_rdd))
            job.is_done = True
        except Exception as exc:
            if not isinstance(exc, MisplacedError):
                self._loosen()
            if job.cancelled is not None:
                raise LaneCancelledError(f"the job of {self.name} was ended: {job.cancelled}") from exc
            raise
        finally:
            self._await_end(job)
        if ended:
            _log.warning(
                "Spark has given %s to process %d; process %d, which had it before, has been ended",
                *(self.name, self._process.process, ended),
            )
        if self.executor != self._anchored_at:
            self._anchored_at = self.executor
            with suppress(RuntimeError):  # it is being closed
                self._thread.submit(self._anchor, self.executor)
        return read(said)

    def _loosen(self) -> None:
        """A job has failed, perhaps for want of its row: who clears Spark's storage takes it along. The next makes it anew."""
        if self._anchored_at is not None:
            with suppress(Exception):  # with the session nothing is left to be made
                self._base, self._anchored_at = located(self._spark, self.executor), None

    def _anchor(self, executor: str | None) -> None:
        """Have the jobs to come fail at once if their executor is lost, instead of being tried elsewhere."""
        if executor is None or executor != self.executor:
            return
        job = self._job = _Job(self.name, f"{self.name}: stay at {executor}")
        self._spark.setJobGroup(job.group, job.description, interruptOnCancel=False)
        self._spark.setLocalProperty(POOL, self._pool)
        try:
            base = anchored(self._spark, executor)
            job.is_done = True
        except Exception as exc:  # noqa: BLE001 - then it is tried elsewhere, and refused there
            _log.debug("%s could not be anchored at %s: %s", self.name, executor, exc)
            return
        finally:
            self._await_end(job)
        if base is not None and executor == self.executor:
            self._base = base

    def _await_end(self, job: _Job) -> None:
        """Spark's job is over: where it was cancelled, wait until nothing of it runs any more; the next must not meet it."""
        with self._job_lock:
            self._job = None
            job.is_over.set()
        if job.cancelled is not None and not job.has_ended.wait(_ENDED_WITHIN):
            _log.warning("the worker of %s has not ended in %.0f s after its job was cancelled", self.name, _ENDED_WITHIN)

    def _cancel(self, job: _Job) -> None:
        """Cancel Spark's job first, so that the task is not tried again; then see that its worker ends.

        Spark ends it by itself, on any executor and without a core for it; on this machine there is no need to wait for that.
        """
        deadline = time.monotonic() + _SPARK_ENDS_IN
        try:
            while True:
                self._spark.cancelJobGroup(job.group)
                if job.is_over.wait(0.2) or time.monotonic() > deadline:  # again: it may not have been there yet
                    break
            if job.is_done:
                return
            if is_local(self._spark):
                if self._process is not None:
                    end_process(self._worker_name, self._process.process)  # whatever it does about other signals
                self._end_process(None, self._process)
            while (runs := group_runs(self._spark, job.group)) and time.monotonic() < deadline:
                time.sleep(0.02)
            if runs:
                self._end_process(self.executor, self._process)
        except Exception as exc:  # noqa: BLE001 - with the session its workers end too
            _log.debug("the job of %s could not be cancelled: %s", self.name, exc)
        finally:
            job.has_ended.set()

    def _end(self) -> None:
        self._end_process(self.executor, self._process)
        give_back(self._worker_name)

    def _end_process(self, executor: str | None, process: LaneProcess | None) -> None:
        try:
            if is_local(self._spark):
                self._end_here(process)
            elif executor is not None and process is not None and process.daemon:
                self._end_on(executor, process.daemon)
        except Exception as exc:  # noqa: BLE001 - with the session, or its executor, the worker ends too
            _log.debug("the worker of %s could not be ended: %s", self.name, exc)

    def _end_left(self, executor: str, process: LaneProcess) -> None:
        """End the worker of a lane that has moved: not at once, since whoever ends it has to be started beside those who work."""
        time.sleep(_LEFT_SECONDS)
        if self.executor != executor:
            self._end_process(executor, process)

    def _end_here(self, process: LaneProcess | None) -> None:
        stopped = 0
        with suppress(Exception):  # then by its process id
            stopped = stop_workers(self._spark, VARIABLE, self._worker_name)
        if process is not None and process.daemon:
            if stopped:
                wait_for_end(process.daemon)
            else:
                end_daemon(self._worker_name, process.daemon)

    def _end_on(self, executor: str, daemon: int) -> None:
        """A worker that is no lane's does it: this lane's own would end before it could answer.

        It has an environment of its own, as lanes have: while Spark starts the daemon of everybody's workers, which imports all
        that they need, the lanes that are there stand still.
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


def is_reachable(lane: Lane, there: Collection[str] | None) -> bool:
    """Whether jobs of a lane can run; `there` are the executors that run tasks, None if that is not known or it is no cluster."""
    return there is None or lane.executor is None or lane.executor in there


def remaining(deadline: float | None) -> float | None:
    """How many seconds are left; None without a deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def wait_for(closing: Iterable[Future[Any]], deadline: float | None) -> None:
    """Wait until all have ended, one way or the other."""
    for future in closing:
        with suppress(Exception):  # a worker that is gone has nothing left to close
            future.result(remaining(deadline))


def close_lanes(lanes: Iterable[Lane], timeout: float | None) -> None:
    """Close lanes, and wait until their workers are gone; those that are not by then are ended."""
    closing = [(lane, lane.close()) for lane in lanes]
    deadline = None if timeout is None else time.monotonic() + timeout
    for lane, closed in closing:
        try:
            closed.result(remaining(deadline))
        except FutureTimeoutError:
            _log.warning("%s has not closed in %.0f s: its worker is ended", lane.name, timeout)
            lane.abandon()
