"""The last assignment of the group, and what this instance asks of the group.

    revoked ──► assigned (another assignment, another generation) ──► adopted by the event loop

Assignments come on the group's thread, under the lock of the event queue. An assignment is known by its number, not by its
generation: offsets that were read under an older one may be another member's since.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.scheduling.event_queue import EventQueue
from penstock.client.scheduling.rebalance_pause import RebalancePause
from penstock.client.scheduling.task_manager import TaskManager
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.group_client import GroupClient, Stopped
from penstock.kafka.membership import Membership
from penstock.runtime.offset_metadata import OffsetAndMetadata


class Assignment(NamedTuple):
    """The generation that this instance may work in, if there is one now."""

    membership: Membership | None
    number: int
    elsewhere: Mapping[TaskId, int]
    """The number of the last assignment in which another member had a task: offsets read before it are old."""


class Assignments:
    """Written by the group's thread, read by the event loop's."""

    def __init__(self, config: StreamsConfig, tasks: TaskManager, queue: EventQueue, not_processing: Stopped) -> None:
        self._eos_enabled = config.eos_enabled
        self._probing_seconds = config["probing.rebalance.interval.ms"] / 1000
        self._tasks = tasks
        self._not_processing = not_processing
        self.lock = queue.lock
        self.member: GroupClient | None = None
        self.membership: Membership | None = None
        """The generation that this instance may work in; None while it may in none."""
        self.claimed: Membership | None = None
        """The generation whose tasks this instance still runs, also while the group joins."""
        self.last: Membership | None = None
        """The last generation that this instance was part of."""
        self.adopted_at = -1
        """The number of the assignment that the event loop goes by."""
        self._pause = RebalancePause(not_processing)
        self._number = 0
        self._elsewhere: Mapping[TaskId, int] = {}
        """Replaced, never changed: the event loop takes it in every step."""
        self._probe_at: float | None = None

    # -- from the group   ---------------------------------------------------------------------------------------------

    def revoked(self, lost: bool = False) -> Stopped:
        """The group rebalances; what is returned is set when what has to stop has stopped.

        Under exactly-once threads pause for a moment, and go on if the new generation is not there by then: a commit that comes
        too late is refused by the broker and done again. Under at-least-once nobody would refuse it: threads stop, and are
        waited for. What the group has given away already (`lost`) is read anew in any case.
        """
        with self.lock:
            if not lost and self._eos_enabled:
                self.lock.notify_all()  # resident threads are called back
                return self._pause.begin()
            self.membership = None
            if lost:
                self.claimed = None
                self._number += 1
                self._elsewhere = {**self._elsewhere, **dict.fromkeys(self._tasks.plan.tasks(), self._number)}
            self.lock.notify_all()
        return self._not_processing

    def assigned(self, membership: Membership) -> None:
        """The part of a new generation that is ours; what we keep goes on as it is."""
        with self.lock:
            # A task that was somebody else's for a generation is not where we left it, even if it is ours again: what was read of
            # it before is old, also where it has only been read and is not open yet.
            self._number += 1
            theirs = self._tasks.plan.task_set.difference(membership.tasks)
            self._elsewhere = {**self._elsewhere, **dict.fromkeys(theirs, self._number)}
            self.membership = self.claimed = self.last = membership
            self._pause.end()
            self._probe_at = time.monotonic() + self._probing_seconds if membership.probing else None
            self.lock.notify_all()

    # -- for the event loop        -------------------------------------------------------------------------------------

    def latest(self) -> Assignment:
        """The last assignment."""
        with self.lock:
            return Assignment(self.membership, self._number, self._elsewhere)

    @property
    def is_adopted(self) -> bool:
        """Whether the event loop goes by the last assignment."""
        return self._number == self.adopted_at

    @property
    def is_pausing(self) -> bool:
        """Whether threads pause for a moment, because the group rebalances."""
        return self._pause.is_on

    @property
    def allow_processing(self) -> bool:
        """Whether records may be processed, as far as the group is concerned."""
        return not self.is_pausing and self.membership is not None and self.is_adopted

    def drop(self) -> None:
        """Work in no generation until the next one."""
        with self.lock:
            self.membership = None

    def forget(self) -> None:
        """The same, and what others had does not matter any more: everything is read anew."""
        with self.lock:
            self.membership = None
            self._elsewhere = {}

    # -- to the group      ---------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: int) -> None:
        """Commit as a member of this generation, or not at all; takes its time, on any thread."""
        assert self.member is not None
        self.member.commit(offsets, generation=generation)

    def request_rejoin(self) -> None:
        """Have the group deal out its work anew."""
        if self.member is not None:
            self.member.request_rejoin()

    def probe(self) -> None:
        """Have the group look whether what waits can move now; once in a generation."""
        with self.lock:
            asked, self._probe_at = self._probe_at is not None, None
        if asked:
            self.request_rejoin()

    def probe_in_time(self) -> None:
        """The same where this instance leads the group, and it is time to."""
        at = self._probe_at
        if at is not None and time.monotonic() > at and self.member is not None and self.member.is_leader:
            self.probe()
