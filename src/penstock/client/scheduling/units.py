"""The pieces of work of a plan that can go to different instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.spark.plan import Plan

Units = Mapping[UnitId, tuple[TaskId, ...]]


def units_of(plan: Plan) -> dict[UnitId, tuple[TaskId, ...]]:
    """The pieces of work that can go to different instances: a pipeline bound by a shuffle, or a single task.

    Whatever is fed by the same sub-topology before a shuffle is one piece: what is read once cannot be handed to two instances,
    nor can the position of one of them tell where the other begins.
    """
    pipeline = pipelines_of(plan)
    units: dict[UnitId, list[TaskId]] = {}
    for task_id in plan.tasks():
        feeding = plan.feeding(plan.subtopologies[task_id.subtopology])
        units.setdefault(UnitId(f"p{pipeline[feeding[0].id]}" if feeding else str(task_id)), []).append(task_id)
    return {name: tuple(tasks) for name, tasks in units.items()}


def pipelines_of(plan: Plan) -> dict[int, int]:
    """The pipeline of each sub-topology before a shuffle, by the first of those that it is bound together with."""
    pipeline: dict[int, int] = {}
    for subtopology in plan.subtopologies.values():
        bound = {pipeline.get(f.id, f.id) for f in plan.feeding(subtopology)}
        if bound:
            pipeline |= {id_: min(bound) for id_ in (*bound, *(i for i, first in pipeline.items() if first in bound))}
            pipeline |= {f.id: min(bound) for f in plan.feeding(subtopology)}
    return pipeline


def partitions_of(plan: Plan, tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """The partitions that are read for tasks, by topic: their own, shuffled or not, and those before a shuffle."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        fed = [TopicPartition(topic, task.partition) for topic in plan.subtopologies[task.subtopology].source_topics]
        shuffled = [p for p in fed if p.topic in plan.shuffled and p.partition < plan.partitions[p.topic]]
        for topic, partition in (*plan.inputs(task), *shuffled):
            found.setdefault(topic, set()).add(partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}


def tasks_in(units: Units, names: Iterable[UnitId]) -> list[TaskId]:
    """The tasks of some units; units that are not known (any more) have none."""
    return [task for name in names for task in units.get(name, ())]
