"""Jobs of lanes: begun one at a time in each, and taken up when they are answered.

    open ──┐                                   ┌─► accounted ─► free for the next
           ├──► runs in the lane ──► answer ───┤
    turn ──┘                                   └─► failed: the lane begins anew

Under exactly-once the worker has committed what a turn has done; under at-least-once the driver, a member, does it here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from penstock.client.scheduling.failures import error_of
from penstock.client.scheduling.lane_loop import Job, LaneLoop, LaneState
from penstock.client.scheduling.pipelines import Pipelines
from penstock.client.scheduling.recovery import Recovery
from penstock.client.scheduling.running_instance import Control, RunningInstance
from penstock.client.scheduling.stays import StayPlan
from penstock.client.scheduling.turn_accounts import TurnAccounts
from penstock.client.scheduling.turns import Turn
from penstock.errors import TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.driver.lane_jobs import LaneWork
from penstock.spark.messages import LaneAnswer

# How long a lane restores in one go: while nothing else of it works, and between two turns of its other tasks.
_RESTORE_SECONDS, _RESTORE_BETWEEN = 2.0, 0.2
_METRICS_EVERY = 1.0


class LaneRunner:
    """Begins the jobs of lanes and takes their answers; used by the conductor's thread."""

    def __init__(
        self,
        instance: RunningInstance,
        control: Control,
        recovery: Recovery,
        accounts: TurnAccounts,
        pipelines: Pipelines,
    ) -> None:
        self._config, self._tasks, self._lane_jobs, self._events = instance
        self._words, self._run, self._beside = control
        self._recovery, self._accounts, self._pipelines = recovery, accounts, pipelines
        self.on_goes_on: Callable[[LaneLoop, StayPlan, Mapping[TopicPartition, int]], None] = lambda lane, plan, reached: None
        """Who is asked whether a lane whose time was up in the midst of its work stays once more, and how far it has read."""
        self.on_begun: Callable[[], None] = lambda: None
        """Who is told that the worker of a lane is there: another lane may wait for it to be in its place."""

    # -- begun ---------------------------------------------------------------------------------------------------------

    def open(self, lane: LaneLoop, tasks: Mapping[TaskId, int]) -> None:
        """Have a lane own exactly these tasks, and restore them for a while."""
        seconds = 0.0 if self._run.is_paused else _RESTORE_BETWEEN if lane.running else _RESTORE_SECONDS
        self._tasks.opening(lane, tasks)
        lane.is_doubted = False
        self._start(lane, Job(opens=dict(tasks)), self._lane_jobs.open(lane.index, self._tasks.committed(tasks), seconds))

    def begin(self, lane: LaneLoop, turn: Turn, global_ends: Mapping[TopicPartition, int], stay: StayPlan | None = None) -> None:
        """Begin a turn of a lane, or a stay that begins with it; not where the work has been taken away meanwhile."""
        now = time.monotonic()
        with_metrics = turn.backlog <= turn.records or now - lane.metrics_at > _METRICS_EVERY  # or it may be long until the next
        with self._words.lock:  # nobody may take the work away between the question and the start
            membership = self._words.membership
            if membership is None or not self._run.may_work:
                return
            job = lane.job = Job(turn=turn, generation=membership.generation, stay=stay)
        if turn.part is not None:
            lane.parts.popleft()
            if turn.part.stage.backlog > turn.part.stage.records:
                self._pipelines.has_moved(turn.part.stage.unit)
        lane.metrics_at = now if with_metrics else lane.metrics_at
        lane.there, lane.is_in_the_way, lane.is_behind = {}, False, False
        lane.global_ends = dict(global_ends)
        work = LaneWork(
            turn.work,
            membership.group_metadata,
            turn.upstream,
            {} if turn.part is None else turn.part.checksums,
            turn.read,
            global_ends,
            with_metrics,
            _RESTORE_BETWEEN if lane.state is LaneState.RESTORING else 0.0,
            str(turn) if stay is None else f"turn after turn, from {turn} on" if turn.records else "turn after turn",
            None if stay is None else stay.stay,
        )
        self._start(lane, job, self._lane_jobs.process(lane.index, work, None if turn.part is None else turn.part.rows))

    def _start(self, lane: LaneLoop, job: Job, future: Future[LaneAnswer]) -> None:
        lane.job = job
        self._beside.then(future, self._answered, lane, job)

    # -- answered ------------------------------------------------------------------------------------------------------

    def _answered(self, lane: LaneLoop, job: Job, future: Future[LaneAnswer]) -> None:
        if lane.job is job and lane.progress is not None and not lane.progress.done():
            # What the lane had done before is committed first, or offsets would go back.
            self._beside.then(lane.progress, lambda _: self._answered(lane, job, future))
        elif lane.job is job:
            self._recovery.guarded(lane, partial(self._take, lane, job, self._lane_jobs.answer(future)))

    def _take(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        self._events.on_answers({lane.index: answer})
        # Of a turn that has failed nothing may count; where a lane stayed, what it tells is of the turns before that one.
        is_done = job.stay is not None or (answer.failure is None and not answer.lost)
        if job.turn is not None and answer.offsets and is_done and not self._config.eos_enabled:
            # Only a member may, so the worker did not.
            committing = self._beside.submit(self._words.commit, answer.offsets, job.generation)
            self._beside.then(committing, self._committed, lane, job, answer)
        else:
            self._end(lane, job, answer)

    def _committed(self, lane: LaneLoop, job: Job, answer: LaneAnswer, future: Future[None]) -> None:
        def end() -> None:
            future.result(0)
            self._end(lane, job, answer)

        if lane.job is job:
            self._recovery.guarded(lane, end)

    def _end(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        if answer.failure is not None or answer.lost:
            self._accounts.tell_stay(lane, job, answer)
            self._tasks.failed(lane)
            lost = TaskMigratedError("a lane lost its worker; its tasks are opened again")
            error = lost if answer.failure is None else error_of(answer.failure)
            if not self._recovery.is_gone(lane, error):
                self._tasks.release(lane.index)  # a worker that fails keeps nothing open
            raise error
        self._free(lane, job, answer)
        self._accounts.tell_stay(lane, job, answer)  # a hundred turns, while the lane begins its next job

    def _free(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        """A job has gone well: the lane is free for the next."""
        lane.job, lane.free_since, lane.hangs = None, time.monotonic(), False
        if job.stay is not None:
            self._accounts.stay(lane, job.stay, answer)
        elif job.turn is not None:
            self._accounts.turn(lane, job.turn, answer)
        if not lane.ends:
            if lane.state is LaneState.CREATED:
                self._tasks.release(lane.index)
                lane.become(LaneState.OPENING)
                lane.has_begun = True
                self.on_begun()
                if lane.on_left is None and lane.goes_to is None:
                    self._tasks.stay_away(lane.index, away=False)
            self._tasks.opened(lane, job, answer)
            self.update_state(lane)
            if answer.goes_on and job.stay is not None:
                self.on_goes_on(lane, job.stay, answer.reached)

    def update_state(self, lane: LaneLoop) -> None:
        """Have a lane be in the state that follows from what it has, and tell of it."""
        if lane.update_state(self._tasks.wanted(lane)):
            self._events.on_lane(lane.index, lane.state)
