"""Submits residencies of stream threads, processes their reports, and reacts to failures.

    CREATED ── placed on an executor ──► a residency without tasks: the producer is opened
    free    ── tasks to open, records to read, a timer due ──► a residency: the thread's loop runs in one Spark task
    resident ─ reports about once a second; called back when the thread has something else to do
    failed  ── backs off and restarts from the last commits; the client decides on lasting errors

Threads share nothing and fail alone. Nothing here waits: requests to threads and brokers run in the background, and their
results are callbacks in the event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.backoff import Backoff
from penstock.client.scheduling.bounded_run import BoundedRun
from penstock.client.scheduling.event_queue import TICK, Background
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.failures import ThreadLostError, error_of, is_transient
from penstock.client.scheduling.run_state import RunPhase, RunState
from penstock.client.scheduling.supervised_thread import Job, SupervisedThread, ThreadPhase
from penstock.client.scheduling.task_manager import TaskManager
from penstock.client.scheduling.thread_roster import ThreadRoster
from penstock.clock import SystemClock, monotonic, wall_time
from penstock.config.streams_config import StreamsConfig
from penstock.errors import PenstockError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.clients import max_poll_seconds
from penstock.spark.driver.placement import SessionStoppedError
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.messages import BatchReport, ThreadReport

_log = logging.getLogger(__name__)

# The longest residency, and the longest while other Spark jobs wait for its core. Between two residencies there is a Spark
# job of 50 to 200 ms. A thread without records for `_IDLE_SECONDS` releases its core.
_LONGEST, _GIVE_WAY_AFTER, _IDLE_SECONDS = 30.0, 2.0, 5.0
# A draining thread ends sooner: brokers report the end of a partition within 100 ms.
_DRAINED_AFTER = 0.3
# So does a backfilling thread: a backfill is complete only when no thread is resident.
_BOUNDED_IDLE = 1.0
# The delay of the first report, which has the open tasks, and the interval of later ones.
_FIRST_REPORT, _REPORT_EVERY = 0.05, 1.0
# Spark ends workers that are idle for a minute, with their state in memory.
_ALIVE_EVERY = 40.0
# Delay for a thread whose executor is lost while others take its tasks: its new worker would take their CPU.
OTHERS_FIRST = 5.0
# A record that takes longer is a slow call: other tasks get their own threads.
_SLOW_RECORD = 0.1


class ThreadSupervisor:
    """Supervises the stream threads. Used by the event loop's thread."""

    def __init__(
        self,
        config: StreamsConfig,
        tasks: TaskManager,
        jobs: SparkThreads,
        events: Events,
        assignments: Assignments,
        run: RunState,
        background: Background,
        roster: ThreadRoster,
        bounded: BoundedRun,
    ) -> None:
        self._config, self._tasks, self._jobs, self._events = config, tasks, jobs, events
        self._assignments, self._run, self._background, self._roster = assignments, run, background, roster
        self._bounded = bounded
        self._commit_seconds = config["commit.interval.ms"] / 1000
        self._hangs_after = max_poll_seconds(config)
        self._longest = min(_LONGEST, self._hangs_after / 4)
        self._timeout = config["task.timeout.ms"] / 1000
        self._poll_seconds = config["poll.ms"] / 1000
        self._most_records = config["batch.max.records"]
        self._clock = SystemClock()
        self._number = 0
        self._backoff, self._rests_until = Backoff(), 0.0
        self.globals: list[TopicPartition] = []
        """The partitions of global topics: threads update their copies even without input."""
        self.on_begun: Callable[[], None] = lambda: None
        """Called when the worker of a thread has started: another thread may wait to move."""

    def guarded(self, thread: SupervisedThread | None, step: Callable[[], None]) -> None:
        """Run a step. An error fails its thread, or the instance."""
        try:
            step()
        except Exception as exc:  # noqa: BLE001 - the client decides on any error
            if thread is None:
                self._instance_failed(exc)
            else:
                self.thread_failed(thread, exc)

    # -- the next step of a thread -------------------------------------------------------------------------------------

    def step(self, thread: SupervisedThread) -> None:
        """Advance a thread towards its desired state."""
        self._update_phase(thread)
        if thread.job is not None:
            self._look_after(thread, thread.job)
        elif not thread.ends:
            self._begin_next(thread)

    def _begin_next(self, thread: SupervisedThread) -> None:
        if thread.on_left is not None and not thread.holds:
            self._roster.end(thread, thread.on_left)
            return
        if thread.phase is ThreadPhase.BACKING_OFF:
            if thread.backoff.rests:
                return
            thread.become(ThreadPhase.CREATED)
        if thread.phase is ThreadPhase.CREATED and self._is_spare(thread):
            if not thread.is_parked:
                self._park(thread)
            return
        if thread.phase is ThreadPhase.CREATED:
            if self._jobs.place_thread(thread.index):
                thread.goes_to = None
                self._tasks.place()
            self._submit(thread, frozenset(), -1, processes=False)
            return
        wanted = self._tasks.to_own(thread)
        if thread.goes_to is not None and self._may_leave(thread):
            self._roster.move(thread, thread.goes_to)
        elif self._has_work(thread, wanted):
            self._process(thread, wanted)
        elif wanted != thread.holds or thread.needs_check or self._needs_sign_of_life(thread):
            self._submit(thread, wanted, -1, processes=False)

    def _is_spare(self, thread: SupervisedThread) -> bool:
        """Return True if a thread without tasks gets no worker, which would keep an executor of dynamic allocation. The first
        one always starts.
        """
        return self._jobs.is_elastic and not self._tasks.wanted(thread) and thread.index != min(self._tasks.threads)

    def _park(self, thread: SupervisedThread) -> None:
        """Start a thread without a worker. Its transactional id is fenced from the driver."""
        job = thread.job = Job(0, frozenset())

        def parked(_: Future[None]) -> None:
            if thread.job is job:
                thread.job, thread.is_parked, thread.has_begun = None, True, True
                self._tasks.release(thread.index)
                self._tasks.stay_away(thread.index, away=False)

        self._background.then(self._background.submit(self._roster.fence, thread.index), parked)

    def redirect(self, thread: SupervisedThread, place: str) -> None:
        """Start a thread on another executor if it still waits for a core to start."""
        job, worker = thread.job, self._jobs.workers[thread.index]
        if thread.phase is ThreadPhase.CREATED and job is not None and worker.name in self._jobs.waits.seconds:
            self._jobs.cancel(thread.index, f"it begins on {place}")
            self._jobs.move_thread(thread.index, place)
            thread.begin_anew()

    def _has_work(self, thread: SupervisedThread, wanted: frozenset[TaskId]) -> bool:
        """Return True if the loop should run: tasks restore, or records may wait."""
        if not self._run.may_process or not (wanted or self.globals) or self._bounded.holds_back:
            return False
        if self._run.is_draining:
            return thread.has_unread
        if not thread.is_idle or wanted != thread.holds or not thread.running >= thread.holds:
            return True
        return self._tasks.timers_due(thread, self._clock.now_ms())

    def _process(self, thread: SupervisedThread, wanted: frozenset[TaskId]) -> None:
        with self._assignments.lock:  # no rebalance between the check and the submission
            membership = self._assignments.membership
            if membership is None or not self._run.may_process:
                return
            self._submit(thread, wanted, membership.generation, processes=True, group_metadata=membership.group_metadata)

    def _submit(
        self,
        thread: SupervisedThread,
        wanted: frozenset[TaskId],
        generation: int,
        *,
        processes: bool,
        group_metadata: bytes = b"",
    ) -> None:
        self._number += 1
        self._tasks.opening(thread, wanted)
        thread.needs_check = thread.is_idle = thread.gives_way = thread.has_unread = False
        drains = processes and self._run.is_draining
        until = self._bounded.of_tasks(wanted) if processes else None
        job = thread.job = Job(self._number, wanted, generation, processes, drains, until is not None)
        job.report_at, job.tables_version = job.started + _FIRST_REPORT, self._jobs.tables_version
        future = self._jobs.reside(
            thread.index,
            self._number,
            self._tasks.starts(wanted),
            group_metadata,
            seconds=self._longest if processes else 0.0,
            idle_seconds=_DRAINED_AFTER if drains else _IDLE_SECONDS if until is None else _BOUNDED_IDLE,
            commit_seconds=self._commit_seconds,
            max_records=min(self._most_records, thread.most_records or self._most_records),
            drains=drains,
            until=until,
        )
        self._background.then(future, self._answered, thread, job)

    def _may_leave(self, thread: SupervisedThread) -> bool:
        """Return True if a thread that moves to another executor has no tasks and others run them.

        It moves at once if its executor gets no more tasks from Spark.
        """
        if thread.index in self._jobs.refusals:
            return True
        if thread.holds or self._tasks.wanted(thread):
            return False
        waited = monotonic() - thread.free_since
        return waited > OTHERS_FIRST or all(self._tasks.is_ready(task) for task in self._tasks.owners)

    def _needs_sign_of_life(self, thread: SupervisedThread) -> bool:
        return bool(thread.holds) and monotonic() - self._jobs.workers[thread.index].last_used > _ALIVE_EVERY

    def _update_phase(self, thread: SupervisedThread) -> None:
        if thread.update_phase(self._tasks.wanted(thread)):
            self._events.on_thread(thread.index, thread.phase)

    # -- while a residency runs ----------------------------------------------------------------------------------------

    def _look_after(self, thread: SupervisedThread, job: Job) -> None:
        now = monotonic()
        if not job.is_called_back and job.processes and self.is_wanted_back(thread, job):
            job.is_called_back = True
            self._background.submit(self._jobs.call_back, thread.index, job.number)
        if job.processes and now >= job.report_at and (job.reporting is None or job.reporting.done()):
            every = _REPORT_EVERY if self._config.eos_enabled else min(_REPORT_EVERY, max(TICK, self._commit_seconds))
            job.report_at = now + (every if job.has_reported else _FIRST_REPORT)
            job.reporting = self._background.submit(self._ask_report, thread, job)
        waits = self._jobs.workers.get(thread.index)
        if waits is not None and waits.name in self._jobs.waits.seconds:
            job.moved_at = now  # it waits for a core and has not started
            leaves = thread.goes_to is not None or thread.on_left is not None
            if leaves and thread.index in self._jobs.refusals:  # it would never start on this executor
                self._jobs.cancel(thread.index, f"its executor {self._jobs.refusals[thread.index]}")
        if now - job.moved_at > self._hangs_after:
            job.moved_at = now + self._hangs_after  # it is cancelled only once
            self._background.do(f"end residency {job.number}", partial(self._end_hanging, thread.index, str(job)))

    def is_wanted_back(self, thread: SupervisedThread, job: Job) -> bool:
        """Return True if a thread has something else to do, or must move."""
        if thread.on_left is not None or thread.goes_to is not None or thread.error is not None:
            return True
        if thread.needs_check or thread.ends or thread.gives_way:
            return True
        membership = self._assignments.membership
        if not self._run.may_process or membership is None or membership.generation != job.generation:
            return True
        if (
            job.drains is not self._run.is_draining
            or job.is_bounded is not self._bounded.is_active
            or job.tables_version != self._jobs.tables_version
        ):
            return True
        return self._tasks.to_own(thread) != job.tasks

    def call_back_all(self) -> None:
        """End the residencies of all threads, because the instance stops."""
        for thread in self._tasks.threads.values():
            job = thread.job
            if job is not None and job.processes and not job.is_called_back:
                job.is_called_back = True
                self._background.submit(self._jobs.call_back, thread.index, job.number)

    def _end_hanging(self, thread: int, job: str) -> None:
        if thread not in self._jobs.workers:
            return  # it was replaced or removed meanwhile
        doing = self._jobs.doing(thread) or "its worker does not answer"
        reason = f"{job} made no progress for max.poll.interval.ms ({self._hangs_after:.0f} s): {doing}"
        _log.error("Stream thread %d counts as lost, and its tasks are opened again: %s", thread + 1, reason)
        self._jobs.cancel(thread, reason)

    def _ask_report(self, thread: SupervisedThread, job: Job) -> None:
        """Ask a resident thread for a report, and commit its offsets under at-least-once. Runs in the background."""
        report = self._jobs.report(thread.index, job.number)
        if report is None:
            return
        try:
            if not self._config.eos_enabled and report.offsets:
                self._assignments.commit(report.offsets, job.generation)
        except PenstockError as exc:
            _log.debug("Offsets of thread %d are committed later: %s", thread.index + 1, exc)
            report.offsets = {}
        self._background.queue.put(partial(self._reported, thread, job, report))

    def _reported(self, thread: SupervisedThread, job: Job, report: ThreadReport) -> None:
        if thread.job is job:
            job.has_reported = job.has_reported or report.held is not None
            if report.iterations != job.iterations:
                job.iterations, job.moved_at = report.iterations, monotonic()
            self.guarded(thread, partial(self._take_report, thread, report))

    def _take_report(self, thread: SupervisedThread, report: ThreadReport) -> None:
        self._tasks.reported(thread, report)
        self._events.on_reports({thread.index: report})
        for batch in report.batches:
            self._take_batch(thread, batch)
        self._update_phase(thread)

    def _take_batch(self, thread: SupervisedThread, batch: BatchReport) -> None:
        now = monotonic() - (wall_time() - batch.at)
        spread = self._tasks.spread
        spread.batch_done(now - batch.took, now, work=batch.work_seconds, records=batch.records, left=batch.waiting)
        if batch.processed and batch.seconds.get("process", 0.0) / batch.processed > _SLOW_RECORD:
            spread.pin("a record took long")
        thread.last_records = batch.records
        if thread.most_records is not None:  # restored slowly, because each batch that is still too large costs a whole timeout
            thread.most_records += max(1, thread.most_records // 10)
        self._events.on_batch(thread.index, batch)

    # -- the end of a residency ----------------------------------------------------------------------------------------

    def _answered(self, thread: SupervisedThread, job: Job, future: Future[ThreadReport]) -> None:
        if thread.job is not job:
            return
        if job.reporting is not None and not job.reporting.done():
            # The earlier report is committed first, or offsets would move back.
            self._background.then(job.reporting, lambda _: self._answered(thread, job, future))
            return
        self.guarded(thread, partial(self._take_answer, thread, job, self._jobs.answer(future)))

    def _take_answer(self, thread: SupervisedThread, job: Job, report: ThreadReport) -> None:
        if job.processes and report.offsets and not self._config.eos_enabled:
            # Only a group member may commit, so the worker did not.
            committing = self._background.submit(self._assignments.commit, report.offsets, job.generation)
            self._background.then(committing, self._committed, thread, job, report)
        else:
            self._end(thread, job, report)

    def _committed(self, thread: SupervisedThread, job: Job, report: ThreadReport, future: Future[None]) -> None:
        def end() -> None:
            future.result(0)
            self._end(thread, job, report)

        if thread.job is job:
            self.guarded(thread, end)

    def _end(self, thread: SupervisedThread, job: Job, report: ThreadReport) -> None:
        """End a residency: the thread is free for the next one, or has failed."""
        if report.failure is not None or report.lost:
            report.held = None
            self._take_report(thread, report)
            self._tasks.failed(thread)
            lost = TaskMigratedError("a stream thread has a new worker process. Its tasks are opened again")
            error = lost if report.failure is None else error_of(report.failure)
            if not self._is_gone(thread, error):
                self._tasks.release(thread.index)  # a worker that fails has nothing open
            raise error
        thread.job, thread.free_since = None, monotonic()
        if not thread.ends:
            if thread.phase is ThreadPhase.CREATED:
                self._tasks.release(thread.index)
                thread.become(ThreadPhase.OPENING)
                thread.has_begun = True
                self.on_begun()
                if thread.on_left is None and thread.goes_to is None:
                    self._tasks.stay_away(thread.index, away=False)
            thread.is_idle = report.was_idle
            thread.poll_at = thread.free_since
            if job.processes:
                thread.backoff.went_well()
        self._take_report(thread, report)
        if thread.error is not None:
            raise thread.error

    # -- failures ------------------------------------------------------------------------------------------------------

    def thread_failed(self, thread: SupervisedThread, error: BaseException) -> None:
        """Restart only this thread, from its last commits."""
        job = thread.job
        if thread.ends:
            thread.job = None
            return
        outside = thread.error
        self._tasks.failed(thread)
        thread.failed()
        self._events.on_thread(thread.index, thread.phase)
        if isinstance(error, SessionStoppedError):
            self._session_lost(error)
            return
        is_gone = self._is_gone(thread, error)
        if is_gone:
            self._leave_lost(thread)
        elif isinstance(error, ThreadLostError) and job is not None and job.processes and thread.last_records:
            thread.most_records = max(1, thread.last_records // 2)
            _log.warning(
                "Thread %d has lost its worker. Its next batch has at most %d records", thread.index + 1, thread.most_records
            )
        if outside is not None and is_transient(error):
            error = outside  # the client decides on this error; the transient one is retried anyway
        if isinstance(error, TaskMigratedError) and not self._assignments.is_adopted:
            _log.info("A commit was too late for its group generation and is repeated: %s", error)
            return
        if not isinstance(error, TaskMigratedError) and not is_gone:
            self._tasks.spread.pin("a task has failed")
        thread.backoff.failed()
        self._go_on_or_end(error, thread, thread.backoff.failing_seconds)

    def fail_between_batches(self, thread: SupervisedThread, error: BaseException) -> None:
        """Fail a thread for an error outside of it, such as an exception of a listener. A running batch is committed first."""
        if thread.job is None:
            self.thread_failed(thread, error)
        else:
            thread.error = error

    def _is_gone(self, thread: SupervisedThread, error: BaseException) -> bool:
        """Return True if a thread failed because its executor is lost."""
        return isinstance(error, ThreadLostError) and not self._jobs.is_alive(thread.index)

    def _leave_lost(self, thread: SupervisedThread) -> None:
        """Move the tasks of a thread whose executor is lost to other threads.

        The executor may be lost while its host is up: the worker may live and commit its batch. Under exactly-once its
        transactional id is therefore fenced before the offsets of its tasks are read.
        """
        if self._tasks.stay_away(thread.index, away=True):
            thread.backoff.rest(OTHERS_FIRST)

        is_refused = thread.index in self._jobs.refusals  # the worker lives and holds the locks of its tasks

        def leave() -> None:
            if is_refused:
                self._jobs.close_worker(thread.index)
            if self._config.eos_enabled:
                self._roster.fence(thread.index)

        def release() -> None:
            # otherwise it has restarted, which fenced its predecessor
            if thread.phase in (ThreadPhase.BACKING_OFF, ThreadPhase.CREATED):
                self._tasks.release(thread.index)

        if is_refused or self._config.eos_enabled:
            self._background.then(self._background.submit(leave), lambda _: release())
        else:
            release()

    def take_lost(self, lost: Mapping[int, str]) -> None:
        """Fail threads whose executors are lost. Their jobs fail too, but only after Spark has retried them elsewhere."""
        for index, executor in lost.items():
            thread = self._tasks.threads.get(index)
            if thread is None or thread.ends or thread.phase is ThreadPhase.BACKING_OFF:
                continue
            if self._jobs.workers[index].executor != executor:
                continue
            if thread.is_open and thread.job is None and not thread.holds and not self._tasks.wanted(thread):
                thread.begin_anew()  # it had no tasks
            elif thread.job is not None or thread.is_open:
                self.thread_failed(thread, ThreadLostError(f"the executor of a stream thread, {executor}, is lost"))

    @property
    def rests(self) -> bool:
        """True before a failed reading of offsets may be repeated."""
        return monotonic() < self._rests_until

    def went_well(self) -> None:
        """Record that offsets were read."""
        self._backoff.went_well()

    def _instance_failed(self, error: BaseException) -> None:
        """Handle an error that concerns no single thread."""
        if isinstance(error, SessionStoppedError):
            self._session_lost(error)
        elif is_transient(error):
            self._rests_until = monotonic() + self._backoff.failed()
            self._go_on_or_end(error, None, self._backoff.failing_seconds)
        elif not self._events.on_failure(error, None):
            self._run.become(RunPhase.FAILED)

    def _session_lost(self, error: SessionStoppedError) -> None:
        """Restart all threads if the client has made another session; otherwise fail."""
        for thread in self._tasks.threads.values():
            self._tasks.failed(thread)
            thread.begin_anew()
            thread.has_begun = False
            self._tasks.release(thread.index)
        self._run.told_running = False
        self._events.on_rebalancing()
        if not self._events.on_failure(error, None):
            self._run.become(RunPhase.FAILED)

    def _go_on_or_end(self, error: BaseException, thread: SupervisedThread | None, failing_seconds: float) -> None:
        """Retry transient errors until `task.timeout.ms`. The client decides on others."""
        if is_transient(error):
            if failing_seconds < self._timeout:
                _log.warning("Processing failed and continues from the last commit: %s", error)
                return
            _log.error("Processing has failed for longer than task.timeout.ms. Giving up")
        if not self._events.on_failure(error, None if thread is None else thread.index):
            self._run.become(RunPhase.FAILED)

    # -- other Spark jobs ----------------------------------------------------------------------------------------------

    def long_residents(self) -> list[SupervisedThread]:
        """Return the threads that have been resident long enough to release their core to another Spark job."""
        now = monotonic()
        jobs = [(thread, thread.job) for thread in self._tasks.threads.values()]
        return [thread for thread, job in jobs if job is not None and job.processes and now - job.started > _GIVE_WAY_AFTER]

    def give_way(self, others_wait: bool) -> None:
        """End the residencies of long-resident threads if other Spark jobs wait for a core."""
        if others_wait:
            for thread in self.long_residents():
                thread.gives_way = True

    # -- idle threads --------------------------------------------------------------------------------------------------

    def idle_threads(self) -> list[SupervisedThread]:
        """Return idle threads whose partitions are due for a check."""
        now = monotonic()
        return [
            thread
            for thread in self._tasks.threads.values()
            if thread.job is None and thread.is_open and thread.is_idle and now >= thread.poll_at
        ]

    def wake(self, threads: list[SupervisedThread], ends: Mapping[TopicPartition, int], *, all_of_them: bool) -> None:
        """Start residencies of threads that have records to read, given the ends of their logs."""
        now = monotonic()
        for thread in threads:
            at = self._tasks.positions_of(thread)
            thread.is_idle = not all_of_them and all(ends.get(partition, reached) == reached for partition, reached in at.items())
            thread.poll_at = now + self._poll_seconds
