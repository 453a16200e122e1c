"""Polling for idle threads: they have no residency, and the driver checks for new records at an interval."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import NamedTuple

from penstock.client.scheduling.backoff import Backoff
from penstock.client.scheduling.bounded_run import BoundedRun
from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.failures import is_transient
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.supervised_thread import SupervisedThread
from penstock.client.scheduling.task_manager import TaskManager
from penstock.client.scheduling.thread_supervisor import ThreadSupervisor
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import global_consumer_config, reads_committed

_log = logging.getLogger(__name__)


class _Ends(NamedTuple):
    inputs: Mapping[TopicPartition, int]
    globals: Mapping[TopicPartition, int]


class IdlePolling:
    """Asks the brokers for the ends of logs, one request at a time, in the background. Used by the event loop's thread."""

    def __init__(
        self,
        config: StreamsConfig,
        tasks: TaskManager,
        admin: Admin,
        run: RunState,
        background: Background,
        supervisor: ThreadSupervisor,
        bounded: BoundedRun,
    ) -> None:
        self._tasks, self._admin, self._run = tasks, admin, run
        self._background, self._supervisor, self._bounded = background, supervisor, bounded
        self._timeout = config["task.timeout.ms"] / 1000
        self._committed_globals = reads_committed(global_consumer_config(config, "global"))
        self._asking: Future[_Ends] | None = None
        self._globals: Mapping[TopicPartition, int] = {}
        self._backoff, self._rests_until = Backoff(), 0.0
        self.asked = 0
        """The number of requests."""

    def look(self) -> None:
        """Ask for the ends of idle threads' logs if it is time."""
        if self._asking is not None or not self._run.may_process or monotonic() < self._rests_until:
            return
        threads = self._supervisor.idle_threads()
        if not threads:
            return
        self.asked += 1
        partitions = [partition for thread in threads for partition in self._tasks.positions_of(thread)]
        self._asking = self._background.submit(self._ask, partitions, tuple(self._supervisor.globals))
        self._background.then(self._asking, self._answered, threads)

    def _ask(self, partitions: list[TopicPartition], globals_: tuple[TopicPartition, ...]) -> _Ends:
        inputs = self._admin.reachable_ends(partitions, self._tasks.committed_only) if partitions else {}
        return _Ends(inputs, self._admin.log_ends(globals_, self._committed_globals) if globals_ else {})

    def _answered(self, threads: list[SupervisedThread], future: Future[_Ends]) -> None:
        self._asking = None
        try:
            ends = future.result(0)
            self._backoff.went_well()
        except Exception as exc:
            self._rests_until = monotonic() + self._backoff.failed()
            if not is_transient(exc) or self._backoff.failing_seconds > self._timeout:
                raise
            _log.warning("Reading the ends of logs failed. Trying again: %s", exc)
            return
        changed, self._globals = ends.globals != self._globals, ends.globals
        inputs = self._bounded.clip(ends.inputs, self._tasks.positions())
        self._supervisor.wake(threads, inputs, all_of_them=changed)
