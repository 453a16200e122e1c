"""An instance whose threads, brokers and group are simulated, on a clock of its own: everything happens when it is told to.

The event loop is the real one, with its real TaskManager and ThreadSupervisor. Simulated workers check what no event loop may
ever cause: reading anything twice or leaving anything out, opening a task in two threads, running two jobs in one thread.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from penstock.client.scheduling.bounded_run import InputEnds
from penstock.client.scheduling.event_loop import EventLoop
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.task_manager import Read, Reading
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.clock import ManualClock
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import Membership
from penstock.log_bounds import LogBounds
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.messages import BatchReport, Failure, TaskStart, ThreadReport
from penstock.spark.plan import Plan

WORDS = "app-words-repartition"


def make_plan(sources: int, targets: int, orders: int) -> Plan:
    """The tasks 0_n read `lines` and write to a repartition topic, which the tasks 1_n read; the tasks 2_n read `orders`."""

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
    )


class Brokers:
    """Logs that only have ends, and what the group has committed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.ends: Counter[TopicPartition] = Counter()
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.consumed: Counter[tuple[TopicPartition, int]] = Counter()
        """How often each offset was consumed in a batch that was committed."""
        self.written: dict[TopicPartition, list[tuple[TopicPartition, int]]] = {}
        """What was written to the repartition topic: made of which offset of which partition."""
        self.away: set[TopicPartition] = set()
        """Partitions whose leaders do not answer."""
        self.waiting: set[TopicPartition] = set()
        """Repartition partitions whose records wait for a source topic."""
        self.generation: int | None = None
        """The generation of the group that may commit; any may if it is None."""

    def reachable_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        return {p: self.ends[p] for p in partitions if p not in self.away}

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

    def consume(self, partition: TopicPartition, offsets: range) -> None:
        """A task has read these offsets, and what it has done is committed; tasks that read lines write words."""
        for offset in offsets:
            self.consumed[partition, offset] += 1
            if partition.topic == "lines":
                for number in range(self._plan.partitions[WORDS]):
                    target = TopicPartition(WORDS, number)
                    self.written.setdefault(target, []).append((partition, offset))
                    self.ends[target] += 1


@dataclass
class Worker:
    """What the worker of a thread has open: how far each task has read each partition."""

    tasks: dict[TaskId, dict[TopicPartition, int]] = field(default_factory=dict)
    running: set[TaskId] = field(default_factory=set)


@dataclass
class Resident:
    """A job that was asked for: a residency, or the end of a thread."""

    thread: int
    number: int = 0
    starts: Mapping[TaskId, TaskStart] = field(default_factory=dict)
    generation: int | None = None
    processes: bool = False
    drains: bool = False
    until: Mapping[TopicPartition, int] | None = None
    close: Callable[[], None] | None = None
    future: Future[Any] = field(default_factory=Future)
    has_begun: bool = False
    is_called: bool = False
    report: ThreadReport = field(default_factory=ThreadReport)

    @property
    def goes_on(self) -> bool:
        """Whether the thread goes round its loop once more; one that drains leaves after a batch."""
        return self.processes and not self.is_called and not (self.drains and self.has_begun)


