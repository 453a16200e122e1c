"""The next step of a lane that is free: what should be in it is compared with what is, and the next job towards it is begun."""

from __future__ import annotations

import time

from penstock.client.scheduling.job_watch import JobWatch
from penstock.client.scheduling.lane_loop import LaneLoop, LaneState
from penstock.client.scheduling.lane_roster import LaneRoster
from penstock.client.scheduling.lane_runner import LaneRunner
from penstock.client.scheduling.recovery import OTHERS_FIRST
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.running_instance import RunningInstance

# Spark ends workers that are idle for a minute, and with them what they hold in memory.
_ALIVE_EVERY = 40.0


class LaneDriver:
    """Brings lanes where they should be; turns are planned elsewhere, when it is known where logs end (`polling.py`)."""

    def __init__(self, instance: RunningInstance, run: RunState, roster: LaneRoster, runner: LaneRunner, watch: JobWatch) -> None:
        self._tasks, self._lane_jobs = instance.tasks, instance.lane_jobs
        self._run, self._roster, self._runner, self._watch = run, roster, runner, watch

    def step(self, lane: LaneLoop) -> None:
        """The next step of a lane, if it is free."""
        self._watch.look(lane)
        self._runner.update_state(lane)
        if lane.job is not None or lane.ends:
            return
        if lane.on_left is not None and not lane.holds:
            self._roster.end(lane, lane.on_left)
            return
        if lane.state is LaneState.HEALING:
            if lane.health.rests:
                return
            lane.become(LaneState.CREATED)
        if lane.state is LaneState.CREATED:
            if self._lane_jobs.place_lane(lane.index):
                lane.goes_to = None
                self._tasks.place()
            self._runner.open(lane, {})
            return
        wanted = self._tasks.to_own(lane)
        if lane.goes_to is not None and self._may_leave(lane):
            self._roster.move(lane, lane.goes_to)
        elif wanted.keys() != lane.holds.keys() or lane.is_doubted or self._is_idle(lane) or self._restores_only(lane):
            self._runner.open(lane, wanted)

    def _may_leave(self, lane: LaneLoop) -> bool:
        """Whether a lane that goes elsewhere has nothing any more, and the others work on what it had, or take too long."""
        if lane.holds or self._tasks.wanted(lane):
            return False
        waited = time.monotonic() - lane.free_since
        return waited > OTHERS_FIRST or all(self._tasks.is_ready(task) for task in self._tasks.owners)

    def _is_idle(self, lane: LaneLoop) -> bool:
        """Whether a lane has to be asked for a sign of life, so that its worker stays."""
        return bool(lane.holds) and time.monotonic() - self._lane_jobs.lanes[lane.index].last_used > _ALIVE_EVERY

    def _restores_only(self, lane: LaneLoop) -> bool:
        return lane.state is LaneState.RESTORING and not lane.running and not self._run.is_paused
