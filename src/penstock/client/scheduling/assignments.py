"""The last assignment of the group, and this instance's requests to the group.

    revoked ──► assigned (another assignment, another generation) ──► adopted by the event loop

Assignments arrive on the group member's thread, under the event queue's lock. An assignment is identified by its number, not
its generation: another member may have changed offsets that were read under an older generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.scheduling.event_queue import EventQueue
from penstock.client.scheduling.rebalance_pause import RebalancePause
from penstock.client.scheduling.task_manager import TaskManager
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.group_client import GroupClient, Stopped
from penstock.kafka.membership import Membership
from penstock.runtime.offset_metadata import OffsetAndMetadata


class Assignment(NamedTuple):
    """The current generation, if there is one."""

    membership: Membership | None
    number: int
    elsewhere: Mapping[TaskId, int]
    """The number of the last assignment in which another member owned the task. Offsets read before it are outdated."""


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
        """The generation in which this instance may work, None if there is none."""
        self.claimed: Membership | None = None
        """The generation of the running tasks, also during a rebalance."""
        self.last: Membership | None = None
        """The last generation of this instance."""
        self.adopted_at = -1
        """The number of the assignment that the event loop has adopted."""
        self._pause = RebalancePause(not_processing)
        self._number = 0
        self._elsewhere: Mapping[TaskId, int] = {}
        """Replaced, never changed: the event loop takes it in every step."""
        self._probe_at: float | None = None

    # -- from the group ---------------------------------------------------------------------------------------------

    def revoked(self, lost: bool = False) -> Stopped:
        """Begin a rebalance. Returns an event that is set when work has stopped.

        Under exactly-once threads pause for a moment, and continue if the new generation takes longer: the broker refuses
        late commits, and the work is repeated. Under at-least-once, threads stop and running batches are waited for, because
        nothing refuses late commits. Tasks that the group has already reassigned (`lost`) are always read again.
        """
        with self.lock:
            if not lost and self._eos_enabled:
                self.lock.notify_all()  # wakes the event loop, which ends residencies
                return self._pause.begin()
            self.membership = None
            if lost:
                self.claimed = None
                self._number += 1
                self._elsewhere = {**self._elsewhere, **dict.fromkeys(self._tasks.plan.tasks(), self._number)}
            self.lock.notify_all()
        return self._not_processing

    def assigned(self, membership: Membership) -> None:
        """Take over the assignment of a new generation. Tasks that stay continue undisturbed."""
        with self.lock:
            # If another member owned a task for a generation, everything that was read of it before is outdated, even if it
            # is ours again and not open yet.
            self._number += 1
            theirs = self._tasks.plan.task_set.difference(membership.tasks)
            self._elsewhere = {**self._elsewhere, **dict.fromkeys(theirs, self._number)}
            self.membership = self.claimed = self.last = membership
            self._pause.end()
            self._probe_at = monotonic() + self._probing_seconds if membership.probing else None
            self.lock.notify_all()

    # -- for the event loop ----------------------------------------------------------------------------------------

    def latest(self) -> Assignment:
        with self.lock:
            return Assignment(self.membership, self._number, self._elsewhere)

    @property
    def is_adopted(self) -> bool:
        """True if the event loop has adopted the last assignment."""
        return self._number == self.adopted_at

    @property
    def is_pausing(self) -> bool:
        """True while threads pause for a rebalance."""
        return self._pause.is_on

    @property
    def allow_processing(self) -> bool:
        """True if the group allows processing."""
        return not self.is_pausing and self.membership is not None and self.is_adopted

    def drop(self) -> None:
        """Stop working in the current generation."""
        with self.lock:
            self.membership = None

    def forget(self) -> None:
        """Stop working in the current generation, and forget other members' tasks: everything is read again."""
        with self.lock:
            self.membership = None
            self._elsewhere = {}

    # -- to the group ----------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: int) -> None:
        """Commit under this generation. Blocks; any thread may call it."""
        assert self.member is not None
        self.member.commit(offsets, generation=generation)

    def request_rejoin(self) -> None:
        """Request a rebalance."""
        if self.member is not None:
            self.member.request_rejoin()

    def probe(self) -> None:
        """Request a probing rebalance, at most once per generation."""
        with self.lock:
            asked, self._probe_at = self._probe_at is not None, None
        if asked:
            self.request_rejoin()

    def probe_in_time(self) -> None:
        """Request a probing rebalance if it is due and this instance leads the group."""
        at = self._probe_at
        if at is not None and monotonic() > at and self.member is not None and self.member.is_leader:
            self.probe()
