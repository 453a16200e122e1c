"""Punctuators: callbacks that stream time or the wall clock brings round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.java_priority_queue import JavaPriorityQueue
from penstock.processor import Punctuator

NEVER = 2**63 - 1

# The queue is first searched for cancelled punctuators when it has this many entries.
_SEARCHED_FROM = 1000

Punctuate = Callable[[Any, int, Punctuator], None]


class PunctuationSchedule:
    """One scheduled punctuator: the node it belongs to, when it is due, how often; also the handle that cancels it."""

    __slots__ = ("cancelled", "interval", "node", "punctuator", "timestamp")

    def __init__(self, node: Any, timestamp: int, interval: int, punctuator: Punctuator) -> None:
        self.node = node
        self.timestamp = timestamp
        self.interval = interval
        self.punctuator = punctuator
        self.cancelled = False

    def cancel(self) -> None:
        """No further call of the punctuator after this one."""
        self.cancelled = True

    def advance(self, now: int) -> None:
        """Move on to the next due time after `now`.

        Times stay on the grid of the first due time and the interval; what was missed is skipped, not caught up.
        """
        due = self.timestamp + self.interval
        if now >= due:
            missed = (now - self.timestamp) // self.interval
            due = self.timestamp + (missed + 1) * self.interval
        self.timestamp = due


class PunctuationQueue:
    """The punctuators of one kind of time, the earliest first.

    A cancelled punctuator leaves the queue when it would have been due, as in Kafka Streams. It leaves earlier if the queue
    has doubled since it was last searched: a timeout that each record cancels and sets anew adds an entry per record.
    """

    __slots__ = ("_schedules", "_searched_at", "next_due")

    def __init__(self) -> None:
        self._schedules: JavaPriorityQueue[PunctuationSchedule] = JavaPriorityQueue()
        self._searched_at = _SEARCHED_FROM
        # The earliest due time, cancelled ones included: the hot path compares one attribute with stream time.
        self.next_due = NEVER

    def schedule(self, schedule: PunctuationSchedule) -> PunctuationSchedule:
        """Add a punctuator."""
        if len(self._schedules) >= self._searched_at:
            self._remove_cancelled()
        self._schedules.offer(schedule.timestamp, schedule)
        self.next_due = self._schedules.lowest
        return schedule

    def _remove_cancelled(self) -> None:
        alive = [schedule for schedule in self._schedules if not schedule.cancelled]
        self._schedules.clear()
        for schedule in alive:
            self._schedules.offer(schedule.timestamp, schedule)
        self._searched_at = max(_SEARCHED_FROM, 2 * len(alive))

    def maybe_punctuate(self, now: int, punctuate: Punctuate) -> bool:
        """Call every punctuator that is due with the time `now`; says whether there was one."""
        queue = self._schedules
        punctuated = False
        while queue.lowest <= now and queue:
            schedule = queue.poll()
            if not schedule.cancelled:
                punctuate(schedule.node, now, schedule.punctuator)
                punctuated = True
                if not schedule.cancelled:
                    schedule.advance(now)
                    queue.offer(schedule.timestamp, schedule)
        self.next_due = queue.lowest
        return punctuated

    def earliest(self) -> int | None:
        """When the next punctuator that was not cancelled is due; None where there is none."""
        return min((schedule.timestamp for schedule in self._schedules if not schedule.cancelled), default=None)

    def close(self) -> None:
        """Forget all punctuators."""
        self._schedules.clear()
        self.next_due = NEVER
