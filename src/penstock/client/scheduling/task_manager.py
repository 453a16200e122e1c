"""The tasks of this instance: each task's state, the thread that should own it, and the thread that has it open.

The states and transitions are drawn in `client/scheduling/task_table.py`. `TaskManager` alone changes the table. Other
modules ask it for the tasks of a thread (`wanted`, `to_own`), their start offsets (`starts`) and their progress. Every batch
ends in a commit, so a task can move between any two batches.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.client.metadata import TaskMetadata
from penstock.client.replicas.state_replicas import StateReplicas
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.placement import Placement
from penstock.client.scheduling.supervised_thread import SupervisedThread, ThreadPhase
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.client.scheduling.task_spread import TaskSpread
from penstock.client.scheduling.task_table import HELD, TaskRow, TaskState
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.errors import TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import consumer_config, reads_committed
from penstock.kafka.membership import Membership
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.messages import RestoreProgress, TaskStart, ThreadReport
from penstock.spark.plan import Plan

_S = TaskState
_log = logging.getLogger(__name__)

_PLACED_EVERY, _LOOKED_AT_EVERY = 1.0, 0.1
_HIDDEN_EVERY = 10.0


class Reading(NamedTuple):
    """Tasks whose offsets are being read, and the new ones among them."""

    number: int
    tasks: tuple[TaskId, ...]
    new: frozenset[TaskId]
    beside_others: bool


class Read(NamedTuple):
    """The result of a reading: the starts of tasks, and the tasks that first restore as copies."""

    reading: Reading
    starts: Mapping[TaskId, TaskStart]
    restored_first: frozenset[TaskId]
    backlog: int
    to_restore: int


class TaskManager:
    """Used by the event loop's thread. Other threads read `owners` and values derived from it."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        jobs: SparkThreads,
        admin: Admin,
        offsets: TaskOffsets,
        events: Events,
        spread: TaskSpread,
    ) -> None:
        self._config, self._jobs, self._admin, self._events = config, jobs, admin, events
        self.plan, self.offsets, self.spread = plan, offsets, spread
        self.committed_only = reads_committed(consumer_config(config, "input"))
        """True if input topics end at their last stable offsets for the consumers."""
        self.copies = StateReplicas(config, plan, jobs, admin, events.standbys)
        self.threads: dict[int, SupervisedThread] = {}
        self.leaving: set[int] = set()
        """Threads that are being removed or moved to another executor."""
        self.adopted: Membership | None = None
        self._tasks: dict[TaskId, TaskRow] = {}
        self._owners: dict[TaskId, int] = {}
        self._by_thread: tuple[dict[TaskId, int], dict[int, list[TaskId]]] = ({}, {})
        self._number = 0
        self._begun: dict[tuple[TaskId, str], RestoreProgress] = {}
        self._hidden_logged_at: dict[TopicPartition, float] = {}
        self._placed_at = 0.0
        self._followed: tuple[object, ...] = ()
        """What the last look at the load has decided by."""

    # -- the table -----------------------------------------------------------------------------------------------------

    @property
    def owners(self) -> dict[TaskId, int]:
        """The thread that should own each task. The mapping is replaced, never changed."""
        return self._owners

    def state_of(self, task: TaskId) -> TaskState | None:
        """Return the state of a task, None if this instance does not own it."""
        found = self._tasks.get(task)
        return None if found is None else found.state

    def _set_owners(self, owners: dict[TaskId, int]) -> None:
        for task, found in self._tasks.items():
            found.owner = owners.get(task)
            if found.state in (_S.OPENING, _S.RESTORING, _S.RUNNING) and found.holder != found.owner:
                found.become(task, _S.CLOSING)
        self._owners, self._jobs.working = owners, frozenset(owners.values())

    def _in(self, *states: TaskState) -> list[TaskId]:
        return [task for task, found in self._tasks.items() if found.state in states]

    def wanted(self, thread: SupervisedThread) -> list[TaskId]:
        """Return all tasks that a thread should own."""
        owners, by_thread = self._by_thread
        if owners is not self._owners:  # called for each thread in every step
            by_thread = {}
            for task, index in self._owners.items():
                by_thread.setdefault(index, []).append(task)
            self._by_thread = self._owners, by_thread
        return by_thread.get(thread.index, [])

    def to_own(self, thread: SupervisedThread) -> frozenset[TaskId]:
        """Return the tasks that a thread should have open now: its own, if they can open and no other thread has them open."""
        return frozenset(
            task
            for task in self.wanted(thread)
            if self._tasks[task].state in (_S.OPENING, _S.RESTORING, _S.RUNNING)
            or (self._tasks[task].state is _S.READY and not self.copies.standbys.is_letting_go(task))
        )

    def starts(self, tasks: Iterable[TaskId]) -> dict[TaskId, TaskStart]:
        """Return the start offsets of tasks."""
        return {task: self._tasks[task].start for task in tasks}

    def is_ready(self, task: TaskId) -> bool:
        """Return True if a task is open and restored in its thread, so that its committed state can be read."""
        return self.state_of(task) is _S.RUNNING

    @property
    def are_running(self) -> bool:
        """True if all tasks of this instance are running."""
        return (
            self.adopted is not None
            and self._tasks.keys() >= set(self.adopted.tasks)
            and all(found.state is _S.RUNNING for found in self._tasks.values())
            and all(
                thread.phase is ThreadPhase.RUNNING or (thread.is_parked and not self.wanted(thread))
                for thread in list(self.threads.values())
                if not thread.ends
            )
        )

    @property
    def are_held(self) -> bool:
        """True if any thread has an open task."""
        return any(found.state in HELD for found in self._tasks.values())

    # -- values --------------------------------------------------------------------------------------------------------

    def metadata(self, task: TaskId) -> TaskMetadata:
        """Return the current metadata of a task."""
        found, inputs = self._tasks.get(task, TaskRow()), self.plan.inputs(task)
        idle = max(0, int(self._config["max.task.idle.ms"]))
        return TaskMetadata(
            task,
            frozenset(inputs),
            {p: found.committed[p].offset if p in found.committed else -1 for p in inputs},
            {p: found.positions[p] + found.lags[p] if p in found.lags and p in found.positions else -1 for p in inputs},
            None if found.idle_until is None else found.idle_until - idle,
        )

    def changelogs(self) -> dict[TopicPartition, str]:
        """Return the changelog of each store of this instance's tasks."""
        return {partition: store for task in self._owners for partition, store in self.plan.changelogs(task).items()}

    def restoring(self) -> list[RestoreProgress]:
        """Return the progress of restoring stores."""
        return [progress for thread in list(self.threads.values()) for progress in dict(thread.restoring).values()]

    def committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of all tasks' partitions."""
        return {p: some for found in list(self._tasks.values()) for p, some in dict(found.committed).items()}

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets at which all tasks' partitions would start if they were reopened."""
        return {
            p: found.committed[p].offset if p in found.committed else offset
            for found in self._tasks.values()
            for p, offset in found.loaded.items()
        }

    def positions(self) -> dict[TopicPartition, int]:
        """Return the read positions of all tasks' partitions."""
        return {p: at for found in list(self._tasks.values()) for p, at in {**found.loaded, **found.positions}.items()}

    def positions_of(self, thread: SupervisedThread) -> dict[TopicPartition, int]:
        """Return the read positions of a thread's tasks."""
        return {
            partition: at
            for task in thread.holds
            if (found := self._tasks.get(task)) is not None
            for partition, at in {**found.loaded, **found.positions}.items()
        }

    @property
    def waiting(self) -> int:
        """The number of unread records at the brokers, from the threads' last reports."""
        return sum(lag for task in self._owners if (found := self._tasks.get(task)) is not None for lag in found.lags.values())

    def timers_due(self, thread: SupervisedThread, now_ms: int) -> bool:
        """Return True if a task of a thread has to run without input."""
        return any((at := self._tasks[task].timer) is not None and at <= now_ms for task in thread.running if task in self._tasks)

    @property
    def has_timers(self) -> bool:
        """True if a task has a wall-clock punctuator."""
        return any(found.timer is not None for found in self._tasks.values())

    # -- assignments ---------------------------------------------------------------------------------------------------

    def replace_plan(self, plan: Plan, offsets: TaskOffsets) -> None:
        """Use another plan. All tasks are read and opened again."""
        self._tasks, self._owners, self.adopted = {}, {}, None
        self.plan, self.offsets = plan, offsets
        self.copies.replace_plan(plan)

    def adopt(self, membership: Membership, elsewhere: Mapping[TaskId, int]) -> None:
        """Change to a new assignment: give up tasks of other members, and leave the other tasks alone.

        `elsewhere` has the number of the last assignment in which another member owned a task: offsets read before it are
        outdated.
        """
        tasks, there = set(membership.tasks), self.plan.task_set
        if unknown := sorted(tasks.difference(there)):
            raise TaskMigratedError(
                f"the group assigned tasks that this instance does not know yet ({', '.join(map(str, unknown))})"
            )
        self.give_up(t for t, found in self._tasks.items() if t not in tasks or elsewhere.get(t, 0) > found.assignment)
        if membership is not self.adopted:
            self.adopted = membership
            self.copies.expect(membership)
            _log.info(
                "Generation %d: this instance has %d of %d tasks: %s; on %d threads",
                *(membership.generation, len(tasks), len(there), ", ".join(map(str, sorted(tasks))) or "none"),
                len(self._jobs.workers),
            )
        for task in tasks:
            self._tasks.setdefault(task, TaskRow())
        self.copies.keep(membership, self._owners)

    def give_up(self, tasks: Iterable[TaskId]) -> None:
        """Give up tasks that another member owns or owned. Threads close them next."""
        given = set(tasks)
        if not given:
            return
        for task in given:
            found = self._tasks[task]
            self.offsets.note_given_up(found.committed, found.loaded)
            if found.state in HELD:
                found.become(task, _S.CLOSING)
                found.is_stale = True
            else:
                del self._tasks[task]
        self._set_owners({task: thread for task, thread in self._owners.items() if task not in given})

    def next_reading(self, assignment: int) -> Reading | None:
        """Return the tasks whose offsets must be read: new ones, and those of a failed thread that has restarted.

        Producers open first: a starting thread aborts the transaction left open under its name, which would hide offsets and
        could still be committed. So nothing is read before all threads have started. A failed thread's tasks are read after
        it has restarted or was fenced.
        """
        if self.adopted is None or not self._jobs.workers or any(thread.is_to_begin for thread in self.threads.values()):
            return None
        asked = [
            task
            for task in self._in(_S.UNREAD)
            if (owner := self._owners.get(task)) is None or owner not in self.threads or self.threads[owner].is_open
        ]
        if not asked:
            return None
        self._number += 1
        for task in asked:
            found = self._tasks[task]
            found.become(task, _S.READING)
            found.reading, found.assignment, found.is_stale = self._number, assignment, False
        new = frozenset(task for task in asked if task not in self._owners)
        return Reading(self._number, tuple(asked), new, self.are_held)

    def read(self, reading: Reading) -> Read:
        """Read the committed offsets of tasks, and the amount of their restoration. It asks the brokers, so never on the
        event loop.
        """
        restored_first = frozenset(self.copies.to_restore_first(reading.new) if reading.beside_others else ())
        tasks = [task for task in reading.tasks if task not in restored_first]
        starts = self.offsets.read(tasks)
        at = {p: offset for start in starts.values() for p, offset in start.offsets.items()}
        ends = self._admin.reachable_ends(list(at), self.committed_only) if at else {}
        backlog = sum(max(0, end - at[partition]) for partition, end in ends.items())
        if self.is_over_hosts:
            self.copies.look_at_changelogs(tasks)
        return Read(reading, starts, restored_first, backlog, self.copies.to_restore(reading.new - restored_first))

    def take(self, read: Read) -> None:
        """Take over the result of a reading, except for tasks given up meanwhile, and place new tasks on threads."""
        for task in read.reading.tasks:
            found = self._tasks.get(task)
            if found is None or found.state is not _S.READING or found.reading != read.reading.number:
                continue
            if task in read.restored_first:
                found.become(task, _S.RESTORING_ASIDE)
                self.copies.restoring.add(task)
                continue
            start = read.starts[task]
            found.committed, found.loaded = dict(start.committed), start.offsets
            found.positions, found.lags, found.timer, found.idle_until = {}, {}, None, None
            found.become(task, _S.READY)
        self.place(read.backlog, read.to_restore)

    def failed_to_read(self, reading: Reading) -> None:
        """Return the tasks of a failed reading to UNREAD."""
        for task in reading.tasks:
            found = self._tasks.get(task)
            if found is not None and found.state is _S.READING and found.reading == reading.number:
                found.become(task, _S.UNREAD)

    def take_back(self, tasks: Iterable[TaskId]) -> None:
        """Read and open tasks whose copies have caught up."""
        ready = self.copies.restoring.intersection(tasks)
        self.copies.take_back(ready)
        for task in ready:
            if self.state_of(task) is _S.RESTORING_ASIDE:
                self._tasks[task].become(task, _S.UNREAD)

    # -- placement -----------------------------------------------------------------------------------------------------

    def place(self, backlog: int = 0, to_restore: int = 0) -> None:
        """Place all tasks with known offsets on threads. A task keeps its thread unless the load requires a move."""
        known = self._in(_S.READY)
        tasks = [*self._owners, *(task for task in known if task not in self._owners)]
        if tasks and self._jobs.workers.keys() - self.leaving:
            self._take_placement(self._placement(tasks, spread=self._wants_spread(backlog, to_restore)))
        elif self.adopted is not None:
            self.copies.keep(self.adopted, self._owners)

    def follow_load(self) -> None:
        """Move tasks if the load requires it. Called often."""
        over_hosts, now = self.is_over_hosts, monotonic()
        # On several hosts changelog ends are read, and copies catch up slowly.
        if (
            not self._owners
            or not self._jobs.workers.keys() - self.leaving
            or now - self._placed_at < (_PLACED_EVERY if over_hosts else _LOOKED_AT_EVERY)
        ):
            return
        self._placed_at = now
        spread = self._wants_spread(self.waiting)
        decided_by = self._owners, spread, frozenset(self.leaving), self._jobs.hosts, self._jobs.neighbours
        if not over_hosts and decided_by == self._followed:
            return  # on one host nothing else moves a task; with hundreds of tasks a placement takes milliseconds
        self._followed = decided_by
        placement = self._placement(list(self._owners), spread=spread)
        self._take_placement(placement, f"{'over all threads' if spread else 'together'} ({self.spread.reason})")

    def _wants_spread(self, backlog: int, to_restore: int = 0) -> bool:
        return self.spread.wants(backlog, to_restore=to_restore, moves_are_dear=self.is_over_hosts, has_timers=self.has_timers)

    @property
    def is_over_hosts(self) -> bool:
        """True if threads run on several hosts, which do not share state."""
        return len(set(self._jobs.hosts.values())) > 1

    def leave_thread(self, index: int) -> None:
        """Move the tasks of a thread to other threads, if there are any."""
        if self._owners and self._jobs.workers.keys() - self.leaving - {index}:
            self._take_placement(self._placement(list(self._owners), index), f"away from thread {index + 1}")

    def stay_away(self, index: int, *, away: bool) -> bool:
        """Move the tasks of a thread to other threads until it is back. Returns True if there are other threads."""
        if not away:
            self.leaving.discard(index)
            return False
        if others := bool(self._jobs.workers.keys() - self.leaving - {index}):
            self.leaving.add(index)
            self.leave_thread(index)
        return others

    def leave_for_good(self, index: int) -> None:
        """Move the tasks of a removed thread. Without other threads they wait for a new one."""
        self.leaving.add(index)
        self.leave_thread(index)
        self.lose_thread(index)

    def _placement(self, tasks: Sequence[TaskId], without: int | None = None, *, spread: bool | None = None) -> Placement:
        away = self.leaving if without is None else {*self.leaving, without}
        return self.copies.placement(tasks, self.spread.is_spread if spread is None else spread, self._owners, away)

    def lose_thread(self, index: int, successor: int | None = None) -> None:
        """Assign the tasks of a lost thread to its successor, or leave them without a thread."""
        kept = {task: thread for task, thread in self._owners.items() if thread != index}
        if successor is not None:
            kept |= {task: successor for task, thread in self._owners.items() if thread == index}
        self._set_owners(kept)

    def _take_placement(self, placement: Placement, where: str = "") -> None:
        moved = [task for task, thread in placement.owners.items() if self._owners.get(task, thread) != thread]
        if moved:
            _log.info("moving %d of %d tasks %s: %s", len(moved), len(placement.owners), where, ", ".join(map(str, moved)))
        self._set_owners(placement.owners)
        # First, because a copy of a task must close before the task opens.
        self.copies.choose(placement, self.adopted)
        if self.adopted is not None:
            self.copies.keep(self.adopted, self._owners)

    # -- thread reports ------------------------------------------------------------------------------------------------

    def opening(self, thread: SupervisedThread, tasks: Iterable[TaskId]) -> None:
        """Record that a thread opens tasks. No other thread may open them from now on."""
        for task in tasks:
            found = self._tasks[task]
            if found.state is _S.READY:
                found.become(task, _S.OPENING)
            found.holder = thread.index

    def reported(self, thread: SupervisedThread, report: ThreadReport) -> None:
        """Update the table from a thread's report: its open tasks and their progress."""
        if report.held is not None:
            self._closed([task for task, found in self._tasks.items() if self._has_let_go(thread, task, found, report.held)])
            thread.holds = frozenset(report.held)
            thread.running = frozenset(report.opened)
            self._opened(thread)
        thread.restoring = {progress.partition: progress for progress in report.restoring}
        self._report_restored(report)
        for task in thread.holds:
            found = self._tasks.get(task)
            if found is None:
                continue
            for partition in self.plan.inputs(task):
                if partition in report.offsets:
                    found.committed[partition] = report.offsets[partition]
                if partition in report.positions:
                    found.positions[partition] = report.positions[partition]
                if partition in report.lags:
                    found.lags[partition] = report.lags[partition]
            if task in report.timers:
                found.timer, found.idle_until = report.timers[task], report.idle_until.get(task)

    @staticmethod
    def _has_let_go(thread: SupervisedThread, task: TaskId, found: TaskRow, held: Collection[TaskId]) -> bool:
        return found.holder == thread.index and found.state is _S.CLOSING and task not in held

    def _opened(self, thread: SupervisedThread) -> None:
        new = {}
        for task in thread.holds:
            found = self._tasks.get(task)
            if found is None or found.holder != thread.index or found.state not in (_S.OPENING, _S.RESTORING, _S.RUNNING):
                continue
            works = task in thread.running
            if works and found.state is not _S.RUNNING:
                new[task] = thread.index
            found.become(task, _S.RUNNING if works else _S.RESTORING)
        if new:
            self.copies.opened(new)

    def _closed(self, tasks: Collection[TaskId]) -> None:
        """Free tasks that no thread has open any more. A task that is still ours continues from its last commit."""
        ours = frozenset(() if self.adopted is None else self.adopted.tasks)
        for task in tasks:
            found = self._tasks[task]
            found.holder, found.positions, found.lags, found.timer, found.idle_until = None, {}, {}, None, None
            if task in ours:
                found.become(task, _S.UNREAD if found.is_stale else _S.READY)
            else:
                del self._tasks[task]
        for store, progress in [(store, p) for store, p in self._begun.items() if store[0] in tasks]:
            del self._begun[store]
            self._events.on_restore(replace(progress, restored=0), "suspended")
        self.copies.closed([task for task in tasks if task not in self._owners])

    def failed(self, thread: SupervisedThread) -> None:
        """Mark the tasks of a failed thread for reading again: it may have committed without a report.

        Its tasks are freed when the thread is known to have nothing open (`release`).
        """
        for task, found in self._tasks.items():
            if found.holder == thread.index:
                found.is_stale = True
                if found.state is not _S.CLOSING:
                    found.become(task, _S.CLOSING)
            elif found.owner == thread.index and found.state in (_S.READY, _S.READING):
                found.become(task, _S.UNREAD)

    def release(self, thread: int) -> None:
        """Free the tasks of a thread that has nothing open any more."""
        self._closed([task for task, found in self._tasks.items() if found.holder == thread and found.state is _S.CLOSING])

    def _report_restored(self, report: ThreadReport) -> None:
        for what, all_progress in (("batch", report.restoring), ("end", report.restored)):
            for progress in all_progress:
                store = progress.task_id, progress.store
                if store not in self._begun:
                    self._events.on_restore(progress, "start")
                self._events.on_restore(progress, what)
                if what == "batch":
                    self._begun[store] = progress
                else:
                    self._begun.pop(store, None)
        now = monotonic()
        for progress in report.restoring:
            if (
                progress.hidden_from is not None
                and now - self._hidden_logged_at.get(progress.partition, -math.inf) > _HIDDEN_EVERY
            ):
                self._hidden_logged_at[progress.partition] = now
                _log.warning(
                    "Task %s: store %s waits for an open transaction on its changelog %s at offset %d. Records up to "
                    "offset %d may have been committed after it. It ends when its producer is fenced, or at its timeout "
                    "(transaction.timeout.ms)",
                    *(progress.task_id, progress.store, progress.partition, progress.hidden_from, progress.end),
                )
