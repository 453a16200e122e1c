"""A stream thread: the loop that polls, processes, punctuates and commits, resident in one Spark task.

    ┌─► RESTORE ── a slice of the changelogs of tasks that do not work yet
    │       ▼
    │     POLL ─── records have come, a timer is due, and the pause after the last commit is over
    │       ▼
    │   PROCESS ── each task, those before a repartition first; then the punctuators
    │       ▼
    └── COMMIT ─── one transaction: outputs, changelogs, offsets; then the stores
            ▼
     the driver calls back, the time is over, or nothing comes ──► the Spark job ends; tasks and clients stay open

Nothing is in flight outside Kafka at a commit. So a thread can stop between any two batches, and another one can go on.
"""

from __future__ import annotations

import gc
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from penstock.batches.record_batch import RawBatch, RecordOrBatch, count_of
from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.client_metrics import PRODUCER
from penstock.kafka.clients import producer_config
from penstock.kafka.follow import Taken
from penstock.kafka.produce import ThreadProducer
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.runtime.task import TaskCommit
from penstock.spark.internals import own_executor_id
from penstock.spark.messages import Application, BatchReport, Residency, RestoreProgress, ThreadReport
from penstock.spark.queries.query_listener import QueryListener
from penstock.spark.worker.active_tasks import ActiveTasks
from penstock.spark.worker.busy_nodes import BusyNodes
from penstock.spark.worker.current_work import CurrentWork
from penstock.spark.worker.idle_clients import IdleClients
from penstock.spark.worker.pacing import Pacing
from penstock.spark.worker.record_ages import RecordAges
from penstock.spark.worker.repartitioning import Repartitions
from penstock.spark.worker.write_batch import TaskOutputs, write_batch
from penstock.usage import own_usage

# So soon a thread that waits notices that it is called back.
_LISTEN_SECONDS = 0.02
# A batch processes no longer than this, so that with its commit it takes three seconds at most.
_LONGEST_BATCH = 1.5
# In a backfill nobody waits for results.
_LONGEST_BACKFILL = 3.0
# Rows of history are read up to a common time. So long a batch may take to be processed whole, which keeps tasks in that order.
_LONGEST_HISTORY = 30.0
# How long a slice of a restore is: while nothing else of the thread works, and between two batches of its other tasks.
_RESTORE_ALONE, _RESTORE_BETWEEN = 1.0, 0.2
# Global tables are read by queries too: so soon they are brought up to date while no record comes that reads them.
_GLOBALS_SECONDS = 0.1
# What costs time to collect (metrics, CPU, memory) is reported about so often.
_REPORT_SECONDS = 1.0
_LOOK_SECONDS = 60.0
_MOST_BATCHES = 1_000
# A partition with more records queued than this, and than a batch takes, is not read on.
_FULL = 1_000


