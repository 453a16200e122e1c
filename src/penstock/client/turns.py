"""What the next turn of each lane is: which offsets to read, for which tasks. Pure: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.positions import Positions
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.spark.messages import TaskWork, UpstreamWork, read_by
from penstock.spark.plan import Plan


@dataclass
class Turn:
    """The work of one turn, by lane."""

    work: dict[int, dict[TaskId, TaskWork]] = field(default_factory=dict)
    upstream: list[UpstreamWork] = field(default_factory=list)
    ranges: list[FetchRange] = field(default_factory=list)
    backlog: int = 0
    poll_seconds: float = 0.0
    started: float = 0.0

    @property
    def shuffled(self) -> bool:
        """Whether records cross Spark's shuffle on their way to the lanes."""
        return bool(self.upstream) and len(self.work) > 1

    @property
    def read(self) -> dict[TopicPartition, int]:
        """How far sources before a shuffle are read."""
        return read_by(self.upstream)

    @property
    def records(self) -> int:
        """How many offsets the turn reads."""
        return sum(r.end - r.start for r in self.ranges)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.ranges[:6]))
        return shown + (f" and {len(self.ranges) - 6} more" if len(self.ranges) > 6 else "") if self.ranges else "timers"


def plan_turn(
    plan: Plan,
    positions: Positions,
    ends: Mapping[TopicPartition, int],
    owners: Mapping[TaskId, int],
    due: Iterable[TaskId],
    max_records: Callable[[int], int],
) -> Turn | None:
    """The next turn, reading at most `max_records(backlog)`; None where there is nothing to read and nothing due."""
    turn = Turn()
    new = {p: (start, ends[p]) for p, start in _starts(positions).items() if p in ends and ends[p] > start}
    turn.backlog = sum(end - start for start, end in new.values())
    ranges = _share(new, max_records(turn.backlog))
    turn.ranges = list(ranges.values())
    due_tasks = set(due)
    if not ranges and not due_tasks:
        return None
    _add_upstream(turn, plan, positions, ranges)
    fed_by = {w.subtopology for w in turn.upstream}
    for task_id, lane in owners.items():
        task_work = _task_work(plan, positions, ends, task_id, ranges, fed_by)
        if task_work is not None or task_id in due_tasks:
            turn.work.setdefault(lane, {})[task_id] = task_work or TaskWork(lags=_lags(positions, ends, task_id))
    return turn


def _starts(positions: Positions) -> dict[TopicPartition, int]:
    if positions.draining:
        return dict(positions.fetched)  # what was left in repartition topics comes before what a shuffle brings
    sources = dict.fromkeys(source for vector in positions.vectors.values() for source in vector)
    return {**positions.fetched, **{source: positions.lowest(source) for source in sources}}


def _share(new: Mapping[TopicPartition, tuple[int, int]], max_records: int) -> dict[TopicPartition, FetchRange]:
    """An even share of the turn for each partition; what one does not need goes to the others."""
    shared: dict[TopicPartition, FetchRange] = {}
    left, waiting = max_records, sorted(new, key=lambda p: new[p][1] - new[p][0])
    for index, partition in enumerate(waiting):
        start, end = new[partition]
        take = min(end - start, max(1, left // (len(waiting) - index)))
        left -= take
        shared[partition] = FetchRange(partition.topic, partition.partition, start, start + take)
    return dict(sorted(shared.items()))


def _add_upstream(turn: Turn, plan: Plan, positions: Positions, ranges: Mapping[TopicPartition, FetchRange]) -> None:
    for subtopology_id in sorted(plan.upstream):
        topics = plan.subtopologies[subtopology_id].source_topics
        mine = {p: r for p, r in ranges.items() if p.topic in topics}
        targets = [t for t in positions.vectors if plan.shuffled[t.topic] == subtopology_id]
        parts: dict[int, dict[TopicPartition, FetchRange]] = {}
        for source, wanted in mine.items():
            parts.setdefault(source.partition, {})[source] = wanted
        for partition, part in sorted(parts.items()):
            ahead = {
                target: vector
                for target in targets
                if (vector := {p: at for p, r in part.items() if (at := positions.vectors[target][p]) > r.start})
            }
            turn.upstream.append(UpstreamWork(subtopology_id, partition, tuple(part.values()), ahead))


def _task_work(
    plan: Plan,
    positions: Positions,
    ends: Mapping[TopicPartition, int],
    task_id: TaskId,
    ranges: Mapping[TopicPartition, FetchRange],
    fed_by: set[int],
) -> TaskWork | None:
    direct, fed = list[FetchRange](), list[TopicPartition]()
    for partition in positions.inputs(task_id):
        vector = positions.vectors.get(partition)
        if vector is None:
            if partition in ranges:
                direct.append(ranges[partition])
        elif plan.shuffled[partition.topic] in fed_by:
            fed.append(partition)
    if not direct and not fed:
        return None
    return TaskWork(
        tuple(direct), _lags(positions, ends, task_id, {TopicPartition(r.topic, r.partition): r.end for r in direct}), tuple(fed)
    )


def _lags(
    positions: Positions, ends: Mapping[TopicPartition, int], task_id: TaskId, read: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, int]:
    """How many records the brokers have beyond what the task will have read."""
    at = {**positions.fetched, **(read or {})}
    return {p: max(0, ends[p] - at[p]) for p in positions.inputs(task_id) if p in positions.fetched and p in ends}
