"""The tasks that this instance runs, and in which lane each is: opened, restored, moved between lanes, given up.

    own everything ──► adopt the next generation ──► move with the load, with lanes and hosts that come and go
          ▲                                                     │
          └──────────────── after a failure ◄───────────────────┘

Every turn ends in a commit, so a task can move between any two turns: closed where it was, then opened where it goes.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.client.copies import Copies
from penstock.client.events import Events
from penstock.client.failures import error_of
from penstock.client.lane_placement import Placement
from penstock.client.metadata import TaskMetadata
from penstock.client.positions import Positions
from penstock.client.spread import Spread
from penstock.client.units import Units, tasks_in
from penstock.config import StreamsConfig
from penstock.errors import TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import consumer_config, reads_committed
from penstock.kafka.membership import Membership
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.fleet import Fleet
from penstock.spark.messages import LaneAnswer, RestoreProgress
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

_PLACED_EVERY = 1.0
_HIDDEN_EVERY = 10.0


class Lags(NamedTuple):
    """How many records each task has still to read, and how many there are to read in each partition.

    All tasks behind a shuffle read all partitions before it: the lags of tasks add up to more than there is to read.
    """

    tasks: Mapping[TaskId, int]
    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """How many records there are to read, each counted once: for the task that is furthest behind."""
        return sum(self.partitions.values())


class OwnedTasks:
    """Used by the conductor's thread; others read `owners` and what is derived from it."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        fleet: Fleet,
        admin: Admin,
        positions: Positions,
        units: Units,
        events: Events,
        spread: Spread,
    ) -> None:
        self._config = config
        self.plan, self.positions, self.units = plan, positions, units
        self._fleet = fleet
        self._admin = admin
        self._events = events
        self._spread = spread
        self.committed_only = reads_committed(consumer_config(config, "input"))
        """Whether input topics end at their last stable offsets: that is all the consumers see of them."""
        self.copies = Copies(config, plan, units, fleet, admin, events.standbys)
        self.owners: dict[TaskId, int] = {}
        self.adopted: Membership | None = None
        self.timers: dict[TaskId, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.failed_lane: int | None = None
        self.told_running = False
        self.stopping = False
        self._idle_until: dict[TaskId, int | None] = {}
        self._restoring: dict[TopicPartition, RestoreProgress] = {}
        self._ready: dict[TaskId, int] = {}
        self._read_under: dict[TaskId, int] = {}
        self._placed_at = 0.0

    def replace_plan(self, plan: Plan, positions: Positions, units: Units) -> None:
        """Other topics than before: everything is opened anew."""
        self.plan, self.positions, self.units = plan, positions, units
        self.owners = {}
        self.copies.replace_plan(plan, units)

    # -- what is asked about them --------------------------------------------------------------------------------------

    def metadata(self, task_id: TaskId) -> TaskMetadata:
        """A task as it is now."""
        positions, ends = self.positions, dict(self.ends)
        inputs = positions.inputs(task_id)
        deadline = self._idle_until.get(task_id)
        return TaskMetadata(
            task_id,
            frozenset(inputs),
            {p: positions.committed_sum(p) for p in inputs},
            {p: positions.end_sum(p, ends) for p in inputs},
            None if deadline is None else deadline - max(0, int(self._config["max.task.idle.ms"])),
        )

    def changelogs(self) -> dict[TopicPartition, str]:
        """The changelog of each store that a task here has."""
        return {
            TopicPartition(changelog, task.partition): store
            for task in dict(self.owners)
            for store, changelog in self.plan.subtopologies[task.subtopology].store_to_changelog.items()
        }

    def restoring_positions(self) -> dict[TopicPartition, int]:
        """How far the stores are that are being restored."""
        return {partition: progress.position for partition, progress in dict(self._restoring).items()}

    def is_ready(self, task: TaskId) -> bool:
        """Whether a task is open and restored in the lane that it belongs to: what it has committed can be read."""
        return self._ready.get(task) == self.owners.get(task, -1)

    def lags(self, ends: Callable[[list[TopicPartition]], Mapping[TopicPartition, int]]) -> Lags:
        """How many records are still to be read, given where the topics end."""
        positions = self.positions
        found = ends(positions.sources())
        tasks: dict[TaskId, int] = {}
        partitions: dict[TopicPartition, int] = {}
        for task in dict(self.owners):
            at: dict[TopicPartition, int] = {}
            for partition in positions.inputs(task):
                at |= positions.vectors.get(partition, {})
                if partition in positions.fetched:
                    at[partition] = positions.fetched[partition]
            behind = {partition: max(0, found[partition] - position) for partition, position in at.items() if partition in found}
            tasks[task] = sum(behind.values())
            for partition, lag in behind.items():
                partitions[partition] = max(lag, partitions.get(partition, 0))
        return Lags(tasks, partitions)

    # -- from generation to generation ---------------------------------------------------------------------------------

    def own(self, membership: Membership, heard: int, before_offsets: Callable[[], None] = lambda: None) -> None:
        """Own the tasks of a generation: producers first, which ends what a crash left open; then offsets, then stores.

        `before_offsets` may change what is committed: it is called when nothing is open any more that would hide offsets.

        `heard` numbers the group's words: what is read now is worth nothing once a later word has given it to somebody else.
        """
        self.tell_rebalancing()
        self._restoring.clear()
        self._ready = {}
        unknown = [unit for unit in membership.units if unit not in self.units]
        if unknown:
            raise TaskMigratedError(f"the group has work that this instance does not know yet ({', '.join(unknown)})")
        tasks = tasks_in(self.units, membership.units)
        lanes = list(self._fleet.lanes)
        self._fleet.place()
        self.open_lanes({lane: {} for lane in lanes})
        self._events.on_assigned()
        self.owners = {task: lane for task, lane in self.owners.items() if task in tasks}
        self.copies.aside &= set(tasks)
        direct = [task for task in tasks if task not in self.copies.aside]
        before_offsets()
        self.positions.load(direct)
        self._read_under = dict.fromkeys(tasks, heard)
        self.adopted = membership
        self.copies.expect(membership)
        self._place_tasks(direct)
        _log.info(
            "generation %d: this instance has %d of %d units; tasks %s on %d threads",
            *(membership.generation, len(membership.units), len(self.units), ", ".join(map(str, tasks)) or "none", len(lanes)),
        )
        self._restore()

    def adopt(self, membership: Membership, heard: int, elsewhere: Mapping[TaskId, int]) -> None:
        """Go from one generation to the next: give up what is not ours any more, take on what is new, leave the rest alone.

        `elsewhere` tells by which of the group's words, of which `heard` is the last, others had a task for the last time.

        1. Close what others have now, or have had since it was read here.
        2. Let go of copies that become tasks, keep those that are asked for.
        3. Open what is new; what has much to restore is restored aside, and opened when it has caught up.
        """
        tasks = tasks_in(self.units, membership.units)
        passed = {task for task, word in elsewhere.items() if word > self._read_under.get(task, heard)}
        gone = [task for task in self.owners if task in passed or task not in tasks]
        if gone:
            lanes = {self.owners.pop(task) for task in gone}
            self.open_lanes({lane: self.in_lanes(self.owners)[lane] for lane in lanes})
            self.timers = {task: at for task, at in self.timers.items() if task not in gone}
        self._ready = {task: lane for task, lane in self._ready.items() if task not in gone}
        self.positions.drop(gone)
        self.copies.closed(gone)
        self.copies.aside = {task for task in self.copies.aside if task in tasks and task not in passed}
        added = [task for task in tasks if task not in self.owners and task not in self.copies.aside]
        if added:
            self.tell_rebalancing()
            if self.owners:
                self.copies.put_aside(added)
        self._read_under.update(dict.fromkeys(added, heard))
        direct = [task for task in added if task not in self.copies.aside]
        self.adopted = membership
        self.copies.expect(membership)
        if direct:
            self.positions.add(direct)
            self._place_tasks([*self.owners, *direct])
            self._restore()
        else:
            self.copies.keep(membership, self.owners)
        self.tell_running()

    def take_back(self, heard: int) -> None:
        """Open the tasks whose state has been brought back beside the others."""
        ready = self.copies.take_back() if self.adopted is not None else []
        if ready:
            self._read_under.update(dict.fromkeys(ready, heard))
            self.positions.add(ready)
            self._place_tasks([*self.owners, *ready])
            self._restore()
            self.tell_running()

    def tell_running(self) -> None:
        """All tasks are open, unless some are restored aside."""
        if not self.copies.aside:
            self.told_running = True
            self._events.on_running()

    def tell_rebalancing(self) -> None:
        """Not all tasks are open."""
        if self.told_running:
            self.told_running = False
            self._events.on_rebalancing()

    # -- from lane to lane ---------------------------------------------------------------------------------------------

    def follow_load(self, backlog: int) -> bool:
        """Move tasks if the load asks for it; True where they moved."""
        over_hosts, now = self._is_over_hosts, time.monotonic()
        spread = self._spread.wants(backlog, moves_are_dear=over_hosts)
        if over_hosts:
            # Over hosts it takes a look at the changelogs, and copies do not come by the turn.
            if now - self._placed_at < _PLACED_EVERY:
                return False
            self._placed_at = now
        placement = self.copies.placement(list(self.owners), spread, self.owners)
        return self._move(placement, f"{'over all lanes' if spread else 'together'} ({self._spread.reason})")

    @property
    def _is_over_hosts(self) -> bool:
        return len(set(self._fleet.hosts.values())) > 1

    def leave_lane(self, index: int) -> None:
        """Move what a lane has to the others."""
        wanted = self.copies.placement(list(self.owners), self._spread.is_spread, self.owners, without=index)
        self._move(wanted, f"away from thread {index + 1}")

    def lose_lane(self, index: int, successor: int | None = None) -> None:
        """A lane is gone; its tasks are opened in its successor, or wherever there is room."""
        kept = {task: lane for task, lane in self.owners.items() if lane != index}
        if successor is not None:
            kept |= {task: successor for task, lane in self.owners.items() if lane == index}
        self.owners = kept

    def in_lanes(self, owners: Mapping[TaskId, int]) -> dict[int, dict[TaskId, Mapping[TopicPartition, OffsetAndMetadata]]]:
        """The tasks of each lane, with what is committed for them."""
        owned: dict[int, dict[TaskId, Mapping[TopicPartition, OffsetAndMetadata]]] = {lane: {} for lane in self._fleet.lanes}
        for task, lane in owners.items():
            owned[lane][task] = self.positions.of_task(task)
        return owned

    def _place_tasks(self, tasks: list[TaskId]) -> None:
        ends = self._admin.reachable_ends(self.positions.sources(), self.committed_only)
        backlog = sum(max(0, end - self.start_of(p)) for p, end in ends.items())
        to_restore = self.copies.to_restore(task for task in tasks if task not in self.owners)
        spread = self._spread.wants(backlog, to_restore=to_restore, moves_are_dear=self._is_over_hosts)
        placement = self.copies.placement(tasks, spread, self.owners)
        self.owners = placement.owners
        self._choose_copies(placement)

    def start_of(self, partition: TopicPartition) -> int:
        """Where a partition is read on: before a shuffle, where the task furthest behind is."""
        fetched = self.positions.fetched.get(partition)
        return self.positions.lowest(partition) if fetched is None else fetched

    def _choose_copies(self, placement: Placement) -> None:
        """Before tasks are opened: a copy has to be let go by whoever keeps it first."""
        self.copies.choose(placement, self.adopted)
        if self.adopted is not None:
            self.copies.keep(self.adopted, self.owners)

    def _move(self, placement: Placement, where: str) -> bool:
        wanted = placement.owners
        moved = [task for task, lane in wanted.items() if self.owners[task] != lane]
        if not moved:
            self._choose_copies(placement)
            return False
        _log.info("moving %d of %d tasks %s: %s", len(moved), len(wanted), where, ", ".join(map(str, moved)))
        staying = {task: lane for task, lane in self.owners.items() if task not in moved}
        self.open_lanes(self.in_lanes(staying))
        self.owners = wanted
        self._choose_copies(placement)
        self._restore()
        return True

    # -- open and restore ----------------------------------------------------------------------------------------------

    def open_lanes(
        self, owned: Mapping[int, Mapping[TaskId, Mapping[TopicPartition, OffsetAndMetadata]]]
    ) -> dict[int, LaneAnswer]:
        """Let lanes own exactly these tasks. What is opened goes on from its commit, whatever was fetched for it before: it may
        have been open in a worker that ended since.
        """
        answers = self._fleet.open(owned)
        self.check(answers)
        for answer in answers.values():
            for task in answer.begun:
                self.positions.forget_fetched(task)
        return answers

    def _restore(self) -> None:
        """Open the tasks and restore their stores; what is not complete when that ends otherwise is told as suspended."""
        pending: dict[tuple[TaskId, str], RestoreProgress] = {}
        try:
            self._restore_all(pending)
        finally:
            for progress in pending.values():
                self._events.on_restore(replace(progress, restored=0), "suspended")

    def _restore_all(self, pending: dict[tuple[TaskId, str], RestoreProgress]) -> None:
        started: set[tuple[TaskId, str]] = set()
        told: dict[TopicPartition, float] = {}
        while not self.stopping:
            answers = self.open_lanes(self.in_lanes(self.owners))
            self.take_timers(answers)
            self._ready = {task: lane for lane, answer in answers.items() for task in answer.opened}
            restoring = [progress for answer in answers.values() for progress in answer.restoring]
            self._restoring = {progress.partition: progress for progress in restoring}
            for what, all_progress in (("batch", restoring), ("end", [p for a in answers.values() for p in a.restored])):
                for progress in all_progress:
                    store = progress.task_id, progress.store
                    if store not in started:
                        started.add(store)
                        self._events.on_restore(progress, "start")
                    self._events.on_restore(progress, what)
                    if what == "batch":
                        pending[store] = progress
                    else:
                        pending.pop(store, None)
            self._tell_hidden(restoring, told)
            if not restoring:
                self.copies.opened(self.owners)
                return

    @staticmethod
    def _tell_hidden(restoring: Iterable[RestoreProgress], told: dict[TopicPartition, float]) -> None:
        """Say now and then which transactions are waited for."""
        now = time.monotonic()
        for progress in restoring:
            if progress.hidden_from is not None and now - told.get(progress.partition, -math.inf) > _HIDDEN_EVERY:
                told[progress.partition] = now
                _log.warning(
                    "task %s: store %s waits for a transaction that is open on its changelog %s at offset %d: records up to "
                    "offset %d may have been committed behind it. It ends when its producer is fenced, or by its timeout "
                    "(transaction.timeout.ms)",
                    *(progress.task_id, progress.store, progress.partition, progress.hidden_from, progress.end),
                )

    def take_timers(self, answers: Mapping[int, LaneAnswer]) -> None:
        """When each task wants a turn without input: for a punctuation, or because it has waited for input long enough."""
        for answer in answers.values():
            for task, timer in answer.timers.items():
                self._idle_until[task] = answer.idle_until.get(task)
                due = min((at for at in (timer, answer.idle_until.get(task)) if at is not None), default=None)
                if due is None:
                    self.timers.pop(task, None)
                else:
                    self.timers[task] = due

    def check(self, answers: Mapping[int, LaneAnswer]) -> None:
        """Raise what a lane met; `failed_lane` tells which."""
        self.failed_lane = None
        self._events.on_answers(answers)
        for lane, answer in answers.items():
            if answer.failure is not None:
                self.failed_lane = lane
                raise error_of(answer.failure)
        if any(answer.lost for answer in answers.values()):
            raise TaskMigratedError("a lane lost its worker; its tasks are opened again")