class SparkThreads:
    """Threads whose jobs run when they are told to, one after the other in each, and fail when they are told to."""

    def __init__(self, brokers: Brokers, plan: Plan, threads: int, exactly_once: bool) -> None:
        self._brokers, self._plan, self._exactly_once = brokers, plan, exactly_once
        self.workers: dict[int, Any] = {}
        self.processes: dict[int, Worker] = {}
        self.pending: dict[int, deque[Resident]] = {}
        self.application = SimpleNamespace(client_id="app", transactional_id=lambda thread: f"app-{thread}")
        self.updaters = SimpleNamespace(is_local=False, hosts=lambda: [""])
        self.others_wait = False
        self.waits = SimpleNamespace(seconds={}, look=lambda names: None, anybody_waits=lambda: self.others_wait)
        self.places: dict[int, str] = {}
        self.refusals: dict[int, str] = {}
        self.tables_version = 0
        self.is_elastic = False
        self.working: frozenset[int] = frozenset()
        self.closed: list[int] = []
        """Threads whose workers were told to close what they have open, without a Spark job."""
        self.lost: set[str] = set()
        """Executors that are gone."""
        self.restores = 0
        """How many of the tasks that a thread opens have still to be restored."""
        self.deaf: set[int] = set()
        """Threads whose jobs take their time, until they are told to end, or cancelled."""
        self.cancelled: list[tuple[int, str]] = []
        self.opened: list[list[TaskId]] = []
        """What threads were told to own, in order, each time it was something else than before."""
        self.drained: list[int] = []
        """The threads that were told to read only repartition topics, in order."""
        for thread in range(threads):
            self.add_thread(thread, f"t{thread + 1}")

    @property
    def hosts(self) -> dict[int, str]:
        return dict.fromkeys(self.workers, "")

    @property
    def neighbours(self) -> Counter[int]:
        return Counter()

    def add_thread(self, index: int, name: str) -> None:
        assert index not in self.workers
        self.workers[index] = SimpleNamespace(name=name, last_used=float("inf"), executor=f"executor_host_{index}")
        self.processes[index], self.pending[index] = Worker(), deque()

    def take_thread(self, index: int) -> Any:
        return self.workers.pop(index)

    def end_thread(self, index: int, thread: Any, timeout: float = 10.0) -> None:
        self.processes[index] = Worker()
        while self.pending[index]:
            self.pending[index].popleft().future.cancel()

    def pass_on(self, index: int, successor: int, name: str) -> Future[bytes]:
        assert successor not in self.workers
        self.workers[successor] = self.workers.pop(index)
        self.workers[successor].name = name
        self.processes[successor], self.pending[successor] = Worker(), deque()

        def close() -> None:
            self.processes[index] = Worker()

        return self._ask(Resident(successor, close=close))

    def place_thread(self, index: int) -> bool:
        if self.is_alive(index):
            return False
        self.workers[index].executor += "_again"
        self.refusals = {thread: why for thread, why in self.refusals.items() if thread != index}
        return True

    def is_alive(self, index: int) -> bool:
        return self.workers[index].executor not in self.lost and index not in self.refusals

    def lose_executor(self, index: int) -> None:
        """The executor of a thread is gone, with its worker."""
        self.lost.add(self.workers[index].executor)
        self.processes[index] = Worker()
        for job in list(self.pending[index]):
            self.fail(job, lost=True)

    def lost_threads(self) -> dict[int, str]:
        found = {index: thread.executor for index, thread in self.workers.items() if thread.executor in self.lost}
        for index in found:  # what runs there is cancelled
            for job in list(self.pending[index]):
                self.fail(job, lost=True)
        return found

    def slots(self) -> int:
        return len(self.workers)

    def better_places(self) -> dict[int, str]:
        return self.places

    def close_worker(self, index: int) -> bool:
        assert not self.pending[index], "a worker is told to close that has a job"
        self.closed.append(index)
        self.processes[index] = Worker()
        return True

    def move_thread(self, index: int, place: str) -> None:
        assert not self.processes[index].tasks, "a thread moves that has something open"
        self.workers[index].executor = place
        self.refusals = {thread: why for thread, why in self.refusals.items() if thread != index}
        self.places = {thread: other for thread, other in self.places.items() if thread != index}

    def doing(self, thread: int) -> str:
        return f"task {max(self.processes[thread].tasks)} runs an operator"

    def cancel(self, thread: int, reason: str) -> None:
        self.cancelled.append((thread, reason))
        self.deaf.discard(thread)
        self.fail(self.pending[thread][0], lost=True)

    def check_session(self) -> None:
        """It is there."""

    def answer(self, future: Future[ThreadReport]) -> ThreadReport:
        try:
            return future.result(0)
        except Exception as exc:  # noqa: BLE001 - as the real one does
            return ThreadReport(lost=True, failure=Failure("ThreadLost", str(exc), ""))

    def call_back(self, thread: int, number: int) -> bool:
        for job in self.pending[thread]:
            if job.number == number:
                job.is_called = True
        return True

    def report(self, thread: int, number: int) -> ThreadReport | None:
        job = next((job for job in self.pending.get(thread, ()) if job.number == number and job.has_begun), None)
        if job is None or thread in self.deaf:
            return None
        report, job.report = job.report, ThreadReport(held=job.report.held, opened=job.report.opened)
        job.report.offsets, job.report.iterations = dict(report.offsets), report.iterations + 1
        return report

    # jobs

    def reside(self, thread: int, number: int, tasks: Mapping[TaskId, TaskStart], group_metadata: bytes, **limits: Any) -> Any:
        owned = sorted(tasks)
        if owned != sorted(self.processes[thread].tasks):
            self.opened.append(owned)
        if limits["drains"]:
            self.drained.append(thread)
        generation = int(group_metadata or b"0")
        return self._ask(
            Resident(thread, number, dict(tasks), generation, limits["seconds"] > 0, limits["drains"], limits["until"])
        )

    def _ask(self, job: Resident) -> Future[Any]:
        assert job.thread in self.workers, "a job for a thread that is gone"
        assert all(other.close is not None for other in self.pending[job.thread]), "two jobs in one thread"
        self.pending[job.thread].append(job)
        return job.future

    def advance(self, job: Resident) -> None:
        """One round of a thread's loop: open what it is to own, then a batch of all that has come."""
        if not job.has_begun:
            self._open(job)
        elif job.processes and not self._is_refused(job):
            self._batch(job)

    def finish(self, job: Resident) -> None:
        """A job goes well, and ends."""
        if not job.has_begun:
            self.advance(job)
        if job.processes and not job.is_called and job.report.failure is None:
            self.advance(job)
        assert self.pending[job.thread].popleft() is job
        if job.report.failure is not None:
            self.processes[job.thread] = Worker()
        job.future.set_result(job.report if job.close is None else b"")

    def fail(self, job: Resident, *, committed: bool = False, lost: bool = False, failure: Failure | None = None) -> None:
        """A job fails: its last batch is committed or not, and its worker is there to tell or not."""
        if committed and job.processes:
            if not job.has_begun:
                self.advance(job)
            self.advance(job)
        assert self.pending[job.thread].popleft() is job
        self.processes[job.thread] = Worker()
        if lost:
            job.future.set_exception(RuntimeError("the worker died"))
        else:
            job.report.failure = job.report.failure or failure or Failure("ProcessingError", "a bad record", "")
            job.future.set_result(job.report)

    def _open(self, job: Resident) -> None:
        job.has_begun = True
        if job.close is not None:
            job.close()
            return
        worker = self.processes[job.thread]
        worker.tasks = {task: at for task, at in worker.tasks.items() if task in job.starts}
        for task in job.starts.keys() - worker.tasks.keys():
            for other, has in self.processes.items():
                assert other == job.thread or task not in has.tasks, f"{task} is open in two threads"
            worker.tasks[task] = at = dict(job.starts[task].offsets)
            if self._exactly_once and self._brokers.generation is None:
                known = {p: self._brokers.committed[p].offset if p in self._brokers.committed else 0 for p in at}
                assert at == known, f"{task} is opened at {at}, but {known} is committed"
        worker.running &= set(job.starts)
        self._restore(job, worker)

    def _restore(self, job: Resident, worker: Worker) -> None:
        waiting = sorted(worker.tasks.keys() - worker.running)
        if waiting and (job.processes or not self.restores):
            worker.running |= set(waiting[: max(1, len(waiting) - self.restores)])
        job.report.held, job.report.opened = tuple(worker.tasks), tuple(worker.running)

    def _is_refused(self, job: Resident) -> bool:
        if self._exactly_once and self._brokers.generation is not None and job.generation != self._brokers.generation:
            job.report.failure = Failure("TaskMigratedError", "an old generation", "")
            job.is_called = True
            return True
        return False

    def _batch(self, job: Resident) -> None:
        worker, read = self.processes[job.thread], Counter[str]()
        self._restore(job, worker)
        for task in sorted(worker.running):
            for partition, at in worker.tasks[task].items():
                end = max(at, self._brokers.ends[partition])
                if job.until is not None and partition.topic not in self._plan.repartition_topics:
                    end = max(at, min(end, job.until[partition]))
                if job.drains and (partition.topic not in self._plan.repartition_topics or partition in self._brokers.waiting):
                    continue
                if end == at:
                    continue
                self._brokers.consume(partition, range(at, end))
                worker.tasks[task][partition] = end
                read[partition.topic] += end - at
                job.report.offsets[partition] = OffsetAndMetadata(end)
        if self._exactly_once:
            self._brokers.committed.update(job.report.offsets)
        job.report.positions = {p: at for task in worker.tasks.values() for p, at in task.items()}
        job.report.lags = dict.fromkeys(job.report.positions, 0)
        job.report.iterations += 1
        if read:
            job.report.batches += (BatchReport(0.0, 0.01, dict(read), processed=read.total(), tasks=len(worker.running)),)


