"""What there is to do: where logs end is asked for those who are free and whose time has come; then turns and stages begin."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from penstock.client.scheduling.failures import is_transient
from penstock.client.scheduling.health import Health
from penstock.client.scheduling.lane_loop import LaneLoop
from penstock.client.scheduling.levelling import EndLevel
from penstock.client.scheduling.log_ends import Ends, LogEnds
from penstock.client.scheduling.pipelines import Pipeline
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.running_instance import RunningInstance
from penstock.client.scheduling.stage_runner import StageRunner
from penstock.client.scheduling.stays import StayPlan
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.client.scheduling.turn_planner import TurnPlanner
from penstock.client.scheduling.turn_starter import TurnStarter
from penstock.ids import TopicPartition

_log = logging.getLogger(__name__)


class Polling:
    """Used by the conductor's thread; one question at a time, and who has asked it is looked at when it is answered."""

    def __init__(
        self,
        instance: RunningInstance,
        run: RunState,
        log_ends: LogEnds,
        stuck: StuckPartitions,
        planner: TurnPlanner,
        starter: TurnStarter,
        stages: StageRunner,
        end_level: EndLevel,
    ) -> None:
        self._tasks, self._run, self._log_ends, self._stuck = instance.tasks, run, log_ends, stuck
        self._planner, self._starter, self._stages, self._end_level = planner, starter, stages, end_level
        self._timeout = instance.config["task.timeout.ms"] / 1000
        self._asking: tuple[list[LaneLoop], list[Pipeline]] = ([], [])
        self._health, self._rests_until = Health(), 0.0

    @property
    def asked(self) -> int:
        """How often the ends of logs have been asked for."""
        return self._log_ends.asked

    def look(self) -> None:
        """Ask where logs end for those who are free, and whose time has come."""
        now = time.monotonic()
        if not self._run.may_work or self._log_ends.is_asking or now < self._rests_until:
            return
        lanes = [lane for lane in self._tasks.lanes.values() if self._planner.can_turn(lane) and self._planner.is_due(lane, now)]
        pipelines = self._stages.due(now)
        if not lanes and not pipelines:
            return
        sources = dict.fromkeys(source for lane in lanes for source in self._planner.sources(lane))
        sources |= dict.fromkeys(self._stages.sources(pipelines))
        self._asking = lanes, pipelines
        self._ask(sources)

    def go_on(self, lane: LaneLoop, plan: StayPlan, reached: Mapping[TopicPartition, int]) -> None:
        """Have a lane whose time was up in the midst of its work stay once more, at once; where logs end is asked meanwhile."""
        if self._starter.go_on(lane, plan, reached) and not self._log_ends.is_asking:
            self._ask(dict.fromkeys(self._planner.sources(lane)))

    def _ask(self, sources: Iterable[TopicPartition]) -> None:
        at = self._tasks.positions.furthest()
        asked = self._stuck.without(sources)
        self._log_ends.ask({partition: at.get(partition, 0) for partition in asked}, self._planner.globals)

    def answered(self, future: Future[Ends]) -> None:
        """It is known where logs end: begin the turns and the stages of those who have asked."""
        (lanes, pipelines), self._asking = self._asking, ([], [])
        try:
            told = future.result(0)
            self._health.went_well()
        except Exception as exc:
            self._rests_until = time.monotonic() + self._health.failed()
            if not is_transient(exc) or self._health.failing_seconds > self._timeout:
                raise
            _log.warning("where logs end cannot be told now, and is asked again: %s", exc)
            return
        positions = self._tasks.positions
        if silent := set(told.asked) - told.ends.keys():
            for partition in silent.intersection(positions.sources()):  # others were given up meanwhile
                self._stuck.note(partition, positions.start(partition), "its leader does not answer")
        self._tasks.ends = {**self._tasks.ends, **told.ends}
        gone = positions.out_of_range(told)
        if self._end_level.has_begun:
            told = told._replace(ends=self._end_level.ends(told.ends))
        else:
            self._tasks.follow_load()
        self._starter.start(lanes, told, gone)
        for pipeline in pipelines:
            self._stages.begin(pipeline, told.ends, self._planner.limit)

    def next_times(self) -> Iterable[float]:
        """When something is to be done that nobody tells of."""
        if not self._run.may_work or self._log_ends.is_asking:
            return
        for lane in self._tasks.lanes.values():
            if self._planner.can_turn(lane):
                yield max(lane.poll_at, self._rests_until)
                timer = self._planner.seconds_to_timer(lane)
                if timer is not None:
                    yield max(time.monotonic() + timer, self._rests_until)
        for at in self._stages.next_times():
            yield max(at, self._rests_until)
