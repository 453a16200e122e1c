"""What members have, in the units of work of the next generation: where a repartition goes another way those are other ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.client.assignment.assignor import LATEST_OFFSET
from penstock.client.scheduling.units import Units, tasks_in
from penstock.ids import TaskId, UnitId
from penstock.kafka.members import MemberInfo


def in_units(infos: Sequence[MemberInfo], units: Units, known: Units, ends: Mapping[TaskId, int | None]) -> list[MemberInfo]:
    """The same members, with what they told of units that are `known` said of `units`; `ends` are those of tasks' changelogs.

    A unit of several tasks that nobody runs as a whole belongs to who runs most of it.
    """
    runs = {info.process_id: set(tasks_in(known, info.active)) for info in infos}
    most = {
        unit: min(runs, key=lambda process: (-len(runs[process].intersection(tasks)), process))
        for unit, tasks in units.items()
        if runs
    }
    return [
        replace(
            info,
            active=tuple(
                unit
                for unit, tasks in units.items()
                if most[unit] == info.process_id and runs[info.process_id].intersection(tasks)
            ),
            standby=_of_any(units, set(tasks_in(known, info.standby))),
            offsets=_offsets(info.offsets, units, known, ends),
        )
        if _differs(info, units)
        else info
        for info in infos
    ]


def _differs(info: MemberInfo, units: Units) -> bool:
    return any(name not in units for name in (*info.active, *info.standby, *info.offsets))


def _of_any(units: Units, held: set[TaskId]) -> tuple[UnitId, ...]:
    return tuple(unit for unit, tasks in units.items() if held.intersection(tasks))


def _offsets(told: Mapping[UnitId, int], units: Units, known: Units, ends: Mapping[TaskId, int | None]) -> dict[UnitId, int]:
    """How far the state of each unit is: of tasks that run somewhere, or are told of one by one, that can be said of any unit."""
    by_task: dict[TaskId, int] = {}
    for name, offset in told.items():
        tasks = known.get(name, ())
        if len(tasks) == 1 or offset == LATEST_OFFSET:
            by_task |= dict.fromkeys(tasks, offset)
    found = {name: offset for name, offset in told.items() if name in units}
    for unit, tasks in units.items():
        state = {task: by_task[task] for task in tasks if task in by_task and task in ends}
        if unit in found or not state:
            continue
        if all(offset == LATEST_OFFSET for offset in state.values()) and all(task in state for task in tasks if task in ends):
            found[unit] = LATEST_OFFSET
        else:
            found[unit] = sum((ends[task] or 0) if offset == LATEST_OFFSET else offset for task, offset in state.items())
    return found
