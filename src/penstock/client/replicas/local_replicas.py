"""Copies of state on their way: standbys, warm-ups, and tasks whose state is brought back beside the ones that run.

A thread of the driver asks the updaters how far they are, short job by short job, and tells who wants to know. The conductor
only says what is to be kept and reads what is known; it never waits for a copy.

While the application is paused copies stay as they are, also those of tasks that are brought back. They are still let go.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition
from penstock.log_lines import tell_again
from penstock.spark.driver.state_updaters import HERE, StateUpdaters
from penstock.spark.messages import Failure, RestoreProgress
from penstock.spark.worker.standby_worker import Loaded, UpdateAnswer

_log = logging.getLogger(__name__)

# Between two looks at the updaters: while something waits for a copy, and while copies only follow. A job takes a core for
# some 20 ms; Spark ends a worker that has had none for a minute.
_SOON, _SELDOM = 0.2, 2.0
# While paused a job only keeps the workers, with the stores they have open, from being ended.
_ALIVE_EVERY = 40.0
_JOB_SECONDS = _NOTHING_TO_DO = 60.0

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
    on_failed: Callable[[TaskId, Failure], None] = lambda task, failure: None


@dataclass
class _Host:
    """What a host was asked last, and the copies it is known to have."""

    name: str
    tasks: Sequence[TaskId] = ()
    version: int = -1
    asked_at: float = 0.0
    answer: Future[UpdateAnswer] | None = None
    loaded: dict[TaskId, dict[TopicPartition, Loaded]] = field(default_factory=dict)

    def ask(self, tasks: Sequence[TaskId], version: int, answer: Future[UpdateAnswer]) -> None:
        self.tasks, self.version, self.answer, self.asked_at = tasks, version, answer, monotonic()

    def is_due(self, version: int, every: float) -> bool:
        return self.answer is None and (self.version != version or monotonic() >= self.asked_at + every)

    def has_answered(self) -> bool:
        return self.answer is not None and self.answer.done()

    def take(self) -> UpdateAnswer | BaseException:
        assert self.answer is not None
        answer, self.answer = self.answer, None
        try:
            return answer.result(0)
        except Exception as exc:  # noqa: BLE001 - an executor that is gone shows as one of many exceptions
            return exc


class LocalReplicas:
    """The copies this instance keeps, by host."""

    def __init__(
        self, updaters: StateUpdaters, events: StandbyEvents, name: str, limits: Callable[[], Mapping[TopicPartition, int]]
    ) -> None:
        self._updaters = updaters
        self._events = events
        self._limits = limits
        self._changed = threading.Condition()
        self._wanted: dict[TaskId, str] = {}
        self._restoring: frozenset[TaskId] = frozenset()
        self._promoted: frozenset[TaskId] = frozenset()
        self._letting_go: dict[TaskId, set[str]] = {}
        """Tasks whose copies are to be closed, with the hosts that have not said so yet."""
        self._version = 0
        self._hosts: dict[str, _Host] = {}
        """The hosts that have copies; only the thread looks at it."""
        self._loaded: dict[TaskId, dict[TopicPartition, Loaded]] = {}
        self._loaded_at: dict[TaskId, str] = {}
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
            gone = {task: host for task, host in self._wanted.items() if copies.get(task) != host}
            self._promoted = frozenset(promoted)
            for task, host in gone.items():
                self._letting_go.setdefault(task, set()).add(host)
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
        """How many records a copy is behind; None where it was not heard of yet.

        One that is wanted on another host now is of no use to who opens the task there.
        """
        with self._changed:
            copies, at = self._loaded.get(task), self._loaded_at.get(task)
            if copies is None or self._wanted.get(task, at) != at:
                return None
            return sum(max(0, copy.end - copy.offset) for copy in copies.values())

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
                self._take_answers()
                self._ask(wanted, version, paused)
            except Exception as exc:  # noqa: BLE001 - an executor that is gone shows as one of many exceptions; copies are not urgent
                _log.warning("copies of state could not be looked after now: %s", str(exc).partition("\n")[0])
            with self._changed:
                if self._version == version and not self._closing and not any(map(_Host.has_answered, self._hosts.values())):
                    self._changed.wait(self._rest(paused))

    def _rest(self, paused: bool) -> float:
        """How long until the next look, unless something is heard before."""
        every, now = self._every(paused), monotonic()
        due = [host.asked_at + (every if host.answer is None else _JOB_SECONDS) for host in self._hosts.values()]
        return max(0.0, min(due, default=now + _NOTHING_TO_DO) - now)

    def _every(self, paused: bool) -> float:
        return _ALIVE_EVERY if paused else _SOON if self._urgent or self._restoring else _SELDOM

    def _ask(self, wanted: Mapping[TaskId, str], version: int, paused: bool) -> None:
        """Tell each host what to keep, if that has changed, and ask now and then how far it is.

        Who has not answered yet is left alone, and keeps nobody from being asked.
        """
        by_host: dict[str, list[TaskId]] = {host: [] for host in self._hosts}
        for task, host in wanted.items():
            if not paused or host in by_host:  # where there is no copy yet, none is begun
                by_host.setdefault(host, []).append(task)
        with self._changed:
            unused = {host for hosts in self._letting_go.values() for host in hosts} - by_host.keys()
        for host in unused:  # no copy was ever begun there
            self._has_let_go(host, ())
        due = [host for host in by_host if host not in self._hosts or self._hosts[host].is_due(version, self._every(paused))]
        limits = self._limits() if due and wanted and not paused else {}
        for host in due:
            tasks = sorted(by_host[host])
            try:
                answer = self._updaters.update(host, tasks, limits, paused=paused)
            except Exception as exc:  # noqa: BLE001 - the host is gone, and its copies with it
                _log.warning("copies on %s are lost: %s", host, exc)
                self._lose(host, tasks)
                continue
            self._hosts.setdefault(host, _Host(host)).ask(tasks, version, answer)
            answer.add_done_callback(self._wake)

    def _wake(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _take_answers(self) -> None:
        """Take in what hosts have said; one that says nothing for long is not waited for."""
        heard = False
        for name, host in list(self._hosts.items()):
            if host.has_answered():
                heard = True
                try:
                    self._take(name, host)
                finally:  # a task whose copy is closed can be opened, whatever became of telling of it
                    self._has_let_go(name, host.tasks)
                    if not host.tasks:
                        del self._hosts[name]
            elif host.answer is not None and monotonic() > host.asked_at + _JOB_SECONDS:
                _log.warning("copies on %s do not answer", name or "this machine")
                self._lose(name, host.tasks)  # whoever opens them now may have to wait for their locks
        if heard:
            self._events.on_progress()

    def _lose(self, name: str, kept: Collection[TaskId]) -> None:
        host = self._hosts.pop(name, None)
        if host is not None:
            self._forget_loaded(host, {})
        self._has_let_go(name, kept)

    def _take(self, name: str, host: _Host) -> None:
        """Take in what a host has answered."""
        found: dict[TaskId, dict[TopicPartition, Loaded]] = {}
        answer = host.take()
        if isinstance(answer, UpdateAnswer):
            tell_again(f"copies on {name or 'this machine'}", answer.logs)
            for task, failure in answer.failures.items():
                self._events.on_failed(task, failure)
            for loaded in answer.copies:
                found.setdefault(loaded.task_id, {})[loaded.partition] = loaded
            try:
                self._tell(found, answer)
                self._events.on_work(answer.busy_seconds)
            finally:
                self._forget_loaded(host, found)
        else:
            _log.warning("copies on %s do not answer: %s", name or "this machine", str(answer).partition("\n")[0])
            self._forget_loaded(host, found)

    def _forget_loaded(self, host: _Host, found: dict[TaskId, dict[TopicPartition, Loaded]]) -> None:
        """A host has these copies now, and no others."""
        before, host.loaded = host.loaded, found
        elsewhere = {task for other in self._hosts.values() if other is not host for task in other.loaded}
        gone = {task: copies for task, copies in before.items() if task not in found and task not in elsewhere}
        with self._changed:
            self._left.update({task: sum(loaded.offset for loaded in copies.values()) for task, copies in gone.items()})
            self._loaded, self._loaded_at = {}, {}
            for other in (*self._hosts.values(), host):
                for task, copies in other.loaded.items():
                    if task not in self._loaded or self._wanted.get(task) == other.name:
                        self._loaded[task], self._loaded_at[task] = copies, other.name
            for task in found:
                self._left.pop(task, None)
        self._suspend(gone)

    def _has_let_go(self, host: str, kept: Collection[TaskId]) -> None:
        """A host has closed all copies but those it was asked to keep; others are not waited for."""
        with self._changed:
            free = []
            for task, hosts in self._letting_go.items():
                if task not in kept:
                    hosts.discard(host)
                if not hosts:
                    free.append(task)
            for task in free:
                del self._letting_go[task]
        if free:
            self._events.on_let_go()

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

    def _suspend(self, gone: Mapping[TaskId, Mapping[TopicPartition, Loaded]]) -> None:
        for task, copies in gone.items():
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
