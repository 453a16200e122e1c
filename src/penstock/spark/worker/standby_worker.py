"""Copies of state, seen from the worker process that keeps them: a thread that follows changelogs, and short jobs that ask it.

The thread lives from job to job; a job tells it which tasks to keep copies of and takes its report home. So no core of Spark
is held while it works, and no turn waits for it. The module is imported by name in the worker: `_UPDATERS` lives as long as
the process does.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import LockError, SerializationError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.batch_ends import BatchEnds
from penstock.kafka.clients import admin_config, log_reader_config, reads_committed, restore_consumer_config
from penstock.kafka.fetch import MOST_BYTES, FetchRange, LenientFetcher
from penstock.kafka.log_transport import log_transport
from penstock.log_lines import LogLine, kept_lines
from penstock.metrics.registry import Metrics
from penstock.runtime.processor_topology import ProcessorTopology
from penstock.runtime.standby_task import StandbyTask
from penstock.runtime.state_manager import ProcessorStateManager
from penstock.runtime.task_metrics import TaskMetrics
from penstock.spark.messages import Application, Failure
from penstock.spark.raised import Raised
from penstock.spark.worker import step_sizes
from penstock.spark.worker.residency import unpacked
from penstock.state.cache import RecordCache
from penstock.state.directory import StateDirectory, state_dir_here
from penstock.state.engines.rocksdb_files import delete_folder
from penstock.wire import Codec

_log = logging.getLogger(__name__)

# How often the ends of the changelogs are looked at while nothing is missing, and how long one that failed is left alone.
_LOOK_SECONDS, _RETRY_SECONDS = 0.1, 1.0
# How long a changelog that cannot be read is left alone.
_STUCK_SECONDS = 10.0

_UPDATERS: dict[str, StandbyUpdater] = {}


@dataclass(frozen=True)
class StandbyUpdate:
    """Keep copies of exactly these tasks. `limits` holds back changelogs that are input topics to what was committed.

    While `paused` copies stay as they are: none is opened and none comes further, but those not asked for are closed.
    """

    key: str
    application: bytes
    tasks: tuple[TaskId, ...]
    limits: Mapping[TopicPartition, int] = field(default_factory=dict)
    paused: bool = False


@dataclass(frozen=True)
class Loaded:
    """How far one store's copy is: `offset` is the next one to be read, `start` where it began."""

    task_id: TaskId
    store: str
    partition: TopicPartition
    start: int
    offset: int
    end: int
    records: int = 0


@dataclass
class UpdateAnswer:
    """Where the copies are now, what was loaded since the last answer, and what is closed."""

    worker: str
    copies: tuple[Loaded, ...] = ()
    batches: tuple[Loaded, ...] = ()
    failures: dict[TaskId, Failure] = field(default_factory=dict)
    busy_seconds: float = 0.0
    logs: tuple[LogLine, ...] = ()


_ANSWERS = Codec(UpdateAnswer, Loaded, LogLine, TaskId, TopicPartition, Failure, Raised)


def write_update(answer: UpdateAnswer) -> bytes:
    """The answer of an updater as it travels."""
    return _ANSWERS.encode(answer)


def read_update(data: bytes) -> UpdateAnswer:
    """What an updater answered, from bytes; raises `SerializationError` where it is no answer."""
    found = _ANSWERS.decode(data)
    if not isinstance(found, UpdateAnswer):
        raise SerializationError(f"an updater said something that is no answer: {type(found).__name__}")
    return found


def update_standbys(turn: StandbyUpdate, rows: Iterator[Any]) -> Iterator[bytes]:
    """One job of an updater: tell it what to keep, wait until it has let go of the rest, and take its report, as bytes."""
    list(rows)
    updater = _UPDATERS.get(turn.key)
    if updater is None:
        for key in [k for k in _UPDATERS if k.rpartition("#")[0] == turn.key.rpartition("#")[0]]:
            _UPDATERS.pop(key).close()  # an earlier start of the same application, or an earlier plan of it
        updater = _UPDATERS[turn.key] = StandbyUpdater(unpacked(turn.application))
    updater.keep(turn.tasks, turn.limits, paused=turn.paused)
    yield write_update(updater.report())


def close_updater(key: str, rows: Iterator[Any]) -> Iterator[bytes]:
    """Close all copies and end the thread."""
    list(rows)
    updater = _UPDATERS.pop(key, None)
    if updater is not None:
        updater.close()
    yield b""


class _Copy:
    """One task's copy."""

    def __init__(self, task: StandbyTask, stores: Mapping[TopicPartition, str]) -> None:
        self.task = task
        self.stores = stores
        self.start = task.initialize()
        self.offsets = dict(self.start)
        self.ends: dict[TopicPartition, int] = {}

    def loaded(self, partition: TopicPartition, records: int = 0) -> Loaded:
        at = self.offsets[partition]
        store, end = self.stores[partition], self.ends.get(partition, at)
        return Loaded(self.task.task_id, store, partition, self.start[partition], at, end, records)


