"""Lanes that stay for many turns in one job: which may, when they are called back, and what they have done so far."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from penstock.client.scheduling.lane_loop import LaneLoop, LaneState
from penstock.client.scheduling.notes import TICK
from penstock.client.scheduling.pipelines import Pipelines
from penstock.client.scheduling.running_instance import Control, RunningInstance
from penstock.client.scheduling.stays import (
    FEWEST_RECORDS,
    LONGEST_INTERVAL_MS,
    LONGEST_SECONDS,
    MOST_RECORDS,
    STAY_SECONDS,
    StayPlan,
    plan_stay,
)
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.client.scheduling.turns import Turn
from penstock.errors import PenstockError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.clients import max_poll_seconds

_log = logging.getLogger(__name__)


class StayingLanes:
    """Used by the conductor's thread; each stay has a number of its own."""

    def __init__(
        self,
        instance: RunningInstance,
        control: Control,
        pipelines: Pipelines,
        stuck: StuckPartitions,
    ) -> None:
        self._config, self._tasks, self._lane_jobs, _ = instance
        self._words, self._run, self._beside = control
        self._pipelines, self._stuck = pipelines, stuck
        self._commit_seconds = self._config["commit.interval.ms"] / 1000
        self._most_records = min(MOST_RECORDS, self._config["batch.max.records"])
        self._seconds = min(LONGEST_SECONDS, max_poll_seconds(self._config) / 4)
        self._last = 0

    # -- who stays -----------------------------------------------------------------------------------------------------

    def plan(self, lane: LaneLoop, turn: Turn, tasks: Collection[TaskId]) -> StayPlan | None:
        """How a lane stays for many turns; None where it does not."""
        if not self._may_stay(lane, turn, tasks):
            return None
        return self._counted(
            plan_stay(
                *(self._tasks.positions, tasks, self._last + 1),
                seconds=self._seconds,
                commit_seconds=self._commit_seconds,
                most_records=self._most_records,
            )
        )

    def again(
        self, lane: LaneLoop, plan: StayPlan, reached: Mapping[TopicPartition, int], turn: Turn, tasks: Collection[TaskId]
    ) -> StayPlan | None:
        """How a lane stays once more whose time was up in the midst of its work; None where it does not."""
        if set(plan.stay.tasks) != set(tasks) or not self._may_stay(lane, turn, tasks):
            return None
        return self._counted(plan.again(self._tasks.positions, self._last + 1, reached))

    def _counted(self, plan: StayPlan | None) -> StayPlan | None:
        self._last += plan is not None
        return plan

    def _may_stay(self, lane: LaneLoop, turn: Turn, tasks: Collection[TaskId]) -> bool:
        """Whether a lane carries the load alone, with little at a time."""
        if self._run.is_closing or lane.state is not LaneState.RUNNING or lane.holds.keys() != set(tasks) or lane.parts:
            return False
        if turn.backlog > MOST_RECORDS or turn.started < lane.plans_until or self._stuck.any:
            return False
        if self._config["commit.interval.ms"] > LONGEST_INTERVAL_MS or self._config["batch.max.records"] < FEWEST_RECORDS:
            return False
        if lane.batch_sizer.ceiling is not None or self._pipelines.is_under_way:
            return False
        return all(owner == lane.index for owner in self._tasks.owners.values())

    # -- who is called back --------------------------------------------------------------------------------------------

    def is_wanted_back(self, lane: LaneLoop) -> bool:
        """Whether something else is to be done in a lane, or it is to be elsewhere."""
        leaves = lane.on_left is not None or lane.goes_to is not None or lane.is_doubted or lane.ends or lane.is_in_the_way
        if leaves or lane.is_behind or self._run.is_closing or not self._run.may_work:
            return True
        return set(self._tasks.wanted(lane)) != lane.holds.keys()

    def call_back(self) -> None:
        """Have lanes that stay give way, where something else is to be done."""
        for lane in self._tasks.lanes.values():
            stay = None if lane.job is None or lane.job.stay is None else lane.job.stay.stay
            if stay is not None and stay.number > lane.called_back and self.is_wanted_back(lane):
                lane.called_back = stay.number
                self._beside.submit(self._lane_jobs.call_back, lane.index, stay.number)

    def long(self) -> list[LaneLoop]:
        """The lanes that have stayed for long enough, if somebody else wants their core."""
        now = time.monotonic()
        jobs = [(lane, lane.job) for lane in self._tasks.lanes.values()]
        return [lane for lane, job in jobs if job is not None and job.stay is not None and now - job.started > STAY_SECONDS]

    def give_way(self, others_wait: bool) -> None:
        """Have them called back where others wait for a core of Spark."""
        if others_wait:
            for lane in self.long():
                lane.is_in_the_way = True

    # -- what they have done -------------------------------------------------------------------------------------------

    def commit_progress(self) -> None:
        """Under at-least-once only the driver, a member, may commit: it does so while lanes stay."""
        if self._config.eos_enabled or not self._run.may_work:
            return
        now = time.monotonic()
        for lane in self._tasks.lanes.values():
            job, is_free = lane.job, lane.progress is None or lane.progress.done()
            if job is not None and job.stay is not None and is_free and now >= lane.progress_at:
                lane.progress_at = now + max(TICK, self._commit_seconds)
                lane.progress = self._beside.submit(self._commit_so_far, lane.index, job.stay.stay.number, job.generation)

    def _commit_so_far(self, lane: int, stay: int, generation: int) -> None:
        try:
            if offsets := self._lane_jobs.progress(lane, stay):
                self._words.commit(offsets, generation)
        except PenstockError as exc:
            _log.debug("what a lane that stays has done is committed later: %s", exc)

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Where logs end is known: remember for lanes that have begun to stay what they were to read."""
        for lane in self._tasks.lanes.values():
            if lane.job is not None and lane.job.stay is not None and not lane.there:
                positions = lane.job.stay.stay.positions
                lane.there = {p: end for p, end in ends.items() if end > positions.get(p, end)}
                lane.is_behind = sum(end - positions[p] for p, end in lane.there.items()) > MOST_RECORDS
