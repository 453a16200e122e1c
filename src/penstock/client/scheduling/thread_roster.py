"""Changes of stream threads: adding, removing, replacing after a failure, moving to another executor, ending."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.supervised_thread import Job, SupervisedThread, ThreadPhase
from penstock.client.scheduling.task_manager import TaskManager
from penstock.config.streams_config import StreamsConfig
from penstock.errors import PenstockError
from penstock.kafka.clients import producer_config
from penstock.kafka.produce import fence
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.driver.thread_worker import ThreadWorker

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ThreadChange:
    """A thread to add (with its name) or to remove (without). The event loop calls `on_done` afterwards."""

    index: int
    name: str | None = None
    on_done: Callable[[], None] = lambda: None


class ThreadRoster:
    """Changes the stream threads. Any thread requests a change, the event loop's thread executes it."""

    def __init__(self, config: StreamsConfig, tasks: TaskManager, jobs: SparkThreads, background: Background) -> None:
        self._config, self._tasks, self._jobs, self._background = config, tasks, jobs, background
        self._changes: deque[ThreadChange] = deque()

    def ask(self, change: ThreadChange) -> None:
        """Request a change."""
        with self._background.queue.lock:
            self._changes.append(change)
            self._background.queue.lock.notify_all()

    def change(self) -> None:
        """Execute requested changes. The tasks of a removed thread move to other threads."""
        while self._changes:
            change = self._changes.popleft()
            if change.name is not None:
                self._add(change.index, change.name)
                change.on_done()
            elif change.index in self._tasks.threads:
                self._remove(change.index, change.on_done)
            else:
                change.on_done()

    def _add(self, index: int, name: str) -> None:
        self._jobs.add_thread(index, name)
        self._tasks.threads[index] = SupervisedThread(index)
        self._tasks.place()

    def _remove(self, index: int, on_done: Callable[[], None]) -> None:
        if len(self._jobs.workers) < 3:
            self._tasks.spread.forget()
        thread = self._tasks.threads[index]
        thread.on_left = on_done
        self._tasks.leave_for_good(index)

    def replace(self, old: int, new: int, name: str, on_done: Callable[[], None]) -> None:
        """Replace a failed thread by a new one in its worker. The new one starts when the backoff ends."""
        failed = self._tasks.threads[old]
        self._tasks.threads[new] = SupervisedThread.after(failed, new)
        self._tasks.lose_thread(old, successor=new)
        failed.become(ThreadPhase.CLOSING)
        # Both callbacks, if it was about to be removed.
        told = [on_done] if failed.on_left is None else [on_done, failed.on_left]
        end = partial(self._end_in_background, failed, partial(self.fence, old), lambda: [tell() for tell in told])
        self._jobs.pass_on(old, new, name).add_done_callback(lambda _: self._background.queue.put(end))

    def move(self, thread: SupervisedThread, place: str) -> None:
        """Restart a thread without a residency on another executor, after its worker has closed its tasks."""
        job = thread.job = Job(0, frozenset())
        self._background.then(self._background.submit(self._jobs.close_worker, thread.index), self._closed, thread, job, place)

    def _closed(self, thread: SupervisedThread, job: Job, place: str, _: Future[bool]) -> None:
        if thread.job is not job:
            return  # the thread failed meanwhile: its executor is lost
        self._tasks.failed(thread)
        self._jobs.move_thread(thread.index, place)
        thread.goes_to = None
        thread.begin_anew()
        self._tasks.release(thread.index)

    def end(self, thread: SupervisedThread, on_done: Callable[[], None]) -> None:
        """End the worker of a thread."""
        thread.become(ThreadPhase.CLOSING)
        self._end_in_background(thread, partial(self._end_worker, thread.index, self._jobs.take_thread(thread.index)), on_done)

    def _end_worker(self, index: int, worker: ThreadWorker) -> None:
        self._jobs.end_thread(index, worker)
        self.fence(index)

    def _end_in_background(self, thread: SupervisedThread, end: Callable[[], None], on_done: Callable[[], object]) -> None:
        """End a thread in the background and free its tasks afterwards."""
        self._background.then(self._background.submit(end), lambda _: self._ended(thread, on_done))

    def _ended(self, thread: SupervisedThread, on_done: Callable[[], object]) -> None:
        thread.become(ThreadPhase.CLOSED)
        self._tasks.failed(thread)
        self._tasks.release(thread.index)
        thread.forget()
        if self._tasks.threads.get(thread.index) is thread:
            del self._tasks.threads[thread.index]
        self._tasks.leaving.discard(thread.index)
        on_done()

    def fence(self, index: int) -> None:
        """Abort the open transaction of a thread that will not return: it may have died during a batch."""
        if self._config.eos_enabled:
            application = self._jobs.application
            try:
                fence(producer_config(self._config, f"{application.client_id}-fence"), application.transactional_id(index))
            except PenstockError as exc:
                _log.warning(
                    "Fencing thread %d failed: %s. A transaction that it left open ends after transaction.timeout.ms",
                    index + 1,
                    exc,
                )