class StandbyUpdater:
    """Keeps copies of tasks up to date with their changelogs, on a thread of its own."""

    def __init__(self, application: Application) -> None:
        self._application = application
        config = application.config
        kept_lines()
        client_id = f"{application.client_id}-StateUpdater"
        settings = restore_consumer_config(config, f"{client_id}-restore-consumer")
        self._committed_only = reads_committed(settings)
        self._admin = Admin(admin_config(config, client_id))
        reader = log_reader_config(config, f"{client_id}-restore-consumer")
        ends = BatchEnds(lambda: log_transport(reader, self._admin.leader, self._committed_only))
        self._fetcher = LenientFetcher(settings, batch_end=ends, most_bytes=MOST_BYTES)
        self._directory = StateDirectory(
            state_dir_here(config["state.dir"]),
            config["application.id"],
            allow_group_write=config["allow.os.group.write.access"],
        )
        self._metrics = Metrics()
        self._changed = threading.Condition()
        self._wanted: tuple[TaskId, ...] = ()
        self._limits: Mapping[TopicPartition, int] = {}
        self._paused = self._rests = False
        self._copies: dict[TaskId, _Copy] = {}
        self._batches: list[Loaded] = []
        self._failures: dict[TaskId, Failure] = {}
        self._retry_at: dict[TaskId, float] = {}
        self._stuck_until: dict[TopicPartition, float] = {}
        self._busy_seconds = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)
        self._thread.start()

    # -- asked by jobs -------------------------------------------------------------------------------------------------

    def keep(
        self, tasks: tuple[TaskId, ...], limits: Mapping[TopicPartition, int], timeout: float = 30.0, *, paused: bool = False
    ) -> None:
        """Keep copies of exactly these; returns when all others are closed, their folders free, and none moves that is paused."""
        with self._changed:
            self._wanted, self._limits, self._paused = tasks, limits, paused
            self._changed.notify_all()
            self._changed.wait_for(lambda: set(self._copies) <= set(tasks) and (self._rests or not paused), timeout)

    def report(self) -> UpdateAnswer:
        """What has happened since the last report."""
        with self._changed:
            copies = tuple(copy.loaded(p) for copy in self._copies.values() for p in copy.offsets)
            worker = f"{socket.gethostname()}:{os.getpid()}"
            batches, logs = tuple(self._batches), kept_lines().take()
            answer = UpdateAnswer(worker, copies, batches, dict(self._failures), self._busy_seconds, logs)
            self._busy_seconds = 0.0
            self._batches.clear()
            self._failures.clear()
            return answer

    def close(self) -> None:
        """Close everything."""
        with self._changed:
            self._wanted, self._closing = (), True
            self._changed.notify_all()
        self._thread.join(30)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                closing, wanted, paused = self._closing, self._wanted, self._paused
                self._rests = paused
                self._changed.notify_all()
            self._reconcile(wanted, paused)
            if closing:
                self._fetcher.close()
                return
            try:
                moved = not paused and self._load_some()
            except Exception as exc:  # noqa: BLE001 - brokers that are away come back; the copies only get older
                _log.warning("copies of %s could not be updated now: %s", self._application.config["application.id"], exc)
                moved = False
                time.sleep(_RETRY_SECONDS)
            with self._changed:
                if not moved and not self._closing and (self._wanted, self._paused) == (wanted, paused):
                    self._changed.wait(_LOOK_SECONDS if self._copies and not paused else 1.0)

    def _reconcile(self, wanted: tuple[TaskId, ...], paused: bool) -> None:
        for task_id in [task for task in self._copies if task not in wanted]:
            self._close_copy(task_id)
        for task_id in () if paused else wanted:
            if task_id not in self._copies and time.monotonic() >= self._retry_at.get(task_id, 0.0):
                try:
                    copy = self._open_copy(task_id)
                except BaseException as exc:  # noqa: BLE001 - told to the conductor; tried again in a moment
                    self._failed(task_id, exc)
                    continue
                with self._changed:
                    self._copies[task_id] = copy

    def _open_copy(self, task_id: TaskId) -> _Copy:
        config = self._application.config
        self._directory.lock(task_id)
        try:
            changelogs = self._application.plan.changelogs(task_id)
            logs = self._admin.log_bounds(changelogs, self._committed_only)
            copy = _Copy(open_standby(self._application, self._directory, task_id, self._metrics), changelogs)
            misfits = copy.task.state_manager.misfits(logs)
            if misfits:
                copy.task.close()
                for folder in misfits.values():
                    delete_folder(folder)
                copy = _Copy(open_standby(self._application, self._directory, task_id, self._metrics), changelogs)
            copy.task.state_manager.note_logs(logs)
        except BaseException:
            self._directory.unlock(task_id)
            raise
        _log.info("task %s of %s: a copy follows the changelogs from %s", task_id, config["application.id"], copy.start)
        return copy

    def _failed(self, task_id: TaskId, error: BaseException) -> None:
        """Have the conductor decide on an error of a copy, or of a user's store; the copy is opened again in a moment."""
        self._retry_at[task_id] = time.monotonic() + (0.1 if isinstance(error, LockError) else _RETRY_SECONDS)
        with self._changed:
            self._failures[task_id] = Failure.of(error)

    def _close_copy(self, task_id: TaskId) -> None:
        copy = self._copies[task_id]
        try:
            copy.task.close()
        except BaseException as exc:  # noqa: BLE001 - told to the conductor; the thread goes on with the other copies
            self._failed(task_id, exc)
        finally:
            self._directory.unlock(task_id)
            with self._changed:
                del self._copies[task_id]
                self._changed.notify_all()

    def _load_some(self) -> bool:
        """Read the next part of every changelog that has more; whether there was any."""
        now = time.monotonic()
        owners = {
            partition: copy
            for copy in self._copies.values()
            for partition in copy.offsets
            if now >= self._stuck_until.get(partition, 0.0)
        }
        if not owners:
            return False
        ends = self._admin.reachable_ends(owners, self._committed_only, known_only=True)
        starts = self._admin.log_starts([p for p, end in ends.items() if end > owners[p].offsets[p]])
        if self._drop_misfits(owners, ends, starts):
            return True
        ranges = []
        for partition, log_end in ends.items():
            copy = owners[partition]
            end = min(log_end, self._limits.get(partition, log_end))
            at = max(copy.offsets[partition], starts.get(partition, 0))
            with self._changed:
                copy.ends[partition] = max(end, copy.offsets[partition])
            if end > at:
                ranges.append(FetchRange(partition.topic, partition.partition, at, end))
        step = step_sizes.of_standby(len(ranges))
        ranges = [r._replace(end=min(r.end, r.start + step)) for r in ranges]
        started = time.monotonic()
        fetched = self._fetcher.fetch(ranges) if ranges else {}
        short = self._fetcher.take_short()
        for read in ranges:
            partition = TopicPartition(read.topic, read.partition)
            copy, records, reached = owners[partition], fetched[partition], read.end
            task_id = copy.task.task_id
            if partition in short:
                reached = short[partition].offset
                if not short[partition].out_of_range and not short[partition].is_enough:
                    self._stuck_until[partition] = time.monotonic() + _STUCK_SECONDS
                if not short[partition].is_enough:
                    _log.warning("%s cannot be followed at offset %d now: %s", partition, reached, short[partition].reason)
            if task_id not in self._copies:
                continue  # another of its changelogs has failed
            try:
                copy.task.update(partition, records, reached)
            except BaseException as exc:  # noqa: BLE001 - told to the conductor; the other copies go on
                self._close_copy(task_id)
                self._failed(task_id, exc)
                continue
            with self._changed:
                copy.offsets[partition] = reached
                if len(records):
                    self._batches.append(copy.loaded(partition, len(records)))
        if ranges:
            with self._changed:
                self._busy_seconds += time.monotonic() - started
        return bool(ranges)

    def _drop_misfits(
        self,
        owners: Mapping[TopicPartition, _Copy],
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
    ) -> bool:
        """Close copies whose positions are not in their changelogs (any more): opened again, they begin anew.

        The log has moved on without the copy, or was made anew. The other copies go on.
        """
        at = {partition: owners[partition].offsets[partition] for partition in ends}
        doubtful = [p for p, offset in at.items() if offset > ends[p] or 0 < offset < starts.get(p, 0)]
        logs = self._admin.log_bounds(doubtful, self._committed_only, reachable=True)
        lost = {owners[p].task.task_id for p, log in logs.items() if log.misfit(at[p]) is not None}
        for task_id in lost:
            self._close_copy(task_id)
        return bool(lost)


