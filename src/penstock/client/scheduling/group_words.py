"""What the group has said last, and what this instance says to it.

    revoked ──► assigned (another word, another generation) ──► adopted by the conductor, when it comes to it

Words come on the group's thread, under the lock of the conductor's notes. A word is known by its number, not by its generation:
what was read under an older word may have been somebody else's since.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.scheduling.notes import Notes
from penstock.client.scheduling.owned_tasks import OwnedTasks
from penstock.client.scheduling.rebalance_pause import RebalancePause
from penstock.client.scheduling.units import tasks_in
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import GroupMember, Membership, Stopped
from penstock.runtime.carry_over import OffsetAndMetadata


class Word(NamedTuple):
    """What the group has said: the generation that this instance may work in, if there is one now."""

    membership: Membership | None
    number: int
    elsewhere: Mapping[TaskId, int]
    """By which word others had a task for the last time: what was read before that is old."""


class GroupWords:
    """Told by the group's thread, followed by the conductor's."""

    def __init__(self, config: StreamsConfig, tasks: OwnedTasks, notes: Notes, no_turns: Stopped) -> None:
        self._eos_enabled = config.eos_enabled
        self._probing_seconds = config["probing.rebalance.interval.ms"] / 1000
        self._tasks = tasks
        self._no_turns = no_turns
        self.lock = notes.lock
        self.member: GroupMember | None = None
        self.membership: Membership | None = None
        """The generation that this instance may work in; None while it may in none."""
        self.claimed: Membership | None = None
        """The generation whose units this instance still runs, also while the group joins."""
        self.last: Membership | None = None
        """The last generation that this instance was part of."""
        self.adopted_at = -1
        """The number of the word that the conductor goes by."""
        self._pause = RebalancePause(no_turns)
        self._number = 0
        self._elsewhere: dict[TaskId, int] = {}
        self._probe_at: float | None = None

    # -- told by the group ---------------------------------------------------------------------------------------------

    def revoked(self, lost: bool = False) -> Stopped:
        """The group rebalances; what is returned is set when what has to stop has stopped.

        Under exactly-once turns pause for a moment, and go on if the new generation is not there by then: one that comes too
        late is refused by the broker and run again. Under at-least-once nobody would refuse it: no turn is started, and those
        that run are waited for. What the group has given away already (`lost`) is read anew in any case.
        """
        with self.lock:
            if not lost and self._eos_enabled:
                self.lock.notify_all()  # lanes that stay are called back
                return self._pause.begin()
            self.membership = None
            if lost:
                self.claimed = None
                self._number += 1
                units = self._tasks.work_of(self.last).units
                self._elsewhere.update(dict.fromkeys(tasks_in(units, units), self._number))
            self.lock.notify_all()
        return self._no_turns

    def assigned(self, membership: Membership) -> None:
        """The part of a new generation that is ours; what we keep goes on as it is."""
        with self.lock:
            # A task that was somebody else's for a generation is not where we left it, even if it is ours again: what was read of
            # it before is old, also where it has only been read and is not open yet.
            self._number += 1
            units, ours = self._tasks.work_of(membership).units, set(membership.units)
            theirs = tasks_in(units, (unit for unit in units if unit not in ours))
            # Nor is one whose repartition went another way, if only for a generation that nobody here has seen.
            changed = self._tasks.changed_between(self.last, membership)
            self._elsewhere.update(dict.fromkeys((*theirs, *changed), self._number))
            self.membership = self.claimed = self.last = membership
            self._pause.end()
            self._probe_at = time.monotonic() + self._probing_seconds if membership.probing else None
            self.lock.notify_all()

    # -- followed by the conductor -------------------------------------------------------------------------------------

    def latest(self) -> Word:
        """What was said last."""
        with self.lock:
            return Word(self.membership, self._number, dict(self._elsewhere))

    @property
    def is_adopted(self) -> bool:
        """Whether the conductor goes by what was said last."""
        return self._number == self.adopted_at

    @property
    def is_pausing(self) -> bool:
        """Whether turns pause for a moment, because the group joins."""
        return self._pause.is_on

    @property
    def allow_turns(self) -> bool:
        """Whether turns may be started, as far as the group is concerned."""
        return not self.is_pausing and self.membership is not None and self.is_adopted

    def drop(self) -> None:
        """Work in no generation until the next one."""
        with self.lock:
            self.membership = None

    def forget(self) -> None:
        """The same, and what others had does not matter any more: everything is read anew."""
        with self.lock:
            self.membership = None
            self._elsewhere.clear()

    def went(self) -> tuple[int, ...] | None:
        """Which sub-topologies were shuffled in the last generation; None where there was none, or nobody said."""
        last = self.last
        return None if last is None else last.shuffled

    # -- said to the group ---------------------------------------------------------------------------------------------

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
