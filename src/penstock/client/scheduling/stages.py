"""What is read before a shuffle, and for which of the tasks behind it. Pure: no Kafka, no Spark.

Tasks behind a shuffle need not stand at the same place: each has a vector, the position of every source it was fed. Most stand
where the one that is furthest ahead does, at the front. Those behind it are fed apart until they are there too, so that nobody
waits for them:

    source 0  ──────────────●━━━━━━━━━►        a task behind the front: its own window, from where it is up to the front
    source 0  ────────────────────────●━━━►    the front: everything that is new, once for all tasks that are there
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.kafka.fetch import FetchRange
from penstock.spark.messages import UpstreamWork, read_by
from penstock.spark.plan import Plan
from penstock.spark.vectors import distinct

Vectors = Mapping[TopicPartition, Mapping[TopicPartition, int]]
"""For each partition that a shuffle feeds, how far each source was read for it."""
Feeds = Mapping[TaskId, Sequence[TopicPartition]]
"""For each task behind a shuffle, the partitions that it is fed."""


@dataclass(frozen=True)
class ReadableWindow:
    """From where to where sources can be read, for which tasks."""

    feeds: Feeds
    bounds: Mapping[TopicPartition, tuple[int, int]]

    @property
    def backlog(self) -> int:
        """How many offsets lie in it."""
        return sum(end - start for start, end in self.bounds.values())


@dataclass(frozen=True)
class Stage:
    """What one stage before a shuffle reads, and the partitions it feeds."""

    unit: UnitId
    upstream: tuple[UpstreamWork, ...]
    ranges: tuple[FetchRange, ...]
    feeds: Feeds
    backlog: int
    expects: Vectors = field(default_factory=dict)
    """Where each partition has to be when it is fed: what it has had of the ranges is left out, and nothing else."""

    @property
    def records(self) -> int:
        """How many offsets it reads."""
        return sum(r.end - r.start for r in self.ranges)

    @property
    def read(self) -> dict[TopicPartition, int]:
        """How far it reads its sources."""
        return read_by(self.upstream)

    def __str__(self) -> str:
        return shown(self.ranges)


@dataclass(frozen=True)
class StagePart:
    """What a stage has for one lane; `rows` is where the lane finds it. One lane of a stage `tells` what it has read."""

    stage: Stage
    feeds: Feeds
    rows: Any = field(repr=False, default=None)
    lanes: int = 1
    tells: bool = True
    checksums: Mapping[TaskId, int] = field(repr=False, default_factory=dict)
    """Of what each task of the stage has sent: see `spark/blobs.py`."""

    def without(self, tasks: Collection[TaskId]) -> StagePart | None:
        """The same without tasks that are not in the lane any more; None where nothing is left."""
        feeds = {task: fed for task, fed in self.feeds.items() if task not in tasks}
        if len(feeds) == len(self.feeds):
            return self
        return replace(self, feeds=feeds) if feeds else None

    def fits(self, vectors: Vectors) -> bool:
        """Whether all its partitions are where it was read for: else something would be lost, or be there twice."""
        expects = self.stage.expects
        return all(
            partition in vectors and all(vectors[partition].get(source) == at for source, at in expects[partition].items())
            for fed in self.feeds.values()
            for partition in fed
        )


def shown(ranges: Sequence[FetchRange]) -> str:
    """The first few of what is read, as text."""
    text = ", ".join(map(str, ranges[:6]))
    return text + (f" and {len(ranges) - 6} more" if len(ranges) > 6 else "")


def front_of(feeds: Feeds, vectors: Vectors) -> dict[TopicPartition, int]:
    """How far each source was read for the task that is furthest ahead in it."""
    front: dict[TopicPartition, int] = {}
    for vector in distinct(vectors[partition] for fed in feeds.values() for partition in fed):
        for source, at in vector.items():
            front[source] = max(at, front.get(source, at))
    return front


def front_window(feeds: Feeds, vectors: Vectors, ends: Mapping[TopicPartition, int]) -> ReadableWindow | None:
    """What is new for the tasks at the front; None where nothing is, or nobody is there."""
    front = front_of(feeds, vectors)
    there = {task: fed for task, fed in feeds.items() if not _is_behind(fed, vectors, front)}
    sources = {s for vector in distinct(vectors[p] for fed in there.values() for p in fed) for s in vector}
    return _window(there, {source: (front[source], ends[source]) for source in sources if source in ends})


def catch_up_window(
    feeds: Feeds,
    vectors: Vectors,
    ends: Mapping[TopicPartition, int],
    most: int,
    among: Collection[TaskId] | None = None,
) -> ReadableWindow | None:
    """What tasks behind the front have missed: for all of them where that is not too much, else for those closest to it.

    `among` are the tasks that can take anything now.
    """
    front = front_of(feeds, vectors)
    free = feeds if among is None else {task: fed for task, fed in feeds.items() if task in among}
    behind = {task: fed for task, fed in free.items() if _is_behind(fed, vectors, front)}
    if not behind:
        return None
    starts = _lowest(behind, vectors)
    if sum(front[source] - start for source, start in starts.items()) > most:
        closest = min(behind, key=lambda task: (sum(front[s] - at for s, at in _lowest_of(behind[task], vectors).items()), task))
        starts = _lowest_of(behind[closest], vectors)
        behind = {task: fed for task, fed in behind.items() if _is_within(fed, vectors, starts)}
    return _window(behind, {s: (start, min(front[s], ends[s])) for s, start in starts.items() if s in ends})


def plan_stage(
    plan: Plan, unit: UnitId, window: ReadableWindow | None, vectors: Vectors, max_records: Callable[[int], int]
) -> Stage | None:
    """A stage that reads as much of a window as is allowed for its backlog."""
    if window is None:
        return None
    ranges = share(window.bounds, max_records(window.backlog))
    upstream = upstream_works(plan, window.feeds, vectors, ranges)
    fed = [partition for partitions in window.feeds.values() for partition in partitions]
    expects = {partition: {source: at for source, at in vectors[partition].items() if source in ranges} for partition in fed}
    return Stage(unit, tuple(upstream), tuple(ranges.values()), window.feeds, window.backlog, expects)


def share(new: Mapping[TopicPartition, tuple[int, int]], max_records: int) -> dict[TopicPartition, FetchRange]:
    """An even share for each partition; what one does not need goes to the others."""
    shared: dict[TopicPartition, FetchRange] = {}
    left, waiting = max_records, sorted(new, key=lambda p: new[p][1] - new[p][0])
    for index, partition in enumerate(waiting):
        start, end = new[partition]
        take = min(end - start, max(1, left // (len(waiting) - index)))
        left -= take
        shared[partition] = FetchRange(partition.topic, partition.partition, start, start + take)
    return dict(sorted(shared.items()))


def upstream_works(plan: Plan, feeds: Feeds, vectors: Vectors, ranges: Mapping[TopicPartition, FetchRange]) -> list[UpstreamWork]:
    """The tasks before a shuffle that read these ranges, each with what some of the tasks behind it have had of them."""
    found: list[UpstreamWork] = []
    fed = [partition for partitions in feeds.values() for partition in partitions]
    for subtopology in sorted(plan.upstream):
        topics = plan.subtopologies[subtopology].source_topics
        targets = [partition for partition in fed if plan.shuffled[partition.topic] == subtopology]
        parts: dict[int, dict[TopicPartition, FetchRange]] = {}
        for source, wanted in ranges.items():
            if source.topic in topics:
                parts.setdefault(source.partition, {})[source] = wanted
        for number, part in sorted(parts.items()):
            ahead = {
                target: vector
                for target in targets
                if (vector := {p: at for p, r in part.items() if (at := vectors[target][p]) > r.start})
            }
            found.append(UpstreamWork(subtopology, number, tuple(part.values()), ahead))
    return found


def _window(feeds: Feeds, bounds: Mapping[TopicPartition, tuple[int, int]]) -> ReadableWindow | None:
    new = {source: (start, end) for source, (start, end) in bounds.items() if end > start}
    return ReadableWindow(feeds, new) if feeds and new else None


def _is_behind(fed: Sequence[TopicPartition], vectors: Vectors, front: Mapping[TopicPartition, int]) -> bool:
    return any(at < front[s] for p in fed if vectors[p] != front for s, at in vectors[p].items())


def _is_within(fed: Sequence[TopicPartition], vectors: Vectors, starts: Mapping[TopicPartition, int]) -> bool:
    return all(source in starts and at >= starts[source] for partition in fed for source, at in vectors[partition].items())


def _lowest(feeds: Feeds, vectors: Vectors) -> dict[TopicPartition, int]:
    return _lowest_of([partition for fed in feeds.values() for partition in fed], vectors)


def _lowest_of(fed: Sequence[TopicPartition], vectors: Vectors) -> dict[TopicPartition, int]:
    lowest: dict[TopicPartition, int] = {}
    for partition in fed:
        for source, at in vectors[partition].items():
            lowest[source] = min(at, lowest.get(source, at))
    return lowest
