"""What the next turn of a lane is: which offsets to read, for which of its tasks. Pure: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.stages import Feeds, ReadableWindow, StagePart, share, shown, upstream_works
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.spark.messages import LaneAnswer, TaskWork, UpstreamWork, read_by
from penstock.spark.plan import Plan


@dataclass
class Turn:
    """The work of one turn of one lane: what it reads itself, and what a stage before a shuffle has brought it."""

    work: dict[TaskId, TaskWork] = field(default_factory=dict)
    upstream: list[UpstreamWork] = field(default_factory=list)
    part: StagePart | None = None
    ranges: list[FetchRange] = field(default_factory=list)
    backlog: int = 0
    poll_seconds: float = 0.0
    started: float = 0.0

    @property
    def shuffled(self) -> bool:
        """Whether records cross Spark's shuffle on their way to the lane."""
        return self.part is not None

    @property
    def read(self) -> dict[TopicPartition, int]:
        """How far sources before a shuffle are read."""
        return {**({} if self.part is None else self.part.stage.read), **read_by(self.upstream)}

    @property
    def records(self) -> int:
        """How many offsets the turn reads; what a stage has read for several lanes is told by one of them."""
        told = self.part.stage.records if self.part is not None and self.part.tells else 0
        return sum(r.end - r.start for r in self.ranges) + told

    @property
    def size(self) -> float:
        """How many records the lane has to do with, as far as that can be known before."""
        brought = 0.0 if self.part is None else self.part.stage.records / self.part.lanes
        return sum(r.end - r.start for r in self.ranges) + brought

    @property
    def told_ranges(self) -> list[FetchRange]:
        """The ranges that `records` counts."""
        return [*self.ranges, *(self.part.stage.ranges if self.part is not None and self.part.tells else ())]

    def __str__(self) -> str:
        read = [*self.ranges, *(self.part.stage.ranges if self.part is not None else ())]
        return shown(read) if read else "timers"


def plan_turn(
    plan: Plan,
    positions: Positions,
    ends: Mapping[TopicPartition, int],
    tasks: Collection[TaskId],
    due: Iterable[TaskId],
    max_records: Callable[[int], int],
    *,
    window: ReadableWindow | None = None,
    part: StagePart | None = None,
) -> Turn | None:
    """The next turn of the lane that runs `tasks`, reading at most `max_records(backlog)`; None where there is nothing to do.

    `window` is what the lane itself reads before a shuffle, `part` what a stage has brought for it.
    """
    own = {p: positions.fetched[p] for task in tasks for p in positions.inputs(task) if p in positions.fetched}
    new = {p: (start, ends[p]) for p, start in own.items() if p in ends and ends[p] > start}
    if window is not None:
        new |= window.bounds
    turn = Turn(part=part, backlog=sum(end - start for start, end in new.values()))
    if part is not None:
        turn.backlog += part.stage.backlog
    ranges = share(new, max_records(turn.backlog))
    turn.ranges = list(ranges.values())
    due_tasks = set(due)
    if not ranges and not due_tasks and part is None:
        return None
    feeds: dict[TaskId, tuple[TopicPartition, ...]] = {}
    if window is not None:
        turn.upstream = upstream_works(plan, window.feeds, positions.vectors, ranges)
        _feed(feeds, window.feeds)
    if part is not None:
        _feed(feeds, part.feeds)
    for task in tasks:
        direct = tuple(ranges[p] for p in positions.inputs(task) if p in own and p in ranges)
        if direct or task in feeds or task in due_tasks:
            turn.work[task] = TaskWork(direct, _lags(positions, ends, task, direct), feeds.get(task, ()))
    return turn


def account(positions: Positions, turn: Turn, answer: LaneAnswer) -> None:
    """Note how far a turn has come: what it has committed, and what it has read beyond that.

    Tasks that were given up while it ran are not known any more, and stay so.
    """
    known = {*positions.fetched, *positions.vectors}
    positions.committed.update({p: committed for p, committed in answer.offsets.items() if p in known})
    short = answer.short
    reached = {p: min(end, short[p].offset) if p in short else end for p, end in turn.read.items()}
    for work in turn.work.values():
        for r in work.ranges:
            partition = TopicPartition(r.topic, r.partition)
            if partition in known:
                positions.fetched[partition] = short[partition].offset if partition in short else r.end
        for partition in work.fed:
            if partition in known:
                vector = positions.vectors[partition]
                vector.update({p: max(vector[p], end) for p, end in reached.items() if p in vector})


def _feed(feeds: dict[TaskId, tuple[TopicPartition, ...]], more: Feeds) -> None:
    for task, fed in more.items():
        feeds[task] = (*feeds.get(task, ()), *fed)


def _lags(
    positions: Positions, ends: Mapping[TopicPartition, int], task_id: TaskId, direct: Iterable[FetchRange]
) -> dict[TopicPartition, int]:
    """How many records the brokers have beyond what the task will have read."""
    read, fetched = {TopicPartition(r.topic, r.partition): r.end for r in direct}, positions.fetched
    return {p: max(0, ends[p] - read.get(p, fetched[p])) for p in positions.inputs(task_id) if p in fetched and p in ends}
