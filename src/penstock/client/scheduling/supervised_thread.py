"""One stream thread in the driver: its open tasks, its residency, its failures and restarts.

                  ┌──────────────── backed off ────────────────┐
                  ▼                                            │
    CREATED ──► OPENING ──► RESTORING ◄──► RUNNING ──► BACKING_OFF
       ▲           ▲            │             │            ▲
       │           └── moved ───┴─────────────┤            │
       │                                      └── failed ──┘     (from every phase before it)
       └── a new executor
    every phase ──► CLOSING ──► CLOSED

A thread starts without tasks: it opens its producer, which aborts the transaction that a predecessor with the same name left
open. Then it opens each of its tasks as soon as no other thread holds it, restores it, and processes its records.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.client.scheduling.backoff import Backoff
from penstock.clock import monotonic
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import RestoreProgress


class ThreadPhase(enum.Enum):
    """The phases of a thread. The value describes the phase."""

    CREATED = "nothing is known of its worker"
    OPENING = "its worker has started; not all of its tasks are open"
    RESTORING = "all tasks are open, and some are restoring"
    RUNNING = "all of its tasks are running"
    BACKING_OFF = "it has failed, and waits before it restarts"
    CLOSING = "it takes no more tasks"
    CLOSED = "it has ended"


_OPEN = frozenset({ThreadPhase.OPENING, ThreadPhase.RESTORING, ThreadPhase.RUNNING})
_ALLOWED: Mapping[ThreadPhase, frozenset[ThreadPhase]] = {
    ThreadPhase.CREATED: frozenset({ThreadPhase.OPENING, ThreadPhase.BACKING_OFF, ThreadPhase.CLOSING}),
    **{phase: (_OPEN - {phase}) | {ThreadPhase.BACKING_OFF, ThreadPhase.CREATED, ThreadPhase.CLOSING} for phase in _OPEN},
    ThreadPhase.BACKING_OFF: frozenset({ThreadPhase.CREATED, ThreadPhase.CLOSING}),
    ThreadPhase.CLOSING: frozenset({ThreadPhase.CLOSED}),
    ThreadPhase.CLOSED: frozenset(),
}


@dataclass
class Job:
    """A residency of a thread. Its work is committed under `generation`, or not at all."""

    number: int
    tasks: frozenset[TaskId]
    generation: int = -1
    processes: bool = False
    """True if it runs the loop. A residency of 0 seconds only opens and closes tasks."""
    drains: bool = False
    """True if it reads only repartition topics."""
    is_bounded: bool = False
    """True if it reads only up to the ends of a backfill."""
    started: float = field(default_factory=monotonic)
    is_called_back: bool = False
    has_reported: bool = False
    """True if its tasks are known to be open."""
    iterations: int = -1
    moved_at: float = field(default_factory=monotonic)
    """The last known time at which its loop made progress."""
    report_at: float = 0.0
    """The time of the next request for a report."""
    reporting: Future[None] | None = None
    tables_version: int = 0
    """The tables of `join_dataframe` that it has."""

    def __str__(self) -> str:
        what = "a residency with" if self.processes else "opening"
        return f"{what} {', '.join(map(str, sorted(self.tasks))) or 'nothing'}"


class SupervisedThread:
    """The driver's knowledge of one thread. Written by the event loop's thread, read by others."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.phase = ThreadPhase.CREATED
        self.job: Job | None = None
        self.has_begun = False
        """True if its transactional id was fenced since the start of the application."""
        self.holds: frozenset[TaskId] = frozenset()
        """The tasks known to be open in its worker."""
        self.running: frozenset[TaskId] = frozenset()
        self.restoring: dict[TopicPartition, RestoreProgress] = {}
        self.backoff = Backoff()
        self.is_idle = False
        """True if its last residency ended without records."""
        self.has_unread = False
        """True if it must read repartition partitions before the instance stops."""
        self.poll_at = 0.0
        """The next time to check for records for this idle thread."""
        self.free_since = monotonic()
        self.is_parked = False
        """True if it has no worker and needs none, because it has no tasks."""
        self.needs_check = False
        """True if its worker may have died: it is checked before anything else."""
        self.goes_to: str | None = None
        """The executor to which the thread moves when it has no open tasks."""
        self.gives_way = False
        """True if another Spark job waits for the core of this long-resident thread."""
        self.most_records: int | None = None
        """The largest batch: a larger one has killed the worker, or exceeded the transaction timeout."""
        self.last_records = 0
        self.error: BaseException | None = None
        """A failure outside of the thread that concerns its tasks. The thread fails after its residency."""
        self.on_left: Callable[[], None] | None = None
        """Called when the thread has ended. It ends as soon as it has no open tasks."""

    @classmethod
    def after(cls, failed: SupervisedThread, index: int) -> SupervisedThread:
        """Return the replacement of a failed thread, with the same backoff."""
        new = cls(index)
        new.backoff, new.most_records, new.has_begun = failed.backoff, failed.most_records, True
        new.become(ThreadPhase.BACKING_OFF)
        return new

    def become(self, new: ThreadPhase) -> bool:
        """Change the phase. Returns False if it is the same. Raises StreamsError if the table does not allow it."""
        if new is self.phase:
            return False
        if new not in _ALLOWED[self.phase]:
            raise StreamsError(f"stream thread {self.index + 1} cannot become {new.name}: it is {self.phase.name}")
        self.phase = new
        return True

    @property
    def is_open(self) -> bool:
        """True if its worker runs with its own producer."""
        return self.phase in _OPEN

    @property
    def is_to_begin(self) -> bool:
        """True if the thread is about to begin for the first time."""
        return self.phase is ThreadPhase.CREATED and not self.has_begun

    @property
    def ends(self) -> bool:
        """True if it takes no more tasks."""
        return self.phase in (ThreadPhase.CLOSING, ThreadPhase.CLOSED)

    def update_phase(self, wanted: Collection[TaskId]) -> bool:
        """Update the phase from the wanted and the open tasks. Returns True if it changed."""
        if not self.is_open:
            return False
        if set(wanted) != self.holds:
            return self.become(ThreadPhase.OPENING)
        return self.become(ThreadPhase.RUNNING if self.running >= self.holds else ThreadPhase.RESTORING)

    def failed(self) -> None:
        """Record that the worker has dropped its tasks or died."""
        self.become(ThreadPhase.BACKING_OFF)
        self.forget()

    def begin_anew(self) -> None:
        """Forget the worker's state."""
        if not self.ends:
            self.become(ThreadPhase.CREATED)
        self.forget()

    def forget(self) -> None:
        """Record that the worker has nothing open."""
        self.job, self.holds, self.running, self.restoring = None, frozenset(), frozenset(), {}
        self.needs_check = self.is_idle = self.gives_way = self.is_parked = False
        self.error = None


def processes_any(threads: Iterable[SupervisedThread]) -> bool:
    """Return True if any of these threads may be processing."""
    return any((job := thread.job) is not None and job.processes for thread in threads)
