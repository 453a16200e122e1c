"""The life of a task."""

from __future__ import annotations

import enum

from penstock.errors import StreamsError
from penstock.ids import TaskId


class TaskState(enum.Enum):
    """Where a task is in its life.

    CREATED ──► RESTORING ──► RUNNING
       │            │            │
       └────────────┼────────────┘
                    ▼
                SUSPENDED ──► CLOSED
    """

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CLOSED = "CLOSED"


_ALLOWED = {
    TaskState.CREATED: {TaskState.RESTORING, TaskState.SUSPENDED},
    TaskState.RESTORING: {TaskState.RUNNING, TaskState.SUSPENDED},
    TaskState.RUNNING: {TaskState.SUSPENDED},
    TaskState.SUSPENDED: {TaskState.CLOSED},
    TaskState.CLOSED: set(),
}


def check_transition(task_id: TaskId, old: TaskState, new: TaskState) -> TaskState:
    """The new state, if a task may go there from the old one."""
    if new not in _ALLOWED[old]:
        raise StreamsError(f"task {task_id}: invalid transition from {old.value} to {new.value}")
    return new
