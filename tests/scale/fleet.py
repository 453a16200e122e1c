"""Many instances of one application with one group, on a clock of their own.

The event loop, the task manager, the supervision of threads, the copies of state, the assignor and the bytes of the group
protocol are the real ones. The group's coordinator, the brokers and Spark are simulated: members hear of a rebalance with their
next heartbeat, a member that is silent is dropped after its session, and the group waits for all others to join.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from penstock.ids import TaskId, TopicPartition
from penstock.kafka.group_protocol import JoinedMember, record_size
from tests.scale.cluster import Cluster, make_plan
from tests.scale.instance import Disk, Instance

TICK = 0.1
_HEARTBEAT_SECONDS = 3.0
_SESSION_SECONDS = 45.0
_GROUP_DELAY = 3.0
"""How long a group without members waits for more of them (group.initial.rebalance.delay.ms)."""


@dataclass
class Measured:
    """What an event has cost until the group was stable again."""

    event: str
    partitions: int
    instances: int
    seconds: float = 0.0
    generations: int = 0
    moved: int = 0
    fewest: int = 0
    member_bytes: int = 0
    assignment_bytes: int = 0
    record_bytes: int = 0
    assign_seconds: float = 0.0
    take_seconds: float = 0.0
    """CPU seconds of a member to read and take up its assignment."""
    cpu: float = 0.0
    """CPU seconds of one driver in a second of simulated time."""
    unowned: float = 0.0
    unowned_tasks: int = 0
    """How many tasks no thread ran for a while."""
    behind_elsewhere: int = 0
    """The most records that waited for a task that had nothing to do with the event, in seconds of its input."""
    requests: float = 0.0
    """Requests to brokers of one instance in a second."""


@dataclass
class _Group:
    """The coordinator's books."""

    generation: int = 0
    leader: str = ""
    joining: dict[str, bytes] = field(default_factory=dict)
    is_rebalancing: bool = False
    hears_at: dict[str, float] = field(default_factory=dict)
    """When each member hears of the rebalance."""
    stopping: dict[str, object] = field(default_factory=dict)
    opens_at: float = 0.0
    away: bool = False


def _stored_offsets(application: object, disk: Disk, tasks: Iterable[TaskId]) -> dict[TaskId, int]:
    return disk.stored(tasks)


