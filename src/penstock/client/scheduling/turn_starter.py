"""Begins the turns of lanes when it is known where logs end, and the stays of those that carry the load alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial

from penstock.client.scheduling.lane_loop import LaneLoop, LaneState
from penstock.client.scheduling.lane_runner import LaneRunner
from penstock.client.scheduling.log_ends import Ends
from penstock.client.scheduling.positions import OffsetOutOfRangeError
from penstock.client.scheduling.recovery import Recovery
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.running_instance import RunningInstance
from penstock.client.scheduling.staying_lanes import StayingLanes
from penstock.client.scheduling.stays import StayPlan
from penstock.client.scheduling.turn_planner import TurnPlanner
from penstock.client.scheduling.turns import Turn
from penstock.ids import TopicPartition

Gone = Mapping[TopicPartition, OffsetOutOfRangeError]
"""Partitions that do not have what is to be read of them any more."""


class TurnStarter:
    """Used by the conductor's thread."""

    def __init__(
        self,
        instance: RunningInstance,
        run: RunState,
        recovery: Recovery,
        planner: TurnPlanner,
        runner: LaneRunner,
        stays: StayingLanes,
    ) -> None:
        self._tasks, self._run, self._recovery = instance.tasks, run, recovery
        self._planner, self._runner, self._stays = planner, runner, stays
        self._poll_seconds = instance.config["poll.ms"] / 1000

    def start(self, lanes: Iterable[LaneLoop], told: Ends, gone: Gone) -> None:
        """Begin the next turns of those lanes that are still free, where there is anything to do."""
        for lane in lanes:
            if lane.job is None and lane.is_open:
                self._recovery.guarded(lane, partial(self._start, lane, told, gone))
        self._stays.note_ends(told.ends)

    def _start(self, lane: LaneLoop, told: Ends, gone: Gone) -> None:
        tasks = self._planner.working(lane)
        for partition, error in gone.items():
            if any(self._tasks.positions.reads(task, partition) for task in tasks):
                raise error
        turn = self._planner.next_turn(lane, tasks, told.ends)
        if turn is None and not self._planner.has_new_globals(lane, told.globals):
            self._rest(lane)
            return
        turn = turn or Turn()
        lane.batch_sizer.polled(turn.backlog)
        turn.started, turn.poll_seconds = time.monotonic() - told.seconds, told.seconds
        stay = self._stays.plan(lane, turn, tasks) if turn.records else None
        self._runner.begin(lane, turn, told.globals, stay)

    def _rest(self, lane: LaneLoop) -> None:
        """Until the next question: soon after activity, every `poll.ms` when nothing comes."""
        if lane.state is LaneState.RESTORING and not self._run.is_paused:
            self._runner.open(lane, self._tasks.to_own(lane))
            return
        lane.poll_at = lane.batch_sizer.next_poll(time.monotonic(), self._poll_seconds)

    def go_on(self, lane: LaneLoop, plan: StayPlan, reached: Mapping[TopicPartition, int]) -> bool:
        """Have a lane whose time was up in the midst of its work stay once more, at once; whether it does."""
        if lane.job is not None or not lane.is_open or self._stays.is_wanted_back(lane):
            return False
        turn = Turn(started=time.monotonic())
        stay = self._stays.again(lane, plan, reached, turn, self._planner.working(lane))
        if stay is None:
            return False
        self._runner.begin(lane, turn, lane.global_ends, stay)
        return True
