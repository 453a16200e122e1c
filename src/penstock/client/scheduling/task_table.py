"""The states of a task of this instance, and one row of the table of tasks.

      the group assigns it                    offsets read                a thread starts to open it
    ──────────────────────► UNREAD ──► READING ──► READY ──────────────────────────► OPENING
                              ▲  ▲        │  ▲       ▲                                  │ it is open
                              │  │        ▼  │       │ the thread has closed it         ▼
                              │  │  RESTORING_ASIDE  └──────────────── CLOSING ◄── RESTORING ──► RUNNING
                              │  │  (a copy, while other tasks run)       ▲                         │
                              │  └── its thread has failed ───────────────│─────────────────────────┤
                              └──── another member had it meanwhile       └── it moves, or is read again

`TaskManager` alone changes the table.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.messages import TaskStart


class TaskState(enum.Enum):
    """The states of a task. The value describes the state."""

    UNREAD = "its offsets are not known"
    READING = "its offsets are being read"
    RESTORING_ASIDE = "its state is restored as a copy, while other tasks run"
    READY = "its offsets are known, and no thread has it open"
    OPENING = "a thread is opening it"
    RESTORING = "a thread has it open and restores its state"
    RUNNING = "a thread processes its records"
    CLOSING = "a thread has it open and must close it"


_S = TaskState
_ALLOWED: Mapping[TaskState, frozenset[TaskState]] = {
    _S.UNREAD: frozenset({_S.READING}),
    _S.READING: frozenset({_S.UNREAD, _S.READY, _S.RESTORING_ASIDE}),
    _S.RESTORING_ASIDE: frozenset({_S.UNREAD}),
    _S.READY: frozenset({_S.UNREAD, _S.OPENING}),
    _S.OPENING: frozenset({_S.UNREAD, _S.RESTORING, _S.RUNNING, _S.CLOSING}),
    _S.RESTORING: frozenset({_S.UNREAD, _S.RUNNING, _S.CLOSING}),
    _S.RUNNING: frozenset({_S.UNREAD, _S.RESTORING, _S.CLOSING}),
    _S.CLOSING: frozenset({_S.UNREAD, _S.READY}),
}
HELD = frozenset({_S.OPENING, _S.RESTORING, _S.RUNNING, _S.CLOSING})


@dataclass
class TaskRow:
    """A task of this instance: one row of the table."""

    state: TaskState = TaskState.UNREAD
    owner: int | None = None
    """The thread that should own it."""
    holder: int | None = None
    """The thread that has it open or is opening it."""
    assignment: int = 0
    """The number of the assignment under which its offsets were read."""
    reading: int = 0
    is_stale: bool = False
    """True if its offsets must be read again after it is closed."""
    committed: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    loaded: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The start offsets of its partitions when its offsets were read."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    lags: dict[TopicPartition, int] = field(default_factory=dict)
    timer: int | None = None
    idle_until: int | None = None

    def become(self, task: TaskId, new: TaskState) -> None:
        """Change the state; raise `StreamsError` for a change that is not drawn above."""
        if new is not self.state and new not in _ALLOWED[self.state]:
            raise StreamsError(f"task {task} cannot become {new.name}: it is {self.state.name}")
        self.state = new

    @property
    def start(self) -> TaskStart:
        """The start offsets for a thread that opens the task."""
        offsets = {p: self.committed[p].offset if p in self.committed else at for p, at in self.loaded.items()}
        return TaskStart(dict(self.committed), offsets)