class StreamThread:
    """The open tasks, stores and clients of one stream thread, kept from residency to residency."""

    def __init__(
        self,
        application: Application,
        index: int,
        host: str | None = None,
        now: Callable[[], float] = monotonic,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.application, self.index = application, index
        self.worker, self._executor = f"{socket.gethostname()}:{os.getpid()}", own_executor_id()
        self._now, self._now_ms = now, now_ms
        config = application.config
        self.client_id = f"{application.client_id}-StreamThread-{index + 1}"
        threading.current_thread().name = self.client_id  # the thread-id of all metrics
        self.tasks = ActiveTasks(application, self.client_id)
        transactional_id = application.transactional_id(index) if config.eos_enabled else None
        producer_id = f"{self.client_id}-producer"
        settings = producer_config(config, producer_id)
        self.producer = ThreadProducer(settings, transactional_id, self.tasks.client_metrics(PRODUCER, producer_id))
        largest = int(settings.get("message.max.bytes", 1_000_000)) * 9 // 10
        self._repartitions = Repartitions(application.plan, config["repartition.format"], largest)
        self.work = CurrentWork()
        self.busy = BusyNodes(self.work, self.client_id) if config["application.server"] else None
        self.queries = QueryListener(application, self.tasks, host, self.work, self.take_report, self.close_tasks)
        self.ages = RecordAges() if config["application.server"] else None
        self.is_closed = False
        self.idle = IdleClients(self._rest, self.client_id)
        self._pacing = Pacing(0.1, config["batch.max.records"])
        self._positions: dict[TopicPartition, int] = {}
        """How far the partitions of open tasks have been read, whether processed or not."""
        self._behind: dict[TaskId, list[TopicPartition]] = {}
        """Tasks with records that wait for those of other partitions, which the brokers have."""
        self._timers: dict[TaskId, tuple[int | None, int | None]] = {}
        """When each task wants to run without input: by its punctuators, and by the end of its wait for a partition."""
        self._inputs: dict[TaskId, list[TopicPartition]] = {}
        """The partitions of each task that works."""
        self._readers: dict[TopicPartition, TaskId] = {}
        self._drains = False
        self._until: Mapping[TopicPartition, int] | None = None
        """In a backfill: the offset of each source partition from which nothing is read."""
        self._left_out: frozenset[TopicPartition] = frozenset()
        """The source partitions that are followed and not read, because the residency drains."""
        self._report, self._report_lock = ThreadReport(), threading.Lock()
        self._reported_at = self._globals_at = -_REPORT_SECONDS
        self._looked_at = now()
        self._longest = _LONGEST_BATCH
        self._group_metadata = b""

    # -- a residency ---------------------------------------------------------------------------------------------------

    def run(self, residency: Residency) -> None:
        """Run the loop until it is time to leave. What has been done is in the report, also if this raises."""
        with self.idle.in_use:
            self.queries.begin(residency.number)
            with self._report_lock:
                self._report.offsets, self._report.iterations, self._report.held = {}, 0, None
            self._group_metadata, self._drains = residency.group_metadata, residency.drains
            if residency.tables is not None:
                self.tasks.lookup_tables.update(residency.tables.value)
            self._bound(residency)
            self._own(residency)
            is_called_away = bool(residency.seconds) and self._loop(residency)
            self._tell(closing=True)
            if is_called_away:  # the thread may be paused, or lose its partitions
                self.tasks.follower.rest()

    def _bound(self, residency: Residency) -> None:
        """Take the limits of a residency: how large batches are, and up to where source partitions are read."""
        backfills = residency.until is not None
        self._pacing.limit(residency.commit_seconds, residency.max_records, backfills=backfills)
        if backfills != (self._until is not None):
            self.tasks.follower.rest()
        self._until, self._longest = residency.until, _LONGEST_BACKFILL if backfills else _LONGEST_BATCH
        self.tasks.enlarge_caches(backfills)

    def _own(self, residency: Residency) -> None:
        """Close the tasks that are not the thread's any more, and open those that are new."""
        with self.queries.batch, self._no_collections(), self.work.turn("open"):
            before = self.tasks.ids
            new = self.tasks.own({task: start.committed for task, start in residency.tasks.items()})
            gone = before - self.tasks.ids
            for task in gone:
                self._behind.pop(task, None)
            inputs = {p for task in self.tasks.ids for p in self.application.plan.inputs(task)}
            self._positions = {p: at for p, at in self._positions.items() if p in inputs}
            for task in new:
                self._positions.update(self.tasks.start_positions(residency.tasks[task]))
            self._repartitions.opened(self.tasks.repartition_ends(new))
            self._timers = {task: timers for task, timers in self._timers.items() if task in self.tasks.running}
        with self._report_lock:
            self._report.held = tuple(self.tasks.ids)
            self._report.created += len(new)
            self._report.closed += len(gone)

    def _loop(self, residency: Residency) -> bool:
        """Run until it is time to leave. Returns False if the time is over: what was fetched is kept for the next residency."""
        started = heard = free_at = self._now()
        follower, is_called = self.tasks.follower, self.queries.is_called_back
        self._follow()
        while not is_called(residency.number):
            now = self._now()
            with self._report_lock:
                self._report.iterations += 1
            if now - started > residency.seconds:
                return False
            self._restore_some()
            self._refresh_globals(now)
            due, waiting = self._due(), follower.waiting
            if follower.trouble:
                self._batch(self._read_troubled(), due, now)
                self._follow()
            elif (waiting or due) and (waiting >= self._pacing.records or follower.is_full or now >= free_at):
                follower.wait(0, self._pacing.records)  # what came during the last batch: small batches cost more commits
                taken = follower.take(self._pacing.records)
                self._batch(taken, due, now)
                heard = self._now() if taken.records else heard
                free_at = self._now() + self._pacing.pause
            elif not waiting and not self._awaits_more and now - heard > residency.idle_seconds:
                if follower.has_skipped:  # the ends of transactions: the driver would take them for records
                    self._batch(follower.take(self._pacing.records), due, now)
                with self._report_lock:
                    self._report.was_idle = True
                break
            else:
                heard = now if self.tasks.restoring else heard
                self._wait(bool(waiting or due), free_at)
                self._tell()
        return True

    @property
    def _awaits_more(self) -> bool:
        """Whether there will be work without new records: to restore, or when max.task.idle.ms is over if input has an end."""
        has_end = self._drains or self._until is not None
        return bool(self.tasks.restoring) or (has_end and any(idle is not None for _, idle in self._timers.values()))

    def _wait(self, has_work: bool, free_at: float) -> None:
        follower = self.tasks.follower
        if has_work:  # to wake up for each record costs more than to wait for some
            follower.wait_apart(max(0.0, free_at - self._now()), self.queries.leave.wait, self._pacing.records)
            return
        at = self._next_timer()
        until = _LISTEN_SECONDS if at is None else (at - self._now_ms()) / 1000
        if self.tasks.restoring:
            until = 0.0
        follower.wait(min(_LISTEN_SECONDS, max(0.0, until)), self._pacing.records)

    def _restore_some(self) -> None:
        if not self.tasks.restoring:
            return
        seconds = _RESTORE_BETWEEN if self.tasks.running else _RESTORE_ALONE
        found = ThreadReport()
        with self.queries.batch, self.work.turn("restore"):
            self.tasks.restore(self._now() + seconds, found)
        with self._report_lock:
            before = {progress.partition: progress.restored for progress in self._report.restoring}

            def whole(progress: RestoreProgress) -> RestoreProgress:
                """With what was restored before, and has not been reported yet."""
                return replace(progress, restored=progress.restored + before.get(progress.partition, 0))

            self._report.restoring = tuple(map(whole, found.restoring))
            self._report.restored += tuple(map(whole, found.restored))
        if self.tasks.running.keys() != self._inputs.keys():
            self._follow()
            self._tell(opening=True)

    def _follow(self) -> None:
        """Have the consumer follow the partitions of all tasks that work; if it drains, of those behind a repartition.

        A task that reads a source topic too has to know whether this has ended, so that its partition is followed and not taken.
        """
        self._inputs = self.tasks.inputs()
        self._readers = {partition: task for task, partitions in self._inputs.items() for partition in partitions}
        self._timers = {task: self._timers_of(task) for task in self._inputs}
        topics, followed, left_out = self.application.plan.repartition_topics, dict[TopicPartition, int](), set[TopicPartition]()
        for inputs in self._inputs.values():
            if not self._drains or any(partition.topic in topics for partition in inputs):
                followed |= {partition: self._positions[partition] for partition in inputs}
                left_out |= {partition for partition in inputs if self._drains and partition.topic not in topics}
        self._left_out = frozenset(left_out)
        self.tasks.follower.follow(followed, self._until)
        self._pause_full()

    def _pause_full(self) -> None:
        """Take no more records of partitions of which many are queued: they wait for another partition, or for time."""
        full = self.tasks.full_partitions(max(_FULL, self._pacing.records))
        self.tasks.follower.pause(full | self._left_out)

    # -- timers --------------------------------------------------------------------------------------------------------

    def _timers_of(self, task: TaskId) -> tuple[int | None, int | None]:
        return self.tasks.running[task].task.next_timer(), self.tasks.idle_deadline(task)

    def _next_timer(self) -> int | None:
        return min((at for timers in self._timers.values() for at in timers if at is not None), default=None)

    def _due(self) -> list[TaskId]:
        """The tasks whose timers are due, or that need not wait any longer for a partition that has nothing after all."""
        now, is_at_end = self._now_ms(), self.tasks.follower.is_at_end
        return [
            task
            for task, timers in self._timers.items()
            if any(at is not None and at <= now for at in timers)
            or (task in self._behind and all(map(is_at_end, self._behind[task])))
        ]

    # -- global tables -------------------------------------------------------------------------------------------------

    def _refresh_globals(self, now: float) -> None:
        if now - self._globals_at >= _GLOBALS_SECONDS and (ends := self.tasks.global_ends()):
            self._globals_at = now
            with self.queries.batch:
                self.tasks.catch_up_globals(ends)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def _read_troubled(self) -> Taken:
        """Read past what the consumer cannot read on: what is readable, and which batches are not."""
        follower = self.tasks.follower
        found = self.tasks.read_directly(
            {p: self._positions[p] for p in follower.trouble}, self._pacing.records, self._until or {}
        )
        follower.rest()
        return found

    def _batch(self, taken: Taken, due: Iterable[TaskId], started: float) -> None:
        """Process what was read, and commit.

        1. Hand the records to their tasks; process and punctuate, those before a repartition first.
        2. Write outputs and changelogs with the offsets as one transaction.
        3. Make the stores' changes durable.
        """
        clock = _StepClock()
        with self.queries.batch, self._no_collections(), self.work.turn("process"):
            try:
                self._positions.update({partition: found.end for partition, found in taken.ranges.items()})
                if ends := self.tasks.global_ends():  # a record finds the tables as they were when it had come
                    self.tasks.catch_up_globals(ends)
                if self.ages is not None:
                    self.ages.read(taken.columns)
                clock.lap("fetch")
                commits, processed = self._process(taken, set(due))
                clock.lap("process")
                self.work.step = "commit"
                produced = self._commit(commits)
                clock.lap("commit")
                if self.ages is not None:
                    self.ages.committed(self._now_ms())
                self.work.step = "store"
                for commit in commits:
                    self.tasks.post_commit(commit.task_id, self.producer)
                clock.lap("store")
            except BaseException:
                self.producer.abort()
                self.tasks.close_dirty()
                raise
        for commit in commits:
            self._timers[commit.task_id] = self._timers_of(commit.task_id)
        self._pause_full()
        waiting, seconds = self.tasks.follower.waiting, clock.seconds
        work = seconds["fetch"] + seconds["process"]
        behind = max(waiting, sum(self.tasks.follower.lags.values()))
        self._pacing.took(taken.records, work, seconds["commit"] + seconds["store"], behind)
        punctuated, seconds["punctuate"] = self.tasks.take_punctuations()
        read: dict[str, int] = {}
        for partition, columns in taken.columns.items():
            read[partition.topic] = read.get(partition.topic, 0) + len(columns)
        counts = processed, punctuated, produced, len(commits), waiting
        self._add_batch(BatchReport(time.time(), self._now() - started, read, *counts, seconds), commits)

    def _process(self, taken: Taken, due: set[TaskId]) -> tuple[list[TaskCommit], int]:
        """Process what each task has, level by level: tasks behind a repartition get what those before it have written."""
        positions, levels = self._positions, self.application.plan.levels
        self._repartitions.begin(self._inputs, positions)
        handed: dict[TopicPartition, range] = {}
        counted: dict[TaskId, int] = {}
        commits: dict[TaskId, TaskCommit] = {}
        processed, ends = 0, self._now() + self._longest
        if any(map(self.tasks.follower.reads_history, taken.ranges)):
            ends = self._now() + _LONGEST_HISTORY
        read = [(self._readers[partition], partition, found.end) for partition, found in taken.ranges.items()]
        for task, partition, end in read:  # before anything is handed over: what is in a topic is older
            processed += self.tasks.add(task, partition, taken.columns[partition], end)
        given = {task for task, _, _ in read}
        for level in sorted({levels[task.subtopology] for task in self._inputs}):
            outputs: dict[TaskId, list[RecordOrBatch]] = {}
            written_back: dict[TaskId, list[RecordOrBatch]] = {}
            tasks = sorted(task for task in self._inputs if levels[task.subtopology] == level)
            for number, task in enumerate(tasks):
                inputs = self._inputs[task]
                if not (task in given or task in counted or task in due):
                    continue
                processed += counted.get(task, 0)
                now = self._now()
                # What was handed over is processed whole; of the rest each task has its share of the time.
                until = math.inf if task in counted else now + max(0.0, ends - now) / (len(tasks) - number)
                processed += self.tasks.process(task, self._lags(task, inputs), until)
                left = [back for p in inputs if p in handed and (back := self._withdraw(task, p, handed[p])) is not None]
                commit = commits[task] = self.tasks.prepare_commit(task)
                outputs[task] = commit.outputs
                written_back[task] = [item for back in left for item in self._repartitions.write_back(back)]
            routed = self._repartitions.route(outputs)
            for task, written in routed.written.items():
                commits[task] = commits[task]._replace(outputs=[*written, *written_back[task]])
            for partition, block in routed.handed.items():
                task = self._readers[partition]
                numbers = self._repartitions.number(partition, len(block), positions[partition])
                handed.setdefault(partition, numbers)  # sub-topologies of several levels may write to a topic
                counts = self.tasks.add_block(task, partition, block, numbers, positions[partition])
                counted[task] = counted.get(task, 0) + counts
        return list(commits.values()), processed

    def _withdraw(self, task: TaskId, partition: TopicPartition, numbers: range) -> RawBatch | None:
        """What was handed to a task and waits for another of its partitions: at a commit it has to be in the topic."""
        return self.tasks.running[task].task.withdraw(partition, numbers.start)

    def _lags(self, task: TaskId, inputs: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Whether brokers have more of what a task reads; a task that reads one partition never asks."""
        own = list(inputs)
        if len(own) < 2:
            return dict.fromkeys(own, 0)
        found = {partition: 0 if self.tasks.follower.is_at_end(partition) else 1 for partition in own}
        behind = [partition for partition, lag in found.items() if lag]
        if behind and self.tasks.running[task].task.has_records_queued:
            self._behind[task] = behind
        else:
            self._behind.pop(task, None)
        return found

    def _commit(self, commits: Iterable[TaskCommit]) -> int:
        """Write what tasks want written, and commit it under exactly-once; returns how many records were written."""
        commits = list(commits)
        offsets = {p: o for commit in commits for p, o in commit.offsets.items()}
        produced = sum(count_of(commit.outputs) + count_of(commit.changelogs) for commit in commits)
        if not produced and not offsets:
            return 0
        parts = [TaskOutputs(self.tasks.running[c.task_id].task.collector, c.outputs, c.changelogs) for c in commits]
        if self.application.config.eos_enabled:
            write_batch(self.producer, parts, partial(self.producer.commit, offsets, self._group_metadata))
        else:
            write_batch(self.producer, parts, self.producer.flush)  # the driver commits the offsets: only a member may
        topics = self.application.plan.repartition_topics
        self._repartitions.wrote({p: end for p, end in self.producer.ends.items() if p.topic in topics})
        return produced

    # -- reports -------------------------------------------------------------------------------------------------------

    def take_report(self) -> ThreadReport:
        """What has been done since the last report; called by any thread."""
        with self._report_lock:
            report, self._report = self._report, ThreadReport()
            report.worker, report.executor = self.worker, self._executor
            self._report.iterations = report.iterations
            self._report.held, self._report.opened = report.held, report.opened
            self._report.offsets, self._report.restoring = dict(report.offsets), ()
            return report

    def _add_batch(self, batch: BatchReport, commits: Iterable[TaskCommit]) -> None:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {p: o for commit in commits for p, o in commit.offsets.items()}
        with self._report_lock:
            self._report.batches = (*self._report.batches[-_MOST_BATCHES:], batch)
            self._report.offsets.update(offsets)
        self._tell()

    def _tell(self, *, opening: bool = False, closing: bool = False) -> None:
        """Add to the report what is collected now and then; at once if tasks have begun to work, or the residency ends."""
        now = self._now()
        if not (opening or closing or (now - self._reported_at >= _REPORT_SECONDS and not self._report.metrics)):
            return
        self._reported_at = now
        self._serve()
        metrics, flow, used = self.tasks.metrics.update(), self.tasks.take_flow(), own_usage()
        if flow is not None and self.busy is not None and self.ages is not None:
            flow.busy, flow.ages = self.busy.take(), self.ages.take()
        timers = self._timers
        with self._report_lock:
            report = self._report
            report.opened = tuple(self.tasks.running)
            report.positions, report.lags = dict(self._positions), self.tasks.follower.lags
            report.timers = {task: min((at for at in some if at is not None), default=None) for task, some in timers.items()}
            report.idle_until = {task: idle for task, (_, idle) in timers.items()}
            report.usage = used.seconds, used.memory
            report.metrics += () if metrics is None else (metrics,)
            if flow is not None:
                if report.flow is None:
                    report.flow = flow
                else:
                    report.flow.add(flow)

    # -- clients -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the tasks and clients."""
        self.idle.close()
        if self.busy is not None:
            self.busy.close()
        self.queries.close()
        self.close_tasks()

    def close_tasks(self) -> None:
        """Close all but the thread's connections, when the residency is over, for good; called by any thread."""
        with self.idle.in_use, self.queries.batch:
            if not self.is_closed:
                self.is_closed = True
                self.tasks.close()
                self.producer.close()
                self.application.config.close_default_serdes()

    def _rest(self) -> None:
        """A thread that has had no residency for long fetches nothing."""
        if self.is_closed:
            return
        self.tasks.follower.rest()
        self._serve()

    def _serve(self) -> None:
        self.tasks.serve()
        self.producer.serve()

    # -- garbage -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _no_collections(self) -> Iterator[None]:
        """Batches are lists of many objects that live for a moment: to look through them for cycles costs a third of the time."""
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            self._collect_new()
            if enabled:
                gc.enable()

    def _collect_new(self) -> None:
        """Collect what is new. What survives is not looked at again for a minute: to look at all of it takes 30 ms."""
        now = time.monotonic()
        if now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            gc.unfreeze()
        else:
            gc.collect(0)
            gc.freeze()


class _StepClock:
    """How long each step of a batch took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = now - self._last
        self._last = now