class Fleet:
    """Instances that come, go and work; used as a context manager, which replaces the clock of this process."""

    def __init__(self, partitions: int, *, threads: int = 4, state: int = 100_000, seed: int = 1, **settings: object) -> None:
        self.partitions, self._threads = partitions, threads
        self._settings = {"num.standby.replicas": 1, **settings}
        self.plan = make_plan(partitions)
        self.tasks = self.plan.tasks()
        self.inputs = {partition: task for task in self.tasks for partition in self.plan.inputs(task)}
        self.cluster = Cluster(self.plan, state)
        self.instances: dict[str, Instance] = {}
        self._silent: dict[str, float] = {}
        self._chance = random.Random(seed)
        self.now = 1000.0
        self._group = _Group()
        self._numbers = 0
        self._owners: dict[TaskId, str] = {}
        self._unowned_since: dict[TaskId, float] = {}
        self._produced_at = 0.0
        self._measured: Measured | None = None

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Let the simulated time be that of this process."""
        scheduling, replicas = "penstock.client.scheduling.thread_roster.fence", "penstock.client.replicas.state_replicas"
        with (
            mock.patch.object(time, "monotonic", new=self._monotonic),
            mock.patch(scheduling, return_value=None),
            mock.patch(f"{replicas}.stored_offsets", new=_stored_offsets),
        ):
            yield

    def _monotonic(self) -> float:
        return self.now

    # -- instances come and go -----------------------------------------------------------------------------------------

    def add(self, count: int) -> list[str]:
        """Start so many instances; they join at once."""
        added = []
        for _ in range(count):
            self._numbers += 1
            instance = Instance(self.cluster, self.plan, self._numbers, self._threads, self._settings)
            self.instances[instance.member_id] = instance
            added.append(instance.member_id)
        self.rebalance()
        return added

    def close(self, *members: str) -> None:
        """These leave the group, with their work committed."""
        for member in members:
            del self.instances[member]
            self._group.joining.pop(member, None)
        self.rebalance()

    def kill(self, *members: str) -> None:
        """These are gone without a word: the group drops them when their sessions end."""
        for member in members:
            del self.instances[member]
            self._silent[member] = self.now + _SESSION_SECONDS

    def rebalance(self) -> None:
        """Have all members join again: each hears of it with its next heartbeat."""
        group = self._group
        known = group.hears_at if group.is_rebalancing else {}
        group.hears_at = {
            member: known.get(member, self.now + (self._chance.random() * _HEARTBEAT_SECONDS if i.generation >= 0 else 0.0))
            for member, i in self.instances.items()
        }
        if not group.is_rebalancing:
            group.is_rebalancing, group.joining, group.stopping = True, {}, {}
            group.opens_at = self.now + (_GROUP_DELAY if not group.generation else 0.0)

    @contextmanager
    def broker_away(self) -> Iterator[None]:
        """The broker that coordinates the group and leads a third of the partitions does not answer."""
        self._group.away = True
        self.cluster.away = {p for p in self.cluster.ends if p.partition % 3 == 0} | {
            p for p in self.inputs if p.partition % 3 == 0
        }
        yield
        self._group.away, self.cluster.away = False, set()

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A tenth of a second in the life of all instances."""
        self.now += TICK
        if self.now - self._produced_at >= 1.0:
            self._produced_at = self.now
            self.cluster.produce(self.inputs)
        for instance in list(self.instances.values()):
            instance.step()
        if not self._group.away:
            self._coordinate()
        self._watch()

    def _coordinate(self) -> None:
        group = self._group
        if gone := [member for member, until in self._silent.items() if self.now >= until]:
            for member in gone:
                del self._silent[member]
            self.rebalance()
        if not group.is_rebalancing:
            if any(instance.wants_rejoin for instance in self.instances.values()):
                self.rebalance()
            else:
                return
        for member, instance in self.instances.items():
            if member in group.joining or self.now < group.hears_at[member]:
                continue
            if member not in group.stopping:
                group.stopping[member] = instance.loop.revoked(lost=False)
            if group.stopping[member].is_set():  # type: ignore[attr-defined]
                instance.wants_rejoin = False
                group.joining[member] = instance.tell()
        waited_for = set(self.instances) | set(self._silent)
        if self.instances and waited_for <= group.joining.keys() and self.now >= group.opens_at:
            self._begin_generation()

    def _begin_generation(self) -> None:
        group = self._group
        group.generation += 1
        group.is_rebalancing = False
        if group.leader not in self.instances:
            group.leader = next(iter(self.instances))
        self.cluster.generation = group.generation
        joined = [
            JoinedMember(self.instances[member].identity, told, len(told) + len(member))
            for member, told in group.joining.items()
            if member in self.instances
        ]
        leader = self.instances[group.leader]
        told = leader.decide(joined, group.generation)
        began = time.process_time()
        for member, instance in self.instances.items():
            instance.take(told[member], group.generation, leads=member == group.leader)
        take_seconds = (time.process_time() - began) / len(self.instances)
        owners = {task: member for member, i in self.instances.items() if i.loop.membership for task in i.loop.membership.tasks}
        if self._measured is not None:
            known = self._measured
            known.generations += 1
            known.moved += sum(self._owners.get(task, member) != member for task, member in owners.items())
            known.member_bytes = max(known.member_bytes, *(len(member.told or b"") for member in joined))
            known.assignment_bytes = max(known.assignment_bytes, *map(len, told.values()))
            listed = [len(t) + 6 + 4 * len(n) for shown in leader.protocol.shown.values() for t, n in shown.items()]
            sizes = [member.size for member in joined]
            known.record_bytes = max(known.record_bytes, record_size(sizes, [*map(len, told.values()), *listed]))
            known.take_seconds = max(known.take_seconds, take_seconds)
            known.assign_seconds = max(known.assign_seconds, leader.assign_seconds[-1])
        self._owners = owners

    def _watch(self) -> None:
        running: set[TaskId] = set()
        for instance in self.instances.values():
            running |= instance.running()
        for task in self.tasks:
            if task in running:
                since = self._unowned_since.pop(task, None)
                if since is not None and self._measured is not None:
                    self._measured.unowned = max(self._measured.unowned, self.now - since)
                    self._measured.unowned_tasks += 1
            else:
                self._unowned_since.setdefault(task, self.now)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self.now < until:
            self.tick()

    @property
    def is_stable(self) -> bool:
        """Whether every task runs, nothing moves, and nobody wants a rebalance."""
        return (
            not self._group.is_rebalancing
            and not self._silent
            and all(instance.is_settled for instance in self.instances.values())
        )

    def settle(self, most: float = 900.0) -> None:
        """Let time pass until the group is stable."""
        until = self.now + most
        while not self.is_stable:
            if self.now > until:
                waiting = [i.name for i in self.instances.values() if not i.is_settled]
                raise AssertionError(f"the group is not stable after {most:.0f} s: {len(waiting)} instances, {waiting[:3]}")
            self.tick()

    @contextmanager
    def measure(self, event: str, fewest: int) -> Iterator[Measured]:
        """Measure what an event costs until the group is stable again; `fewest` tasks have to move for it."""
        instances, began, requests = len(self.instances), self.now, self.cluster.requests
        found = self._measured = Measured(event, self.partitions, instances, fewest=fewest)
        before = {member: instance.seconds for member, instance in self.instances.items()}
        self._unowned_since.clear()
        yield found
        self.settle()
        found.instances = max(instances, len(self.instances))
        found.seconds = self.now - began
        spent = [i.seconds - before.get(member, 0.0) for member, i in self.instances.items()]
        found.cpu = sum(spent) / len(spent) / max(TICK, found.seconds)
        found.requests = (self.cluster.requests - requests) / found.instances / max(TICK, found.seconds)
        self._measured = None

    def poison(self, task: TaskId) -> Callable[[], None]:
        """Give a task a record that fails it again and again; returns what cures it."""
        (partition,) = self.plan.inputs(task)
        self.cluster.poison(partition)
        return self.cluster.cure

    def neighbours_of(self, task: TaskId) -> set[TopicPartition]:
        """The partitions of the tasks that share a thread with a task."""
        for instance in self.instances.values():
            owners = instance.loop.owners
            if task in owners:
                return {p for other, thread in owners.items() if thread == owners[task] for p in self.plan.inputs(other)}
        return set()

    def behind(self, but: Collection[TopicPartition] = ()) -> int:
        """How many records wait in the partition that is furthest behind."""
        at = self.cluster.read_to
        return max((self.cluster.ends[p] - at.get(p, 0) for p in self.inputs if p not in but), default=0)
