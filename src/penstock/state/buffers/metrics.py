"""How full a suppress buffer is, at the recording level DEBUG."""

from __future__ import annotations

import threading
from typing import Any

from penstock.metrics.registry import STATE_GROUP, RecordingLevel

_SCOPE = "in-memory-suppression"


class BufferMetrics:
    """Average and maximum of the buffer's bytes and records."""

    __slots__ = ("_count", "_enabled", "_size")

    def __init__(self, context: Any, store_name: str) -> None:
        metrics = context.metrics
        self._enabled = metrics is not None and metrics.should_record(RecordingLevel.DEBUG)
        if not self._enabled:
            return
        task_id = str(context.task_id)
        tags = {"thread-id": threading.current_thread().name, "task-id": task_id, f"{_SCOPE}-state-id": store_name}
        prefix = f"task.{task_id}.store.{store_name}"
        self._size = metrics.sensor(f"{prefix}.suppression-buffer-size", RecordingLevel.DEBUG)
        metrics.add_avg_and_max(self._size, STATE_GROUP, tags, "suppression-buffer-size", "size of buffered records")
        self._count = metrics.sensor(f"{prefix}.suppression-buffer-count", RecordingLevel.DEBUG)
        metrics.add_avg_and_max(self._count, STATE_GROUP, tags, "suppression-buffer-count", "count of buffered records")

    def record(self, size: int, count: int) -> None:
        """The buffer as it is now."""
        if self._enabled:
            self._size.record(size)
            self._count.record(count)
