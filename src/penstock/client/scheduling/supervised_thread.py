"""One stream thread as the driver sees it: what it has open, which residency runs in it, and how it fails and starts anew.

                  ┌──────────────── backed off ────────────────┐
                  ▼                                            │
    CREATED ──► OPENING ──► RESTORING ◄──► RUNNING ──► BACKING_OFF
       ▲           ▲            │             │            ▲
       │           └── moved ───┴─────────────┤            │
       │                                      └── failed ──┘     (from every phase before it)
       └── a new executor
    every phase ──► CLOSING ──► CLOSED

A thread begins with nothing: its producer is opened, which ends the transaction that an earlier one under its name has left
open. Then it owns what is wanted of it, task by task as no other thread holds it any more, restores it, and works.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.client.scheduling.backoff import Backoff
from penstock.clock import monotonic
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import RestoreProgress


class ThreadPhase(enum.Enum):
    """Where a thread is."""

    CREATED = "nothing is known of its worker"
    OPENING = "its worker is there; not all that is wanted of it is open"
    RESTORING = "all is open, and some of it is being restored"
    RUNNING = "all that is wanted of it works"
    BACKING_OFF = "it has failed, and waits before it begins anew"
    CLOSING = "it takes no more work"
    CLOSED = "it is gone"


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
    """A residency that runs in a thread. What it does is committed under the `generation` it was begun in, or not at all."""

    number: int
    tasks: frozenset[TaskId]
    generation: int = -1
    processes: bool = False
    """Whether it runs the loop; a residency of 0 seconds only opens and closes tasks."""
    drains: bool = False
    """Whether it reads only repartition topics."""
    started: float = field(default_factory=monotonic)
    is_called_back: bool = False
    has_reported: bool = False
    """Whether its tasks are known to be open."""
    iterations: int = -1
    moved_at: float = field(default_factory=monotonic)
    """When its loop was last known to have gone round."""
    report_at: float = 0.0
    """When it is asked next for a report."""
    reporting: Future[None] | None = None
    tables_version: int = 0
    """The tables of `join_dataframe` that it has."""

    def __str__(self) -> str:
        what = "a residency with" if self.processes else "opening"
        return f"{what} {', '.join(map(str, sorted(self.tasks))) or 'nothing'}"


class SupervisedThread:
    """What is known of one thread; used by the event loop's thread, and read by others."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.phase = ThreadPhase.CREATED
        self.job: Job | None = None
        self.has_begun = False
        """Whether it has ended what a thread of its name may have left open when the application last ran."""
        self.holds: frozenset[TaskId] = frozenset()
        """The tasks that its worker has open, as far as is known."""
        self.running: frozenset[TaskId] = frozenset()
        self.restoring: dict[TopicPartition, RestoreProgress] = {}
        self.backoff = Backoff()
        self.is_idle = False
        """Whether its last residency has ended because nothing came."""
        self.has_unread = False
        """Whether repartition partitions of its tasks have to be read before the instance stops."""
        self.poll_at = 0.0
        """When to look next whether there is something to read for a thread that is idle."""
        self.free_since = time.monotonic()
        self.is_parked = False
        """Whether it has no worker, and needs none as long as nothing is wanted of it."""
        self.is_doubted = False
        """Whether its worker may be gone: it is asked before anything else."""
        self.goes_to: str | None = None
        """The executor where it should be, once it has nothing open."""
        self.gives_way = False
        """Whether other Spark jobs wait for its core, and it has been resident for long."""
        self.most_records: int | None = None
        """The most records of a batch: a larger one has killed the worker, or was too long for its transaction."""
        self.last_records = 0
        self.error: BaseException | None = None
        """A failure outside of the thread that concerns its tasks: the thread fails when its residency is over."""
        self.on_left: Callable[[], None] | None = None
        """Who is told when the thread is gone; it goes as soon as it has nothing open."""

    @classmethod
    def after(cls, failed: SupervisedThread, index: int) -> SupervisedThread:
        """A thread in the place of one that failed; it waits as that would have."""
        new = cls(index)
        new.backoff, new.most_records, new.has_begun = failed.backoff, failed.most_records, True
        new.become(ThreadPhase.BACKING_OFF)
        return new

    def become(self, new: ThreadPhase) -> bool:
        """Go to another phase; whether it is another one. StreamsError if the table does not allow it."""
        if new is self.phase:
            return False
        if new not in _ALLOWED[self.phase]:
            raise StreamsError(f"stream thread {self.index + 1} cannot become {new.name}: it is {self.phase.name}")
        self.phase = new
        return True

    @property
    def is_open(self) -> bool:
        """Whether its worker is there, with a producer of its own."""
        return self.phase in _OPEN

    @property
    def is_to_begin(self) -> bool:
        """Whether it is about to begin for the first time."""
        return self.phase is ThreadPhase.CREATED and not self.has_begun

    @property
    def ends(self) -> bool:
        """Whether it takes no more work."""
        return self.phase in (ThreadPhase.CLOSING, ThreadPhase.CLOSED)

    def update_phase(self, wanted: Collection[TaskId]) -> bool:
        """Become what follows from what is wanted of the thread and what it has; whether that is another phase."""
        if not self.is_open:
            return False
        if set(wanted) != self.holds:
            return self.become(ThreadPhase.OPENING)
        return self.become(ThreadPhase.RUNNING if self.running >= self.holds else ThreadPhase.RESTORING)

    def failed(self) -> None:
        """The worker has dropped everything, or is gone."""
        self.become(ThreadPhase.BACKING_OFF)
        self.forget()

    def begin_anew(self) -> None:
        """Nothing is known of the worker any more."""
        if not self.ends:
            self.become(ThreadPhase.CREATED)
        self.forget()

    def forget(self) -> None:
        """Take the worker for one that has nothing open."""
        self.job, self.holds, self.running, self.restoring = None, frozenset(), frozenset(), {}
        self.is_doubted = self.is_idle = self.gives_way = self.is_parked = False
        self.error = None


def processes_any(threads: Iterable[SupervisedThread]) -> bool:
    """Whether any of these threads may be processing."""
    return any((job := thread.job) is not None and job.processes for thread in threads)
