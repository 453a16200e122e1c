"""The metrics of restoration and standbys: Kafka Streams' state updater, its tasks, and the lag of standbys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import (
    TASK_GROUP,
    Metric,
    MetricName,
    Metrics,
    RecordingLevel,
    Sensor,
    measure_rate,
    measure_total_rate,
)
from penstock.spark.messages import RestoreProgress
from penstock.spark.worker.standby_worker import Loaded

UPDATER_GROUP = "stream-state-updater-metrics"
STANDBY_GROUP = "penstock-standby-metrics"

_RATIO = "The ratio, over a rolling measurement window, of the time this thread spent {} to the total elapsed time in that window"


class Kept(Protocol):
    """An instance's standbys and warm-ups."""

    @property
    def standing_by(self) -> Iterable[TaskId]:
        """The tasks with a local standby or warm-up."""

    def copies(self) -> list[Loaded]:
        """Return the last known progress of each store."""


class StateUpdaterMetrics:
    """Records restores and standby updates. A restore counts equally in a stream thread and in the state updater.

    `tasks` returns the thread of each active task, `unrestored` the active tasks that are not restored yet. As in Kafka
    Streams, a paused task counts as neither restoring nor updating, and a restored task does not count as paused.
    """

    def __init__(
        self,
        registry: Metrics,
        client_id: str,
        kept: Callable[[], Kept | None],
        tasks: Callable[[], Mapping[TaskId, str]],
        now: Callable[[], float] = monotonic,
        *,
        unrestored: Callable[[], Iterable[TaskId]] = tuple,
    ) -> None:
        self._registry, self._kept, self._tasks, self._now = registry, kept, tasks, now
        self._unrestored = unrestored
        self._paused = False
        self._client = {"client-id": client_id}
        self.thread_name = f"{client_id}-StateUpdater-1"
        self._tags = {"thread-id": self.thread_name}
        self._restoring: dict[TopicPartition, RestoreProgress] = {}
        self._updated_at = 0.0
        self._updates: dict[TaskId, Sensor] = {}
        self._active = self._ratio("active-restore-ratio", "restoring active tasks")
        self._standby = self._ratio("standby-update-ratio", "updating standby tasks")
        self._records = registry.sensor("state-updater.restore-records")
        for name, what, measure in (
            ("restore-records-rate", "records restored", measure_total_rate),
            ("restore-call-rate", "restore calls triggered", measure_rate),
        ):
            text = f"The average per-second number of {what}"
            registry.add(self._records, registry.metric_name(name, UPDATER_GROUP, text, self._tags), measure)
        self._gauge("active-restoring-tasks", "The number of active tasks currently undergoing restoration", self._restored_now)
        self._gauge("standby-updating-tasks", "The number of standby tasks currently undergoing state update", self._kept_now)
        self._gauge("active-paused-tasks", "The number of active tasks paused restoring", self._paused_restoring)
        self._gauge("standby-paused-tasks", "The number of standby tasks paused state update", self._paused_copies)
        self._gauge("idle-ratio", _RATIO.format("being idle"), self._idle)
        self._gauge("checkpoint-ratio", _RATIO.format("checkpointing tasks restored progress"), lambda: 0.0)

    # -- recording -----------------------------------------------------------------------------------------------------

    def restored(self, progress: RestoreProgress, what: str) -> None:
        """Record a step of a restore."""
        now = self._now()
        if self._restoring:
            self._active.record((now - self._updated_at) * 1000)
        self._updated_at = now
        if what not in ("start", "done") and progress.restored:
            self._records.record(progress.restored)
        if what in ("start", "batch"):
            self._restoring[progress.partition] = progress
        else:
            self._restoring.pop(progress.partition, None)

    def paused(self, paused: bool) -> None:
        """Record that the application is paused or resumed. Paused time does not count as restoring."""
        now = self._now()
        if self._restoring and paused and not self._paused:
            self._active.record((now - self._updated_at) * 1000)
        self._updated_at, self._paused = now, paused

    def updated(self, loaded: Loaded) -> None:
        """Record an update of a standby."""
        self._records.record(loaded.records)
        self._update(loaded.task_id).record(loaded.records)

    def worked(self, seconds: float) -> None:
        """Record the seconds that state updaters have worked since the last call."""
        self._standby.record(seconds * 1000)

    # -- reading -------------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Add sensors for current standbys and remove the others."""
        kept = self._kept()
        standing_by = set() if kept is None else set(kept.standing_by)
        for task in standing_by:
            self._update(task)
        for task in set(self._updates) - standing_by:
            self._registry.remove_sensor(self._updates.pop(task).name)

    def metrics(self) -> dict[MetricName, Metric]:
        """Return the metrics of single tasks: remaining records of active ones, and the lag of standbys."""
        found: dict[MetricName, Metric] = {}

        def show(name: str, group: str, description: str, tags: Mapping[str, str], value: float) -> None:
            metric_name = self._registry.metric_name(name, group, description, tags)
            found[metric_name] = Metric(metric_name, value)

        remaining: dict[TaskId, int] = {}
        for progress in list(self._restoring.values()):
            left = max(0, progress.end - progress.position)
            remaining[progress.task_id] = remaining.get(progress.task_id, 0) + left
        text = "The total number of records remaining to be restored"
        for task, thread in {**dict.fromkeys(remaining, self.thread_name), **self._tasks()}.items():
            tags = {"thread-id": thread, "task-id": str(task)}
            show("restore-remaining-records-total", TASK_GROUP, text, tags, remaining.get(task, 0))
        kept = self._kept()
        standing_by = set() if kept is None else set(kept.standing_by)
        for copy in [] if kept is None else kept.copies():
            if copy.task_id in standing_by:
                tags = {**self._client, "task-id": str(copy.task_id), "store": copy.store}
                lag = max(0, copy.end - copy.offset)
                show("records-lag", STANDBY_GROUP, "The number of records a copy is behind its changelog", tags, lag)
        return found

    def _update(self, task: TaskId) -> Sensor:
        sensor = self._updates.get(task)
        if sensor is None:
            registry, tags = self._registry, {**self._tags, "task-id": str(task)}
            sensor = self._updates[task] = registry.sensor(f"state-updater.{task}.update", RecordingLevel.DEBUG)
            text = "The average number of records updated per second"
            registry.add(sensor, registry.metric_name("update-rate", TASK_GROUP, text, tags), measure_total_rate)
            registry.add_sum(sensor, TASK_GROUP, tags, "update-total", "The total number of records updated")
        return sensor

    def _restored_now(self) -> int:
        return 0 if self._paused else len(self._restored_tasks())

    def _paused_restoring(self) -> int:
        return len(self._restored_tasks() | set(self._unrestored())) if self._paused else 0

    def _restored_tasks(self) -> set[TaskId]:
        return {progress.task_id for progress in list(self._restoring.values())}

    def _kept_now(self) -> int:
        return 0 if self._paused else self._copied()

    def _paused_copies(self) -> int:
        return self._copied() if self._paused else 0

    def _copied(self) -> int:
        kept = self._kept()
        return 0 if kept is None else len(list(kept.standing_by))

    def _idle(self) -> float:
        now = self._registry.now_ms()
        return max(0.0, 1.0 - measure_ratio(self._active, now) - measure_ratio(self._standby, now))

    def _ratio(self, name: str, what: str) -> Sensor:
        sensor = self._registry.sensor(f"state-updater.{name}")
        self._registry.add(
            sensor, self._registry.metric_name(name, UPDATER_GROUP, _RATIO.format(what), self._tags), measure_ratio
        )
        return sensor

    def _gauge(self, name: str, description: str, read: Callable[[], Any]) -> None:
        self._registry.add_gauge(self._registry.metric_name(name, UPDATER_GROUP, description, self._tags), read)


def measure_ratio(sensor: Sensor, now_ms: int) -> float:
    """Return the fraction of a sensor's window that its milliseconds fill."""
    seconds, _, total, _, _ = sensor.window(now_ms)
    return min(1.0, total / (seconds * 1000)) if seconds else 0.0
