"""Punctuators: callbacks that stream time or the wall clock brings round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.processor import Punctuator
from penstock.runtime.java_priority_queue import JavaPriorityQueue

# A timer of a punctuator that was cancelled: it is committed like a due time, so a task that moves does not revive it.
NEVER = 2**63 - 1

Punctuate = Callable[[Any, int, Punctuator], None]


class PunctuationSchedule:
    """One scheduled punctuator: the node it belongs to, when it is due, how often; also the handle that cancels it."""

    __slots__ = ("cancelled", "interval", "key", "node", "punctuator", "timestamp")

    def __init__(self, node: Any, timestamp: int, interval: int, punctuator: Punctuator, key: str | None = None) -> None:
        self.node = node
        self.timestamp = timestamp
        self.interval = interval
        self.punctuator = punctuator
        self.key = key
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
    """The punctuators of one kind of time, the earliest first."""

    __slots__ = ("_queue", "_schedules", "next_due")

    def __init__(self) -> None:
        self._queue: JavaPriorityQueue[PunctuationSchedule] = JavaPriorityQueue()
        self._schedules: list[PunctuationSchedule] = []
        # The earliest due time, cancelled ones included: the hot path compares one attribute with stream time.
        self.next_due = NEVER

    def schedule(self, schedule: PunctuationSchedule) -> PunctuationSchedule:
        """Add a punctuator."""
        self._schedules.append(schedule)
        if schedule.timestamp < NEVER:
            self._queue.offer(schedule.timestamp, schedule)
            self.next_due = self._queue.lowest
        return schedule

    def maybe_punctuate(self, now: int, punctuate: Punctuate) -> bool:
        """Call every punctuator that is due with the time `now`; says whether there was one."""
        queue = self._queue
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
        due = [schedule.timestamp for schedule in self._schedules if not schedule.cancelled and schedule.timestamp < NEVER]
        return min(due, default=None)

    def due_times(self) -> Iterator[tuple[str, int]]:
        """The due times of the punctuators that have a key to be carried over by."""
        for schedule in self._schedules:
            if schedule.key is not None:
                yield schedule.key, NEVER if schedule.cancelled else schedule.timestamp

    def close(self) -> None:
        """Forget all punctuators."""
        self._queue.clear()
        self._schedules.clear()
        self.next_due = NEVER
