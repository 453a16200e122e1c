"""A backfill: input is processed up to fixed offsets, and then without limit, or the application ends.

    ENDS KNOWN ──► threads read up to the ends ──► all of it is committed, and repartition topics are read to their ends
                                                          │
                        the ends are lifted, it is live ◄─┴─► nothing more is read until the client closes it

It is done when three things hold at the same moment:

1. The committed offset of every source partition of this instance has reached its end.
2. No thread is in its Spark task, so nobody writes to a repartition topic.
3. The committed offset of every repartition partition is the end of its log. No thread begins while the brokers are asked.

A restart begins with the committed offsets, like any start, so nothing about a backfill has to be kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.failures import is_transient
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.task_manager import TaskManager
from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin

_log = logging.getLogger(__name__)

_WIDE = "a backfill uses all threads"
_IN_ORDER = "history reaches a repartition in the order of time if one thread reads it"


class InputEnds(NamedTuple):
    """Where a backfill ends. `on_done` is called once, on the event loop's thread."""

    offsets: Mapping[TopicPartition, int]
    then_live: bool
    on_done: Callable[[], None]


class BoundedProgress(NamedTuple):
    """How many records of a backfill are committed, of how many, since it began.

    >>> progress = BoundedProgress(done=250, total=1000, seconds=5.0)
    >>> progress.share, str(progress)
    (0.25, '50 records/s, 15 s left')
    """

    done: int
    total: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Records a second since the first one."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def share(self) -> float:
        """The part of all records that is done, from 0 to 1."""
        return self.done / self.total if self.total else 1.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the same rate; None before the first record."""
        return (self.total - self.done) / self.per_second if self.done and self.seconds > 0 else None

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", {self.seconds_left:,.0f} s left"
        return f"{self.per_second:,.0f} records/s{left}"


class BoundedRun:
    """Used by the event loop's thread; `progress` by any thread. Without `ends` the instance is live, and nothing is bounded."""

    def __init__(self, tasks: TaskManager, admin: Admin, run: RunState, background: Background, ends: InputEnds | None) -> None:
        self._tasks, self._admin, self._run, self._background = tasks, admin, run, background
        self._ends = ends
        self._asking: Future[dict[TopicPartition, int]] | None = None
        self._is_done = False
        self._firsts: dict[TopicPartition, int] = {}
        self._began = self._last = 0.0
        self._progress = BoundedProgress(0, 0, 0.0)
        self._reads_history = bool(tasks.offsets.staged)
        self._is_in_order = self._reads_history and bool(tasks.plan.repartition_topics)
        self.on_history_read: Callable[[], None] = lambda: None
        """Called when this instance has read all history, of all partitions."""
        if self._is_in_order:
            tasks.spread.hold(_IN_ORDER, spread=False)
        elif ends is not None:
            tasks.spread.hold(_WIDE, spread=True)

    @property
    def is_active(self) -> bool:
        """Whether threads read up to the ends only."""
        return self._ends is not None

    @property
    def holds_back(self) -> bool:
        """Whether no thread may begin: brokers are asked whether everything is read, or it is, and the application ends."""
        return self._asking is not None or (self.is_active and self._is_done and not self._run.is_draining)

    def of_tasks(self, tasks: Iterable[TaskId]) -> dict[TopicPartition, int] | None:
        """Where the source partitions of tasks end; None if they are read without limit.

        A partition that has come since has no end yet: it is not read before the application is live.
        """
        if self._ends is None:
            return None
        return {p: self._ends.offsets.get(p, 0) for task in tasks for p in self._sources(task)}

    def clip(self, ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The ends of logs as far as they are to be read: a partition whose limit was reached ends where it was read to."""
        if self._ends is None:
            return ends
        limits = self._ends.offsets
        repartitions = self._tasks.plan.repartition_topics
        return {
            p: end if p.topic in repartitions or positions.get(p, 0) < limits.get(p, 0) else positions.get(p, end)
            for p, end in ends.items()
        }

    @property
    def progress(self) -> BoundedProgress | None:
        """How far it has come; None if the instance is live."""
        return self._progress if self.is_active else None

    def look(self) -> None:
        """See whether history is read, and whether the backfill is done."""
        if self._reads_history:
            self._look_at_history()
        if self._ends is None or self._is_done:
            return
        known = self._positions()
        sources = {p: at for task in self._tasks.owners for p in self._sources(task) if (at := known.get(p)) is not None}
        self._note_progress(sources)
        if self._asking is not None or not self._run.may_process or not self._tasks.are_running:
            return
        if any(at < self._ends.offsets.get(p, 0) for p, at in sources.items()):
            return
        if not self._tasks.plan.repartition_topics:
            self._done()
        elif self._is_quiet:
            asked = list(self._repartitions())
            self._asking = self._background.submit(self._admin.reachable_ends, asked, False)
            self._background.then(self._asking, self._answered)

    def _look_at_history(self) -> None:
        staged, known = self._tasks.offsets.staged, self._positions()
        own = {p: at for p, at in known.items() if p in staged}
        if not self._tasks.are_running or any(at < staged[p].end for p, at in own.items()):
            return
        if self._is_in_order:
            self._is_in_order = False
            self._go_wide_or_free()
        if len(own) == len(staged):
            self._reads_history = False
            _log.info("history is read to its end: %s", ", ".join(sorted({partition.topic for partition in staged})))
            self.on_history_read()

    def _go_wide_or_free(self) -> None:
        if self.is_active:
            self._tasks.spread.hold(_WIDE, spread=True)
        elif not self._is_in_order:
            self._tasks.spread.let_go()

    def _positions(self) -> dict[TopicPartition, int]:
        """The positions that are committed; one in history lies before the offset from which on its topic is read."""
        committed, staged = self._tasks.committed(), self._tasks.offsets.staged
        history = {p: staged[p].position(p, committed.get(p)) for p in self._tasks.next_offsets().keys() & staged.keys()}
        return {**self._tasks.next_offsets(), **history}

    @property
    def _is_quiet(self) -> bool:
        threads = self._tasks.threads.values()
        return all(thread.job is None and (thread.is_idle or not thread.holds) for thread in threads)

    def _sources(self, task: TaskId) -> list[TopicPartition]:
        repartitions = self._tasks.plan.repartition_topics
        return [p for p in self._tasks.plan.inputs(task) if p.topic not in repartitions]

    def _repartitions(self) -> dict[TopicPartition, int]:
        topics = self._tasks.plan.repartition_topics
        return {p: at for p, at in self._tasks.next_offsets().items() if p.topic in topics}

    def _answered(self, future: Future[dict[TopicPartition, int]]) -> None:
        self._asking = None
        try:
            ends = future.result(0)
        except Exception as exc:
            if not is_transient(exc):
                raise
            _log.warning("the ends of the repartition topics cannot be read now, and are asked for again: %s", exc)
            return
        if self._is_done or not self._tasks.are_running or not self._is_quiet:
            return  # a thread has failed, or the group rebalances
        unread = {partition for partition, at in self._repartitions().items() if ends.get(partition) != at}
        if not unread:
            self._done()
            return
        for thread in self._tasks.threads.values():  # records have come since it left its Spark task
            inputs = {partition for task in thread.holds for partition in self._tasks.plan.inputs(task)}
            thread.is_idle = inputs.isdisjoint(unread)

    def _done(self) -> None:
        assert self._ends is not None
        ends, self._is_done = self._ends, True
        _log.info("the backfill is complete: %d records in %.1f s", self._progress.done, self._progress.seconds)
        if ends.then_live:
            self._ends = None
            self._go_wide_or_free()
            for thread in self._tasks.threads.values():
                thread.is_idle = False
        ends.on_done()

    def _note_progress(self, committed: Mapping[TopicPartition, int]) -> None:
        assert self._ends is not None
        now = monotonic()
        if not self._firsts and committed:
            self._began = now
        if now - self._last < 0.1:
            return
        self._last = now
        ends = self._ends.offsets
        for partition, at in committed.items():
            self._firsts.setdefault(partition, at)
        total = sum(max(0, ends.get(p, 0) - first) for p, first in self._firsts.items())
        done = sum(
            min(max(0, committed[p] - first), max(0, ends.get(p, 0) - first))
            for p, first in self._firsts.items()
            if p in committed
        )
        self._progress = BoundedProgress(max(done, self._progress.done), total, now - self._began)
