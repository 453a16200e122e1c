"""The event loop of an instance: one thread in the driver that owns the state of tasks and threads.

    GroupMember ── assignments ──►┌────────────┐── residencies, call back ──► ThreadSupervisor ──► Spark
    KafkaStreams ── close, pause ►│ event loop │◄── reports, failures ────────
    brokers ── offsets, log ends ►└────────────┘── the state of each task ──► TaskManager

Other threads, brokers and the group put callbacks into the event queue. After the callbacks the loop compares the desired and
the actual state of each thread and begins the next step. If a step fails, nothing has to be undone. The loop makes no
blocking call: requests to brokers, stores and Spark run in the background.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from penstock.client.replicas.local_replicas import LocalReplicas
from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.bounded_run import BoundedRun, InputEnds
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

# Concurrent background work: requests to brokers and threads, commits, threads that close.
_BACKGROUND_THREADS = 16


class EventLoop:
    """Runs the tasks of one instance on its stream threads until stopped."""

    def __init__(
        self,
        config: StreamsConfig,
        plan: Plan,
        jobs: SparkThreads,
        admin: Admin,
        offsets: TaskOffsets,
        events: Events,
        executor: Executor | None = None,
        ends: InputEnds | None = None,
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
        self.bounded = BoundedRun(self.tasks, admin, self._run, self._background, ends)
        self._supervisor = ThreadSupervisor(*common, self.assignments, self._run, self._background, self._roster, self.bounded)
        self._idle = IdlePolling(config, self.tasks, admin, self._run, self._background, self._supervisor, self.bounded)
        self._draining = Draining(config, self.tasks, admin, self._run, self._background)
        self._housekeeping = Housekeeping(*common, admin, self.assignments, self._background, self._supervisor)
        self._supervisor.on_begun = self._housekeeping.look_for_places
        events.standbys.on_restore = events.on_restore
        events.standbys.on_progress = self._nudge
        events.standbys.on_let_go = self.queue.wake
        events.standbys.on_failed = self._copy_failed

    # -- commands ------------------------------------------------------------------------------------------------------

    def stop(self, seconds: float | None = None) -> None:
        """Stop when the running batches are committed.

        The last member of a group first drains its repartition topics (`client/scheduling/draining.py`), for at most half of
        `seconds`, which is the caller's timeout.
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
        """Stop or continue processing and restoring."""
        self._run.become(RunPhase.PAUSED if paused else RunPhase.ACTIVE)

    def halt(self) -> None:
        """Stop processing and wait until the group asks all instances to stop."""
        self._run.become(RunPhase.HALTED)

    def end(self) -> None:
        """Stop as if a member had asked the whole application to stop."""
        self._run.become(RunPhase.SHUT_DOWN)

    def fail(self, error: BaseException) -> None:
        """Handle a failure outside of a thread. Any thread may call this. The error of a task fails the task's thread."""
        self.queue.put(partial(self._failed_outside, error))

    def _failed_outside(self, error: BaseException) -> None:
        task = error.task_id if isinstance(error, StreamsError) else None
        thread = None if task is None else self.tasks.threads.get(self.tasks.owners.get(task, -1))
        if self._run.is_over:
            _log.error("A further failure while the application ends: %s", error, exc_info=error)
        elif thread is not None and thread.is_open:
            self._supervisor.fail_between_batches(thread, error)
        else:  # no thread can be restarted for it
            raise error

    def _copy_failed(self, task: TaskId, failure: Failure) -> None:
        """Report an error of a standby that a retry cannot cure, such as a user's store that raises. The standby is retried
        anyway.
        """
        error = error_of(failure)
        if is_transient(error) or isinstance(error, OSError):
            _log.info("The standby of task %s is retried after an error: %s", task, error)
            return
        failed = StreamsError(f"The standby of task {task} failed: {error}")
        failed.task_id, failed.__cause__ = task, error
        self.fail(failed)

    def revoked(self, lost: bool = False) -> Stopped:
        """Begin a rebalance (see `Assignments.revoked`)."""
        return self.assignments.revoked(lost)

    def assigned(self, membership: Membership) -> None:
        """Take over the assignment of a new generation."""
        with self.queue.lock:
            if membership.shutdown_requested:
                self._run.become(RunPhase.SHUT_DOWN)
            self.assignments.assigned(membership)

    def change_threads(self, change: ThreadChange) -> None:
        """Add or remove a thread. The change has a callback for its completion."""
        self._roster.ask(change)

    def replace_thread(self, old: int, new: int, name: str, on_done: Callable[[], None] = lambda: None) -> None:
        """Replace a failed thread by a new one in the same worker. Called on the event loop's thread."""
        self._roster.replace(old, new, name, on_done)

    def replace_plan(self, plan: Plan, offsets: TaskOffsets) -> None:
        """Use another plan from the next generation on. Waits for running batches."""
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
        """Set the partitions of global topics. Threads update their copies of them even without input."""
        self._supervisor.globals = partitions

    def reopen(self) -> None:
        """Check the workers of all threads, because one does not answer queries."""

        def doubt() -> None:
            for thread in self.tasks.threads.values():
                thread.needs_check = True

        self.queue.put(doubt)

    def _nudge(self) -> None:
        """Continue tasks that wait for copies, and request a rebalance when warm-ups are ready."""
        if self.tasks.adopted is None or self.member is None:
            return
        if self.copies.restoring:
            self.queue.wake()
        if self.copies.warm_ups_are_ready():
            self.assignments.probe()

    # -- values --------------------------------------------------------------------------------------------------------

    @property
    def member(self) -> GroupClient | None:
        """The group member of this instance, None before it is made."""
        return self.assignments.member

    @member.setter
    def member(self, member: GroupClient) -> None:
        self.assignments.member = member

    @property
    def membership(self) -> Membership | None:
        """The last generation of this instance, None before the first."""
        return self.assignments.last

    @property
    def shares_work(self) -> bool:
        """True if the group has other members."""
        membership = self.assignments.membership
        return membership is not None and len(membership.hosts) > 1

    def holdings(self) -> tuple[tuple[TaskId, ...], tuple[TaskId, ...], dict[TaskId, int]]:
        """Return the data for the group: this instance's tasks, standbys and state positions."""
        with self.queue.lock:
            membership, running = self.assignments.claimed, list(self.tasks.owners)
        return self.copies.holdings(membership, running)

    @property
    def owners(self) -> dict[TaskId, int]:
        """The thread of each task."""
        return dict(self.tasks.owners)

    @property
    def standbys(self) -> LocalReplicas:
        """The standbys and warm-ups of this instance."""
        return self.copies.standbys

    @property
    def standby_hosts(self) -> Mapping[TaskId, str]:
        """The host of each standby here; the empty string is the driver's own."""
        return self.standbys.wanted

    @property
    def waiting_for_core(self) -> Mapping[str, float]:
        """The waiting time of each thread that waits for a core of Spark, by name."""
        return self._jobs.waits.seconds

    @property
    def is_open(self) -> bool:
        """True if all tasks are open and restored."""
        return self._run.told_running and not self._run.is_closing

    def is_ready(self, task: TaskId) -> bool:
        """Return True if a task is open and restored here, so that its committed state can be read."""
        return not self._run.is_closing and self.tasks.is_ready(task)

    def has_globals(self, thread: int) -> bool:
        """Return True if a thread with its copy of the global tables is open."""
        found = self.tasks.threads.get(thread)
        return found is not None and found.is_open and not self._run.is_closing

    @property
    def has_begun(self) -> bool:
        """True if every thread's worker has started, or failed to start."""
        return all(t.has_begun or t.phase is ThreadPhase.BACKING_OFF for t in list(self.tasks.threads.values()))

    @property
    def polls(self) -> int:
        """The number of requests for the ends of logs."""
        return self._idle.asked

    @property
    def is_processing(self) -> bool:
        """True if any thread may be processing."""
        return processes_any(list(self.tasks.threads.values()))

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until stopped, or until a failure that stops the client. Waits for running batches."""
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
        """Run the queued callbacks, then advance every thread."""
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
        guarded(None, self.bounded.look)

    def _follow_assignments(self) -> None:
        """Adopt the last assignment: change threads, adopt and give up tasks, read offsets of new ones."""
        if self.member is not None and self.member.failure is not None:
            error = BrokerError(f"The application cannot be a member of its group: {self.member.failure}")
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
        """Report the instance's state, which follows from its tasks and threads."""
        running = self.assignments.membership is not None and self.assignments.is_adopted and self.tasks.are_running
        if self._run.is_halted or self._run.is_closing or (self.assignments.is_pausing and self._run.told_running):
            return
        if running != self._run.told_running:
            self._run.told_running = running
            (self._events.on_running if running else self._events.on_rebalancing)()


class _NotProcessing:
    """An event that is set while no thread processes."""

    def __init__(self, tasks: TaskManager) -> None:
        self._tasks = tasks

    def is_set(self) -> bool:
        """Return True if no thread processes."""
        return not processes_any(list(self._tasks.threads.values()))