class Background(Executor):
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
        threads: int,
        guarantee: str = "exactly_once_v2",
        plan: Plan | None = None,
        brokers: Brokers | None = None,
        ends: InputEnds | None = None,
        jobs: SparkThreads | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock
        self.plan = plan or make_plan(3, 4, 2)
        self.brokers = brokers or Brokers(self.plan)
        self.exactly_once = guarantee == "exactly_once_v2"
        config = self.config = StreamsConfig(
            {"application.id": "app", "bootstrap.servers": "b:1", "processing.guarantee": guarantee, **settings}
        )
        self.jobs_of = jobs or SparkThreads(self.brokers, self.plan, threads, self.exactly_once)
        self.background = Background()
        self.told: list[str] = []
        self.failures: list[tuple[BaseException, int | None]] = []
        self.on_failure: Callable[[BaseException, int | None], bool] = lambda error, thread: False
        builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: None)
        offsets = TaskOffsets(
            *(self.plan, "app", self.brokers, self.brokers.read_committed, builder, "earliest", ManualClock(0)),  # type: ignore[arg-type]
            committed_only=self.exactly_once,
        )
        self.events = Events(
            lambda: self.told.append("running"), lambda: self.told.append("rebalancing"), on_failure=self._failed
        )
        fakes: Any = (self.jobs_of, self.brokers, offsets)
        self.loop = EventLoop(config, self.plan, *fakes, self.events, executor=self.background, ends=ends)
        self.loop.member = SimpleNamespace(  # type: ignore[assignment]
            failure=None, is_leader=True, commit=self._commit, request_rejoin=lambda: None
        )
        self.generation = 0
        self.read: list[list[TaskId]] = []
        """The tasks whose offsets were read from Kafka, in order."""
        read = self.loop.tasks.read

        def reading(asked: Reading) -> Read:
            self.read.append(sorted(asked.tasks))
            return read(asked)

        self.loop.tasks.read = reading  # type: ignore[method-assign]

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: int, whole: bool = False) -> None:
        self.brokers.committed.update(offsets)

    def _failed(self, error: BaseException, thread: int | None) -> bool:
        self.failures.append((error, thread))
        return self.on_failure(error, thread)

    def assign(self, *tasks: TaskId) -> None:
        self.generation += 1
        self.loop.assigned(Membership(self.generation, b"", tasks or tuple(self.plan.tasks())))

    def produce(self, topic: str, partition: int, count: int = 1) -> None:
        self.brokers.ends[TopicPartition(topic, partition)] += count

    def jobs(self) -> list[Resident]:
        return [jobs[0] for jobs in self.jobs_of.pending.values() if jobs and jobs[0].thread not in self.jobs_of.deaf]

    def step(self) -> None:
        self.clock[0] += 0.01
        self.loop.step()

    def do_background(self) -> None:
        while self.background.pending:
            self.background.run_one()

    def until(self, condition: Callable[[], Any], rounds: int = 400) -> None:
        """Steps of the loop and work in the background until something is so; threads go round their loops, and do not leave."""
        for _ in range(rounds):
            if condition():
                return
            self.step()
            self.do_background()
            for job in self.jobs():
                if not job.goes_on:
                    self.jobs_of.finish(job)
                elif not job.has_begun:
                    self.jobs_of.advance(job)
        raise AssertionError("it never came to that")

    def residents(self) -> list[Resident]:
        """The threads that process now."""
        return [job for job in self.jobs() if job.processes]

    def owned(self) -> dict[int, int]:
        """How many tasks the worker of each thread has open."""
        return {thread: len(self.jobs_of.processes[thread].tasks) for thread in sorted(self.jobs_of.workers)}

    def play(self) -> None:
        """Each thread goes round its loop once; those that are called back, or only open, end their jobs."""
        for job in self.jobs():
            if job.goes_on:
                self.jobs_of.advance(job)
            else:
                self.jobs_of.finish(job)

    def settle(self, rounds: int = 150) -> None:
        """Let everything that was begun go well, again and again."""
        for _ in range(rounds):
            self.clock[0] += 0.05
            self.step()
            self.play()
            self.do_background()

    def wants(self) -> set[tuple[TopicPartition, int]]:
        """All there is to consume."""
        return {
            (TopicPartition(topic, p), offset)
            for topic in ("lines", "orders", WORDS)
            for p in range(self.plan.partitions[topic])
            for offset in range(self.brokers.ends[TopicPartition(topic, p)])
        }

    def shake(self, chance: random.Random, steps: int, *, failures: float) -> None:
        """Whatever can happen happens, in any order."""
        for _ in range(steps):
            self.step()
            what = chance.random()
            if what < 0.25:
                topic, partitions = chance.choice([("lines", 3), ("orders", 2)])
                self.produce(topic, chance.randrange(partitions), chance.randrange(1, 9))
            elif what < 0.75 and (jobs := self.jobs()):
                self._shake_job(chance, chance.choice(jobs), failures)
            elif what < 0.97 and self.background.pending:
                self.background.run_one(chance.randrange(len(self.background.pending)))
            elif what > 0.98:
                self.clock[0] += chance.random()

    def _shake_job(self, chance: random.Random, job: Resident, failures: float) -> None:
        if chance.random() < failures:
            self.jobs_of.fail(job, committed=chance.random() < 0.5, lost=chance.random() < 0.5)
        elif job.processes and not job.is_called and chance.random() < 0.8:
            self.jobs_of.advance(job)
        else:
            self.jobs_of.finish(job)


def consumed_once(world: World) -> None:
    missing = [entry for entry in world.wants() if not world.brokers.consumed[entry]]
    assert (len(missing), missing[:1]) == (0, [])
    twice = [entry for entry, times in world.brokers.consumed.items() if times > 1]
    assert (len(twice), twice[:1]) == (0, [])
