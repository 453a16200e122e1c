"""Decides whether the tasks of an instance share one stream thread or are spread over all, by the threads' load.

Used without `num.stream.threads`. One thread is the fastest while it can carry the load, because it hands records over in
memory.

    together ──── one thread works most of the time, falls behind, or has seconds of work waiting ────► spread
       ▲                                                                                                 │
       └── all threads together have long had so little to do that one would be idle most of the time ◄──┘

Between the two is a wide band without changes. If gathered tasks have to be spread again soon, the next gathering takes twice
as long, so that no load moves them for ever.

Each thread decides its batch size and commits alone (`spark/worker/pacing.py`). Waiting for a commit does not count as work.

This module is pure: no Kafka, no Spark, and the caller's clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.clock import monotonic

# One thread can carry the load up to this fraction of its time, measured over this window.
_BUSY, _BUSY_WINDOW = 0.6, 10.0
# Tasks may be gathered if the whole load would keep one thread busy for less than this fraction, over this window.
_IDLE, _IDLE_WINDOW = 0.3, 30.0
# Seconds of waiting work above which tasks are spread, and below which they may be gathered.
_WAITING, _HARDLY_WAITING = 2.0, 0.5
# Batches that take this fraction of the time follow each other without a pause.
_WITHOUT_PAUSE = 0.95
# Moves between hosts are expensive, because state must be copied first. The load must last longer by this factor.
_DEAR = 10
_LONGEST_PATIENCE = 3600.0
# Tasks that are spread again within this multiple of the patience were gathered too soon.
_TOO_SOON = 20

# The assumed cost of a record while it is unknown. Batches with this much work beyond their fixed cost are significant.
_GUESS = 100e-6
_TELLING, _ANY_BATCH, _TELLING_TIMES = 0.05, 0.05, 3
# Short batches within this time are combined: there may be fifty in a second.
_TOGETHER = 0.5


@dataclass
class _Batches:
    """Consecutive batches, or parallel batches of several threads."""

    began: float
    ended: float
    seconds: float
    work: float
    records: int
    left: int
    count: int = 1

    def add(self, other: _Batches) -> None:
        self.ended = max(self.ended, other.ended)
        self.seconds += other.seconds
        self.work += other.work
        self.records += other.records
        self.left = other.left
        self.count += 1

    def share_after(self, start: float) -> float:
        """Return the fraction of their time after a moment."""
        length = self.ended - self.began
        return min(1.0, max(0.0, (self.ended - start) / length)) if length > 0 else float(self.ended > start)


class TaskSpread:
    """Decides between one thread and all threads. `batch_done` records each batch; `wants` is called before tasks are placed.

    >>> clock = [0.0]
    >>> spread = TaskSpread(now=lambda: clock[0])
    >>> for _ in range(20):
    ...     clock[0] += 1.0
    ...     spread.batch_done(clock[0] - 1.0, clock[0], work=0.8, records=160, left=0)
    >>> spread.wants(backlog=160)
    True
    >>> spread.reason
    'one thread was at work for 80 % of the last 10 s'
    """

    def __init__(self, always: bool = False, now: Callable[[], float] = monotonic) -> None:
        self._always = always
        self._held: bool | None = None
        self._now = now
        self._batches: deque[_Batches] = deque()
        self._is_warm = False
        self._since = self._gathered_at = -_LONGEST_PATIENCE * _DEAR
        self._patience = _IDLE_WINDOW
        self.is_spread = always
        self.reason = "num.stream.threads or task.spread = always is set" if always else "nothing is known of the load yet"
        """The reason why tasks are spread or gathered."""

    def batch_done(self, began: float, ended: float, *, work: float, records: int, left: int) -> None:
        """Record a batch of a thread: `work` seconds were work, and `left` records remained unread."""
        if self._always:
            return
        if not self._is_warm:
            self._is_warm = True  # the first batch includes connecting and importing
            return
        batch = _Batches(began, ended, ended - began, work, records, left)
        if self._batches and ended - self._batches[-1].began < _TOGETHER:
            self._batches[-1].add(batch)
        else:
            self._batches.append(batch)
        while self._batches and self._batches[0].ended < ended - _IDLE_WINDOW:
            self._batches.popleft()

    def wants(self, backlog: int, *, to_restore: int = 0, moves_are_dear: bool = False, has_timers: bool = False) -> bool:
        """Return True if tasks should be spread, for these numbers of waiting records and of changelog records to restore.

        Moves are dear if state has to be copied to another host. With wall-clock punctuators tasks are spread once and not
        gathered again: each move reschedules the punctuators, so a fluctuating load could keep them from firing.
        """
        if self._held is not None:
            return self._held
        if self._always:
            return True
        now = self._now()
        waiting = backlog * self._record_seconds(now) + to_restore * _GUESS
        if self.is_spread:
            if not has_timers and self._one_thread_is_enough(now, waiting, self._patience * (_DEAR if moves_are_dear else 1)):
                self.is_spread, self._since, self._gathered_at = False, now, now
        elif self._is_too_much(now, waiting):
            too_soon = now - self._gathered_at < self._patience * _TOO_SOON
            self._patience = min(self._patience * 2, _LONGEST_PATIENCE) if too_soon else _IDLE_WINDOW
            self.is_spread, self._since = True, now
        return self.is_spread

    def pin(self, reason: str) -> None:
        """Spread the tasks for good, so that a slow or failing task affects only its own thread."""
        if not self._always:
            self._always = self.is_spread = True
            self.reason = reason

    def hold(self, reason: str, *, spread: bool) -> None:
        """Spread or gather the tasks until `let_go`, whatever the load is; not if they are always spread."""
        if not self._always:
            self._held = self.is_spread = spread
            self.reason = reason

    def let_go(self) -> None:
        """Follow the load from now on; tasks that are spread stay so until there has long been little to do."""
        if self._held is not None:
            self._held, self._since = None, self._now()
            self.is_spread = self.is_spread or self._always

    def forget(self) -> None:
        """Reset the spread when only one thread remains."""
        if not self._always:
            self.is_spread = False

    # -- load ----------------------------------------------------------------------------------------------------------

    def _is_too_much(self, now: float, waiting: float) -> bool:
        share = self._share(now, _BUSY_WINDOW)
        if share > _BUSY:
            self.reason = f"one thread was at work for {100 * share:.0f} % of the last {_BUSY_WINDOW:.0f} s"
        elif waiting > _WAITING:
            self.reason = f"about {waiting:.1f} s of work are waiting"
        elif self._falls_behind(now):
            self.reason = "more and more records wait although batches follow each other without a pause"
        else:
            return False
        return True

    def _one_thread_is_enough(self, now: float, waiting: float, patience: float) -> bool:
        if now - self._since < patience or waiting > _HARDLY_WAITING:
            return False
        share = self._share(now, _IDLE_WINDOW)
        if share >= _IDLE:
            return False
        self.reason = f"all of it would have kept one thread at work for {100 * share:.0f} % of the last {_IDLE_WINDOW:.0f} s"
        return True

    def _share(self, now: float, window: float) -> float:
        """Return the work of all threads, as the number of threads that it would keep busy."""
        start = now - window
        return sum(batches.work * batches.share_after(start) for batches in self._batches if batches.ended > start) / window

    def _falls_behind(self, now: float) -> bool:
        start = now - _BUSY_WINDOW
        recent = [batches for batches in self._batches if batches.ended > start]
        if len(recent) < 3:
            return False
        busy = sum(batches.seconds * batches.share_after(start) for batches in recent)
        return busy > _WITHOUT_PAUSE * _BUSY_WINDOW and recent[-1].left > max(recent[0].left, recent[-1].records)

    def _record_seconds(self, now: float) -> float:
        """Return the cost of a record: the lowest of recent batches, or an assumption while all were too short."""
        recent = [batches for batches in self._batches if batches.records and batches.ended > now - _IDLE_WINDOW]
        most = [batches.work / batches.records for batches in recent]  # includes the fixed cost of the batches
        beyond = [(batches.work - batches.count * _ANY_BATCH, batches.records) for batches in recent]
        telling = [work / records for work, records in beyond if work >= _TELLING]
        return min((*telling, *most) if len(telling) >= _TELLING_TIMES else (_GUESS, *most))
