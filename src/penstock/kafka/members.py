"""Plain data of the group: member infos, the leader's decision, a member's assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.ids import TaskId

# Java's AssignorError.SHUTDOWN_REQUESTED: if a member joins with it, the leader shuts all members down.
SHUTDOWN_REQUESTED = 4


@dataclass(frozen=True)
class MemberInfo:
    """The data of a joining member: its process, its tasks and the state it has.

    `offsets` has the sum of changelog positions for each task with local state, -2 for a running task. `error_code` has Kafka
    Streams' codes.
    """

    process_id: str
    capacity: int = 1
    host: str = ""
    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    error_code: int = 0


@dataclass(frozen=True)
class Shares:
    """The leader's decision: tasks by process. `copies` are standbys and warm-ups; `probing` requests another rebalance later.

    `partitions` has the partitions of each process by topic. Only group tools use it.
    """

    active: Mapping[str, Sequence[TaskId]]
    copies: Mapping[str, Sequence[TaskId]] = field(default_factory=dict)
    probing: bool = False
    partitions: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The leader's decision for one member: its own tasks and the owners of all tasks."""

    tasks: tuple[TaskId, ...] = ()
    copies: tuple[TaskId, ...] = ()
    owners: Mapping[TaskId, str] = field(default_factory=dict)
    standbys: Mapping[TaskId, tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    probing: bool = False
    error_code: int = 0
    is_double: bool = False
    """True if another member has the same process id: this member needs a new one."""


@dataclass(frozen=True)
class Membership:
    """One generation of the group, with this member's assignment."""

    generation: int
    group_metadata: bytes
    tasks: tuple[TaskId, ...]
    owners: Mapping[TaskId, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[TaskId, ...] = ()
    standbys: Mapping[TaskId, tuple[str, ...]] = field(default_factory=dict)
    probing: bool = False
    error_code: int = 0

    @property
    def shutdown_requested(self) -> bool:
        """True if a member requested the shutdown of the whole application."""
        return self.error_code == SHUTDOWN_REQUESTED


@dataclass(frozen=True)
class MemberIdentity:
    """The broker's identity of a member, which is unique at any time.

    A static member keeps its assignment when it returns with a new member id, so its instance id counts.
    """

    member_id: str
    instance_id: str | None = None

    def __str__(self) -> str:
        return f"instance/{self.instance_id}" if self.instance_id else f"member/{self.member_id}"
