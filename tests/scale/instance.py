"""One instance of the fleet: the real event loop, its copies of state and its part of the group protocol; Spark is simulated.

State is a number for each task: how many records of its changelog an instance has. A thread restores it before it runs the task,
a copy follows the changelog.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from penstock.client.assignment.group_assignment import GroupAssignor, member_tags
from penstock.client.scheduling.supervised_thread import ThreadPhase
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.group_protocol import GroupProtocol, JoinedMember
from penstock.kafka.members import Decision, MemberIdentity, MemberInfo, Membership, Shares
from penstock.spark.messages import Failure
from penstock.spark.plan import Plan
from penstock.spark.worker.standby_worker import Loaded, UpdateAnswer
from tests.scale.cluster import Cluster
from tests.unit.client.simulated import Resident, SparkThreads, World

RESTORED_EACH_SECOND = 200_000
"""Changelog records that a thread or a copy takes in."""
_LOOP_SECONDS = 0.5
_COPIES_SECONDS = 0.2
"""How often a simulated thread goes round its loop."""


class Disk:
    """How many changelog records this instance has of each task, whoever of it has read them."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self._cluster, self._plan = cluster, plan
        self.records: dict[TaskId, int] = {}

    def changelog(self, task: TaskId) -> TopicPartition:
        return next(iter(self._plan.changelogs(task)))

    def end(self, task: TaskId) -> int:
        return self._cluster.ends[self.changelog(task)]

    def stored(self, tasks: Iterable[TaskId]) -> dict[TaskId, int]:
        """What is there of tasks that nobody has open."""
        return {task: self.records[task] for task in tasks if task in self.records}

    def advance(self, task: TaskId, records: float) -> bool:
        """Take in so many records; whether nothing is missing then."""
        self.records[task] = min(self.end(task), self.records.get(task, 0) + int(records))
        return self.records[task] >= self.end(task)


class FleetThreads(SparkThreads):
    """Threads that restore state from changelogs, and fail at a poisonous partition."""

    def __init__(self, cluster: Cluster, plan: Plan, threads: int, disk: Disk) -> None:
        super().__init__(cluster, plan, threads, exactly_once=True)
        self._disk, self._cluster = disk, cluster
        self.updaters = Updaters(cluster, disk)  # type: ignore[assignment]
        self._went_round: dict[int, float] = {}

    def play(self) -> None:
        """Each thread that is due goes round its loop once; those that are called back, or only open tasks, end their jobs."""
        now = time.monotonic()
        for index, jobs in list(self.pending.items()):
            if not jobs or index in self.deaf:
                continue
            job = jobs[0]
            if not job.goes_on:
                self.finish(job)
            elif not job.has_begun:
                self.advance(job)
            elif now - self._went_round.get(index, 0.0) >= _LOOP_SECONDS:
                self._went_round[index] = now
                self.advance(job)

    def _restore(self, job: Resident, worker: Any) -> None:
        for task in worker.tasks.keys() - worker.running:
            if job.processes and self._disk.advance(task, RESTORED_EACH_SECOND * _LOOP_SECONDS):
                worker.running.add(task)
        job.report.held, job.report.opened = tuple(worker.tasks), tuple(worker.running)

    def _batch(self, job: Resident) -> None:
        worker = self.processes[job.thread]
        if any(self._cluster.is_poisoned(partition, at) for t in worker.running for partition, at in worker.tasks[t].items()):
            job.report.failure = Failure("ProcessingError", "a bad record", "")
            job.is_called = True
            return
        self._cluster.begin_batch()
        super()._batch(job)
        for task in worker.running:
            self._disk.records[task] = self._disk.end(task)


class Updaters:
    """Copies that follow their changelogs, as fast as threads restore."""

    is_local = True

    def __init__(self, cluster: Cluster, disk: Disk) -> None:
        self._cluster, self._disk = cluster, disk
        self._looked_at: dict[TaskId, float] = {}

    def hosts(self) -> list[str]:
        return [""]

    def update(self, host: str, tasks: Sequence[TaskId], limits: Any = None, *, paused: bool = False) -> Future[UpdateAnswer]:
        now = time.monotonic()
        self._looked_at = {task: self._looked_at.get(task, now) for task in tasks}
        copies = []
        for task in tasks:
            self._disk.advance(task, RESTORED_EACH_SECOND * (now - self._looked_at[task]))
            self._looked_at[task] = now
            at = self._disk.records[task]
            copies.append(Loaded(task, "store", self._disk.changelog(task), 0, at, self._disk.end(task)))
        answer: Future[UpdateAnswer] = Future()
        answer.set_result(UpdateAnswer("worker", tuple(copies)))
        return answer


