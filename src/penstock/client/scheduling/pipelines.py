"""The stages before a shuffle: when one is run, for which lanes, and what lanes are brought.

    ends of the logs ──► stage (a Spark job) ──► parts, two of them waiting for a lane at most ──► turns of the lanes

A pipeline whose tasks are all in one lane has no stage of its own: the lane reads for itself. Lanes that keep up are fed
together. One that does not is left behind after a moment, and fed apart from then on, as is one that has failed and begins from
its commits; they are fed together again once it has caught up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.scheduling.batch_sizer import BatchSizer
from penstock.client.scheduling.health import Health
from penstock.client.scheduling.lane_loop import LaneLoop
from penstock.client.scheduling.owned_tasks import OwnedTasks
from penstock.client.scheduling.stages import (
    Feeds,
    ReadableWindow,
    Stage,
    StagePart,
    Vectors,
    catch_up_window,
    front_of,
    front_window,
    plan_stage,
)
from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.spark.driver.lane_jobs import Staged

# So many parts may wait for a lane.
_AHEAD = 2
# How long lanes that have nothing to do wait for one that has enough, and for those that are about to be open.
_PATIENCE, _START_PATIENCE = 0.2, 1.0


@dataclass
class Pipeline:
    """What is known of one pipeline behind a shuffle."""

    unit: UnitId
    health: Health = field(default_factory=Health)
    batch_sizer: BatchSizer = field(default_factory=BatchSizer)
    poll_at: float = 0.0
    front: Stage | None = None
    """The stage that runs now for the tasks at the front."""
    catch_up: Stage | None = None
    """The stage that runs now for tasks behind it."""
    reaches_front: bool = False
    opened_at: float = field(default_factory=monotonic)

    @property
    def is_about_to_meet(self) -> bool:
        """Whether tasks that were behind are about to be at the front: the next stage is for all of them together."""
        return self.catch_up is not None and self.reaches_front

    @property
    def under_way(self) -> list[Stage]:
        """The stages that run now."""
        return [stage for stage in (self.front, self.catch_up) if stage is not None]


class _Look(NamedTuple):
    """A pipeline as it is looked at: the tasks that work, their lanes, where they will be, where logs end, what a lane takes."""

    feeds: Feeds
    lanes: Mapping[TaskId, LaneLoop]
    vectors: Vectors
    ends: Mapping[TopicPartition, int]
    limit: Callable[[LaneLoop, int], int]


class Pipelines:
    """The pipelines of an instance; used by the conductor's thread."""

    def __init__(self, tasks: OwnedTasks) -> None:
        self._tasks = tasks
        self._known: dict[str, Pipeline] = {}

    def staged(self) -> list[Pipeline]:
        """The pipelines whose tasks are in more than one lane."""
        found = []
        for unit, members in self._tasks.units.items():
            owners = self._tasks.owners
            lanes = {owners[task] for task in members if task in owners}
            if len(lanes) > 1 and self._is_shuffled(members):
                found.append(self._known.setdefault(unit, Pipeline(unit)))
            elif unit in self._known and not self._known[unit].under_way:
                del self._known[unit]
        return found

    @property
    def is_under_way(self) -> bool:
        """Whether a stage runs: what it brings is for where tasks are now."""
        return any(pipeline.under_way for pipeline in self._known.values())

    def forget(self) -> None:
        """Nothing is under way any more."""
        self._known = {}

    def forget_others(self) -> None:
        """Repartitions go another way: what is under way for pipelines that are none any more is of no use."""
        self._known = {unit: pipeline for unit, pipeline in self._known.items() if unit in self._tasks.units}

    def _is_shuffled(self, tasks: Collection[TaskId]) -> bool:
        plan = self._tasks.plan
        return any(topic in plan.shuffled for task in tasks for topic in plan.subtopologies[task.subtopology].source_topics)

    def sources(self, pipeline: Pipeline) -> list[TopicPartition]:
        """What is read before the shuffle of a pipeline."""
        positions = self._tasks.positions
        found = (
            source for task in self._tasks.units[pipeline.unit] for p in positions.fed(task) for source in positions.vectors[p]
        )
        return list(dict.fromkeys(found))

    # -- in one lane ---------------------------------------------------------------------------------------------------

    def read_in_lane(self, lane: LaneLoop, tasks: Collection[TaskId]) -> Feeds:
        """The tasks of a lane for which the lane itself reads what comes before the shuffle."""
        positions = self._tasks.positions
        if positions.draining:
            return {}
        owners, here = self._tasks.owners, set(tasks)
        found: dict[TaskId, list[TopicPartition]] = {}
        for unit, members in self._tasks.units.items():
            known = self._known.get(unit)
            if any(owners.get(task, lane.index) != lane.index for task in members) or (known is not None and known.under_way):
                continue
            if any(part.stage.unit == unit for part in lane.parts):
                continue  # what a stage has brought comes first
            found |= {task: fed for task in members if task in here and (fed := positions.fed(task))}
        return found

    def window_in_lane(
        self, lane: LaneLoop, tasks: Collection[TaskId], ends: Mapping[TopicPartition, int], most: int
    ) -> ReadableWindow | None:
        """What the lane reads before the shuffle in its next turn: for the tasks at the front, and by turns for those behind."""
        feeds, vectors = self.read_in_lane(lane, tasks), self._tasks.positions.vectors
        if not feeds:
            return None
        front, behind = front_window(feeds, vectors, ends), catch_up_window(feeds, vectors, ends, most)
        if front is None or behind is None:
            return front or behind
        lane.catches_up = not lane.catches_up
        return behind if lane.catches_up else front

    # -- over lanes ----------------------------------------------------------------------------------------------------

    def has_room(self, pipeline: Pipeline) -> bool:
        """Whether a stage could be run now, if there were something to read for it."""
        lanes = [lane for lane in self._tasks.lanes.values() if lane.is_open and not lane.ends]
        if pipeline.catch_up is None and any(not lane.parts for lane in lanes):
            return True
        has_place = any(len(lane.parts) < _AHEAD for lane in lanes)
        return pipeline.front is None and not pipeline.is_about_to_meet and has_place

    def has_moved(self, unit: UnitId) -> None:
        """Something has changed for a pipeline: it is looked at soon."""
        if unit in self._known:
            self._known[unit].poll_at = min(self._known[unit].poll_at, time.monotonic())

    def next_stages(
        self, pipeline: Pipeline, ends: Mapping[TopicPartition, int], limit: Callable[[LaneLoop, int], int]
    ) -> list[Stage]:
        """The stages that can be run now: one for the front, one for those behind it. `limit` is what a lane wants at most."""
        if self._tasks.positions.draining:
            return []
        feeds, lanes = self._feeds(pipeline)
        look = _Look(feeds, lanes, self._ahead(pipeline, feeds, lanes), ends, limit)
        found = []
        if pipeline.catch_up is None and (stage := self._catch_up(pipeline, look)):
            pipeline.catch_up = stage
            front = front_of(feeds, look.vectors)
            pipeline.reaches_front = all(end >= front.get(source, end) for source, end in stage.read.items())
            found.append(stage)
        if pipeline.front is None and not pipeline.is_about_to_meet and (stage := self._front(pipeline, look)):
            pipeline.front = stage
            found.append(stage)
        return found

    def _front(self, pipeline: Pipeline, look: _Look) -> Stage | None:
        window, now = front_window(look.feeds, look.vectors, look.ends), time.monotonic()
        if window is None:
            return None
        if len(look.feeds) < len(self._tasks.units[pipeline.unit]) and now - pipeline.opened_at < _START_PATIENCE:
            return None
        free = {task: fed for task, fed in window.feeds.items() if len(look.lanes[task].parts) < _AHEAD}
        if len(free) < len(window.feeds):
            waiting = [lane for task in free if (lane := look.lanes[task]).job is None and not lane.parts]
            if not any(now - lane.free_since > _PATIENCE for lane in waiting):
                return None
        return self._stage(pipeline, ReadableWindow(free, window.bounds), look)

    def _catch_up(self, pipeline: Pipeline, look: _Look) -> Stage | None:
        free = {task for task in look.feeds if not look.lanes[task].parts}
        most = min((look.limit(look.lanes[task], 0) for task in free), default=0)
        window = catch_up_window(look.feeds, look.vectors, look.ends, most, among=free)
        return None if window is None else self._stage(pipeline, window, look)

    def _stage(self, pipeline: Pipeline, window: ReadableWindow, look: _Look) -> Stage | None:
        fed = {look.lanes[task].index: look.lanes[task] for task in window.feeds}

        def at_most(backlog: int) -> int:
            """What is read is shared by the lanes."""
            return len(fed) * min(look.limit(lane, backlog // len(fed)) for lane in fed.values())

        return plan_stage(self._tasks.plan, pipeline.unit, window, look.vectors, at_most)

    def _feeds(self, pipeline: Pipeline) -> tuple[dict[TaskId, list[TopicPartition]], dict[TaskId, LaneLoop]]:
        """The tasks of a pipeline that work, with their lanes."""
        feeds, lanes = dict[TaskId, list[TopicPartition]](), dict[TaskId, LaneLoop]()
        for task in self._tasks.units[pipeline.unit]:
            lane = self._tasks.lanes.get(self._tasks.owners.get(task, -1))
            if lane is not None and lane.is_open and task in lane.running and (fed := self._tasks.positions.fed(task)):
                feeds[task], lanes[task] = fed, lane
        return feeds, lanes

    def _ahead(
        self, pipeline: Pipeline, feeds: Feeds, lanes: Mapping[TaskId, LaneLoop]
    ) -> dict[TopicPartition, dict[TopicPartition, int]]:
        """Where tasks will be when what was brought for them, and what is on its way, is done."""
        vectors = {p: dict(self._tasks.positions.vectors[p]) for fed in feeds.values() for p in fed}
        for task, fed in feeds.items():
            brought = [part.stage for part in lanes[task].parts if task in part.feeds]
            turn = None if lanes[task].job is None else lanes[task].job.turn  # type: ignore[union-attr]
            if turn is not None and turn.part is not None and task in turn.part.feeds:
                brought.append(turn.part.stage)
            brought += [stage for stage in pipeline.under_way if task in stage.feeds]
            for partition in fed:
                vector = vectors[partition]
                for stage in brought:
                    vector.update({s: max(vector[s], end) for s, end in stage.read.items() if s in vector})
        return vectors

    def lanes_of(self, stage: Stage) -> dict[TopicPartition, int]:
        """The lane of each partition that a stage feeds."""
        owners = self._tasks.owners
        return {partition: owners[task] for task, fed in stage.feeds.items() for partition in fed}

    def ended(self, pipeline: Pipeline, stage: Stage) -> bool:
        """A stage does not run any more; whether it is one that is waited for."""
        if self._known.get(pipeline.unit) is not pipeline:
            return False
        if pipeline.front is stage:
            pipeline.front = None
        elif pipeline.catch_up is stage:
            pipeline.catch_up = None
        return True

    def bring(self, pipeline: Pipeline, stage: Stage, targets: Mapping[TopicPartition, int], staged: Staged) -> None:
        """Put what a stage has read where lanes find it: of those tasks that are still where it was read for."""
        feeds, lanes = self._feeds(pipeline)
        here = {
            task: fed
            for task, fed in stage.feeds.items()
            if task in feeds and all(targets[partition] == lanes[task].index for partition in fed)
        }
        vectors = self._ahead(pipeline, {task: feeds[task] for task in here}, lanes)
        by_lane: dict[int, dict[TaskId, list[TopicPartition]]] = {}
        for task, fed in here.items():
            if StagePart(stage, {task: fed}).fits(vectors):
                by_lane.setdefault(lanes[task].index, {})[task] = list(fed)
        for number, (index, fed_here) in enumerate(by_lane.items()):
            part = StagePart(stage, fed_here, staged.rows, len(by_lane), number == 0, staged.checksums)
            self._tasks.lanes[index].parts.append(part)
