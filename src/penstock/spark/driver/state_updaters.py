"""The workers that keep copies of state, seen from the driver: one beside the threads of each host that has any to keep."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from pyspark import SparkContext

from penstock.ids import TaskId, TopicPartition
from penstock.spark.driver.core_sharing import POOL
from penstock.spark.driver.placement import NoExecutorsError, executors
from penstock.spark.driver.thread_worker import ThreadWorker, close_workers, is_reachable, remaining, wait_for
from penstock.spark.hosts import host_of, is_local
from penstock.spark.internals import split_place
from penstock.spark.messages import Application
from penstock.spark.worker.standby_worker import UpdateAnswer, UpdateTurn, close_updater, read_update, run_updates

_log = logging.getLogger(__name__)

# The place of everything where there is only one machine.
HERE = ""


class StateUpdaters:
    """A thread of its own for copies on each host; made when it is first needed, and never used for turns."""

    def __init__(self, spark: SparkContext, application: Application, packed: bytes) -> None:
        self._spark = spark
        self._application = application
        self._packed = packed
        self._workers: dict[str, ThreadWorker] = {}
        self._lock = threading.Lock()

    @property
    def is_local(self) -> bool:
        """Whether all threads are on the driver's own machine, and their folders too."""
        return is_local(self._spark)

    def replace_application(self, application: Application, packed: bytes) -> None:
        """Keep copies by another plan; those by the old one are closed with the next update."""
        self._application, self._packed = application, packed

    def hosts(self) -> list[str]:
        """The hosts that have executors now."""
        return [HERE] if self.is_local else sorted({host_of(executor) for executor in executors(self._spark)})

    def update(
        self,
        host: str,
        tasks: Sequence[TaskId],
        limits: Mapping[TopicPartition, int] | None = None,
        *,
        paused: bool = False,
    ) -> Future[UpdateAnswer]:
        """Let a host keep copies of exactly these tasks, as they are where they are paused; the answer tells how far they are."""
        worker = self._worker(host)
        turn = UpdateTurn(self._application.key, self._packed, tuple(tasks), dict(limits or {}), paused)
        return worker.submit(partial(run_updates, turn), f"copies of {', '.join(map(str, tasks)) or 'nothing'}", read_update)

    def cancel_lost(self, there: Collection[str]) -> None:
        """End the jobs of those whose executors are not there any more: Spark would try them elsewhere."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            if worker.executor is not None and split_place(worker.executor)[1] not in there:
                worker.cancel(f"{worker.executor} is gone")

    def close(self, timeout: float | None = None, there: Collection[str] | None = None) -> None:
        """Close all copies, then the threads. Of a thread without one of the executors that are `there` nothing is asked."""
        deadline = None if timeout is None else time.monotonic() + timeout
        workers = list(self._workers.values())
        self._workers.clear()
        left = [worker for worker in workers if is_reachable(worker, there)]
        for worker in workers:
            if worker not in left:
                worker.cancel(f"{worker.executor} gets no more tasks")
                worker.forsake()
        close = partial(close_updater, self._application.key)
        wait_for([worker.submit(close, f"{worker.name}: close", bytes) for worker in left], deadline)
        close_workers(left, remaining(deadline))

    def forsake(self) -> None:
        """The session has ended: nothing is asked of it any more, and what is left of its workers here is ended."""
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
            for worker in workers:
                worker.forsake()

    def renew(self, spark: SparkContext) -> None:
        """Go on on another session: copies are opened there with the next update."""
        self.forsake()
        with self._lock:
            self._spark = spark

    def _worker(self, host: str) -> ThreadWorker:
        with self._lock:
            return self._worker_on(host)

    def _worker_on(self, host: str) -> ThreadWorker:
        worker = self._workers.get(host)
        there = [] if self.is_local else [executor for executor in executors(self._spark) if host_of(executor) == host]
        if not self.is_local and not there:
            raise NoExecutorsError(f"there is no executor on {host} any more")
        place = there[0] if there else None
        if worker is None:
            which, config = f"StateUpdater-{len(self._workers) + 1}", self._application.config
            name, worker_name = f"{self._application.client_id}-{which}", f"{config['application.id']}-{which}"
            worker = self._workers[host] = ThreadWorker(self._spark, name, place, worker_name, config.spark_configs.get(POOL))
        elif place is not None and worker.executor not in there:
            worker.move(place)
        return worker
