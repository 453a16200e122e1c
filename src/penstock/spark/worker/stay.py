"""Turn after turn in one job of Spark: for as long as records come in small numbers, and nobody calls the lane back.

A small turn takes a few milliseconds, and a job of Spark fifty. So a lane that carries the load alone does not return after a
turn. It follows its partitions itself, fires its timers, and commits turn by turn:

    ┌─► WAIT ── something has come, or a timer is due ──► PAUSE ── the last commit was long enough ago ──► TURN ─┐
    │    │                                                  │                                                    │
    └────│──────────────────────────────────────────────────│────────────────────────────────────────────────────┘
         └────────── its time is up, nothing comes, a backlog has come, or it is called back ──► GONE

Commits that follow too closely cost more than they bring: brokers answer that the last one is not over yet, and the producer asks
again later. So between a commit and the next records that are written lies as long as the commit took, and no result waits
longer than `commit.interval.ms`. A turn that has much to process begins so much sooner, and where many records come pauses are as
short as brokers let them be: many share the commit.

More records than a few turns take are a backlog only where they are there again after a turn that took all it could: a commit
that once took a second leaves many, and the next turn has them done long before the driver has planned one.

A lane whose time is up goes in between two turns and says that it could go on: what it has fetched is there when it comes back.
One that goes for another reason first brings all tasks behind a shuffle to the same position, and so does the first turn of each
stay: nobody has to read again what came long ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.kafka.follow import Follower, Taken
from penstock.spark.messages import LaneAnswer, ProcessTurn, Stay, TaskWork, TurnOfStay, UpstreamWork

# The least time from a commit to the next records that are written: where few come, and where a turn has as many as are worth
# more commits; and the most where it is to be as short as brokers let it be. A commit takes them 7 to 9 ms however close it is.
_SHORTEST_PAUSE, _BUSY_PAUSE, _CLOSEST = 0.04, 0.02, 0.01
_MANY = 32
# So soon a lane that waits hears that it is called back.
_LISTENS_EVERY = 0.02
# A turn should not process for longer than this; before anything is known of what records cost, one takes no more than so many.
_TURN_SECONDS, _FIRST_RECORDS = 0.5, 1_000
# What takes more turns than this is a backlog, however few records it is: two seconds of work are better shared with other lanes.
_MOST_TURNS = 4


class StayingWork(Protocol):
    """What a lane is asked by who stays in it."""

    def next_timer_ms(self) -> int | None:
        """When the next timer is due, by the clock of the day."""

    def due(self, now_ms: int) -> list[TaskId]:
        """The tasks that have something to do though nothing has come for them: their timers are due."""

    @property
    def is_uneven(self) -> bool:
        """Whether tasks behind a shuffle are at different positions: nothing came for some of them."""

    def turn(self, taken: Taken, due: Iterable[TaskId], levels: bool) -> LaneAnswer:
        """One turn of what has come, with its commit; what fails is raised. One that levels brings all to the same position."""


class Pause:
    """How long to wait after a commit, by what turns took of late: how many records, and how long to process and to commit.

    >>> pause = Pause(longest=0.1)
    >>> pause.seconds
    0.04
    >>> pause.took(1, 0.0, 0.06); round(pause.seconds, 3)
    0.06
    >>> pause.took(1, 0.1, 0.06); round(pause.seconds, 3)
    0.03
    >>> pause.took(1, 0.1, 0.9); round(pause.seconds, 3)
    0.049
    >>> Pause(longest=0.0).seconds
    0.01
    >>> busy = Pause(longest=0.1)
    >>> busy.took(200, 0.005, 0.01); round(busy.seconds, 3)
    0.015
    """

    def __init__(self, longest: float) -> None:
        self._longest = max(longest, _CLOSEST)
        self._records = self._work = self._commit = 0.0
        self._turns = 0

    def took(self, records: int, work: float, commit: float) -> None:
        """A turn took so many records, so long until it wrote, and then until it was committed."""
        share = 0.3 if self._turns else 1.0
        self._records += share * (records - self._records)
        self._work += share * (work - self._work)
        self._commit += share * (commit - self._commit)
        self._turns += 1

    @property
    def seconds(self) -> float:
        """From the end of a commit to the beginning of the next turn."""
        shortest = _SHORTEST_PAUSE if self._records < _MANY else _BUSY_PAUSE
        return max(0.0, min(self._longest, max(shortest, self._commit)) - self._work)


class Appetite:
    """How many records a turn takes at most, by what records cost of late.

    >>> appetite = Appetite(most=5_000)
    >>> appetite.records
    1000
    >>> appetite.took(100, 0.01); appetite.records
    5000
    >>> appetite.took(100, 10.0); appetite.records
    5
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.records = min(most, _FIRST_RECORDS)
        """The most that the next turn should take."""

    def took(self, records: int, seconds: float) -> None:
        """So many records were processed in so long."""
        if records:
            self.records = max(1, min(self._most, int(_TURN_SECONDS * records / max(seconds, 1e-6))))


