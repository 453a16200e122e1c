"""The workers that keep copies of state, seen from the driver: one beside the lanes of each host that has any to keep."""

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
from penstock.spark.driver.lanes import Lane, close_lanes, is_reachable, remaining, wait_for
from penstock.spark.driver.placement import NoExecutorsError, executors
from penstock.spark.hosts import host_of, is_local
from penstock.spark.internals import split_place
from penstock.spark.messages import Application
from penstock.spark.worker.standby_worker import UpdateAnswer, UpdateTurn, close_updater, read_update, run_updates

_log = logging.getLogger(__name__)

# The place of everything where there is only one machine.
HERE = ""


class StateUpdaters:
    """A lane of its own for copies on each host; made when it is first needed, and never used for turns."""

    def __init__(self, spark: SparkContext, application: Application, packed: bytes) -> None:
        self._spark = spark
        self._application = application
        self._packed = packed
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    @property
    def is_local(self) -> bool:
        """Whether all lanes are on the driver's own machine, and their folders too."""
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
        lane = self._lane(host)
        turn = UpdateTurn(self._application.key, self._packed, tuple(tasks), dict(limits or {}), paused)
        return lane.submit(partial(run_updates, turn), f"copies of {', '.join(map(str, tasks)) or 'nothing'}", read_update)

    def cancel_lost(self, there: Collection[str]) -> None:
        """End the jobs of those whose executors are not there any more: Spark would try them elsewhere."""
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            if lane.executor is not None and split_place(lane.executor)[1] not in there:
                lane.cancel(f"{lane.executor} is gone")

    def close(self, timeout: float | None = None, there: Collection[str] | None = None) -> None:
        """Close all copies, then the lanes. Of a lane without one of the executors that are `there` nothing is asked."""
        deadline = None if timeout is None else time.monotonic() + timeout
        lanes = list(self._lanes.values())
        self._lanes.clear()
        left = [lane for lane in lanes if is_reachable(lane, there)]
        for lane in lanes:
            if lane not in left:
                lane.cancel(f"{lane.executor} gets no more tasks")
                lane.forsake()
        close = partial(close_updater, self._application.key)
        wait_for([lane.submit(close, f"{lane.name}: close", bytes) for lane in left], deadline)
        close_lanes(left, remaining(deadline))

    def forsake(self) -> None:
        """The session has ended: nothing is asked of it any more, and what is left of its workers here is ended."""
        with self._lock:
            lanes = list(self._lanes.values())
            self._lanes.clear()
            for lane in lanes:
                lane.forsake()

    def renew(self, spark: SparkContext) -> None:
        """Go on on another session: copies are opened there with the next update."""
        self.forsake()
        with self._lock:
            self._spark = spark

    def _lane(self, host: str) -> Lane:
        with self._lock:
            return self._lane_on(host)

    def _lane_on(self, host: str) -> Lane:
        lane = self._lanes.get(host)
        there = [] if self.is_local else [executor for executor in executors(self._spark) if host_of(executor) == host]
        if not self.is_local and not there:
            raise NoExecutorsError(f"there is no executor on {host} any more")
        place = there[0] if there else None
        if lane is None:
            which, config = f"StateUpdater-{len(self._lanes) + 1}", self._application.config
            name, worker_name = f"{self._application.client_id}-{which}", f"{config['application.id']}-{which}"
            lane = self._lanes[host] = Lane(self._spark, name, place, worker_name, config.spark_configs.get(POOL))
        elif place is not None and lane.executor not in there:
            lane.move(place)
        return lane
