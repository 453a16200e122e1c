"""An instance whose lanes, stages, brokers and group are played, on a clock of its own: everything happens when it is told to.

The conductor is the real one, with its real positions and plans. Workers check what no conductor may ever do: read anything twice
or leave anything out, open a task in two lanes, run two jobs in one lane, work on a task that is not open.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from penstock.client.scheduling.conductor import Conductor
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.owned_tasks import Read, TaskReading
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.units import units_of
from penstock.clock import ManualClock
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ProcessingError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange, Short
from penstock.kafka.follow import Taken
from penstock.kafka.membership import Membership
from penstock.log_bounds import LogBounds
from penstock.record import ProducedRecord
from penstock.runtime.carry_over import OffsetAndMetadata, with_own_offset
from penstock.spark.driver.lane_jobs import LaneWork, Staged
from penstock.spark.messages import Committed, Failure, LaneAnswer, ProcessTurn, Stay, UpstreamWork
from penstock.spark.plan import Plan
from penstock.spark.vectors import Vector, is_vector
from penstock.spark.worker.shuffled_before import ShuffledBefore
from penstock.spark.worker.stay import add, turn_of

WORDS = "app-words-repartition"


def make_plan(sources: int, targets: int, orders: int) -> Plan:
    """`lines` go through a shuffle to the tasks 1_n; the tasks 2_n read `orders` themselves."""

    def subtopology(id_: int, topic: str, sinks: tuple[str, ...] = (), *, repartition: bool = False) -> Any:
        return SimpleNamespace(
            id=id_,
            source_topics=(topic,),
            repartition_source_topics={topic: None} if repartition else {},
            sink_topics=sinks,
            store_to_changelog={},
            stores={},
        )

    return Plan(
        {0: subtopology(0, "lines", (WORDS,)), 1: subtopology(1, WORDS, repartition=True), 2: subtopology(2, "orders")},
        {"lines": sources, WORDS: targets, "orders": orders},
        {WORDS: 0},
    )


class Brokers:
    """Logs that only have ends, and what the group has committed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.ends: Counter[TopicPartition] = Counter()
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.consumed: Counter[tuple[TopicPartition, TopicPartition, int]] = Counter()
        """How often each offset of a source was consumed for a partition, in turns that were committed."""
        self.asked: list[tuple[list[TopicPartition], bool]] = []
        """Whose ends were asked for, and whether only of what is committed."""
        self.away: set[TopicPartition] = set()
        """Partitions whose leaders do not answer."""
        self.written: dict[TopicPartition, list[tuple[TopicPartition, int]]] = {}
        """What was written to the repartition topic: of which source, made of which offset."""
        self.generation: int | None = None
        """The generation of the group that may commit; all may where there is none."""

    def write(self, target: TopicPartition, source: TopicPartition, offset: int) -> None:
        self.written.setdefault(target, []).append((source, offset))
        self.ends[target] += 1

    def reachable_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        self.asked.append((list(partitions), committed_only))
        return {p: self.ends[p] for p in self.asked[-1][0] if p not in self.away}

    def log_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        return {p: self.ends[p] for p in partitions}

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def log_bounds(self, partitions: Iterable[TopicPartition], committed_only: bool, *, reachable: bool = False) -> Any:
        return {p: LogBounds(0, self.ends[p], self.ends[p]) for p in partitions}

    def purge(self, ends: Mapping[TopicPartition, int]) -> None:
        """Nothing is kept anyway."""

    def read_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: self.committed[p] for p in partitions if p in self.committed}


@dataclass
class Worker:
    """What a lane's worker has open: how far each task has read each partition, or each source of one that is fed."""

    tasks: dict[TaskId, dict[TopicPartition, dict[TopicPartition, int]]] = field(default_factory=dict)
    running: set[TaskId] = field(default_factory=set)
    had: dict[TaskId, ShuffledBefore] = field(default_factory=dict)
    """What the targets of tasks that write to the repartition topic had before."""
    topic_at: dict[TopicPartition, int] = field(default_factory=dict)
    """How far the repartition topic was read before there was a shuffle."""


