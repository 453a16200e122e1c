"""All metrics of an application: of the client, its threads and batches, and the task metrics that threads report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.client.metrics.batch_metrics import BatchMetrics
from penstock.client.metrics.state_updater_metrics import StateUpdaterMetrics
from penstock.client.metrics.thread_metrics import ThreadMetrics
from penstock.client.replicas.local_replicas import LocalReplicas
from penstock.client.scheduling.event_loop import EventLoop
from penstock.client.state import State
from penstock.client.stream_threads import StreamThread, StreamThreads
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId
from penstock.kafka.client_metrics import ADMIN, ClientMetrics
from penstock.metrics.registry import CLIENT_GROUP, Metric, MetricName, Metrics
from penstock.metrics.transfer import MetricsReceiver
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport
from penstock.spark.worker.standby_worker import Loaded


class ApplicationMetrics:
    """The metrics of `KafkaStreams.metrics()`. The event loop's thread writes them, any thread reads them.

    `stateful` returns the tasks with changelogs that the group assigned to this instance.
    """

    def __init__(
        self,
        config: StreamsConfig,
        client_id: str,
        process_id: Callable[[], str],
        version: str,
        describe: Callable[[], str],
        state: Callable[[], State],
        threads: StreamThreads,
        loop: Callable[[], EventLoop | None],
        stateful: Callable[[], Iterable[TaskId]] = tuple,
    ) -> None:
        self._config = config
        self._process_id = process_id
        self._threads = threads
        self._registry = Metrics.from_config(config)
        self._batches = BatchMetrics(self._registry, client_id, self._waiting_for_core)
        self._loop = loop
        self._stateful = stateful
        self._updater = StateUpdaterMetrics(
            self._registry, client_id, self._standbys, self._threads_of_tasks, unrestored=self._unrestored
        )
        self._of_threads: dict[int, tuple[StreamThread, ThreadMetrics]] = {}
        self._of_workers: dict[int, MetricsReceiver] = {}
        self._tags = {"client-id": client_id}
        self._lock = threading.RLock()
        self._admin = ClientMetrics(self._registry, ADMIN, f"{client_id}-admin", deferred=True)
        self._gauge("version", "The version of the Kafka Streams client", lambda: version)
        self._gauge("commit-id", "The version control commit ID of the Kafka Streams client", lambda: "unknown")
        self._gauge("application-id", "The application ID of the Kafka Streams client", lambda: config["application.id"])
        self._gauge("topology-description", "The description of the topology executed in the Kafka Streams client", describe)
        self._gauge("state", "The state of the Kafka Streams client", lambda: state().name)
        self._gauge(
            "client-state",
            "The state of the Kafka Streams client",
            lambda: state().value,
            {"application-id": config["application.id"]},
        )
        self._gauge(
            "alive-stream-threads",
            "The current number of alive stream threads that are running or participating in rebalance",
            lambda: len(threads.alive()),
        )
        self._gauge(
            "failed-stream-threads",
            "The number of failed stream threads since the start of the Kafka Streams client",
            lambda: threads.failed,
        )
        self._gauge(
            "recording-level",
            "The metrics recording level of the Kafka Streams client",
            lambda: self._registry.recording_level.value,
        )

    def of_admin(self) -> ClientMetrics:
        """Return the statistics of the driver's admin client."""
        return self._admin

    def _waiting_for_core(self) -> int:
        loop = self._loop()
        return 0 if loop is None else len(loop.waiting_for_core)

    def reported(self, reports: Mapping[int, ThreadReport]) -> None:
        """Add the task and client metrics of thread reports."""
        with self._lock:
            for index, report in reports.items():
                thread = self._of_thread(index)
                if thread is not None:
                    thread.opened(report)
                if report.lost:
                    self._of_workers.pop(index, None)
                for update in report.metrics:
                    self._receiver(index).take(update)

    def batch_done(self, index: int, batch: BatchReport) -> None:
        with self._lock:
            self._batches.batch_done(batch)
            thread = self._of_thread(index)
            if thread is not None:
                thread.batch_done(batch)
            self._registry.roll()

    def restored(self, progress: RestoreProgress, what: str) -> None:
        """Record a step of a restore."""
        with self._lock:
            self._updater.restored(progress, what)

    def updated(self, loaded: Loaded) -> None:
        """Record an update of a standby."""
        with self._lock:
            self._updater.updated(loaded)

    def updaters_worked(self, seconds: float) -> None:
        """Record the seconds that state updaters have worked since the last call."""
        with self._lock:
            self._updater.worked(seconds)

    def paused(self, paused: bool) -> None:
        with self._lock:
            self._updater.paused(paused)

    def metrics(self) -> dict[MetricName, Metric]:
        with self._lock:
            alive = {thread.index for thread in self._threads.all()}
            for index in {*alive, *self._of_threads}:
                self._of_thread(index)
            self._of_workers = {index: receiver for index, receiver in self._of_workers.items() if index in alive}
            self._updater.follow()
            self._admin.read_pending()
            found = {**self._registry.metrics(), **self._updater.metrics()}
            for receiver in self._of_workers.values():
                found.update(receiver.metrics())
            return found

    def _standbys(self) -> LocalReplicas | None:
        loop = self._loop()
        return None if loop is None else loop.standbys

    def _unrestored(self) -> list[TaskId]:
        loop = self._loop()
        return [] if loop is None else [task for task in self._stateful() if not loop.is_ready(task)]

    def _threads_of_tasks(self) -> dict[TaskId, str]:
        loop = self._loop()
        names = {thread.index: thread.name for thread in self._threads.all()}
        owners = {} if loop is None else loop.owners
        return {task: names[index] for task, index in owners.items() if index in names}

    def _of_thread(self, index: int) -> ThreadMetrics | None:
        thread, known = self._threads.at(index), self._of_threads.get(index)
        if known is not None and known[0] is thread:
            return known[1]
        if known is not None:
            known[1].close()
            del self._of_threads[index]
        if thread is None:
            return None
        made = ThreadMetrics(self._registry, thread, self._process_id())
        self._of_threads[index] = (thread, made)
        return made

    def _receiver(self, index: int) -> MetricsReceiver:
        if index not in self._of_workers:
            samples, window = self._config["metrics.num.samples"], self._config["metrics.sample.window.ms"]
            self._of_workers[index] = MetricsReceiver(samples, window)
        return self._of_workers[index]

    def _gauge(self, name: str, description: str, read: Callable[[], Any], tags: Mapping[str, str] | None = None) -> None:
        metric_name = self._registry.metric_name(name, CLIENT_GROUP, description, {**(tags or {}), **self._tags})
        self._registry.add_gauge(metric_name, read)