def stay(
    work: StayingWork,
    follower: Follower,
    asked: Stay,
    total: LaneAnswer,
    is_called: Callable[[], bool],
    now: Callable[[], float] = monotonic,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Stay until it is time to go; `total` is what came of all turns so far, also where one of them fails.

    `sleep` returns early where the lane is called back.
    """
    started = heard = free_at = now()
    is_late = was_crowded = False
    pause, appetite = Pause(asked.commit_seconds), Appetite(asked.most_records)
    follower.follow(asked.positions)
    while not is_called():
        at, due, due_at = now(), work.due(now_ms()), work.next_timer_ms()
        waiting = follower.waiting
        is_idle = not waiting and at - heard > asked.idle_seconds
        is_crowded = waiting > min(asked.most_records, _MOST_TURNS * appetite.records)
        ends = is_idle or bool(follower.trouble) or (is_crowded and was_crowded)
        is_over, is_ready = at - started > asked.seconds, bool(waiting or due) and (ends or is_crowded or at >= free_at)
        if is_over and not ends and (is_late or not is_ready):
            total.goes_on, total.reached = True, dict(follower.positions)
            return
        if is_ready or (ends and (follower.has_skipped or work.is_uneven)):
            was_crowded = is_crowded
            is_late = is_over  # what could be done at once is done before it goes, and the pause behind it is spent on the way
            taken = follower.take(appetite.records)
            answer = work.turn(taken, due, ends or not total.turns)
            ended = now()
            heard = ended if taken.records else heard
            add(total, answer, taken, at - started, ended - at)
            total.reached = dict(follower.positions)
            work_seconds = answer.seconds.get("fetch", 0.0) + answer.work_seconds
            pause.took(taken.records, work_seconds, answer.seconds.get("commit", 0.0))
            appetite.took(taken.records, work_seconds)
            free_at = ended + pause.seconds
            due, due_at = [], work.next_timer_ms()
        if ends:
            if is_idle:
                follower.rest()  # whoever has nothing to do for long asks nothing of the brokers meanwhile
            return
        if is_late:
            continue
        if follower.waiting or due:
            follower.wait_apart(max(0.0, free_at - now()), sleep)
        else:
            until_due = _LISTENS_EVERY if due_at is None else (due_at - now_ms()) / 1000
            follower.wait(min(_LISTENS_EVERY, max(0.0, until_due)))
    follower.rest()  # whoever is called back may be paused, or lose what it reads


def add(total: LaneAnswer, answer: LaneAnswer, taken: Taken, at: float, took: float) -> None:
    """Add what came of a turn to what came of those before it: counts are summed, of the rest the last word counts."""
    read: dict[str, int] = {}
    for found in taken.ranges.values():
        read[found.topic] = read.get(found.topic, 0) + found.end - found.start
    counts = answer.records, answer.processed, answer.punctuated, answer.produced
    total.turns += (TurnOfStay(at, took, read, *counts, answer.seconds),)
    for name in ("records", "processed", "punctuated", "produced"):
        setattr(total, name, getattr(total, name) + getattr(answer, name))
    for step, seconds in answer.seconds.items():
        total.seconds[step] = total.seconds.get(step, 0.0) + seconds
    total.offsets.update(answer.offsets)
    total.timers.update(answer.timers)
    total.idle_until.update(answer.idle_until)
    if answer.flow is not None:
        if total.flow is None:
            total.flow = answer.flow
        else:
            total.flow.add(answer.flow)


def turn_of(
    asked: ProcessTurn,
    taken: Taken,
    due: Iterable[TaskId],
    own: Mapping[TaskId, Iterable[TopicPartition]],
    fed: Mapping[TaskId, Mapping[TopicPartition, Iterable[TopicPartition]]],
    upstream_of: Callable[[TopicPartition], int],
    lags_of: Callable[[TaskId], Mapping[TopicPartition, int]],
    reached: Mapping[TopicPartition, int],
    to_commit: Collection[TaskId] = (),
) -> ProcessTurn:
    """What to do with what has come: as the driver would have planned it, but for tasks for which nothing comes.

    `own` are the partitions that tasks read themselves, `fed` those that a shuffle feeds with their sources. Those `to_commit`
    are brought to where all sources have been read (`reached`); of the others those that the shuffle brings something.
    """
    sources: dict[tuple[int, int], list[FetchRange]] = {}
    work: dict[TaskId, TaskWork] = {}
    optional: set[TaskId] = set()
    due_tasks, ranges = set(due), taken.ranges
    for task in {*own, *fed}:
        direct = tuple(ranges[p] for p in own.get(task, ()) if p in ranges)
        must = task in to_commit
        feeds = tuple(p for p, of in fed.get(task, {}).items() if must or any(source in ranges for source in of))
        if direct or feeds or task in due_tasks:
            work[task] = TaskWork(direct, lags_of(task), feeds)
            if not direct and not must and task not in due_tasks:
                optional.add(task)
    before = dict.fromkeys(s for feeds_of in fed.values() for of in feeds_of.values() for s in of if s in ranges)
    for source in before:
        sources.setdefault((upstream_of(source), source.partition), []).append(ranges[source])
    upstream = tuple(UpstreamWork(*key, tuple(found)) for key, found in sorted(sources.items()))
    read = {source: reached[source] for feeds_of in fed.values() for of in feeds_of.values() for source in of}
    turn = replace(asked, work=work, upstream=upstream, read=read, optional=frozenset(optional))
    return replace(turn, stay=None, with_metrics=False)