@dataclass
class Pending:
    """A job that was asked for."""

    lane: int
    run: Callable[[], LaneAnswer]
    future: Future[Any] = field(default_factory=Future)
    changes: bool = False
    stays: bool = False
    is_close: bool = False


class LaneJobs:
    """Lanes whose jobs run when they are told to, one after the other in each, and fail when they are told to."""

    def __init__(self, brokers: Brokers, plan: Plan, lanes: int, exactly_once: bool) -> None:
        self._brokers, self._plan, self._exactly_once = brokers, plan, exactly_once
        self.lanes: dict[int, Any] = {}
        self.workers: dict[int, Worker] = {}
        self.pending: dict[int, deque[Pending]] = {}
        self.stages: deque[tuple[Future[Staged], Staged]] = deque()
        self.application = SimpleNamespace(client_id="app", transactional_id=lambda lane: f"app-{lane}")
        self.updaters = SimpleNamespace(is_local=False, hosts=lambda: [""])
        self.others_wait, self.stays_go_on = False, 0
        self.waits = SimpleNamespace(seconds={}, look=lambda names: None, anybody_waits=lambda: self.others_wait)
        self.places: dict[int, str] = {}
        self.lost: set[str] = set()
        """Executors that are gone."""
        self.restores = 0
        self.stays_fail = False
        self.called: list[int] = []
        """The stays that lanes were called back from."""
        self.done_so_far: dict[TopicPartition, OffsetAndMetadata] = {}
        self.deaf: set[int] = set()
        """Lanes whose jobs take their time, until they are told to end, or cancelled."""
        self.cancelled: list[tuple[int, str]] = []
        self.restored_for: list[float] = []
        """For how many seconds lanes were told to restore what they opened, in order."""
        self.opened: list[list[TaskId]] = []
        """What lanes were told to own, in order."""
        self.short: dict[TopicPartition, Short] = {}
        """Partitions that cannot be read beyond an offset."""
        for lane in range(lanes):
            self.add_lane(lane, f"t{lane + 1}")

    @property
    def hosts(self) -> dict[int, str]:
        return dict.fromkeys(self.lanes, "")

    def add_lane(self, index: int, name: str) -> None:
        assert index not in self.lanes
        self.lanes[index] = SimpleNamespace(name=name, last_used=float("inf"), executor=f"executor_host_{index}")
        self.workers[index], self.pending[index] = Worker(), deque()

    def take_lane(self, index: int) -> Any:
        return self.lanes.pop(index)

    def end_lane(self, index: int, lane: Any, timeout: float = 10.0) -> None:
        self.workers[index] = Worker()
        while self.pending[index]:
            self.pending[index].popleft().future.cancel()

    def pass_on(self, index: int, successor: int, name: str) -> Future[bytes]:
        assert successor not in self.lanes
        self.lanes[successor] = self.lanes.pop(index)
        self.lanes[successor].name = name
        self.workers[successor], self.pending[successor] = Worker(), deque()

        def close() -> Any:
            self.workers[index] = Worker()

        return self._ask(Pending(successor, close, is_close=True))

    def place_lane(self, index: int) -> bool:
        if self.is_alive(index):
            return False
        self.lanes[index].executor += "_again"
        return True

    def is_alive(self, index: int) -> bool:
        return self.lanes[index].executor not in self.lost

    def lose_executor(self, index: int) -> None:
        """The executor of a lane is gone, with its worker."""
        self.lost.add(self.lanes[index].executor)
        self.workers[index] = Worker()
        for job in list(self.pending[index]):
            self.fail(job, lost=True)

    def lost_lanes(self) -> dict[int, str]:
        return {index: lane.executor for index, lane in self.lanes.items() if lane.executor in self.lost}

    def better_places(self) -> dict[int, str]:
        return self.places

    def move_lane(self, index: int, place: str) -> None:
        assert not self.workers[index].tasks, "a lane moves that has something open"
        self.places = {lane: other for lane, other in self.places.items() if lane != index}

    def doing(self, lane: int) -> str:
        return f"task {max(self.workers[lane].tasks)} runs an operator"

    def cancel(self, lane: int, reason: str) -> None:
        self.cancelled.append((lane, reason))
        self.deaf.discard(lane)
        self.fail(self.pending[lane][0], lost=True)

    def check_session(self) -> None:
        """It is there."""

    def answer(self, future: Future[LaneAnswer]) -> LaneAnswer:
        try:
            return future.result(0)
        except Exception as exc:  # noqa: BLE001 - as the real one does
            return LaneAnswer("gone", lost=True, failure=self.failure(exc))

    def failure(self, error: BaseException) -> Failure:
        return Failure("LaneLost", str(error), "")

    # jobs

    def open(self, lane: int, tasks: Mapping[TaskId, Committed], seconds: float = 2.0) -> Future[LaneAnswer]:
        self.opened.append(sorted(tasks))
        self.restored_for.append(seconds)
        return self._ask(Pending(lane, lambda: self._open(lane, tasks)))

    def process(self, lane: int, work: LaneWork, rows: Any = None) -> Future[LaneAnswer]:
        return self._ask(Pending(lane, lambda: self._process(lane, work, rows), changes=True, stays=work.stay is not None))

    def stage(self, upstream: Sequence[UpstreamWork], targets: Mapping[TopicPartition, int], name: str) -> Future[Staged]:
        future: Future[Staged] = Future()
        self.stages.append((future, Staged((tuple(upstream), dict(targets)))))  # type: ignore[arg-type]
        return future

    def _ask(self, job: Pending) -> Future[Any]:
        assert job.lane in self.lanes, "a job for a lane that is gone"
        assert all(other.is_close for other in self.pending[job.lane]), "two jobs in one lane"
        self.pending[job.lane].append(job)
        return job.future

    def finish(self, job: Pending) -> None:
        """A job goes well."""
        assert self.pending[job.lane].popleft() is job
        job.future.set_result(job.run())

    def fail(self, job: Pending, *, committed: bool = False, lost: bool = False, failure: Failure | None = None) -> None:
        """A job fails: what it did is committed or not, and its worker is there to tell or not."""
        assert self.pending[job.lane].popleft() is job
        answer = LaneAnswer("w")
        if committed:
            self.stays_fail = True  # one turn of it is committed, the next one fails
            done = job.run()
            self.stays_fail = False
            answer = done if done.turns else answer
        self.workers[job.lane] = Worker()
        if lost:
            job.future.set_exception(RuntimeError("the worker died"))
        else:
            answer.failure = answer.failure or failure or Failure("ProcessingError", "a bad record", "")
            job.future.set_result(answer)

    def _open(self, lane: int, tasks: Mapping[TaskId, Committed]) -> LaneAnswer:
        worker = self.workers[lane]
        worker.tasks = {task: at for task, at in worker.tasks.items() if task in tasks}
        begun = [task for task in tasks if task not in worker.tasks]
        for task in begun:
            for other, has in self.workers.items():
                assert other == lane or task not in has.tasks, f"{task} is open in two lanes"
            worker.tasks[task] = self._positions(task, tasks[task])
            worker.had.pop(task, None)
            for partition, some in tasks[task].items():
                worker.topic_at[partition] = some.offset
                if (had := ShuffledBefore.of(some)) is not None:
                    worker.had[task] = had
        worker.running &= set(tasks)
        waiting = sorted(worker.tasks.keys() - worker.running)
        restored = waiting[: max(1, len(waiting) - self.restores)] if waiting else []
        worker.running |= set(restored)
        return LaneAnswer("w", begun=tuple(begun), opened=tuple(worker.running))

    def _positions(self, task: TaskId, committed: Committed) -> dict[TopicPartition, dict[TopicPartition, int]]:
        found = {}
        for topic in self._plan.subtopologies[task.subtopology].source_topics:
            partition = TopicPartition(topic, task.partition)
            sources = [TopicPartition("lines", p) for p in range(self._plan.partitions["lines"])]
            fed = is_vector(committed.get(partition))
            if fed:
                at = dict(Vector.of(committed[partition], sources).positions)
            else:
                at = {partition: committed[partition].offset if partition in committed else 0}
            real = self._brokers.committed.get(partition)
            if real is not None and self._exactly_once and fed == is_vector(real) and self._brokers.generation is None:
                known = Vector.of(real, sources).positions if fed else {partition: real.offset}
                assert at == known, f"{task} is opened at {at}, but {known} is committed"
            found[partition] = at
        return found

    def _process(self, lane: int, work: LaneWork, rows: Any) -> LaneAnswer:
        worker, answer = self.workers[lane], LaneAnswer("w")
        if self._exactly_once and self._brokers.generation is not None and int(work.group_metadata) != self._brokers.generation:
            self.workers[lane] = Worker()
            return LaneAnswer("w", failure=Failure("TaskMigratedError", "an old generation", ""))
        if any(task not in worker.running for task in work.tasks):
            answer.lost = True
            return answer
        if work.stay is not None:
            return self._stayed(lane, work, work.stay)
        upstream = work.upstream
        if rows is not None:
            upstream = (*upstream, *rows[0])
        for task, some in work.tasks.items():
            for r in some.ranges:
                partition = TopicPartition(r.topic, r.partition)
                at = worker.tasks[task][partition]
                assert at[partition] == r.start, f"{task} is at {at[partition]} of {partition} and reads from {r.start}"
                end = r.end
                if partition in self.short and self.short[partition].offset < end:
                    answer.short[partition] = self.short[partition]
                    end = self.short[partition].offset
                answer.offsets[partition] = self._read(worker.had.get(task), task, partition, range(r.start, end))
                at[partition] = end
            for partition in some.fed:
                self._feed(worker.tasks[task][partition], partition, upstream, work.read)
                sources = list(worker.tasks[task][partition])
                vector = Vector(0, worker.tasks[task][partition])
                answer.offsets[partition] = vector.committed("", sources, worker.topic_at[partition])
            answer.timers[task] = None
        answer.opened = tuple(worker.running)
        if self._exactly_once:
            self._brokers.committed.update(answer.offsets)
        return answer

    def _stayed(self, lane: int, work: LaneWork, stay: Stay) -> LaneAnswer:
        """A lane that stays reads all that has come until it goes: half of it in a turn, and the rest in another."""
        tasks = {task: self.workers[lane].tasks[task] for task in stay.tasks}
        own = {task: [p for p, at in parts.items() if list(at) == [p]] for task, parts in tasks.items()}
        fed = {task: {p: list(at) for p, at in parts.items() if list(at) != [p]} for task, parts in tasks.items()}
        asked, positions, total = ProcessTurn("", lane, {}, (), work.group_metadata), dict(stay.positions), LaneAnswer("w")
        for parts in range(2, 0, -1):
            ends = {
                p: min(self._brokers.ends[p], self.short[p].offset if p in self.short else at + 10**9)
                for p, at in positions.items()
            }
            reached = {p: max(at, at + -(-(ends[p] - at) // parts)) for p, at in positions.items()}
            taken = Taken({p: FetchRange(*p, at, reached[p]) for p, at in positions.items() if reached[p] > at}, {})
            turn = turn_of(asked, taken, (), own, fed, lambda _: 0, lambda _: {}, reached, fed)
            answer = self._process(lane, LaneWork(turn.work, work.group_metadata, turn.upstream, {}, turn.read), None)
            assert answer.failure is None, "the generation has changed meanwhile"
            add(total, answer, taken, 0.0, 0.1)
            total.opened, total.reached = answer.opened, reached
            positions = reached
            if self.stays_fail:
                return total
        total.goes_on, self.stays_go_on = self.stays_go_on > 0, self.stays_go_on - 1
        return total

    def call_back(self, lane: int, stay: int) -> bool:
        self.called.append(stay)
        return True

    def progress(self, lane: int, stay: int) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.done_so_far

    def _read(self, had: ShuffledBefore | None, task: TaskId, partition: TopicPartition, offsets: range) -> OffsetAndMetadata:
        """A task reads a partition itself; returns what it commits."""
        committed = with_own_offset(OffsetAndMetadata(offsets.stop))  # with times, as a task's commit
        for offset in offsets:
            if partition.topic == WORDS:
                source, of = self._brokers.written[partition][offset]
                self._brokers.consumed[partition, source, of] += 1
            elif partition.topic == "lines":
                for target in (TopicPartition(WORDS, p) for p in range(self._plan.partitions[WORDS])):
                    record = ProducedRecord(WORDS, target.partition, b"", b"", 0, ())
                    if had is None or had.takes(record, offset, task.partition):
                        self._brokers.write(target, partition, offset)
            else:
                self._brokers.consumed[partition, partition, offset] += 1
        return committed if had is None else had.carried(committed)

    def _feed(
        self,
        at: dict[TopicPartition, int],
        target: TopicPartition,
        upstream: Sequence[UpstreamWork],
        read: Mapping[TopicPartition, int],
    ) -> None:
        for part in upstream:
            for r in part.ranges:
                source = TopicPartition(r.topic, r.partition)
                begin = max(r.start, part.skip.get(target, {}).get(source, r.start))
                if begin < r.end:
                    assert at[source] == begin, f"{target} is at {at[source]} of {source} and is fed from {begin}"
                    self._consume(target, source, begin, r.end)
                at[source] = max(at[source], r.end)
                assert read[source] == r.end

    def _consume(self, partition: TopicPartition, source: TopicPartition, start: int, end: int) -> None:
        for offset in range(start, end):
            self._brokers.consumed[partition, source, offset] += 1


class Beside(Executor):
    """Work that is done when it is told to be."""

    def __init__(self) -> None:
        self.pending: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.pending.append((future, lambda: function(*arguments, **named)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing runs by itself."""

    def run_one(self, index: int = 0) -> None:
        self.pending.rotate(-index)
        future, function = self.pending.popleft()
        self.pending.rotate(index)
        try:
            found = function()
        except Exception as exc:  # noqa: BLE001 - as an executor does
            future.set_exception(exc)
        else:
            future.set_result(found)


class World:
    """One instance and all that it has to do with."""

    def __init__(
        self,
        clock: list[float],
        *,
        lanes: int,
        guarantee: str = "exactly_once_v2",
        plan: Plan | None = None,
        brokers: Brokers | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock
        self.plan = plan or make_plan(3, 4, 2)
        self.brokers = brokers or Brokers(self.plan)
        self.exactly_once = guarantee == "exactly_once_v2"
        config = StreamsConfig(
            {"application.id": "app", "bootstrap.servers": "b:1", "processing.guarantee": guarantee, **settings}
        )
        self.lane_jobs = LaneJobs(self.brokers, self.plan, lanes, self.exactly_once)
        self.beside = Beside()
        self.told: list[str] = []
        self.shown: dict[TopicPartition, int] = {}
        """What was committed last for sources before the shuffle."""
        self.failures: list[tuple[BaseException, int | None]] = []
        self.on_failure: Callable[[BaseException, int | None], bool] = lambda error, lane: False
        builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: None)
        positions = Positions(
            *(self.plan, "app", self.brokers, self.brokers.read_committed, builder, "earliest", ManualClock(0)),  # type: ignore[arg-type]
            committed_only=self.exactly_once,
        )
        self.events = Events(
            lambda: self.told.append("running"), lambda: self.told.append("rebalancing"), on_failure=self._failed
        )
        fakes: Any = (self.lane_jobs, self.brokers, positions)
        self.units = units_of(self.plan)
        self.conductor = Conductor(config, self.plan, *fakes, self.units, self.events, beside=self.beside)
        self.conductor.member = SimpleNamespace(  # type: ignore[assignment]
            failure=None, is_leader=True, commit=self._commit, request_rejoin=lambda: None
        )
        self.generation = 0
        self.read: list[list[TaskId]] = []
        """The tasks that were read from Kafka, in order."""
        read = self.conductor.tasks.read

        def reading(asked: TaskReading) -> Read:
            self.read.append(sorted(asked.tasks))
            return read(asked)

        self.conductor.tasks.read = reading  # type: ignore[method-assign]

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: int, whole: bool = False) -> None:
        shown = {p for p in offsets if p.topic == "lines"}
        self.shown |= {p: offsets[p].offset for p in shown}
        self.brokers.committed.update({p: o for p, o in offsets.items() if p not in shown})

    def _failed(self, error: BaseException, lane: int | None) -> bool:
        self.failures.append((error, lane))
        return self.on_failure(error, lane)

    def assign(self, *units: str) -> None:
        self.generation += 1
        given = units or tuple(self.units)
        self.conductor.assigned(Membership(self.generation, b"", given))

    def produce(self, topic: str, partition: int, count: int = 1) -> None:
        self.brokers.ends[TopicPartition(topic, partition)] += count

    def jobs(self) -> list[Pending]:
        return [jobs[0] for jobs in self.lane_jobs.pending.values() if jobs and jobs[0].lane not in self.lane_jobs.deaf]

    def step(self) -> None:
        self.clock[0] += 0.01
        self.conductor.step()

    def do_beside(self) -> None:
        """All that is to be done beside the loop."""
        while self.beside.pending:
            self.beside.run_one()

    def until(self, condition: Callable[[], Any], rounds: int = 400) -> None:
        """Steps of the loop, and what is done beside it, until something is so; no job ends by itself meanwhile."""
        for _ in range(rounds):
            if condition():
                return
            self.step()
            self.do_beside()
        raise AssertionError("it never came to that")

    def turns(self) -> list[Pending]:
        """The turns that run now."""
        return [job for job in self.jobs() if job.changes]

    def owned(self) -> dict[int, int]:
        """How many tasks the worker of each lane has open."""
        return {lane: len(self.lane_jobs.workers[lane].tasks) for lane in sorted(self.lane_jobs.lanes)}

    def run_stage(self, failure: Failure | None = None) -> None:
        future, staged = self.lane_jobs.stages.popleft()
        future.set_result(staged._replace(failure=failure))

    def settle(self, rounds: int = 400) -> None:
        """Let everything that was begun go well, again and again."""
        for _ in range(rounds):
            self.clock[0] += 0.04
            self.step()
            for job in self.jobs():
                self.lane_jobs.finish(job)
            while self.beside.pending:
                self.beside.run_one()
            while self.lane_jobs.stages:
                self.run_stage()

    def wants(self) -> set[tuple[TopicPartition, TopicPartition, int]]:
        """All there is to consume."""
        lines = [TopicPartition("lines", p) for p in range(self.plan.partitions["lines"])]
        fed = [TopicPartition(WORDS, p) for p in range(self.plan.partitions[WORDS])]
        orders = [TopicPartition("orders", p) for p in range(self.plan.partitions["orders"])]
        found = {(target, source, o) for target in fed for source in lines for o in range(self.brokers.ends[source])}
        return found | {(p, p, o) for p in orders for o in range(self.brokers.ends[p])}

    def shake(self, chance: random.Random, steps: int, *, failures: float) -> None:
        """Whatever can happen happens, in any order."""
        for _ in range(steps):
            self.step()
            what = chance.random()
            if what < 0.3:
                self.produce(
                    *chance.choice([("lines", chance.randrange(3)), ("orders", chance.randrange(2))]), chance.randrange(1, 9)
                )
            elif what < 0.7 and (jobs := self.jobs()):
                job = chance.choice(jobs)
                if chance.random() < failures:
                    self.lane_jobs.fail(job, committed=job.changes and chance.random() < 0.5, lost=chance.random() < 0.5)
                else:
                    self.lane_jobs.finish(job)
            elif what < 0.85 and self.beside.pending:
                self.beside.run_one(chance.randrange(len(self.beside.pending)))
            elif what < 0.95 and self.lane_jobs.stages:
                bad = Failure("ProcessingError", "a bad line", "") if chance.random() < failures else None
                self.run_stage(bad)
            elif what > 0.98:
                self.clock[0] += chance.random()


def is_processing_error(error: BaseException) -> bool:
    return isinstance(error, ProcessingError)
