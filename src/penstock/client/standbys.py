"""Copies of state on their way: standbys, warm-ups, and tasks whose state is brought back beside the ones that run.

A thread of the driver asks the updaters how far they are, short job by short job, and tells who wants to know. The conductor
only says what is to be kept and reads what is known; it never waits for a copy.

While the application is paused copies stay as they are, also those of tasks that are brought back. They are still let go.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

from penstock.ids import TaskId, TopicPartition
from penstock.log_lines import tell_again
from penstock.spark.messages import RestoreProgress
from penstock.spark.standby_worker import Loaded, UpdateAnswer
from penstock.spark.updaters import HERE, Updaters

_log = logging.getLogger(__name__)

# Between two looks at the updaters: while something waits for a copy, and while copies only follow. A job takes a core for
# some 20 ms; Spark ends a worker that has had none for a minute.
_SOON, _SELDOM = 0.2, 2.0
# While paused a job only keeps the workers, with the stores they have open, from being ended.
_ALIVE_EVERY = 40.0
_JOB_SECONDS = 60.0

MIGRATED, PROMOTED = "MIGRATED", "PROMOTED"


@dataclass
class StandbyEvents:
    """What is told of copies, on the thread that looks after them."""

    on_start: Callable[[Loaded], None] = lambda loaded: None
    on_batch: Callable[[Loaded], None] = lambda loaded: None
    on_suspended: Callable[[Loaded, str], None] = lambda loaded, reason: None
    on_restore: Callable[[RestoreProgress, str], None] = lambda progress, what: None
    on_progress: Callable[[], None] = lambda: None
    on_work: Callable[[float], None] = lambda seconds: None
    on_let_go: Callable[[], None] = lambda: None


class Standbys:
    """The copies this instance keeps, by host."""

    def __init__(
        self, updaters: Updaters, events: StandbyEvents, name: str, limits: Callable[[], Mapping[TopicPartition, int]]
    ) -> None:
        self._updaters = updaters
        self._events = events
        self._limits = limits
        self._changed = threading.Condition()
        self._wanted: dict[TaskId, str] = {}
        self._restoring: frozenset[TaskId] = frozenset()
        self._promoted: frozenset[TaskId] = frozenset()
        self._letting_go: set[TaskId] = set()
        self._version = 0
        self._used: set[str] = set()
        self._loaded: dict[TaskId, dict[TopicPartition, Loaded]] = {}
        self._restored: dict[TopicPartition, int] = {}
        self._left: dict[TaskId, int] = {}
        self._urgent = False
        self._paused = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # -- told by the conductor -----------------------------------------------------------------------------------------

    def want(self, copies: Mapping[TaskId, str], restoring: Iterable[TaskId] = (), promoted: Iterable[TaskId] = ()) -> None:
        """Keep copies of exactly these tasks, each on its host.

        `restoring` are copies of tasks that are to run here as soon as they have caught up; `promoted` are the tasks that run
        here, or are to: `is_letting_go` tells when the copy of one is closed, so that it can be opened.
        """
        with self._changed:
            gone = {task for task in self._wanted if copies.get(task) != self._wanted[task]}
            self._promoted = frozenset(promoted)
            self._letting_go |= gone
            if copies == self._wanted and frozenset(restoring) == self._restoring:
                return
            self._wanted, self._restoring = dict(copies), frozenset(restoring)
            if not self._thread.is_alive() and (copies or gone):
                self._thread.start()
            if self._paused and not self._letting_go:
                return  # what is new is begun when it goes on
            self._version += 1
            self._changed.notify_all()

    def is_letting_go(self, task: TaskId) -> bool:
        """Whether a copy of a task is kept, or not closed yet: it cannot be opened elsewhere on this host."""
        with self._changed:
            return task in self._letting_go

    def hurry(self, urgent: bool) -> None:
        """Whether somebody waits for a copy to catch up."""
        with self._changed:
            if urgent != self._urgent:
                self._urgent = urgent
                if not self._paused:
                    self._changed.notify_all()

    def pause(self, paused: bool) -> None:
        """Let no copy come further until it is told to go on; returns at once. Copies can be let go meanwhile."""
        with self._changed:
            if paused != self._paused:
                self._paused = paused
                self._version += 1
                self._changed.notify_all()

    def remember(self, offsets: Mapping[TaskId, int]) -> None:
        """State that lies on the disk without anybody following its changelogs."""
        with self._changed:
            self._left.update(offsets)

    def forget(self, tasks: Iterable[TaskId]) -> None:
        """These run here now: their state is as new as it gets."""
        with self._changed:
            for task in tasks:
                self._left.pop(task, None)

    def close(self) -> None:
        """End the thread; the copies are closed with the updaters."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_JOB_SECONDS)

    # -- asked ---------------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> dict[TaskId, str]:
        """The copies that are kept, with their hosts."""
        with self._changed:
            return dict(self._wanted)

    @property
    def standing_by(self) -> list[TaskId]:
        """The tasks of which copies are kept, without those that are to run here once they are restored."""
        with self._changed:
            return [task for task in self._wanted if task not in self._restoring]

    def offsets(self) -> dict[TaskId, int]:
        """How far the state of each task on this instance has read its changelogs, added up over its stores."""
        with self._changed:
            return {**self._left, **{task: sum(c.offset for c in copies.values()) for task, copies in self._loaded.items()}}

    def lag(self, task: TaskId) -> int | None:
        """How many records a copy is behind; None where it was not heard of yet."""
        with self._changed:
            copies = self._loaded.get(task)
            return None if copies is None else sum(max(0, copy.end - copy.offset) for copy in copies.values())

    def copies(self) -> list[Loaded]:
        """Every store's copy, as it was last heard of."""
        with self._changed:
            return [copy for copies in self._loaded.values() for copy in copies.values()]

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closing:
                    return
                wanted, version, paused = dict(self._wanted), self._version, self._paused
            try:
                self._look(wanted, paused)
            except Exception as exc:  # noqa: BLE001 - an executor that is gone shows as one of many exceptions; copies are not urgent
                _log.warning("copies of state could not be looked after now: %s", str(exc).partition("\n")[0])
            with self._changed:
                has_let_go = self._version == version and bool(self._letting_go)
                if has_let_go:
                    self._letting_go.clear()
            if has_let_go:
                self._events.on_let_go()
            with self._changed:
                if self._version == version and not self._closing:
                    self._changed.wait(self._rest(wanted, paused))

    def _rest(self, wanted: Mapping[TaskId, str], paused: bool) -> float:
        """How long until the next look."""
        if not wanted:
            return 60.0
        return _ALIVE_EVERY if paused else _SOON if self._urgent or self._restoring else _SELDOM

    def _look(self, wanted: Mapping[TaskId, str], paused: bool) -> None:
        by_host: dict[str, list[TaskId]] = {host: [] for host in self._used}
        for task, host in wanted.items():
            if not paused or host in by_host:  # where there is no copy yet, none is begun
                by_host.setdefault(host, []).append(task)
        limits = self._limits() if wanted and not paused else {}
        asked: dict[str, Future[UpdateAnswer]] = {}
        for host, tasks in by_host.items():
            try:
                asked[host] = self._updaters.update(host, sorted(tasks), limits, paused=paused)
            except Exception as exc:  # noqa: BLE001 - the host is gone, and its copies with it
                _log.warning("copies on %s are lost: %s", host, exc)
        self._used = {host for host, tasks in by_host.items() if tasks}
        found: dict[TaskId, dict[TopicPartition, Loaded]] = {}
        for host, future in asked.items():
            try:
                answer = future.result(_JOB_SECONDS)
            except Exception as exc:  # noqa: BLE001 - an executor that is gone shows as one of many exceptions
                _log.warning("copies on %s do not answer: %s", host or "this machine", str(exc).partition("\n")[0])
                continue
            tell_again(f"copies on {host or 'this machine'}", answer.logs)
            for task, reason in answer.failures.items():
                _log.info("a copy of task %s is tried again: %s", task, reason)
            for loaded in answer.copies:
                found.setdefault(loaded.task_id, {})[loaded.partition] = loaded
            self._tell(found, answer)
            self._events.on_work(answer.busy_seconds)
        self._suspend(found)
        with self._changed:
            self._loaded = found
            for task in found:
                self._left.pop(task, None)
        self._events.on_progress()

    def _tell(self, found: Mapping[TaskId, Mapping[TopicPartition, Loaded]], answer: UpdateAnswer) -> None:
        for task, copies in found.items():
            if task not in self._loaded:
                for loaded in copies.values():
                    if task in self._restoring:
                        self._restored[loaded.partition] = 0
                        self._events.on_restore(self._progress(loaded), "start")
                    else:
                        self._events.on_start(loaded)
        for batch in answer.batches:
            if batch.task_id in self._restoring:
                self._restored[batch.partition] = self._restored.get(batch.partition, 0) + batch.records
                self._events.on_restore(self._progress(batch), "batch")
            else:
                self._events.on_batch(batch)

    def _suspend(self, found: Mapping[TaskId, Mapping[TopicPartition, Loaded]]) -> None:
        for task, copies in self._loaded.items():
            if task in found:
                continue
            offset = sum(loaded.offset for loaded in copies.values())
            with self._changed:
                self._left[task] = offset
            for loaded in copies.values():
                restored = self._restored.pop(loaded.partition, None)
                if restored is None:
                    self._events.on_suspended(loaded, PROMOTED if task in self._promoted else MIGRATED)
                else:
                    self._events.on_restore(self._progress(replace(loaded, records=restored)), "done")

    @staticmethod
    def _progress(loaded: Loaded) -> RestoreProgress:
        return RestoreProgress(
            loaded.task_id, loaded.store, loaded.partition, loaded.start, loaded.offset, loaded.end, loaded.records
        )


def hosts_of(tasks: Iterable[TaskId], hosts: list[str]) -> dict[TaskId, str]:
    """A host for each copy that came from another instance: spread over those there are, the same each time."""
    return {task: hosts[index % len(hosts)] if hosts else HERE for index, task in enumerate(sorted(tasks))}
