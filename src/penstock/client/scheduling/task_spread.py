"""Whether the tasks of an instance sit together in one lane or are spread over all: by what the lanes are busy with.

One lane is the quickest while it can carry the load: its turns are one Spark task. It is measured how long lanes work:

    together ──── one lane works most of the time, falls behind, or has seconds of work waiting ────► spread
        ▲                                                                                               │
        └── all lanes together have long had so little to do that one would be idle most of the time ◄──┘

Between the two lies a wide band where everything stays as it is. Tasks that were gathered and had to be spread again soon are
gathered later the next time, twice as late each time: no load makes them move for ever.

What a turn costs in any case is no reason to spread: every lane would pay it. So Spark's handling of a job does not count as
work, and of what lanes do around their records (fetch, write, commit) only what it takes beyond the shortest turns.

Pure: no Kafka, no Spark, and the clock is the caller's. Turns may be those of all lanes together or of each lane alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.clock import monotonic

# One lane carries it with room to spare up to this share of its time, and it takes this long to be sure of it.
_BUSY, _BUSY_WINDOW = 0.6, 10.0
# All of it would keep one lane this busy: then it may go back there, after so long.
_IDLE, _IDLE_WINDOW = 0.3, 30.0
# So many seconds of one lane's work may wait before it is spread, and before it is gathered.
_WAITING, _HARDLY_WAITING = 2.0, 0.5
# Turns that fill this share of the time follow on each other without rest.
_WITHOUT_REST = 0.95
# State that has to be copied to another host first makes a move dear: it has to be worth it for longer.
_DEAR = 10
_LONGEST_PATIENCE = 3600.0
# TaskSpread again within so many times its patience, it was gathered too soon.
_TOO_SOON = 20

# What a record is taken to cost before it is known. Turns that worked at least so long tell, apart from what any turn takes.
_GUESS = 100e-6
_TELLING, _ANY_TURN, _TELLING_TIMES = 0.05, 0.05, 3
# What surrounds the records of a turn takes up to this in any case; what it takes beyond that is work.
_LONGEST_SURROUNDINGS = 0.2
# Short turns are kept as one: the decision is asked for before each turn, and should cost microseconds.
_TOGETHER = 0.5


@dataclass
class _Turns:
    """Turns that followed soon on each other, or ran beside each other."""

    began: float
    ended: float
    seconds: float
    work: float
    records: int
    left: int
    count: int = 1

    def add(self, other: _Turns) -> None:
        self.ended = max(self.ended, other.ended)
        self.seconds += other.seconds
        self.work += other.work
        self.records += other.records
        self.left = other.left
        self.count += 1

    def within(self, start: float) -> float:
        """The part of them that lies behind a moment."""
        length = self.ended - self.began
        return min(1.0, max(0.0, (self.ended - start) / length)) if length > 0 else float(self.ended > start)


class TaskSpread:
    """Decides between one lane and all. Told of each turn, and asked before each.

    >>> clock = [0.0]
    >>> spread = TaskSpread(now=lambda: clock[0])
    >>> for _ in range(20):
    ...     clock[0] += 1.0
    ...     spread.turned(clock[0] - 1.0, clock[0], {0: 0.8}, records=160, left=0)
    >>> spread.wants(backlog=160)
    True
    >>> spread.reason
    'one lane was at work for 80 % of the last 10 s'
    """

    def __init__(self, always: bool = False, now: Callable[[], float] = monotonic) -> None:
        self._always = always
        self._now = now
        self._turns: deque[_Turns] = deque()
        self._is_warm = False
        self._shortest = _LONGEST_SURROUNDINGS
        self._since = self._gathered_at = -_LONGEST_PATIENCE * _DEAR
        self._patience = _IDLE_WINDOW
        self.is_spread = always
        self.reason = "num.stream.threads or task.spread = always is set" if always else "nothing is known of the load yet"
        """Why it is as it is."""

    def turned(
        self,
        began: float,
        ended: float,
        work: Mapping[int, float],
        *,
        records: int,
        left: int,
        around: Mapping[int, float] | None = None,
    ) -> None:
        """A turn is over. `work` are the seconds that each lane processed records in it, `around` those that it took to fetch,
        to write and to commit; `left` is how many records it left unread.
        """
        if self._always:
            return
        if not self._is_warm:
            self._is_warm = True  # the first turn connects and imports
            return
        seconds = sum(work.values())
        for took in (around or {}).values():
            # Slowly forgotten, in case the brokers get slower.
            self._shortest = min(took, self._shortest * 1.05, _LONGEST_SURROUNDINGS)
            seconds += max(0.0, took - self._shortest)
        turn = _Turns(began, ended, ended - began, seconds, records, left)
        if self._turns and ended - self._turns[-1].began < _TOGETHER:
            self._turns[-1].add(turn)
        else:
            self._turns.append(turn)
        while self._turns and self._turns[0].ended < ended - _IDLE_WINDOW:
            self._turns.popleft()

    def wants(self, backlog: int, *, to_restore: int = 0, moves_are_dear: bool = False, has_timers: bool = False) -> bool:
        """Whether the tasks belong on all lanes, given how many records wait, and how many of changelogs are to be restored.

        Moves are dear where state would have to be copied to another host. With wall-clock punctuators tasks are spread once and
        not gathered again: each move schedules the punctuators anew, so a load that comes and goes could keep them from firing.
        """
        if self._always:
            return True
        now = self._now()
        waiting = backlog * self._record_seconds(now) + to_restore * _GUESS
        if self.is_spread:
            if not has_timers and self._one_lane_is_enough(now, waiting, self._patience * (_DEAR if moves_are_dear else 1)):
                self._turn_to(False, now)
        elif self._is_too_much(now, waiting):
            if now - self._gathered_at < self._patience * _TOO_SOON:
                self._patience = min(self._patience * 2, _LONGEST_PATIENCE)
            else:
                self._patience = _IDLE_WINDOW
            self._turn_to(True, now)
        return self.is_spread

    def pin(self, reason: str) -> None:
        """Spread the tasks for good: a slow or failing task concerns its own thread only."""
        if not self._always:
            self._always = self.is_spread = True
            self.reason = reason

    def forget(self) -> None:
        """Nothing is spread any more, for a reason that lies outside: there is only one thread left."""
        if not self._always:
            self.is_spread = False

    # -- how busy it is ------------------------------------------------------------------------------------------------

    def _is_too_much(self, now: float, waiting: float) -> bool:
        share = self._share(now, _BUSY_WINDOW)
        if share > _BUSY:
            self.reason = f"one lane was at work for {share:.0%} of the last {_BUSY_WINDOW:.0f} s".replace("%", " %")
        elif waiting > _WAITING:
            self.reason = f"about {waiting:.1f} s of work are waiting"
        elif self._falls_behind(now):
            self.reason = "more and more records wait although turns follow on each other"
        else:
            return False
        return True

    def _one_lane_is_enough(self, now: float, waiting: float, patience: float) -> bool:
        if now - self._since < patience or waiting > _HARDLY_WAITING:
            return False
        share = self._share(now, _IDLE_WINDOW)
        if share >= _IDLE:
            return False
        self.reason = f"all of it would have kept one lane at work for {share:.0%} of the last {_IDLE_WINDOW:.0f} s".replace(
            "%", " %"
        )
        return True

    def _turn_to(self, spread: bool, now: float) -> None:
        self.is_spread, self._since = spread, now
        if not spread:
            self._gathered_at = now

    def _share(self, now: float, window: float) -> float:
        """The work of all lanes, in lanes that would have been busy with it all the time."""
        total, start = 0.0, now - window
        for turns in reversed(self._turns):
            if turns.ended <= start:
                break
            total += turns.work * turns.within(start)
        return total / window

    def _falls_behind(self, now: float) -> bool:
        start = now - _BUSY_WINDOW
        recent = [turns for turns in self._turns if turns.ended > start]
        if len(recent) < 3:
            return False
        busy = sum(turns.seconds * turns.within(start) for turns in recent)
        return busy > _WITHOUT_REST * _BUSY_WINDOW and recent[-1].left > max(recent[0].left, recent[-1].records)

    def _record_seconds(self, now: float) -> float:
        """What a record costs, by the turns of late that took the least for one; a guess where all were too short to tell."""
        recent = [turns for turns in self._turns if turns.records and turns.ended > now - _IDLE_WINDOW]
        beyond = [(turns.work - turns.count * _ANY_TURN, turns.records) for turns in recent]
        telling = [work / records for work, records in beyond if work >= _TELLING]
        if len(telling) < _TELLING_TIMES:  # with all that any turn takes they took so much, which is more than a record costs
            return min((_GUESS, *(turns.work / turns.records for turns in recent)))
        return min(*telling, *(turns.work / turns.records for turns in recent))
