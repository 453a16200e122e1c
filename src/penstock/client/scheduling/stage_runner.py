"""Runs the stages before a shuffle: begun when it is known where logs end, and brought to lanes when they are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from penstock.client.scheduling.failures import error_of
from penstock.client.scheduling.lane_loop import LaneLoop
from penstock.client.scheduling.levelling import EndLevel
from penstock.client.scheduling.notes import TICK, Beside
from penstock.client.scheduling.pipelines import Pipeline, Pipelines
from penstock.client.scheduling.recovery import Recovery
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.running_instance import RunningInstance
from penstock.client.scheduling.stages import Stage
from penstock.ids import TopicPartition
from penstock.log_lines import tell_again
from penstock.spark.driver.lane_jobs import Staged


class StageRunner:
    """Used by the conductor's thread."""

    def __init__(
        self,
        instance: RunningInstance,
        run: RunState,
        beside: Beside,
        recovery: Recovery,
        pipelines: Pipelines,
        end_level: EndLevel,
    ) -> None:
        self._lane_jobs, self._run, self._beside = instance.lane_jobs, run, beside
        self._recovery, self._pipelines, self._end_level = recovery, pipelines, end_level
        self._poll_seconds = instance.config["poll.ms"] / 1000
        self._commit_seconds = instance.config["commit.interval.ms"] / 1000

    def due(self, now: float) -> list[Pipeline]:
        """The pipelines for which it is to be asked now where logs end."""
        return [pipeline for pipeline in self._pipelines.staged() if self._is_due(pipeline, now)]

    def sources(self, pipelines: Iterable[Pipeline]) -> Iterable[TopicPartition]:
        """What is read before the shuffles of pipelines."""
        return (source for pipeline in pipelines for source in self._pipelines.sources(pipeline))

    def next_times(self) -> Iterable[float]:
        """When the pipelines are due that have room."""
        for pipeline in self._pipelines.staged():
            if self._pipelines.has_room(pipeline):
                yield max(pipeline.poll_at, pipeline.health.rests_until)

    def _is_due(self, pipeline: Pipeline, now: float) -> bool:
        if now < pipeline.poll_at or pipeline.health.rests:
            return False
        if self._pipelines.has_room(pipeline):
            return True
        pipeline.poll_at = now + TICK / 2  # or when a stage ends, or a lane takes what waits for it
        return False

    def begin(self, pipeline: Pipeline, ends: Mapping[TopicPartition, int], limit: Callable[[LaneLoop, int], int]) -> None:
        """Begin the stages that can be run now, given where logs end and what a lane wants at most."""
        now = time.monotonic()
        stages = self._pipelines.next_stages(pipeline, ends, limit) if self._run.may_work else []
        for stage in stages:
            targets = self._pipelines.lanes_of(stage)
            running = self._lane_jobs.stage(stage.upstream, targets, str(stage))
            self._beside.then(running, self._ended, pipeline, stage, targets)
        backlog = max((stage.backlog for stage in stages), default=0)
        pipeline.batch_sizer.polled(backlog)
        if not stages and pipeline.under_way:
            pipeline.poll_at = now + TICK / 2  # or when it ends
        elif not stages:
            pipeline.poll_at = pipeline.batch_sizer.next_poll(now, self._poll_seconds)
        elif all(stage.backlog <= stage.records for stage in stages):
            pipeline.poll_at = now + self._commit_seconds
        else:
            pipeline.poll_at = now

    def _ended(self, pipeline: Pipeline, stage: Stage, targets: Mapping[TopicPartition, int], future: Future[Staged]) -> None:
        if not self._pipelines.ended(pipeline, stage):
            return
        try:
            staged = future.result(0)
            failure = staged.failure
        except Exception as exc:  # noqa: BLE001 - Spark reports a dead worker as one of many exceptions
            staged, failure = None, self._lane_jobs.failure(exc)
        if staged is not None:
            tell_again(f"stream-thread [{self._lane_jobs.application.client_id}-shuffle]", staged.logs)
        if failure is None and staged is not None:
            pipeline.health.went_well()
            if self._end_level.wants(stage):
                self._pipelines.bring(pipeline, stage, targets, staged)
            if stage.backlog > stage.records:
                self._pipelines.has_moved(pipeline.unit)
            return
        assert failure is not None
        self._recovery.stage_failed(error_of(failure), pipeline.health)
