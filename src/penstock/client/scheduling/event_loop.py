"""The event loop of an instance: one thread in the driver that knows the tasks and threads, and waits for nothing.

    GroupMember ── assignments ──►┌────────────┐── residencies, call back ──► ThreadSupervisor ──► Spark
    KafkaStreams ── close, pause ►│ event loop │◄── reports, failures ────────
    brokers ── offsets, log ends ►└────────────┘── the state of each task ──► TaskManager

What other threads, brokers and the group have to say is a callback in the event queue. After the callbacks every thread is looked
at: what should be is compared with what is, and the next step towards it begins. So there is nothing to be undone when something
fails in between. The event loop makes no blocking call: requests to brokers, stores and Spark run in the background.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from penstock.client.replicas.local_replicas import LocalReplicas
from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.draining import Draining
from penstock.client.scheduling.event_queue import TICK, Background, EventQueue
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.failures import error_of, is_transient
from penstock.client.scheduling.housekeeping import Housekeeping
from penstock.client.scheduling.idle_polling import IdlePolling
from penstock.client.scheduling.run_state import RunPhase, RunState
from penstock.client.scheduling.supervised_thread import SupervisedThread, ThreadPhase, processes_any
from penstock.client.scheduling.task_manager import Read, Reading, TaskManager
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.client.scheduling.task_spread import TaskSpread
from penstock.client.scheduling.thread_roster import ThreadChange, ThreadRoster
from penstock.client.scheduling.thread_supervisor import ThreadSupervisor
from penstock.client.scheduling.vector_upgrade import VectorUpgrade
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError, StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.group_client import GroupClient, Stopped
from penstock.kafka.membership import Membership
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.messages import Failure
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

# How many things run in the background at a time: requests to brokers and threads, commits, threads that close.
_BACKGROUND_THREADS = 16


class EventLoop:
    """Runs the tasks of one instance over its stream threads, until told to stop."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        jobs: SparkThreads,
        admin: Admin,
        offsets: TaskOffsets,
        events: Events,
        executor: Executor | None = None,
    ) -> None:
        self._jobs, self._events = jobs, events
        always = config["task.spread"] == "always" or config["num.stream.threads"] is not None
        self.tasks = TaskManager(config, plan, jobs, admin, offsets, events, TaskSpread(always=always))
        self.tasks.threads = {index: SupervisedThread(index) for index in jobs.workers}
        self.copies = self.tasks.copies
        self.queue = EventQueue()
        name = f"{jobs.application.client_id}-background"
        self._background = Background(executor or ThreadPoolExecutor(_BACKGROUND_THREADS, thread_name_prefix=name), self.queue)
        self.assignments = Assignments(config, self.tasks, self.queue, _NotProcessing(self.tasks))
        self._run = RunState(self.assignments, self.queue)
        self._upgrade = VectorUpgrade(self.assignments, self._background)
        self._roster = ThreadRoster(config, self.tasks, jobs, self._background)
        common = config, self.tasks, jobs, events
        self._supervisor = ThreadSupervisor(*common, self.assignments, self._run, self._background, self._roster)
        self._idle = IdlePolling(config, self.tasks, admin, self._run, self._background, self._supervisor)
        self._draining = Draining(config, self.tasks, admin, self._run, self._background)
        self._housekeeping = Housekeeping(*common, admin, self.assignments, self._background, self._supervisor)
        self._supervisor.on_begun = self._housekeeping.look_for_places
        events.standbys.on_restore = events.on_restore
        events.standbys.on_progress = self._nudge
        events.standbys.on_let_go = self.queue.wake
        events.standbys.on_failed = self._copy_failed

    # -- told from outside ---------------------------------------------------------------------------------------------

    def stop(self, seconds: float | None = None) -> None:
        """End when the batches that run are committed.

        The only member of a group reads its repartition topics to their ends first (`draining.py`). That takes half of `seconds`
        at most, which is how long the caller waits.
        """
        if seconds == 0 or self.shares_work or not self._draining.is_needed:
            self._run.become(RunPhase.STOPPING)
        else:
            self.queue.put(partial(self._drain, None if seconds is None else seconds / 2))

    def _drain(self, seconds: float | None) -> None:
        if self._run.become(RunPhase.DRAINING):
            self._draining.begin(seconds)
        else:
            self._run.become(RunPhase.STOPPING)

    def pause(self, paused: bool) -> None:
        """Process and restore nothing while paused."""
        self._run.become(RunPhase.PAUSED if paused else RunPhase.ACTIVE)

    def halt(self) -> None:
        """Process nothing more, and wait for the group to tell all instances to stop."""
        self._run.become(RunPhase.HALTED)

    def end(self) -> None:
        """End as the wish of a member that the whole application stops does."""
        self._run.become(RunPhase.SHUT_DOWN)

    def fail(self, error: BaseException) -> None:
        """Have a failure outside of a thread dealt with; called on any thread. An error of a task fails the task's thread."""
        self.queue.put(partial(self._failed_outside, error))

    def _failed_outside(self, error: BaseException) -> None:
        task = error.task_id if isinstance(error, StreamsError) else None
        thread = None if task is None else self.tasks.threads.get(self.tasks.owners.get(task, -1))
        if self._run.is_over:
            _log.error("a further failure of an application that ends: %s", error, exc_info=error)
        elif thread is not None and thread.is_open:
            self._supervisor.fail_between_batches(thread, error)
        else:  # there is no thread that could begin anew now
            raise error

    def _copy_failed(self, task: TaskId, failure: Failure) -> None:
        """Tell the client of an error that waiting does not cure, such as a user's store that raises; the copy is tried again."""
        error = error_of(failure)
        if is_transient(error) or isinstance(error, OSError):
            _log.info("a copy of task %s is tried again: %s", task, error)
            return
        failed = StreamsError(f"the copy of task {task} failed: {error}")
        failed.task_id, failed.__cause__ = task, error
        self.fail(failed)

    def revoked(self, lost: bool = False) -> Stopped:
        """The group rebalances; what is returned is set when what has to stop has stopped (`Assignments.revoked`)."""
        return self.assignments.revoked(lost)

    def assigned(self, membership: Membership) -> None:
        """The part of a new generation that is ours; what we keep goes on as it is."""
        with self.queue.lock:
            if membership.shutdown_requested:
                self._run.become(RunPhase.SHUT_DOWN)
            self.assignments.assigned(membership)

    def change_threads(self, change: ThreadChange) -> None:
        """Add or remove a thread; the change says when that is done."""
        self._roster.ask(change)

    def replace_thread(self, old: int, new: int, name: str, on_done: Callable[[], None] = lambda: None) -> None:
        """Put a new thread in the place of one that failed, in its worker; called on the event loop's own thread."""
        self._roster.replace(old, new, name, on_done)

    def replace_plan(self, plan: Plan, offsets: TaskOffsets) -> None:
        """Other topics than before: the next generation of the group works by this plan. Waits for the batches that run."""
        done = threading.Event()

        def replace() -> None:
            self.assignments.forget()
            if self.is_processing:
                self.queue.put_later(replace)
                return
            for thread in self.tasks.threads.values():
                thread.begin_anew()
            self.tasks.replace_plan(plan, offsets)
            self._upgrade.look_again()
            done.set()

        self.assignments.drop()
        self.queue.put(replace)
        while not done.wait(TICK) and not self._run.is_over:
            pass

    def watch_globals(self, partitions: list[TopicPartition]) -> None:
        """Partitions of global topics: threads keep copies of them, also without input."""
        self._supervisor.globals = partitions

    def reopen(self) -> None:
        """A thread does not answer readers any more: see whether its worker is there, also if there is nothing to process."""

        def doubt() -> None:
            for thread in self.tasks.threads.values():
                thread.is_doubted = True

        self.queue.put(doubt)

    def _nudge(self) -> None:
        """Copies have come further: what waits for them goes on, and the group is asked when a warm-up is ready."""
        if self.tasks.adopted is None or self.member is None:
            return
        if self.copies.restoring:
            self.queue.wake()
        if self.copies.warm_ups_are_ready():
            self.assignments.probe()

    # -- asked from outside --------------------------------------------------------------------------------------------

    @property
    def member(self) -> GroupClient | None:
        """This instance as a member of the group, once there is one."""
        return self.assignments.member

    @member.setter
    def member(self, member: GroupClient) -> None:
        self.assignments.member = member

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group that this instance was part of; None before the first."""
        return self.assignments.last

    @property
    def shares_work(self) -> bool:
        """Whether other instances are members of the group."""
        membership = self.assignments.membership
        return membership is not None and len(membership.hosts) > 1

    def holdings(self) -> tuple[tuple[TaskId, ...], tuple[TaskId, ...], dict[TaskId, int]]:
        """What this instance tells the group: tasks it runs, tasks it has copies of, and how far their state is."""
        with self.queue.lock:
            membership, running = self.assignments.claimed, list(self.tasks.owners)
        return self.copies.holdings(membership, running)

    @property
    def owners(self) -> dict[TaskId, int]:
        """The thread of each task."""
        return dict(self.tasks.owners)

    @property
    def standbys(self) -> LocalReplicas:
        """The copies of state that this instance keeps."""
        return self.copies.standbys

    @property
    def standby_hosts(self) -> Mapping[TaskId, str]:
        """The host of each standby task that this instance keeps; empty for the driver's own."""
        return self.standbys.wanted

    @property
    def waiting_for_core(self) -> Mapping[str, float]:
        """How many seconds each thread has waited that waits for a core of Spark now, by its name."""
        return self._jobs.waits.seconds

    @property
    def is_open(self) -> bool:
        """Whether all tasks are open and restored."""
        return self._run.told_running and not self._run.is_closing

    def is_ready(self, task: TaskId) -> bool:
        """Whether a task of this instance is open and restored: what it has committed can be read."""
        return not self._run.is_closing and self.tasks.is_ready(task)

    def has_globals(self, thread: int) -> bool:
        """Whether a thread is open, and its copy of the global tables with it."""
        found = self.tasks.threads.get(thread)
        return found is not None and found.is_open and not self._run.is_closing

    @property
    def has_begun(self) -> bool:
        """Whether the worker of every thread is there, or has failed to be."""
        return all(t.has_begun or t.phase is ThreadPhase.BACKING_OFF for t in list(self.tasks.threads.values()))

    @property
    def polls(self) -> int:
        """How often the ends of logs have been asked for."""
        return self._idle.asked

    @property
    def is_processing(self) -> bool:
        """Whether any thread may be processing."""
        return processes_any(list(self.tasks.threads.values()))

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until stopped, or until a failure that the client does not want to survive; batches that run are waited for."""
        try:
            while not self._run.is_over or self.is_processing:
                self.step()
                self.queue.sleep(TICK)
        finally:
            self._background.close()
            for thread in self.tasks.threads.values():
                if not thread.ends:
                    thread.become(ThreadPhase.CLOSING)
            self._draining.tell_unread()

    def step(self) -> None:
        """Take up the callbacks, then bring every thread a step further."""
        guarded = self._supervisor.guarded
        while (callback := self.queue.take()) is not None:
            guarded(None, callback)
        if self._run.is_over:
            guarded(None, self._supervisor.call_back_all)
            for thread in list(self.tasks.threads.values()):
                if thread.job is not None:
                    guarded(thread, partial(self._supervisor.step, thread))
            return
        guarded(None, self._follow_assignments)
        for thread in list(self.tasks.threads.values()):
            guarded(thread, partial(self._supervisor.step, thread))
        if self._run.is_draining:
            self._draining.look(shares_work=self.shares_work)
            return
        guarded(None, self._idle.look)
        guarded(None, self._housekeeping.look)
        guarded(None, self._tell_state)

    def _follow_assignments(self) -> None:
        """Go by the last assignment: threads come and go, tasks are adopted and given up, offsets of new ones are read."""
        if self.member is not None and self.member.failure is not None:
            error = BrokerError(f"the application cannot be a member of its group: {self.member.failure}")
            error.__cause__ = self.member.failure
            self._events.on_failure(error, None)
            self._run.become(RunPhase.FAILED)
            return
        membership, number, elsewhere = self.assignments.latest()
        self._roster.change()
        if membership is None or self._run.is_halted or self._supervisor.rests:
            return
        if number != self.assignments.adopted_at:
            self.tasks.adopt(membership, elsewhere)
            self.assignments.adopted_at = number
        if not self._run.is_paused and (restored := self.copies.restored()):
            self._background.do("open transactions", partial(self.copies.decided, restored), self.tasks.take_back)
        if self._upgrade.is_done(membership, self.tasks.offsets) and (reading := self.tasks.next_reading(number)) is not None:
            self._background.then(self._background.submit(self.tasks.read, reading), self._take_read, reading)

    def _take_read(self, reading: Reading, future: Future[Read]) -> None:
        try:
            self.tasks.take(future.result(0))
            self._events.on_assigned()
            self._supervisor.went_well()
        except Exception:
            self.tasks.failed_to_read(reading)
            raise

    def _tell_state(self) -> None:
        """The state of the instance follows from those of its tasks and threads."""
        running = self.assignments.membership is not None and self.assignments.is_adopted and self.tasks.are_running
        if self._run.is_halted or self._run.is_closing or (self.assignments.is_pausing and self._run.told_running):
            return
        if running != self._run.told_running:
            self._run.told_running = running
            (self._events.on_running if running else self._events.on_rebalancing)()


class _NotProcessing:
    """Set while no thread processes."""

    def __init__(self, tasks: TaskManager) -> None:
        self._tasks = tasks

    def is_set(self) -> bool:
        """Whether nothing runs that changes anything."""
        return not processes_any(list(self._tasks.threads.values()))
