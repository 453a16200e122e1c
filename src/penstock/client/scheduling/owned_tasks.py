"""The tasks that this instance runs: read from Kafka, put on lanes, moved between them, given up.

    a word of the group ──► read (beside all else) ──► placed ──► opened in its lane ──► given up
                              ▲                          │ ▲
                              └── its lane has failed ───┘ └── moves with the load, with lanes and hosts that come and go

What is here is what should be; each lane comes to that by itself, job by job. A task is opened in a lane when nobody else holds
it, and from where it was read; every turn ends in a commit, so it can move between any two turns.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from penstock.client.metadata import TaskMetadata
from penstock.client.replicas.state_replicas import StateReplicas
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.lane_loop import Job, LaneLoop, LaneState
from penstock.client.scheduling.lane_placement import Placement
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.task_spread import TaskSpread
from penstock.client.scheduling.units import Units, tasks_in, units_of
from penstock.config.streams_config import StreamsConfig
from penstock.errors import TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import consumer_config, reads_committed
from penstock.kafka.membership import Membership
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.driver.lane_jobs import LaneJobs
from penstock.spark.messages import LaneAnswer, RestoreProgress
from penstock.spark.plan import Plan
from penstock.spark.vectors import distinct

_log = logging.getLogger(__name__)

_PLACED_EVERY, _LOOKED_AT_EVERY = 1.0, 0.1
_HIDDEN_EVERY = 10.0


class Lags(NamedTuple):
    """How many records each task has still to read, and how many there are to read in each partition.

    All tasks behind a shuffle read all partitions before it: the lags of tasks add up to more than there is to read.
    """

    tasks: Mapping[TaskId, int]
    partitions: Mapping[TopicPartition, int]
    reached: Mapping[TopicPartition, tuple[int, int]] = MappingProxyType({})
    """How far each partition is read, for the task that is furthest behind, and where it ends."""

    @property
    def total(self) -> int:
        """How many records there are to read, each counted once: for the task that is furthest behind."""
        return sum(self.partitions.values())


class TaskReading(NamedTuple):
    """Tasks that are being read from Kafka, and those that are new here among them."""

    number: int
    tasks: tuple[TaskId, ...]
    new: frozenset[TaskId]
    positions: Positions
    beside_others: bool


class Read(NamedTuple):
    """What came of a reading: where tasks go on, how much waits for them, and which of them are restored first, as copies."""

    reading: TaskReading
    restored_first: frozenset[TaskId]
    backlog: int
    to_restore: int


class WorkByTransport(NamedTuple):
    """What there is to do where repartitions go a certain way."""

    plan: Plan
    units: Units


class OwnedTasks:
    """Used by the conductor's thread; others read `owners` and what is derived from it."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        lane_jobs: LaneJobs,
        admin: Admin,
        positions: Positions,
        units: Units,
        events: Events,
        spread: TaskSpread,
    ) -> None:
        self._config = config
        self.plan, self.positions, self.units = plan, positions, units
        self._whole = WorkByTransport(plan, units)
        self._by_way: dict[tuple[int, ...], WorkByTransport] = {}
        self._by_way_lock = threading.Lock()
        self._lane_jobs = lane_jobs
        self._admin = admin
        self._events = events
        self.spread = spread
        self.committed_only = reads_committed(consumer_config(config, "input"))
        """Whether input topics end at their last stable offsets: that is all the consumers see of them."""
        self.copies = StateReplicas(config, plan, units, lane_jobs, admin, events.standbys)
        self.lanes: dict[int, LaneLoop] = {}
        self.leaving: set[int] = set()
        """Lanes that are about to go, or to be elsewhere."""
        self.owners: dict[TaskId, int] = {}
        """The lane where each task should be; replaced, never changed, so that others may read it."""
        self._by_lane: tuple[dict[TaskId, int], dict[int, list[TaskId]]] = ({}, {})
        self.adopted: Membership | None = None
        self.timers: dict[TaskId, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._readings: dict[TaskId, int] = {}
        """The number of the reading that each task goes on from: one that was read anew is opened anew."""
        self._being_read: dict[TaskId, int] = {}
        self._read_under: dict[TaskId, int] = {}
        self._number = 0
        self._holders: dict[TaskId, int] = {}
        self._idle_until: dict[TaskId, int | None] = {}
        self._begun: dict[tuple[TaskId, str], RestoreProgress] = {}
        self._told_hidden: dict[TopicPartition, float] = {}
        self._placed_at = 0.0

    def replace_plan(self, plan: Plan, positions: Positions, units: Units) -> None:
        """Other topics than before: everything is read and opened anew."""
        self.give_up(list(self._read_under))
        self.plan, self.positions, self.units = plan, positions, units
        with self._by_way_lock:
            self._whole, self._by_way = WorkByTransport(plan, units), {}
        self.owners, self._holders, self.adopted = {}, {}, None
        self.copies.replace_plan(plan, units)

    def work_of(self, membership: Membership | None) -> WorkByTransport:
        """What there is to do in a generation of the group: its leader says which repartitions go through the shuffle."""
        way, whole = None if membership is None else membership.shuffled, self._whole
        if way is None:
            return whole
        with self._by_way_lock:  # all who ask must get the same plan: it is compared by identity
            found = self._by_way.get(way)
            if found is None:
                plan = whole.plan.shuffling(way)
                found = self._by_way[way] = whole if plan is whole.plan else WorkByTransport(plan, units_of(plan))
        return found

    def changed_between(self, before: Membership | None, after: Membership) -> set[TaskId]:
        """The tasks that are not where they were left, because what feeds them goes another way than in a generation before."""
        return _changed(self.work_of(before).plan, self.work_of(after).plan)

    def go_by(self, membership: Membership) -> bool:
        """Have repartitions go the way that a generation goes; whether that is another one. What it does not concern stays open.

        Lanes need not know: what they are told of a task's positions says whether a shuffle feeds it.
        """
        plan, units = self.work_of(membership)
        if plan is self.plan:
            return False
        self.give_up(_changed(self.plan, plan))
        self.plan, self.units = plan, units
        self.positions.go_by(plan)
        self.copies.go_by(plan, units)
        return True

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
        restoring = [progress for lane in list(self.lanes.values()) for progress in dict(lane.restoring).values()]
        return {progress.partition: progress.position for progress in restoring}

    def is_ready(self, task: TaskId) -> bool:
        """Whether a task is open and restored in the lane that it belongs to: what it has committed can be read."""
        lane = self.lanes.get(self.owners.get(task, -1))
        return lane is not None and task in lane.running

    @property
    def are_running(self) -> bool:
        """Whether all that the group has given to this instance works."""
        lanes = list(self.lanes.values())
        return (
            self.adopted is not None
            and not self.copies.restoring
            and not self._being_read
            and self.owners.keys() >= set(tasks_in(self.units, self.adopted.units))
            and all(lane.state is LaneState.RUNNING for lane in lanes if not lane.ends)
        )

    def lags(self, ends: Callable[[list[TopicPartition]], Mapping[TopicPartition, int]]) -> Lags:
        """How many records are still to be read, given where the topics end."""
        positions = self.positions
        found = ends(positions.sources())
        tasks: dict[TaskId, int] = {}
        partitions: dict[TopicPartition, int] = {}
        reached: dict[TopicPartition, tuple[int, int]] = {}
        for task in dict(self.owners):
            at: dict[TopicPartition, int] = {}
            for partition in positions.inputs(task):
                at |= positions.vectors.get(partition, {})
                if partition in positions.fetched:
                    at[partition] = positions.fetched[partition]
            behind = {partition: max(0, found[partition] - position) for partition, position in at.items() if partition in found}
            tasks[task] = sum(behind.values())
            for partition, lag in behind.items():
                if lag >= partitions.get(partition, 0):
                    partitions[partition], reached[partition] = lag, (at[partition], found[partition])
        return Lags(tasks, partitions, reached)

    def known_lags(self) -> Lags:
        """The same, as far as is known where the topics end: nobody is asked."""
        return self.lags(lambda partitions: self.ends)

    # -- from generation to generation ---------------------------------------------------------------------------------

    def adopt(self, membership: Membership, elsewhere: Mapping[TaskId, int]) -> None:
        """Go from one generation to the next: give up what is not ours any more, leave the rest alone; what is new is read next.

        `elsewhere` tells by which of the group's words others had a task for the last time: what was read before that is old.
        """
        unknown = [unit for unit in membership.units if unit not in self.units]
        if unknown:
            raise TaskMigratedError(f"the group has work that this instance does not know yet ({', '.join(unknown)})")
        tasks = set(tasks_in(self.units, membership.units))
        known = {*self._read_under, *self.copies.restoring}
        self.give_up(t for t in known if t not in tasks or elsewhere.get(t, 0) > self._read_under.get(t, 0))
        if membership is not self.adopted:
            self.adopted = membership
            self.copies.expect(membership)
            _log.info(
                "generation %d: this instance has %d of %d units; tasks %s on %d threads",
                *(membership.generation, len(membership.units), len(self.units), ", ".join(map(str, sorted(tasks))) or "none"),
                len(self._lane_jobs.lanes),
            )
        self.copies.keep(membership, self.owners)

    def give_up(self, tasks: Iterable[TaskId]) -> None:
        """These are not ours, or not where we left them; lanes that have them open close them next."""
        given = set(tasks)
        if not given:
            return
        self.owners = {task: lane for task, lane in self.owners.items() if task not in given}
        for task in given:
            self.timers.pop(task, None)
            for known in (self._readings, self._being_read, self._read_under):
                known.pop(task, None)
        self.copies.restoring.difference_update(given)
        self.positions.drop(given)

    def next_reading(self, heard: int) -> TaskReading | None:
        """What is ours and has to be read before it can be opened: what is new, and what was in a lane that has failed.

        Producers come first: a lane that begins ends what one of its name has left open when the application last ran, which
        would hide offsets, and might yet be committed. What a lane had that has failed since is read when it has begun anew, or
        when it was fenced.
        """
        if self.adopted is None or not self._lane_jobs.lanes or any(lane.is_to_begin for lane in self.lanes.values()):
            return None
        asked = [
            task
            for task in tasks_in(self.units, self.adopted.units)
            if not (task in self._readings or task in self._being_read or task in self.copies.restoring)
            and (task not in self._holders)
            and (task not in self.owners or self.lanes[self.owners[task]].is_open)
        ]
        if not asked:
            return None
        self._number += 1
        self._being_read.update(dict.fromkeys(asked, self._number))
        self._read_under.update(dict.fromkeys(asked, heard))
        new = frozenset(task for task in asked if task not in self.owners)
        return TaskReading(self._number, tuple(asked), new, self.positions.copy(), bool(self._holders))

    def read(self, reading: TaskReading) -> Read:
        """Read what is committed for tasks, and see how much they have to restore; takes its time, on any thread."""
        restored_first = frozenset(self.copies.to_restore_first(reading.new) if reading.beside_others else ())
        tasks, positions = [task for task in reading.tasks if task not in restored_first], reading.positions
        positions.drop(reading.tasks)
        positions.add(tasks)
        sources = list(dict.fromkeys(source for task in tasks for source in positions.sources_of(task)))
        ends = self._admin.reachable_ends(sources, self.committed_only) if sources else {}
        backlog = sum(max(0, end - positions.start(partition)) for partition, end in ends.items())
        if self.is_over_hosts:
            self.copies.look_at_changelogs(tasks)
        return Read(reading, restored_first, backlog, self.copies.to_restore(reading.new - restored_first))

    def take(self, read: Read) -> None:
        """Go on from what was read, except for what has been given up meanwhile, and put what is new on lanes."""
        reading = read.reading
        mine = [task for task in reading.tasks if self._being_read.get(task) == reading.number]
        for task in mine:
            del self._being_read[task]
        self.copies.restoring.update(task for task in mine if task in read.restored_first)
        direct = [task for task in mine if task not in read.restored_first]
        self.positions.take(reading.positions, direct)
        self._readings.update(dict.fromkeys(direct, reading.number))
        self.place(read.backlog, read.to_restore)

    def failed_to_read(self, reading: TaskReading) -> None:
        """It is tried again."""
        for task in reading.tasks:
            if self._being_read.get(task) == reading.number:
                del self._being_read[task]

    # -- from lane to lane ---------------------------------------------------------------------------------------------

    def place(self, backlog: int = 0, to_restore: int = 0) -> None:
        """Put all tasks that have been read on lanes; those that have one stay there unless the load asks for something else."""
        tasks = [*self.owners, *(task for task in self._readings if task not in self.owners)]
        if tasks and self._lane_jobs.lanes.keys() - self.leaving:
            spread = self._wants_spread(backlog, to_restore)
            self._take_placement(self._placement(tasks, spread=spread))
        elif self.adopted is not None:
            self.copies.keep(self.adopted, self.owners)

    def follow_load(self) -> None:
        """Move tasks if the load asks for it; looked at now and then."""
        over_hosts, now = self.is_over_hosts, time.monotonic()
        # Over hosts it takes a look at the changelogs, and copies do not come by the turn.
        if (
            not self.owners
            or not self._lane_jobs.lanes.keys() - self.leaving
            or now - self._placed_at < (_PLACED_EVERY if over_hosts else _LOOKED_AT_EVERY)
        ):
            return
        self._placed_at = now
        spread = self._wants_spread(self.backlog())
        placement = self._placement(list(self.owners), spread=spread)
        self._take_placement(placement, f"{'over all lanes' if spread else 'together'} ({self.spread.reason})")

    def _wants_spread(self, backlog: int, to_restore: int = 0) -> bool:
        return self.spread.wants(backlog, to_restore=to_restore, moves_are_dear=self.is_over_hosts, has_timers=bool(self.timers))

    def backlog(self) -> int:
        """How many records wait, as far as is known where logs end."""
        starts: dict[TopicPartition, int] = dict(self.positions.fetched)
        for vector in distinct(self.positions.vectors.values()):
            for source, at in vector.items():
                starts[source] = min(at, starts.get(source, at))
        return sum(max(0, self.ends[partition] - start) for partition, start in starts.items() if partition in self.ends)

    @property
    def is_over_hosts(self) -> bool:
        """Whether there are lanes on several hosts: state is on one of them."""
        return len(set(self._lane_jobs.hosts.values())) > 1

    def leave_lane(self, index: int) -> None:
        """Have the others take what a lane has, where there are any."""
        if self.owners and self._lane_jobs.lanes.keys() - self.leaving - {index}:
            self._take_placement(self._placement(list(self.owners), index), f"away from thread {index + 1}")

    def stay_away(self, index: int, *, away: bool) -> bool:
        """Have the others take what a lane has, and keep it, until it is told that the lane is back; whether there are others."""
        if not away:
            self.leaving.discard(index)
            return False
        if others := bool(self._lane_jobs.lanes.keys() - self.leaving - {index}):
            self.leaving.add(index)
            self.leave_lane(index)
        return others

    def leave_for_good(self, index: int) -> None:
        """The same for a lane that goes; where there are no others its tasks have no lane until one comes."""
        self.leaving.add(index)
        self.leave_lane(index)
        self.lose_lane(index)

    def _placement(self, tasks: Sequence[TaskId], without: int | None = None, *, spread: bool | None = None) -> Placement:
        away = self.leaving if without is None else {*self.leaving, without}
        return self.copies.placement(tasks, self.spread.is_spread if spread is None else spread, self.owners, away)

    def lose_lane(self, index: int, successor: int | None = None) -> None:
        """A lane is gone; its tasks are opened in its successor, or wherever there is room."""
        kept = {task: lane for task, lane in self.owners.items() if lane != index}
        if successor is not None:
            kept |= {task: successor for task, lane in self.owners.items() if lane == index}
        self.owners = kept

    def _take_placement(self, placement: Placement, where: str = "") -> None:
        moved = [task for task, lane in placement.owners.items() if self.owners.get(task, lane) != lane]
        if moved:
            _log.info("moving %d of %d tasks %s: %s", len(moved), len(placement.owners), where, ", ".join(map(str, moved)))
        self.owners = placement.owners
        # Before tasks are opened: a copy has to be let go by whoever keeps it first.
        self.copies.choose(placement, self.adopted)
        if self.adopted is not None:
            self.copies.keep(self.adopted, self.owners)

    # -- what a lane should own ----------------------------------------------------------------------------------------

    def wanted(self, lane: LaneLoop) -> list[TaskId]:
        """All that should be in a lane."""
        owners, by_lane = self._by_lane
        if owners is not self.owners:  # asked for each lane with every step
            by_lane = {}
            for task, index in self.owners.items():
                by_lane.setdefault(index, []).append(task)
            self._by_lane = self.owners, by_lane
        return by_lane.get(lane.index, [])

    def to_own(self, lane: LaneLoop) -> dict[TaskId, int]:
        """What a lane should own exactly, now: what is wanted of it, has been read, and is held by nobody else.

        What was read anew is closed first.
        """
        return {
            task: number
            for task in self.wanted(lane)
            if (number := self._readings.get(task)) is not None
            and lane.holds.get(task, number) == number
            and self._holders.get(task, lane.index) == lane.index
            and (task in lane.holds or not self.copies.standbys.is_letting_go(task))
        }

    def committed(self, tasks: Iterable[TaskId]) -> dict[TaskId, Mapping[TopicPartition, OffsetAndMetadata]]:
        """What tasks go on from."""
        return {task: self.positions.of_task(task) for task in tasks}

    def opening(self, lane: LaneLoop, tasks: Iterable[TaskId]) -> None:
        """A lane is told to own these: nobody else may open them from now on."""
        self._holders.update(dict.fromkeys(tasks, lane.index))

    def opened(self, lane: LaneLoop, job: Job, answer: LaneAnswer) -> None:
        """A lane has answered. What it has begun goes on from its commit, whatever was fetched for it before."""
        before = lane.running
        self.let_go(lane.answered(job, answer))
        for task in answer.begun:
            if task in self._readings:
                self.positions.forget_fetched(task)
        self._tell_restored(answer)
        new = {task: lane.index for task in lane.running - before if task in self.owners}
        if new:
            self.copies.opened(new)
        self.take_timers(answer)

    def let_go(self, tasks: Collection[TaskId]) -> None:
        """A lane does not hold these any more; those that are not ours lie on the disk, as far as they had come."""
        for task in tasks:
            self._holders.pop(task, None)
        for store, progress in [(store, p) for store, p in self._begun.items() if store[0] in tasks]:
            del self._begun[store]
            self._events.on_restore(replace(progress, restored=0), "suspended")
        self.copies.closed([task for task in tasks if task not in self.owners])

    def failed(self, lane: LaneLoop) -> None:
        """A lane begins anew: all that is wanted of it is read again, since it may have committed unheard.

        What it holds is free when it has told that it does not any more.
        """
        held = [task for task, holder in self._holders.items() if holder == lane.index]
        for task in {*held, *self.wanted(lane)}:
            self._readings.pop(task, None)
            self._being_read.pop(task, None)
            self.timers.pop(task, None)

    def release(self, lane: int) -> None:
        """A lane has nothing open any more."""
        self.let_go([task for task, holder in self._holders.items() if holder == lane])

    def read_anew(self) -> None:
        """Read the tasks behind a shuffle again, which closes them first; the others stay open."""
        fed = self.plan.shuffled.keys()
        for known in (self._readings, self._being_read):
            for task in [t for t in known if fed & set(self.plan.subtopologies[t.subtopology].source_topics)]:
                del known[task]

    def _tell_restored(self, answer: LaneAnswer) -> None:
        for what, all_progress in (("batch", answer.restoring), ("end", answer.restored)):
            for progress in all_progress:
                store = progress.task_id, progress.store
                if store not in self._begun:
                    self._events.on_restore(progress, "start")
                self._events.on_restore(progress, what)
                if what == "batch":
                    self._begun[store] = progress
                else:
                    self._begun.pop(store, None)
        self._tell_hidden(answer.restoring, self._told_hidden)

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

    def take_timers(self, answer: LaneAnswer) -> None:
        """When each task wants a turn without input: for a punctuation, or because it has waited for input long enough."""
        for task, timer in answer.timers.items():
            self._idle_until[task] = answer.idle_until.get(task)
            due = min((at for at in (timer, answer.idle_until.get(task)) if at is not None), default=None)
            if due is None:
                self.timers.pop(task, None)
            else:
                self.timers[task] = due


def _changed(old: Plan, new: Plan) -> set[TaskId]:
    """The tasks of either plan that a repartition feeds, or that feed one, which goes another way in the other."""
    topics = old.shuffled.keys() ^ new.shuffled.keys()
    upstream = {plan.shuffled[topic] for plan in (old, new) for topic in topics if topic in plan.shuffled}
    return {
        task
        for plan in (old, new)
        for task in plan.tasks()
        if task.subtopology in upstream or topics.intersection(plan.subtopologies[task.subtopology].source_topics)
    }
