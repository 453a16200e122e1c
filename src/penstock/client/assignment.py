"""Who does which work: pure functions from what there is to who gets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.ids import TaskId
from penstock.kafka.membership import MemberInfo
from penstock.spark.plan import Plan


def units_of(plan: Plan) -> dict[str, tuple[TaskId, ...]]:
    """The pieces of work that can go to different instances: a pipeline bound by a shuffle, or a single task."""
    units: dict[str, list[TaskId]] = {}
    for task_id in plan.tasks():
        subtopology = plan.subtopologies[task_id.subtopology]
        feeding = plan.feeding(subtopology)
        units.setdefault(f"p{min(f.id for f in feeding)}" if feeding else str(task_id), []).append(task_id)
    return {name: tuple(tasks) for name, tasks in units.items()}


def assign_units(units: Sequence[str], members: Sequence[MemberInfo]) -> dict[str, list[str]]:
    """Spread units over members: as even as it gets, and what a member holds it keeps.

    >>> assign_units(["0_0", "0_1"], [MemberInfo("a"), MemberInfo("b", held=("0_0",))])
    {'a': ['0_1'], 'b': ['0_0']}
    """
    ordered = sorted(members, key=lambda member: member.process_id)
    chosen: dict[str, list[str]] = {member.process_id: [] for member in ordered}
    holders = {unit: member.process_id for member in ordered for unit in member.held}
    most, extra = divmod(len(units), len(ordered))
    homeless = []
    for unit in sorted(units):
        holder = holders.get(unit)
        if holder is not None and len(chosen[holder]) < most + (extra > 0):
            chosen[holder].append(unit)
        else:
            homeless.append(unit)
    for unit in homeless:
        chosen[min(chosen, key=lambda process: (len(chosen[process]), process))].append(unit)
    return chosen


def tasks_to_lanes(
    tasks: Sequence[TaskId], lanes: Sequence[int], spread: bool, before: Mapping[TaskId, int]
) -> dict[TaskId, int]:
    """The lane of each task: all in one while one can carry it, else evenly over all; what need not move stays.

    >>> tasks_to_lanes([TaskId(0, 0), TaskId(0, 1)], [0, 2], True, {TaskId(0, 0): 2, TaskId(0, 1): 1})
    {TaskId(subtopology=0, partition=0): 2, TaskId(subtopology=0, partition=1): 0}
    """
    if not spread or len(lanes) == 1:
        home = min((lane for lane in before.values() if lane in lanes), default=min(lanes))
        return dict.fromkeys(tasks, home)
    room = {lane: -(-len(tasks) // len(lanes)) for lane in lanes}
    chosen: dict[TaskId, int] = {}
    for task_id in tasks:
        lane = before.get(task_id, -1)
        if room.get(lane, 0) > 0:
            chosen[task_id] = lane
            room[lane] -= 1
    for task_id in tasks:
        if task_id not in chosen:
            lane = max(room, key=lambda candidate: (room[candidate], -candidate))
            chosen[task_id] = lane
            room[lane] -= 1
    return {task_id: chosen[task_id] for task_id in tasks}
