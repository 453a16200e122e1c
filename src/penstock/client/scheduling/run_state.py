"""The state of an instance's run: whether it may process, and how it ends.

ACTIVE ──► PAUSED ──► ACTIVE
  │  └──────┬──┘
  │         ├── HALTED ────────── it waits for the group to stop all instances
  ├── DRAINING ── threads read repartition topics to their ends, and no source topics
  ▼         ▼        ▼
STOPPING: threads finish their batches, commit, and close
  │
FAILED or SHUT_DOWN: nothing more begins
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.event_queue import EventQueue


class RunPhase(enum.Enum):
    """The phases of a run. The value describes the phase."""

    ACTIVE = "it processes"
    PAUSED = "it processes and restores nothing until it is resumed"
    HALTED = "it processes nothing, and waits for the group to stop all instances"
    DRAINING = "it was closed, and reads its repartition topics to their ends first"
    STOPPING = "it was closed"
    SHUT_DOWN = "a member asked all instances of the application to stop"
    FAILED = "a failure stopped the client"


_P = RunPhase
_ENDS = frozenset({_P.STOPPING, _P.SHUT_DOWN, _P.FAILED})
_ALLOWED: Mapping[RunPhase, frozenset[RunPhase]] = {
    _P.ACTIVE: frozenset({_P.PAUSED, _P.HALTED, _P.DRAINING, *_ENDS}),
    _P.PAUSED: frozenset({_P.ACTIVE, _P.HALTED, *_ENDS}),
    _P.HALTED: _ENDS,
    _P.DRAINING: _ENDS,
    _P.STOPPING: frozenset({_P.FAILED}),
    _P.SHUT_DOWN: frozenset({_P.STOPPING, _P.FAILED}),
    _P.FAILED: frozenset({_P.STOPPING}),
}


class RunState:
    """The phase, set by any thread and followed by the event loop."""

    def __init__(self, assignments: Assignments, queue: EventQueue) -> None:
        self._assignments, self._lock = assignments, queue.lock
        self.phase = RunPhase.ACTIVE
        self.told_running = False
        """True if the client was last notified that all tasks run."""

    def become(self, phase: RunPhase) -> bool:
        """Change the phase if the table allows it. Returns True if it changed."""
        with self._lock:
            if phase not in _ALLOWED[self.phase]:
                return False
            self.phase = phase
            self._lock.notify_all()
            return True

    @property
    def is_closing(self) -> bool:
        """True if the instance was closed."""
        return self.phase in (RunPhase.DRAINING, RunPhase.STOPPING)

    @property
    def is_draining(self) -> bool:
        """True if only repartition topics are read before the instance stops."""
        return self.phase is RunPhase.DRAINING

    @property
    def is_paused(self) -> bool:
        """True if processing and restoring are paused."""
        return self.phase is RunPhase.PAUSED

    @property
    def is_halted(self) -> bool:
        """True if the instance waits for the group to stop all instances."""
        return self.phase is RunPhase.HALTED

    @property
    def is_over(self) -> bool:
        """True if nothing more begins."""
        return self.phase in _ENDS

    @property
    def may_process(self) -> bool:
        """True if records may be processed."""
        return self.phase in (RunPhase.ACTIVE, RunPhase.DRAINING) and self._assignments.allow_processing
