"""What the assignor knows and what it says: plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.ids import UnitId

# A lag that is no number of records, as Kafka Streams writes them: the task runs there; nobody could tell.
LATEST_OFFSET: Final = -2
UNKNOWN_OFFSET_SUM: Final = -3

# Under which name members tell their rack among their tags.
RACK_TAG: Final = "client.rack"


@dataclass(frozen=True)
class Unit:
    """A piece of work that moves as a whole: a task, or tasks that a shuffle binds together.

    `changelog` is how many records its changelogs hold, which is how far behind a member without any state is; None says
    that it keeps no state. `racks` tells for each partition it reads where the replicas are, `changelog_racks` for each of its
    changelogs.
    """

    id: UnitId
    subtopology: int = 0
    tasks: int = 1
    changelog: int | None = None
    racks: tuple[frozenset[str], ...] = ()
    changelog_racks: tuple[frozenset[str], ...] = ()

    @property
    def is_stateful(self) -> bool:
        """Whether it has state that is worth a copy."""
        return self.changelog is not None


@dataclass(frozen=True)
class Member:
    """Somebody who can do work: an instance, or a lane.

    `place` is what dies at once: no copy of a unit's state is kept where the unit itself runs. `lags` tells for each unit of
    which it has any state how many records of the changelogs are missing in it.
    """

    id: str
    capacity: int = 1
    place: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    active: frozenset[UnitId] = frozenset()
    standby: frozenset[UnitId] = frozenset()
    lags: Mapping[UnitId, int] = field(default_factory=dict)
    rack: str = ""

    @property
    def where(self) -> str:
        """Its place; a member that names none is a place of its own."""
        return self.place or self.id

    def lag_of(self, unit: Unit) -> float:
        """How many records it would have to read before it could run the unit; -1 where it runs it."""
        lag = self.lags.get(unit.id)
        if lag is None:
            return 0 if unit.changelog is None else unit.changelog
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
        """Whether it does not matter how far units are from what they read."""
        return self.rack_strategy == "none"

    def is_caught_up(self, lag: float) -> bool:
        """Whether a member that far behind may take the unit over at once."""
        return lag <= self.acceptable_recovery_lag


@dataclass(frozen=True)
class Assignment:
    """Units by member. A warm-up is a copy that is made where its unit is to move; `probing` asks to look again later."""

    active: Mapping[str, tuple[UnitId, ...]]
    standby: Mapping[str, tuple[UnitId, ...]]
    warmup: Mapping[str, tuple[UnitId, ...]]
    probing: bool = False

    @property
    def owners(self) -> dict[UnitId, str]:
        """The member that runs each unit."""
        return {unit: member for member, units in self.active.items() for unit in units}

    def copies(self, member: str) -> tuple[UnitId, ...]:
        """What a member keeps a copy of: standbys and warm-ups."""
        return tuple(sorted({*self.standby.get(member, ()), *self.warmup.get(member, ())}))