def open_standby(application: Application, directory: StateDirectory, task_id: TaskId, metrics: Metrics) -> StandbyTask:
    """A standby task over the folder of a task, not initialized yet."""
    subtopology = application.plan.subtopologies[task_id.subtopology]
    inputs = [TopicPartition(topic, task_id.partition) for topic in subtopology.source_topics]
    folder = directory.get_or_create_directory_for_task(task_id)
    state = ProcessorStateManager(task_id, folder, subtopology.store_to_changelog, inputs)
    topology = ProcessorTopology.of(subtopology)
    return StandbyTask(task_id, topology, application.config, state, TaskMetrics(metrics, task_id), RecordCache(0))


def stored_offsets(application: Application, directory: StateDirectory, tasks: Any = None) -> dict[TaskId, int]:
    """How far the state on this machine's disk has read its changelogs, for each task whose folder nobody uses now."""
    known = set(application.plan.tasks()) if tasks is None else set(tasks)
    found: dict[TaskId, int] = {}
    for task_id in directory.list_non_empty_task_directories():
        if task_id not in known or not application.plan.subtopologies[task_id.subtopology].store_to_changelog:
            continue
        try:
            directory.lock(task_id)
        except LockError:
            continue
        try:
            task = open_standby(application, directory, task_id, Metrics())
            found[task_id] = sum(task.initialize().values())
            task.close()
        except Exception as exc:  # noqa: BLE001 - state that cannot be opened counts as none
            _log.warning("the state of task %s cannot be read: %s", task_id, exc)
        finally:
            directory.unlock(task_id)
    return found
