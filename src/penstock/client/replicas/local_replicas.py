"""Standbys, warm-ups, and restoring tasks in the state updaters.

A thread of the driver asks the state updaters for their progress with short Spark jobs and notifies listeners. The event loop
sets what to keep and reads the known progress; it never waits.

While the application is paused, no copy advances, but copies can be closed.
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

# Intervals between jobs: while a task waits for a copy, and otherwise. A job takes a core for about 20 ms. Spark ends a
# worker that is idle for a minute.
_SOON, _SELDOM = 0.2, 2.0
# While paused, jobs only keep the workers with their open stores alive.
_ALIVE_EVERY = 40.0
_JOB_SECONDS = _NOTHING_TO_DO = 60.0

MIGRATED, PROMOTED = "MIGRATED", "PROMOTED"


@dataclass
class StandbyEvents:
    """Callbacks about copies, called on the thread of `LocalReplicas`."""

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
    """A host's last request, and its known copies."""

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
        except Exception as exc:  # noqa: BLE001 - a lost executor raises one of many exceptions
            return exc


class LocalReplicas:
    """The standbys, warm-ups and restoring tasks of this instance, by host."""

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
        """Tasks whose copies must close, with the hosts that have not confirmed it."""
        self._version = 0
        self._hosts: dict[str, _Host] = {}
        """The hosts with copies. Only the thread uses it."""
        self._loaded: dict[TaskId, dict[TopicPartition, Loaded]] = {}
        self._loaded_at: dict[TaskId, str] = {}
        self._restored: dict[TopicPartition, int] = {}
        self._left: dict[TaskId, int] = {}
        self._urgent = False
        self._paused = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # -- called by the event loop ---------------------------------------------------------------------------------------

    def want(self, copies: Mapping[TaskId, str], restoring: Iterable[TaskId] = (), promoted: Iterable[TaskId] = ()) -> None:
        """Keep copies of exactly these tasks on these hosts.

        `restoring` are tasks that open in a stream thread here when they have caught up. `promoted` are tasks that run here
        or are about to. `is_letting_go` returns False when a task's copy is closed, so that it can be opened.
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
                return  # new copies start after the pause
            self._version += 1
            self._changed.notify_all()

    def is_letting_go(self, task: TaskId) -> bool:
        """Return True until a task's copy is closed. It cannot be opened elsewhere on this host before."""
        with self._changed:
            return task in self._letting_go

    def hurry(self, urgent: bool) -> None:
        """Set whether a task waits for a copy to catch up."""
        with self._changed:
            if urgent != self._urgent:
                self._urgent = urgent
                if not self._paused:
                    self._changed.notify_all()

    def pause(self, paused: bool) -> None:
        """Stop or continue all copies. Returns at once. Copies can be closed while paused."""
        with self._changed:
            if paused != self._paused:
                self._paused = paused
                self._version += 1
                self._changed.notify_all()

    def remember(self, offsets: Mapping[TaskId, int]) -> None:
        """Add state on disk whose changelogs are not followed."""
        with self._changed:
            self._left.update(offsets)

    def forget(self, tasks: Iterable[TaskId]) -> None:
        """Remove tasks that run here now."""
        with self._changed:
            for task in tasks:
                self._left.pop(task, None)

    def close(self) -> None:
        """End the thread. The state updaters close the copies."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_JOB_SECONDS)

    # -- values --------------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> dict[TaskId, str]:
        """The tasks to copy, with their hosts."""
        with self._changed:
            return dict(self._wanted)

    @property
    def standing_by(self) -> list[TaskId]:
        """The tasks with a standby or warm-up, without restoring ones."""
        with self._changed:
            return [task for task in self._wanted if task not in self._restoring]

    def offsets(self) -> dict[TaskId, int]:
        """Return the sum of changelog positions of each task's local state."""
        with self._changed:
            return {**self._left, **{task: sum(c.offset for c in copies.values()) for task, copies in self._loaded.items()}}

    def lag(self, task: TaskId) -> int | None:
        """Return the number of records that a copy lags, None if unknown.

        A copy on another host than wanted does not count: its state is not where the task opens.
        """
        with self._changed:
            copies, at = self._loaded.get(task), self._loaded_at.get(task)
            if copies is None or self._wanted.get(task, at) != at:
                return None
            return sum(max(0, copy.end - copy.offset) for copy in copies.values())

    def copies(self) -> list[Loaded]:
        """Return the last known progress of each store."""
        with self._changed:
            return [copy for copies in self._loaded.values() for copy in copies.values()]

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closing:
                    return
                version, paused = self._version, self._paused
            self.look()
            with self._changed:
                if self._version == version and not self._closing and not any(map(_Host.has_answered, self._hosts.values())):
                    self._changed.wait(self._rest(paused))

    def look(self) -> None:
        """Process the hosts' answers, and send requests that are due. The thread calls this repeatedly."""
        with self._changed:
            wanted, version, paused = dict(self._wanted), self._version, self._paused
        try:
            self._take_answers()
            self._ask(wanted, version, paused)
        except Exception as exc:  # noqa: BLE001 - a lost executor raises one of many exceptions; copies are not urgent
            _log.warning("Updating standbys failed: %s", str(exc).partition("\n")[0])

    def _rest(self, paused: bool) -> float:
        """Return the seconds until the next request is due."""
        every, now = self._every(paused), monotonic()
        due = [host.asked_at + (every if host.answer is None else _JOB_SECONDS) for host in self._hosts.values()]
        return max(0.0, min(due, default=now + _NOTHING_TO_DO) - now)

    def _every(self, paused: bool) -> float:
        return _ALIVE_EVERY if paused else _SOON if self._urgent or self._restoring else _SELDOM

    def _ask(self, wanted: Mapping[TaskId, str], version: int, paused: bool) -> None:
        """Send each host its tasks if they changed, and ask for progress at the interval.

        A host that has not answered is skipped, and does not delay other hosts.
        """
        by_host: dict[str, list[TaskId]] = {host: [] for host in self._hosts}
        for task, host in wanted.items():
            if not paused or host in by_host:  # while paused, no new copy starts
                by_host.setdefault(host, []).append(task)
        with self._changed:
            unused = {host for hosts in self._letting_go.values() for host in hosts} - by_host.keys()
        for host in unused:  # no copy ever started there
            self._has_let_go(host, ())
        due = [host for host in by_host if host not in self._hosts or self._hosts[host].is_due(version, self._every(paused))]
        limits = self._limits() if due and wanted and not paused else {}
        for host in due:
            tasks = sorted(by_host[host])
            try:
                answer = self._updaters.update(host, tasks, limits, paused=paused)
            except Exception as exc:  # noqa: BLE001 - the host is lost with its copies
                _log.warning("Standbys on %s are lost: %s", host, exc)
                self._lose(host, tasks)
                continue
            self._hosts.setdefault(host, _Host(host)).ask(tasks, version, answer)
            answer.add_done_callback(self._wake)

    def _wake(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _take_answers(self) -> None:
        """Process the answers of hosts. A host without an answer for a minute is given up."""
        heard = False
        for name, host in list(self._hosts.items()):
            if host.has_answered():
                heard = True
                try:
                    self._take(name, host)
                finally:  # a task whose copy is closed can open, even if a listener failed
                    self._has_let_go(name, host.tasks)
                    if not host.tasks:
                        del self._hosts[name]
            elif host.answer is not None and monotonic() > host.asked_at + _JOB_SECONDS:
                _log.warning("Standbys on %s do not answer", name or "this machine")
                self._lose(name, host.tasks)  # opening their tasks may have to wait for file locks
        if heard:
            self._events.on_progress()

    def _lose(self, name: str, kept: Collection[TaskId]) -> None:
        host = self._hosts.pop(name, None)
        if host is not None:
            self._forget_loaded(host, {})
        self._has_let_go(name, kept)

    def _take(self, name: str, host: _Host) -> None:
        """Process the answer of a host."""
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
            _log.warning("Standbys on %s do not answer: %s", name or "this machine", str(answer).partition("\n")[0])
            self._forget_loaded(host, found)

    def _forget_loaded(self, host: _Host, found: dict[TaskId, dict[TopicPartition, Loaded]]) -> None:
        """Replace the known copies of a host."""
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
        """Record that a host has closed all copies except `kept`."""
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
    """Assign a host to each copy: spread evenly, and the same each time."""
    return {task: hosts[index % len(hosts)] if hosts else HERE for index, task in enumerate(sorted(tasks))}
