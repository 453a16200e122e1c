"""The assignment of tasks to members in three steps: target owners, target standbys, deferred moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.assignment.assignor.active import place_active
from penstock.client.assignment.assignor.draft import AssignmentDraft
from penstock.client.assignment.assignor.model import Assignment, AssignorSettings, AssignorTask, Member
from penstock.client.assignment.assignor.movement import Movements
from penstock.client.assignment.assignor.racks import place_near
from penstock.client.assignment.assignor.standby import StandbyAssignor
from penstock.ids import TaskId

_DEFAULTS = AssignorSettings()


def assign(tasks: Iterable[AssignorTask], members: Iterable[Member], settings: AssignorSettings = _DEFAULTS) -> Assignment:
    """Assign tasks to members, based on the members' previous tasks.

    The result is balanced in total and within each sub-topology, and sticky. Standbys are on other hosts than their tasks and
    spread over tags. A task with much state moves after a warm-up. With a rack strategy, tasks are near their partitions.

    >>> first, second = TaskId(0, 0), TaskId(0, 1)
    >>> found = assign([AssignorTask(first), AssignorTask(second)], [Member("a"), Member("b", active=frozenset({first}))])
    >>> found.active == {"a": (second,), "b": (first,)}
    True
    """
    known = {task.id: task for task in sorted(tasks, key=lambda task: task.id)}
    there = {member.id: member for member in sorted(members, key=lambda member: member.id)}
    if not there:
        return Assignment({}, {}, {})
    draft = AssignmentDraft(known, there)
    place_active(draft)
    place_near(draft, settings)
    movements = Movements(draft, StandbyAssignor(draft, settings).place(), settings)
    probing = movements.plan()
    return Assignment(
        _by_member(there, {task: [member] for task, member in draft.owner.items()}),
        _by_member(there, movements.standbys),
        _by_member(there, movements.warmups),
        probing,
    )


def bring_near(
    tasks: Iterable[AssignorTask],
    members: Iterable[Member],
    owners: Mapping[TaskId, str],
    copies: Mapping[TaskId, Iterable[str]],
    settings: AssignorSettings,
) -> tuple[dict[TaskId, str], dict[TaskId, list[str]]]:
    """Exchange owners and standbys of an existing assignment between racks if that reduces the cost.

    >>> first, second = TaskId(0, 0), TaskId(0, 1)
    >>> near = AssignorTask(first, changelog=0, racks=(frozenset({"r1"}),))
    >>> far = AssignorTask(second, changelog=0, racks=(frozenset({"r2"}),))
    >>> members = [Member("a", rack="r2"), Member("b", rack="r1")]
    >>> settings = AssignorSettings(rack_strategy="min_traffic")
    >>> bring_near([near, far], members, {first: "a", second: "b"}, {}, settings)[0] == {first: "b", second: "a"}
    True
    """
    known = {task.id: task for task in sorted(tasks, key=lambda task: task.id)}
    draft = AssignmentDraft(known, {member.id: member for member in sorted(members, key=lambda member: member.id)})
    for task in known:
        draft.give(task, owners[task])
    place_near(draft, settings)
    of_task = {task: list(copies.get(task, ())) for task in known}
    StandbyAssignor(draft, settings).bring_near(of_task)
    return {task: draft.owner[task] for task in known}, of_task


def _by_member(members: Iterable[str], tasks: Mapping[TaskId, Iterable[str]]) -> dict[str, tuple[TaskId, ...]]:
    found: dict[str, list[TaskId]] = {member: [] for member in members}
    for task, holders in tasks.items():
        for member in holders:
            found[member].append(task)
    return {member: tuple(sorted(held)) for member, held in found.items()}
