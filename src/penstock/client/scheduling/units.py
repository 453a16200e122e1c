"""The pieces of work that the group deals out: one for each task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.ids import TaskId, UnitId
from penstock.spark.plan import Plan

Units = Mapping[UnitId, tuple[TaskId, ...]]


def units_of(plan: Plan) -> dict[UnitId, tuple[TaskId, ...]]:
    """The name of each task in the group's protocol, with the task."""
    return {UnitId(str(task)): (task,) for task in plan.tasks()}


def tasks_in(units: Units, names: Iterable[UnitId]) -> list[TaskId]:
    """The tasks of some units; units that are not known (any more) have none."""
    return [task for name in names for task in units.get(name, ())]
