"""What single operators measure of themselves, at the recording level DEBUG: final results of windows, what suppression emits."""

from __future__ import annotations

import threading
from typing import Any

from penstock.metrics.registry import PROCESSOR_NODE_GROUP, RecordingLevel, Sensor, measure_total, measure_total_rate

_EMIT_FINAL = "window-aggregate-final-emit"
_SUPPRESSION_EMIT = "suppression-emit"


class EmitFinalMetrics:
    """How many final results a windowed aggregation emits, and how long that takes."""

    __slots__ = ("_emitted", "_latency")

    def __init__(self, context: Any) -> None:
        metrics, group, tags = context.metrics, PROCESSOR_NODE_GROUP, _tags(context)
        self._emitted = _sensor(context, _EMIT_FINAL)
        rate = metrics.metric_name(f"{_EMIT_FINAL}-rate", group, "The average number of emit final records per second", tags)
        metrics.add(self._emitted, rate, measure_total_rate)
        total = metrics.metric_name(f"{_EMIT_FINAL}-total", group, "The total number of emit final records", tags)
        metrics.add(self._emitted, total, measure_total)
        self._latency = _sensor(context, f"{_EMIT_FINAL}-latency")
        metrics.add_avg_and_max(
            self._latency, group, tags, f"{_EMIT_FINAL}-latency", "latency of calls to emit final in milliseconds"
        )

    def record(self, emitted: int, seconds: float) -> None:
        """One look for closed windows."""
        self._emitted.record(emitted)
        self._latency.record(seconds * 1000)


def suppression_emit_sensor(context: Any) -> Sensor:
    """Counts what a suppression emits."""
    sensor = _sensor(context, _SUPPRESSION_EMIT)
    context.metrics.add_rate_and_total(
        sensor, PROCESSOR_NODE_GROUP, _tags(context), _SUPPRESSION_EMIT, "emitted records from the suppression buffer"
    )
    return sensor


def _sensor(context: Any, name: str) -> Sensor:
    full_name = f"task.{context.task_id}.node.{context.current_node_name}.{name}"
    sensor: Sensor = context.metrics.sensor(full_name, RecordingLevel.DEBUG)
    return sensor


def _tags(context: Any) -> dict[str, str]:
    return {
        "thread-id": threading.current_thread().name,
        "task-id": str(context.task_id),
        "processor-node-id": str(context.current_node_name),
    }
