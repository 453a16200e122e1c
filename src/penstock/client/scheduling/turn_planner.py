"""What a lane that is free could do next: whether it is due, what it reads for that, and the turn that comes of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from penstock.client.scheduling.lane_loop import LaneLoop, LaneState
from penstock.client.scheduling.notes import TICK
from penstock.client.scheduling.pipelines import Pipelines
from penstock.client.scheduling.running_instance import RunningInstance
from penstock.client.scheduling.turns import Turn, plan_turn
from penstock.clock import SystemClock
from penstock.ids import TaskId, TopicPartition

_log = logging.getLogger(__name__)


class TurnPlanner:
    """Looks at the tasks of lanes, and begins nothing; used by the conductor's thread."""

    def __init__(self, instance: RunningInstance, pipelines: Pipelines) -> None:
        self._tasks, self._pipelines = instance.tasks, pipelines
        self._most = instance.config["batch.max.records"]
        self._clock = SystemClock()
        self.globals: list[TopicPartition] = []
        """Partitions of global topics, to be caught up before each turn."""

    def working(self, lane: LaneLoop) -> list[TaskId]:
        """The tasks of a lane that work, and stay there."""
        return sorted(self._tasks.to_own(lane).keys() & lane.running)

    def sources(self, lane: LaneLoop) -> Iterable[TopicPartition]:
        """What a lane reads itself."""
        positions, tasks = self._tasks.positions, self.working(lane)
        for task in tasks:
            yield from (partition for partition in positions.inputs(task) if partition in positions.fetched)
        for fed in self._pipelines.read_in_lane(lane, tasks).values():
            for partition in fed:
                yield from positions.vectors[partition]

    def can_turn(self, lane: LaneLoop) -> bool:
        """Whether a lane is free, and has something that works; one without tasks may have global tables that are read."""
        return lane.job is None and lane.is_open and (bool(lane.running) or bool(self.globals))

    def is_due(self, lane: LaneLoop, now: float) -> bool:
        """Whether it is to be asked now where logs end, for a lane."""
        if lane.parts or self._timers_due(lane):
            return True
        if now < lane.poll_at:
            return False
        if self.globals or lane.state is LaneState.RESTORING or next(iter(self.sources(lane)), None) is not None:
            return True
        lane.poll_at = now + TICK  # it reads nothing itself
        return False

    def seconds_to_timer(self, lane: LaneLoop) -> float | None:
        """How many seconds it is until a task of a lane wants a turn without input; None where none does."""
        timers = [at for task in self.working(lane) if (at := self._tasks.timers.get(task)) is not None]
        return (min(timers) - self._clock.now_ms()) / 1000 if timers else None

    def _timers_due(self, lane: LaneLoop) -> list[TaskId]:
        if not self._tasks.timers:
            return []
        now = self._clock.now_ms()
        return [task for task in self.working(lane) if self._tasks.timers.get(task, now + 1) <= now]

    def limit(self, lane: LaneLoop, backlog: int) -> int:
        """How many records a lane wants in one turn at most."""
        return lane.batch_sizer.max_records(self._most, backlog)

    def next_turn(self, lane: LaneLoop, tasks: list[TaskId], ends: Mapping[TopicPartition, int]) -> Turn | None:
        """The next turn of a lane in which these tasks work, given where logs end; None where there is nothing to process."""
        positions = self._tasks.positions
        while lane.parts and not lane.parts[0].fits(positions.vectors):
            _log.debug("what %s brought for lane %d is of no use any more", lane.parts[0].stage, lane.index)
            lane.parts.popleft()
        limit = partial(self.limit, lane)
        window = self._pipelines.window_in_lane(lane, tasks, ends, limit(0))
        part = lane.parts[0] if lane.parts else None
        return plan_turn(*(self._tasks.plan, positions, ends, tasks, self._timers_due(lane), limit), window=window, part=part)

    def has_new_globals(self, lane: LaneLoop, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether global tables have changed while there is nothing to process: queries read them all the same."""
        used = set(self._tasks.owners.values()) or set(list(self._tasks.lanes)[:1])
        return bool(ends) and lane.index in used and ends != lane.global_ends
