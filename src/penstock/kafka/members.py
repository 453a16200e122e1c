"""What members of the group tell, what the leader decides, and what a member gets: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.ids import UnitId

# Java's AssignorError.SHUTDOWN_REQUESTED: a member that joins with it makes the leader send all members home.
SHUTDOWN_REQUESTED = 4


@dataclass(frozen=True)
class MemberInfo:
    """What a member tells the others when it joins: who it is, what it runs, and how much of which state it has.

    `offsets` adds up, for each unit it has state of, how far its stores have read their changelogs; -2 says that it runs.
    `error_code` is Java's, as its subscriptions carry it.
    """

    process_id: str
    capacity: int = 1
    host: str = ""
    active: tuple[UnitId, ...] = ()
    standby: tuple[UnitId, ...] = ()
    offsets: Mapping[UnitId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    error_code: int = 0


@dataclass(frozen=True)
class Shares:
    """What the leader decides: units by process. `copies` are standbys and warm-ups; `probing` asks for another look later.

    `partitions` are those that each process reads, by topic: nobody works by them, lag tools show them.
    """

    active: Mapping[str, Sequence[UnitId]]
    copies: Mapping[str, Sequence[UnitId]] = field(default_factory=dict)
    probing: bool = False
    partitions: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """What the leader told one member: who has which units, where the others are, and what of it is the member's own."""

    units: tuple[UnitId, ...] = ()
    copies: tuple[UnitId, ...] = ()
    owners: Mapping[UnitId, str] = field(default_factory=dict)
    standbys: Mapping[UnitId, tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    probing: bool = False
    error_code: int = 0
    is_double: bool = False
    """Whether another member has the same process id: this one has to take a new one."""


@dataclass(frozen=True)
class Membership:
    """One generation of the group, as this member sees it."""

    generation: int
    group_metadata: bytes
    units: tuple[UnitId, ...]
    owners: Mapping[UnitId, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[UnitId, ...] = ()
    standbys: Mapping[UnitId, tuple[str, ...]] = field(default_factory=dict)
    probing: bool = False
    error_code: int = 0

    @property
    def shutdown_requested(self) -> bool:
        """Whether a member wants the whole application to stop."""
        return self.error_code == SHUTDOWN_REQUESTED


@dataclass(frozen=True)
class MemberIdentity:
    """Who a member is for the broker, which nobody else can be at the same time.

    A static member keeps its assignment when it comes back with a new member id, so its own id is what counts.
    """

    member_id: str
    instance_id: str | None = None

    def __str__(self) -> str:
        return f"instance/{self.instance_id}" if self.instance_id else f"member/{self.member_id}"
