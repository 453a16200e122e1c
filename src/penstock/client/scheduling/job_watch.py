"""Jobs that take longer than they may are ended: their lanes have lost their workers then, and begin anew."""

from __future__ import annotations

import logging
import time
from functools import partial

from penstock.client.scheduling.lane_loop import LaneLoop
from penstock.client.scheduling.notes import Beside
from penstock.spark.driver.lane_jobs import LaneJobs

_log = logging.getLogger(__name__)


class JobWatch:
    """Looks at what runs in lanes; used by the conductor's thread."""

    def __init__(self, lane_jobs: LaneJobs, longest: float, beside: Beside) -> None:
        self._lane_jobs, self._longest, self._beside = lane_jobs, longest, beside

    def look(self, lane: LaneLoop) -> None:
        """End the job of a lane if it has run for too long; one that waits for a core has not begun."""
        job = lane.job
        if job is None or lane.hangs or time.monotonic() - job.started < self._longest:
            return
        worker = self._lane_jobs.lanes.get(lane.index)
        if worker is None or worker.name in self._lane_jobs.waits.seconds:
            return  # it is being ended, or has not begun
        lane.hangs = True
        self._beside.do(f"end the job of lane {lane.index}", partial(self._end, lane.index, str(job)))

    def _end(self, lane: int, job: str) -> None:
        if lane not in self._lane_jobs.lanes:
            return  # it was replaced or removed meanwhile, and is ended by whoever did that
        doing = self._lane_jobs.doing(lane) or "its worker does not tell what it does"
        reason = f"{job} has not ended within max.poll.interval.ms ({self._longest:.0f} s): {doing}"
        _log.error("stream thread %d is taken for lost, and its tasks are opened anew: %s", lane + 1, reason)
        self._lane_jobs.cancel(lane, reason)
