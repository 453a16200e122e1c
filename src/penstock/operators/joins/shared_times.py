"""The times that both sides of a stream-stream join share within a task."""

from __future__ import annotations

from typing import Any

from penstock.ids import TaskId
from penstock.operators.context import OperatorContext
from penstock.operators.time_tracker import EMIT_INTERVAL_OUTER_JOIN, EmitThrottle, time_key
from penstock.record import NO_TIMESTAMP
from penstock.windows import MAX_TIMESTAMP

NOTHING_SEEN = MAX_TIMESTAMP


class TimeTracker:
    """Stream time over both sides, and from which time on records without a partner have to be looked at.

    Both are committed with the task's offsets under the shared store's name, so a task that moves emits what it would
    have emitted where it was.
    """

    __slots__ = ("_context", "_min_time_key", "_stream_time_key", "min_time", "stream_time", "throttle")

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        self.min_time = NOTHING_SEEN
        self._context: OperatorContext | None = None
        self._stream_time_key = ""
        self._min_time_key = ""

    def open(self, context: OperatorContext, name: str | None) -> None:
        """Bring back what was committed, for the side that comes first; an inner join has no name and commits nothing."""
        self.throttle = EmitThrottle(context.app_configs, EMIT_INTERVAL_OUTER_JOIN)
        if name is None or self._context is context:
            return
        self._context = context
        self._stream_time_key = time_key(f"{name}@stream-time")
        self._min_time_key = time_key(f"{name}@min-time")
        stream_time = context.processor_metadata_for_key(self._stream_time_key)
        self.stream_time = NO_TIMESTAMP if stream_time is None else stream_time
        min_time = context.processor_metadata_for_key(self._min_time_key)
        self.min_time = NOTHING_SEEN if min_time is None else min_time

    def advance_stream_time(self, timestamp: int) -> None:
        """Advance to a record's time if it is higher."""
        if timestamp > self.stream_time:
            self.stream_time = timestamp
            if self._context is not None:
                self._context.add_processor_metadata_key_value(self._stream_time_key, timestamp)

    def set_min_time(self, timestamp: int) -> None:
        """Records without a partner begin here."""
        if timestamp != self.min_time:
            self.min_time = timestamp
            if self._context is not None:
                self._context.add_processor_metadata_key_value(self._min_time_key, timestamp)


class TimeTrackerSupplier:
    """One tracker per task, the same for both sides of a join."""

    def __init__(self) -> None:
        self._trackers: dict[TaskId, TimeTracker] = {}

    def get(self, task_id: TaskId) -> TimeTracker:
        """The tracker of a task."""
        return self._trackers.setdefault(task_id, TimeTracker())

    def remove(self, task_id: TaskId) -> None:
        """Forget a task that has been closed."""
        self._trackers.pop(task_id, None)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._trackers = {}
