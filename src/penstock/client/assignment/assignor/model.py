"""What the assignor knows and what it says: plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.ids import TaskId

# A lag that is no number of records, as Kafka Streams writes them: the task runs there; nobody could tell.
LATEST_OFFSET: Final = -2
UNKNOWN_OFFSET_SUM: Final = -3

# Under which name members tell their rack among their tags.
RACK_TAG: Final = "client.rack"


@dataclass(frozen=True)
class AssignorTask:
    """A task to assign.

    `changelog` is the number of records in its changelogs: a member without any state is that far behind. It is None for a task
    without state. `racks` has the racks of the replicas of each input partition, `changelog_racks` those of each changelog.
    """

    id: TaskId
    changelog: int | None = None
    racks: tuple[frozenset[str], ...] = ()
    changelog_racks: tuple[frozenset[str], ...] = ()

    @property
    def is_stateful(self) -> bool:
        """Whether it has state that is worth a copy."""
        return self.changelog is not None


@dataclass(frozen=True)
class Member:
    """Somebody who can do work: an instance, or a thread.

    `place` is what dies at once: no copy of a task's state is kept where the task itself runs. `lags` tells for each task of
    which it has any state how many records of the changelogs are missing in it.
    """

    id: str
    capacity: int = 1
    place: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    rack: str = ""

    @property
    def where(self) -> str:
        """Its place; a member that names none is a place of its own."""
        return self.place or self.id

    def lag_of(self, task: AssignorTask) -> float:
        """How many records it would have to read before it could run the task; -1 where it runs it."""
        lag = self.lags.get(task.id)
        if lag is None:
            return 0 if task.changelog is None else task.changelog
        return -1 if lag == LATEST_OFFSET else math.inf if lag == UNKNOWN_OFFSET_SUM else lag


@dataclass(frozen=True)
class AssignorSettings:
    """How copies are made and moved; the names and defaults are the configuration's."""

    standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    rack_aware_tags: tuple[str, ...] = ()
    rack_strategy: str = "none"
    rack_traffic_cost: int | None = None
    rack_non_overlap_cost: int | None = None

    @property
    def are_racks_ignored(self) -> bool:
        """Whether it does not matter how far tasks are from what they read."""
        return self.rack_strategy == "none"

    def is_caught_up(self, lag: float) -> bool:
        """Whether a member that far behind may take the task over at once."""
        return lag <= self.acceptable_recovery_lag


@dataclass(frozen=True)
class Assignment:
    """Tasks by member. A warm-up is a copy that is made where its task is to move; `probing` asks to look again later."""

    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    warmup: Mapping[str, tuple[TaskId, ...]]
    probing: bool = False

    @property
    def owners(self) -> dict[TaskId, str]:
        """The member that runs each task."""
        return {task: member for member, tasks in self.active.items() for task in tasks}

    def copies(self, member: str) -> tuple[TaskId, ...]:
        """What a member keeps a copy of: standbys and warm-ups."""
        return tuple(sorted({*self.standby.get(member, ()), *self.warmup.get(member, ())}))
