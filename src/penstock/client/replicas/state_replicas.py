"""The event loop's knowledge of state outside of stream threads: standbys and warm-ups, copies on other hosts, restoring
tasks.

A task of this instance with much to restore is first restored as a copy, while other tasks run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.client.assignment.assignor import LATEST_OFFSET
from penstock.client.assignment.group_assignment import settings_of
from penstock.client.metadata import TaskMetadata
from penstock.client.replicas.local_replicas import LocalReplicas, StandbyEvents, hosts_of
from penstock.client.scheduling.placement import KnownState, Placement, keep_bound, place
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.errors import PenstockError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.group_client import GroupClient
from penstock.kafka.membership import Membership
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.plan import Plan, StateBound
from penstock.spark.worker.standby_worker import stored_offsets
from penstock.state.directory import StateDirectory

_log = logging.getLogger(__name__)

# A task with more records than this to restore is restored as a copy while other tasks run. It opens in its thread when at
# most half of this number is left.
_RESTORE_ASIDE = 10_000
# Intervals of checks for open transactions and of their log message.
_UNDECIDED_EVERY, _LOG_EVERY = 0.1, 10.0
# The assumed size of an unknown changelog: a host without a copy is never near its end.
_UNKNOWN = 1 << 40
# This number of records is replayed at once.
_NEXT_TO_NOTHING = 500


class StateReplicas:
    """The standbys and warm-ups of one instance, and the location of its own tasks' state."""

    def __init__(
        self, config: StreamsConfig, plan: Plan, spark_threads: SparkThreads, admin: Admin, events: StandbyEvents
    ) -> None:
        self._config = config
        self._plan = plan
        self._spark_threads = spark_threads
        self._admin = admin
        self._settings = settings_of(config)
        self._hosts: dict[TaskId, str] = {}
        """The host with the state of each task that was opened here."""
        self._chosen: dict[TaskId, str] = {}
        """The host of each task's assigned thread, to which its state may still be moving."""
        self._own: dict[TaskId, str] = {}
        self._moves_wait = False
        """True while a task waits for its copy before it moves. Only then are state updaters asked often, each time with a
        Spark job.
        """
        self._expected: frozenset[TaskId] = frozenset()
        self._reported_ready: frozenset[TaskId] = frozenset()
        self._missing = math.inf
        self._looked_at = self._told_at = -math.inf
        self.member: GroupClient | None = None
        self.directory: StateDirectory | None = None
        self.restoring: set[TaskId] = set()
        self._taken_back: set[TaskId] = set()
        self._ends: dict[TopicPartition, int] = {}
        """The last known ends of changelogs."""
        self.standbys = LocalReplicas(
            spark_threads.updaters, events, f"{spark_threads.application.client_id}-StateUpdater", self._source_limits
        )

    def replace_plan(self, plan: Plan) -> None:
        """Use another plan. No task restores as a copy under it yet."""
        self._plan = plan
        self.restoring = set()

    # -- group data ----------------------------------------------------------------------------------------------------

    def holdings(
        self, membership: Membership | None, running: Iterable[TaskId]
    ) -> tuple[tuple[TaskId, ...], tuple[TaskId, ...], dict[TaskId, int]]:
        """Return this instance's tasks, its standbys and warm-ups, and the changelog positions of its state."""
        offsets, wanted, runs = self.standbys.offsets(), self.standbys.wanted, set(running)
        self._reported_ready = frozenset(filter(self._has_caught_up, wanted))
        tasks = self._plan.tasks()
        active = dict.fromkeys(self._known(membership.tasks if membership is not None else ()))
        known: dict[TaskId, int] = {}
        for task in filter(self._plan.is_stateful, tasks):
            if task in active and task in runs:
                known[task] = LATEST_OFFSET
            elif task in active or task in offsets:
                known[task] = offsets.get(task, 0)
        return tuple(active), tuple(task for task in tasks if task not in active and task in wanted), known

    def expect(self, membership: Membership) -> None:
        """Record the requested copies that had not caught up when this member last joined: it rejoins when they have.

        The leader did not know of copies that have caught up since then.
        """
        asked = [task for task in self._known(membership.copies) if self._plan.is_stateful(task)]
        self._expected = frozenset(task for task in asked if task not in self._reported_ready)

    def _known(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        return [task for task in tasks if task in self._plan.task_set]

    def warm_ups_are_ready(self) -> bool:
        """Return True if all expected warm-ups have caught up and no longer gain on the changelog.

        A moving task stops while its missing records are replayed, so a copy that still gains is given more time.
        """
        if not self._expected or not all(map(self._has_caught_up, self._expected)):
            self._missing = math.inf
            return False
        missing, before = sum(self.standbys.lag(task) or 0 for task in self._expected), self._missing
        self._missing = missing
        return missing <= _NEXT_TO_NOTHING or missing >= before

    def _has_caught_up(self, task: TaskId) -> bool:
        lag = self.standbys.lag(task)
        return lag is not None and lag <= self._settings.acceptable_recovery_lag

    # -- standbys and warm-ups ----------------------------------------------------------------------------------------

    def keep(self, membership: Membership, owners: Mapping[TaskId, int]) -> None:
        """Set the copies for the state updaters: those that the group requests, restoring tasks, and own tasks on other
        hosts.
        """
        kept = [task for task in self._known(membership.copies) if self._plan.is_stateful(task)]
        wanted = {task for task in (*kept, *self.restoring) if task not in owners and self._plan.is_stateful(task)}
        given = hosts_of(wanted, self._spark_threads.updaters.hosts() if wanted else [])
        hosts = self._spark_threads.hosts
        own = {task: host for task, host in self._own.items() if task in owners and hosts.get(owners[task]) != host}
        self.standbys.want({**given, **own}, self.restoring, self._known(membership.tasks))
        self.standbys.hurry(membership.probing or self._moves_wait)

    def choose(self, placement: Placement, membership: Membership | None) -> None:
        """Set copies of own tasks from a placement, unless other instances have them."""
        elsewhere = set(membership.standbys) if membership is not None else set()
        self._own = {task: host for task, host in placement.copies.items() if placement.is_waiting or task not in elsewhere}
        self._moves_wait = placement.is_waiting
        hosts = self._spark_threads.hosts
        self._chosen = {task: hosts[thread] for task, thread in placement.owners.items() if thread in hosts}

    def to_restore_first(self, tasks: Iterable[TaskId]) -> set[TaskId]:
        """Return the tasks to restore as copies: they have much to restore, or an open transaction on their changelog."""
        asked = {task for task in tasks if task not in self._taken_back}
        waiting = {task for task in self._undecided(asked) if self._is_persistent(task)}
        return {task for task in asked if task in waiting or self._has_much_to_restore(task)}

    def restored(self) -> list[TaskId]:
        """Return restoring tasks that have caught up, at most once per interval. A transaction may still be open on their
        changelogs.
        """
        found = [task for task in self.restoring if self._is_back(task)]
        now = monotonic()
        if not found or now - self._looked_at < _UNDECIDED_EVERY:
            return []
        self._looked_at = now
        return found

    def decided(self, tasks: Iterable[TaskId]) -> set[TaskId]:
        """Return the tasks without an open transaction on their changelogs. It asks the brokers, so not on the event loop's
        thread.
        """
        asked = set(tasks)
        return asked - self._undecided(asked)

    def take_back(self, tasks: Iterable[TaskId]) -> None:
        """Read and open restored tasks like new ones."""
        ready = self.restoring.intersection(tasks)
        self.restoring -= ready
        self._taken_back |= ready

    def _undecided(self, tasks: Iterable[TaskId]) -> set[TaskId]:
        """Return the tasks with an open transaction on a changelog, and log them at an interval. A lost instance may have
        left it open.

        Such a task cannot open until the transaction is decided.
        """
        if not self._config.eos_enabled:
            return set()
        owners = {
            partition: task
            for task in tasks
            for partition in self._plan.changelogs(task)
            # A changelog that is an input topic is restored only up to its committed offset.
            if partition.topic not in self._plan.subtopologies[task.subtopology].source_topics
        }
        ends = self._admin.log_ends(owners, False)
        stable = self._admin.log_ends(owners, True)
        hidden = {p: at for p, at in stable.items() if at < ends[p]}
        now = monotonic()
        if hidden and now - self._told_at > _LOG_EVERY:
            self._told_at = now
            told = ", ".join(f"{partition} at offset {at}" for partition, at in hidden.items())
            _log.warning(
                "Tasks %s wait for open transactions on their changelogs (%s). These end at their timeout "
                "(transaction.timeout.ms)",
                *(", ".join(sorted({str(owners[p]) for p in hidden})), told),
            )
        return {owners[p] for p in hidden}

    def _is_back(self, task: TaskId) -> bool:
        lag = self.standbys.lag(task)
        return not self._plan.is_stateful(task) or (lag is not None and lag <= _RESTORE_ASIDE // 2)

    def _has_much_to_restore(self, task: TaskId) -> bool:
        return self._is_persistent(task) and self.to_restore([task]) > _RESTORE_ASIDE

    def to_restore(self, tasks: Iterable[TaskId]) -> int:
        """Return the number of changelog records that tasks lack on this instance."""
        changelogs = {task: self._plan.changelogs(task) for task in tasks}
        ends = self._admin.log_ends([p for partitions in changelogs.values() for p in partitions], self._config.eos_enabled)
        here = self.standbys.offsets()
        return sum(
            max(0, sum(ends[p] for p in partitions) - (here.get(task, 0) if self._is_persistent(task) else 0))
            for task, partitions in changelogs.items()
            if partitions
        )

    def _is_persistent(self, task: TaskId) -> bool:
        """Return True if all stores are on disk. An in-memory store cannot use a copy of another process."""
        builders = self._plan.subtopologies[task.subtopology].stores
        return all(builder.build().persistent for builder in builders.values())

    def standing_by(self) -> list[TaskMetadata]:
        """Return the tasks with a standby or warm-up here. They read no input, so they have no offsets."""
        return [
            TaskMetadata(
                task,
                frozenset(TopicPartition(t, task.partition) for t in self._plan.subtopologies[task.subtopology].source_topics),
            )
            for task in sorted(self.standbys.standing_by)
        ]

    def look_at_changelogs(self, tasks: Iterable[TaskId]) -> None:
        """Update the ends of tasks' changelogs. It asks the brokers, so not on the event loop's thread."""
        asked = [partition for task in tasks for partition in self._plan.changelogs(task)]
        try:
            self._ends.update(self._admin.reachable_ends(asked, self._config.eos_enabled) if asked else {})
        except PenstockError as exc:
            _log.debug("Reading the ends of changelogs failed: %s", exc)

    # -- placement -----------------------------------------------------------------------------------------------------

    def placement(
        self, tasks: Sequence[TaskId], spread: bool, owners: Mapping[TaskId, int], without: Collection[int] = ()
    ) -> Placement:
        """Return threads for tasks. Tasks whose state cannot move keep theirs; others are spread by load.

        Threads on executors without other applications' work are preferred.
        """
        found, neighbours = self._spark_threads.hosts, self._spark_threads.neighbours
        threads = sorted((thread for thread in found if thread not in without), key=lambda thread: (neighbours[thread], thread))
        hosts = {thread: found[thread] for thread in threads}
        bound = [task for task in tasks if self._is_bound(task, hosts)]
        kept = keep_bound(bound, hosts, owners, self._hosts)
        others = self._place_others([task for task in tasks if task not in kept], spread, owners, hosts)
        return replace(others, owners={task: kept[task] if task in kept else others.owners[task] for task in tasks})

    def bound_threads(self, owners: Mapping[TaskId, int]) -> set[int]:
        """Return the threads of tasks whose state cannot move to another executor."""
        return {thread for task, thread in owners.items() if task.subtopology in self._plan.bound}

    def _is_bound(self, task: TaskId, hosts: Mapping[int, str]) -> bool:
        """Return True if a task's state would be lost by a move between these threads. On one host all threads share the
        disk.
        """
        bound = self._plan.bound.get(task.subtopology)
        return bound is StateBound.PROCESS or (bound is StateBound.HOST and len(set(hosts.values())) > 1)

    def _place_others(
        self, tasks: Sequence[TaskId], spread: bool, owners: Mapping[TaskId, int], hosts: Mapping[int, str]
    ) -> Placement:
        """Return threads for tasks, preferring hosts with their state. A thread that moved to another host left its state behind.

        The amount of a task's state is known from the last read of its changelogs' ends.
        """
        owners = {task: thread for task, thread in owners.items() if task in set(tasks)}
        if not tasks:
            return Placement({})
        if len(set(hosts.values())) < 2:
            return place(tasks, hosts, spread, owners, KnownState({}, {}), self._settings)
        stateful = {task: self._plan.changelogs(task) for task in tasks if self._plan.is_stateful(task)}
        lags: dict[TaskId, dict[str, int]] = {task: {self._hosts[task]: 0} for task in stateful if task in self._hosts}
        for task, host in self.standbys.wanted.items():
            lag = self.standbys.lag(task)
            if task in stateful and lag is not None:
                lags.setdefault(task, {})[host] = lag
        before = {
            task: thread
            for task, thread in owners.items()
            if thread in hosts and (task not in stateful or hosts[thread] in (self._hosts.get(task), self._chosen.get(task)))
        }
        totals = {task: sum(self._ends.get(p, _UNKNOWN) for p in partitions) for task, partitions in stateful.items()}
        return place(tasks, hosts, spread, before, KnownState(totals, lags), self._settings)

    def opened(self, owners: Mapping[TaskId, int]) -> None:
        """Record tasks that now run in their threads."""
        hosts = self._spark_threads.hosts
        self._hosts.update({task: hosts[thread] for task, thread in owners.items() if thread in hosts})
        self._taken_back.difference_update(owners)
        self.standbys.forget(owners)

    def closed(self, tasks: Sequence[TaskId]) -> None:
        """Record the positions of closed tasks' state on disk."""
        if tasks and self.directory is not None and self._spark_threads.updaters.is_local:
            self.standbys.remember(stored_offsets(self._spark_threads.application, self.directory, tasks))

    def _source_limits(self) -> Mapping[TopicPartition, int]:
        """Return the committed offsets of changelogs that are input topics: they are copied only up to there."""
        inputs = {
            partition
            for task in self.standbys.wanted
            for partition in self._plan.changelogs(task)
            if partition.topic in self._plan.subtopologies[task.subtopology].source_topics
        }
        if not inputs or self.member is None:
            return {}
        try:
            committed = self.member.committed(inputs)
        except PenstockError as exc:
            _log.debug("committed offsets could not be read now: %s", exc)
            return dict.fromkeys(inputs, 0)
        return {partition: committed[partition].offset if partition in committed else 0 for partition in inputs}
