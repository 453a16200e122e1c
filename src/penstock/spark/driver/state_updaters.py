"""The state updaters as seen from the driver: one worker per host, for the standbys and warm-ups there."""

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
from penstock.spark.worker.standby_worker import StandbyUpdate, UpdateAnswer, close_updater, read_update, update_standbys

_log = logging.getLogger(__name__)

# The host name if there is only one machine.
HERE = ""


class StateUpdaters:
    """One worker per host for standbys and warm-ups. It is made on demand and processes no records."""

    def __init__(self, spark: SparkContext, application: Application, packed: bytes) -> None:
        self._spark = spark
        self._application = application
        self._packed = packed
        self._workers: dict[str, ThreadWorker] = {}
        self._lock = threading.Lock()

    @property
    def is_local(self) -> bool:
        """True if all threads run on the driver's machine."""
        return is_local(self._spark)

    def replace_application(self, application: Application, packed: bytes) -> None:
        """Use another application plan. The next update closes the copies of the old one."""
        self._application, self._packed = application, packed

    def hosts(self) -> list[str]:
        """Return the hosts that currently have executors."""
        return [HERE] if self.is_local else sorted({host_of(executor) for executor in executors(self._spark)})

    def update(
        self,
        host: str,
        tasks: Sequence[TaskId],
        limits: Mapping[TopicPartition, int] | None = None,
        *,
        paused: bool = False,
    ) -> Future[UpdateAnswer]:
        """Make a host keep copies of exactly these tasks, unchanged while paused. The answer has their positions."""
        worker = self._worker(host)
        turn = StandbyUpdate(self._application.key, self._packed, tuple(tasks), dict(limits or {}), paused)
        return worker.submit(partial(update_standbys, turn), f"copies of {', '.join(map(str, tasks)) or 'nothing'}", read_update)

    def cancel_lost(self, there: Collection[str]) -> None:
        """Cancel the jobs of workers whose executors are lost: Spark would retry them elsewhere."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            if worker.executor is not None and split_place(worker.executor)[1] not in there:
                worker.cancel(f"{worker.executor} is gone")

    def close(self, timeout: float | None = None, there: Collection[str] | None = None) -> None:
        """Close all copies, then the workers. Workers without a live executor are skipped."""
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
        """Replaces `close` if the session has ended: ends its workers on this host without asking Spark."""
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
            for worker in workers:
                worker.forsake()

    def renew(self, spark: SparkContext) -> None:
        """Continue on another session. The next update opens the copies there."""
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
