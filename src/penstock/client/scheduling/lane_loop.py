"""One lane on its way from job to job: what it has open, what runs in it now, and how it fails and heals alone.

                  ┌───────────────── rested ─────────────────┐
                  ▼                                          │
    CREATED ──► OPENING ──► RESTORING ◄──► RUNNING ──► HEALING
       ▲           ▲            │             │           ▲
       │           └── moved ───┴─────────────┤           │
       │                                      └─ failed ──┘     (from every state before it)
       └── a new place
    every state ──► CLOSING ──► CLOSED

A lane begins with nothing: its producer is made, which ends what an earlier one under its name has left open. Then it owns what
is wanted of it, task by task as nobody else holds it any more, restores it, and works; what is restored works at once.
Which jobs run is the conductor's decision, made on its thread alone. What is here only tells what is true of the lane.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.client.scheduling.batch_sizer import BatchSizer
from penstock.client.scheduling.health import Health
from penstock.client.scheduling.stages import StagePart
from penstock.client.scheduling.stays import PLANNED_SECONDS, StayPlan
from penstock.client.scheduling.turns import Turn
from penstock.clock import monotonic
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import LaneAnswer, RestoreProgress


class LaneState(enum.Enum):
    """Where a lane is."""

    CREATED = "nothing is known of its worker"
    OPENING = "its worker is there; not all that is wanted of it is open"
    RESTORING = "all is open, and some of it is being restored"
    RUNNING = "all that is wanted of it works"
    HEALING = "it has failed, and rests before it begins anew"
    CLOSING = "it takes no more work"
    CLOSED = "it is gone"


_ALLOWED: Mapping[LaneState, frozenset[LaneState]] = {
    LaneState.CREATED: frozenset({LaneState.OPENING, LaneState.HEALING, LaneState.CLOSING}),
    LaneState.OPENING: frozenset(
        {LaneState.RESTORING, LaneState.RUNNING, LaneState.HEALING, LaneState.CREATED, LaneState.CLOSING}
    ),
    LaneState.RESTORING: frozenset(
        {LaneState.OPENING, LaneState.RUNNING, LaneState.HEALING, LaneState.CREATED, LaneState.CLOSING}
    ),
    LaneState.RUNNING: frozenset(
        {LaneState.OPENING, LaneState.RESTORING, LaneState.HEALING, LaneState.CREATED, LaneState.CLOSING}
    ),
    LaneState.HEALING: frozenset({LaneState.CREATED, LaneState.CLOSING}),
    LaneState.CLOSING: frozenset({LaneState.CLOSED}),
    LaneState.CLOSED: frozenset(),
}


@dataclass(frozen=True)
class Job:
    """What runs in a lane now: it opens (with the number of the reading that each task goes on from), or it does a turn.

    What a turn has done is committed under the `generation` it was begun in, or not at all.
    """

    opens: Mapping[TaskId, int] | None = None
    turn: Turn | None = None
    generation: int = -1
    started: float = field(default_factory=monotonic)
    stay: StayPlan | None = None
    """How the lane reads on, where it does turn after turn until it is called back."""

    @property
    def is_turn(self) -> bool:
        """Whether it changes anything: an opening does not."""
        return self.turn is not None

    def __str__(self) -> str:
        if self.turn is not None:
            return f"a turn of {self.turn}" if self.stay is None else f"a stay that began with {self.turn}"
        return f"opening {', '.join(map(str, self.opens or ())) or 'nothing'}"


class LaneLoop:
    """What is known of one lane; used by the conductor's thread, and read by others."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.state = LaneState.CREATED
        self.job: Job | None = None
        self.has_begun = False
        """Whether it has ended what a lane of its name may have left open when the application last ran."""
        self.holds: dict[TaskId, int] = {}
        """The tasks that its worker has open, as far as is known, each with the number of the reading it goes on from."""
        self.running: frozenset[TaskId] = frozenset()
        self.restoring: dict[TopicPartition, RestoreProgress] = {}
        self.parts: deque[StagePart] = deque()
        """What stages have brought, in the order in which it comes."""
        self.batch_sizer = BatchSizer()
        self.health = Health()
        self.poll_at = 0.0
        """When to look next whether there is something to read."""
        self.free_since = time.monotonic()
        self.global_ends: Mapping[TopicPartition, int] = {}
        self.metrics_at = 0.0
        self.is_doubted = False
        """Whether its worker may be gone: it is asked before anything else."""
        self.goes_to: str | None = None
        """The executor where it should be, once it has nothing open."""
        self.catches_up = False
        self.hangs = False
        self.called_back = 0
        """The last stay that it was called back from."""
        self.progress: Future[None] | None = None
        """The last commit of what a stay that runs has done so far; the next one comes behind it."""
        self.progress_at = 0.0
        self.is_in_the_way = False
        """Whether others wait for its core, and it has stayed for long."""
        self.is_behind = False
        """Whether a backlog waits for a lane that stays: it takes in a part of it at a time, and does not see the rest."""
        self.there: Mapping[TopicPartition, int] = {}
        """Where that ended which a stay was to read, when it began or a moment later."""
        self.plans_until = 0.0
        """Until then its turns are planned one by one."""
        self.on_left: Callable[[], None] | None = None
        """Who is told when the lane is gone; it goes as soon as it has nothing open."""

    @classmethod
    def after(cls, failed: LaneLoop, index: int) -> LaneLoop:
        """One that takes the place of another, and rests as that would have: what fails in both has failed more than once."""
        new = cls(index)
        new.health, new.batch_sizer, new.has_begun, new.plans_until = failed.health, failed.batch_sizer, True, failed.plans_until
        new.become(LaneState.HEALING)
        return new

    def become(self, new: LaneState) -> bool:
        """Go to another state; whether it is another one. StreamsError where the table does not allow for it."""
        if new is self.state:
            return False
        if new not in _ALLOWED[self.state]:
            raise StreamsError(f"lane {self.index} cannot become {new.name}: it is {self.state.name}")
        self.state = new
        return True

    @property
    def is_open(self) -> bool:
        """Whether its worker is there, with a producer of its own."""
        return self.state in (LaneState.OPENING, LaneState.RESTORING, LaneState.RUNNING)

    @property
    def is_to_begin(self) -> bool:
        """Whether it is about to begin for the first time."""
        return self.state is LaneState.CREATED and not self.has_begun

    @property
    def ends(self) -> bool:
        """Whether it takes no more work."""
        return self.state in (LaneState.CLOSING, LaneState.CLOSED)

    def answered(self, job: Job, answer: LaneAnswer) -> set[TaskId]:
        """Take in what the worker said of its tasks; returns those that it has let go."""
        gone: set[TaskId] = set()
        if job.opens is not None:
            gone = self.holds.keys() - job.opens.keys()
            self.holds = dict(job.opens)
            self.running = frozenset(answer.opened)
        elif answer.opened:
            self.running = frozenset(answer.opened)
        if job.opens is not None or answer.opened or answer.restored or answer.restoring:
            self.restoring = {progress.partition: progress for progress in answer.restoring}
        self.drop_parts({*gone, *answer.begun})
        return gone

    def update_state(self, wanted: Collection[TaskId]) -> bool:
        """Become what follows from what is wanted of the lane and what it has; whether that is something else than before."""
        if not self.is_open:
            return False
        if set(wanted) != self.holds.keys():
            return self.become(LaneState.OPENING)
        return self.become(LaneState.RUNNING if self.running >= self.holds.keys() else LaneState.RESTORING)

    def failed(self) -> None:
        """The worker has dropped everything, or is gone."""
        self.become(LaneState.HEALING)
        self.forget()

    def plan_for_a_while(self) -> None:
        """Have its turns planned one by one: its last stay has failed, or has not read what there was."""
        self.plans_until = time.monotonic() + PLANNED_SECONDS

    def begin_anew(self) -> None:
        """Nothing is known of the worker any more."""
        if not self.ends:
            self.become(LaneState.CREATED)
        self.forget()

    def forget(self) -> None:
        """Take the worker for one that has nothing open."""
        self.job, self.holds, self.running, self.restoring, self.global_ends = None, {}, frozenset(), {}, {}
        self.parts.clear()
        self.is_doubted = self.hangs = False

    def drop_parts(self, tasks: Collection[TaskId]) -> None:
        """These tasks are not here any more, or begin from their commits: what was brought for them is of no use."""
        if tasks and self.parts:
            left = (part.without(tasks) for part in self.parts)
            self.parts = deque(part for part in left if part is not None)


def runs_turns(lanes: Iterable[LaneLoop]) -> bool:
    """Whether a turn is under way in any of these lanes."""
    return any((job := lane.job) is not None and job.is_turn for lane in lanes)
