"""The data of the assignor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.ids import TaskId

# Special values of a lag, as in Kafka Streams: the task is running; the lag is unknown.
LATEST_OFFSET: Final = -2
UNKNOWN_OFFSET_SUM: Final = -3

# The name of a member's tag with its rack.
RACK_TAG: Final = "client.rack"


@dataclass(frozen=True)
class AssignorTask:
    """A task to assign.

    `changelog` is the number of its changelog records: the lag of a member without state. None for a stateless task. `racks`
    has the racks of the replicas of each input partition, `changelog_racks` those of each changelog.
    """

    id: TaskId
    changelog: int | None = None
    racks: tuple[frozenset[str], ...] = ()
    changelog_racks: tuple[frozenset[str], ...] = ()

    @property
    def is_stateful(self) -> bool:
        """True if the task has state with a changelog."""
        return self.changelog is not None


@dataclass(frozen=True)
class Member:
    """A unit that runs tasks: an instance, or a thread.

    `place` is a failure domain: a task and its standby are never in the same place. `lags` has the missing changelog records
    of each task with local state.
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
        """The member's place. A member without one is its own place."""
        return self.place or self.id

    def lag_of(self, task: AssignorTask) -> float:
        """Return the number of records to restore before the task can run here, -1 if it runs here."""
        lag = self.lags.get(task.id)
        if lag is None:
            return 0 if task.changelog is None else task.changelog
        return -1 if lag == LATEST_OFFSET else math.inf if lag == UNKNOWN_OFFSET_SUM else lag


@dataclass(frozen=True)
class AssignorSettings:
    """The settings of standbys and warm-ups. Names and defaults are those of the configuration."""

    standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    rack_aware_tags: tuple[str, ...] = ()
    rack_strategy: str = "none"
    rack_traffic_cost: int | None = None
    rack_non_overlap_cost: int | None = None

    @property
    def are_racks_ignored(self) -> bool:
        """True if racks do not affect the assignment."""
        return self.rack_strategy == "none"

    def is_caught_up(self, lag: float) -> bool:
        """Return True if a member with this lag can take over the task at once."""
        return lag <= self.acceptable_recovery_lag


@dataclass(frozen=True)
class Assignment:
    """Tasks by member. `probing` requests another rebalance later, when warm-ups may have caught up."""

    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    warmup: Mapping[str, tuple[TaskId, ...]]
    probing: bool = False

    @property
    def owners(self) -> dict[TaskId, str]:
        """The member of each active task."""
        return {task: member for member, tasks in self.active.items() for task in tasks}

    def copies(self, member: str) -> tuple[TaskId, ...]:
        """Return the standbys and warm-ups of a member."""
        return tuple(sorted({*self.standby.get(member, ()), *self.warmup.get(member, ())}))
