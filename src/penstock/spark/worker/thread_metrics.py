"""What a thread measures of its tasks beside what the tasks count themselves."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.metrics.registry import RecordingLevel
from penstock.runtime.task import StreamTask
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.cache import RecordCache


def watch_task(metrics: TaskMetrics, task: StreamTask, cache: RecordCache) -> None:
    """The sizes of a task's buffers and its part of the time, asked for when metrics are sent."""
    metrics.gauge(
        "active-buffer-count",
        RecordingLevel.DEBUG,
        "The count of buffered records that are polled from consumer and not yet processed for this active task",
        lambda: task.partition_group.num_buffered,
    )
    metrics.gauge(
        "active-process-ratio",
        RecordingLevel.INFO,
        "The fraction of time the thread spent on processing this task among all assigned active tasks",
        lambda: metrics.process_ratio,
    )
    metrics.gauge(
        "cache-size-bytes-total",
        RecordingLevel.DEBUG,
        "The total size in bytes of this task's cache",
        lambda: cache.size_bytes,
    )


def take_punctuations(tasks: Iterable[TaskMetrics]) -> tuple[int, float]:
    """How many punctuators have run since this was last asked, and how long they took."""
    count, seconds = 0, 0.0
    for metrics in tasks:
        count += metrics.punctuations
        seconds += metrics.punctuation_seconds
        metrics.punctuations, metrics.punctuation_seconds = 0, 0.0
    return count, seconds


def share_processing(tasks: Iterable[TaskMetrics]) -> None:
    """At the end of a turn: which part of the time for processing each task had."""
    listed = list(tasks)
    total = sum(metrics.process_seconds for metrics in listed)
    for metrics in listed:
        metrics.process_ratio = metrics.process_seconds / total if total else 0.0
        metrics.process_seconds = 0.0