class _NoThread:
    """In the place of the thread that looks after copies: the fleet does that."""

    def start(self) -> None:
        """Nothing runs by itself."""

    def is_alive(self) -> bool:
        return False


class Instance:
    """An instance of the application, and its place in the group."""

    def __init__(self, cluster: Cluster, plan: Plan, number: int, threads: int, settings: Mapping[str, Any]) -> None:
        self.name, self.member_id = f"process-{number:04}", f"member-{number:04}"
        self.identity = MemberIdentity(self.member_id)
        self.generation = -1
        self.disk = Disk(cluster, plan)
        self.threads = FleetThreads(cluster, plan, threads, self.disk)
        self.world = World(
            [0.0], threads=threads, plan=plan, brokers=cluster, jobs=self.threads, **{"num.stream.threads": threads, **settings}
        )
        self.loop = self.world.loop
        self.loop.member = SimpleNamespace(  # type: ignore[assignment]
            failure=None, is_leader=False, commit=None, request_rejoin=self._request_rejoin
        )
        self.loop.copies.standbys._thread = _NoThread()  # type: ignore[assignment]
        self.loop.copies.directory = self.disk  # type: ignore[assignment]
        self.world.on_failure = lambda error, thread: True
        self._threads, self._tags = threads, member_tags(self.world.config)
        assignor = GroupAssignor(self.world.config, cluster, lambda: plan)  # type: ignore[arg-type]
        self.assign_seconds: list[float] = []

        def assign(infos: Sequence[MemberInfo]) -> Shares:
            began = time.process_time()
            try:
                return assignor(infos)
            finally:
                self.assign_seconds.append(time.process_time() - began)

        self.protocol = GroupProtocol("app", None, self._info, assign)
        self.wants_rejoin = False
        self.seconds = 0.0
        """CPU that the driver of this instance has taken for its event loop and what it does in the background."""
        self._copies_at = 0.0

    def _info(self) -> MemberInfo:
        return MemberInfo(self.name, self._threads, "", *self.loop.holdings(), self._tags)

    def _request_rejoin(self) -> None:
        self.wants_rejoin = True

    # -- the group -----------------------------------------------------------------------------------------------------

    def tell(self) -> bytes:
        """What this member tells as it joins."""
        return self.protocol.tell(self.identity, self.generation)

    def decide(self, joined: Sequence[JoinedMember], generation: int) -> dict[str, bytes]:
        """Lead the group into a generation."""
        return self.protocol.decide(joined, generation)

    def take(self, told: bytes, generation: int, *, leads: bool) -> Decision:
        """Go by what the leader decided."""
        decision = self.protocol.take(told, self.identity, generation)
        self.generation = generation
        self.loop.member.is_leader = leads  # type: ignore[union-attr, misc]
        self.loop.assigned(
            Membership(
                generation,
                str(generation).encode(),
                *(decision.tasks, decision.owners, decision.hosts, decision.copies, decision.standbys, decision.probing),
            )
        )
        return decision

    # -- time ----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """A tick: the event loop, what it does in the background, the copies; then Spark."""
        began = time.process_time()
        self.loop.step()
        self.world.do_background()
        if time.monotonic() - self._copies_at >= _COPIES_SECONDS:
            self._copies_at = time.monotonic()
            self.loop.standbys.look()
        self.seconds += time.process_time() - began
        self.threads.play()

    def running(self) -> set[TaskId]:
        """The tasks that threads of this instance work on."""
        return {task for worker in self.threads.processes.values() for task in worker.running}

    @property
    def is_settled(self) -> bool:
        """Whether all works that the group has given to this instance, and it wants nothing else from the group."""
        threads = self.loop.tasks.threads.values()
        return (
            not self.wants_rejoin
            and self.loop.tasks.are_running
            and not any(thread.phase is ThreadPhase.BACKING_OFF for thread in threads)
            and not (self.loop.membership is not None and self.loop.membership.probing)
        )
