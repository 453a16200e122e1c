"""Between the group and an assignor of the user's own: tasks and clients as it sees them, units of work as the group does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from penstock.client.assignment.assignor import RACK_TAG, Assignment, Member, Unit
from penstock.client.assignment.task_assignor import (
    ApplicationState,
    AssignedTask,
    AssignmentConfigs,
    AssignmentError,
    KafkaStreamsState,
    TaskAssignment,
    TaskAssignmentUtils,
    TaskAssignor,
    TaskInfo,
    TaskTopicPartition,
)
from penstock.client.scheduling.units import Units
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError, TaskAssignmentError
from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

_NO_RACKS: Mapping[TopicPartition, frozenset[str]] = MappingProxyType({})


def ask(
    assignor: TaskAssignor,
    config: StreamsConfig,
    plan: Plan,
    units: Units,
    named: Sequence[Unit],
    members: Sequence[Member],
    hosts: Mapping[str, str],
    racks: Mapping[TopicPartition, frozenset[str]] = _NO_RACKS,
) -> Assignment | None:
    """What an assignor says, by unit; None where it wants to be asked again later."""
    clients = {member.id: _client(member, units, named, hosts) for member in members}
    state = ApplicationState(clients, _tasks(plan, units, racks), AssignmentConfigs.of(config))
    name = type(assignor).__name__
    try:
        answer = assignor.assign(state)
        error = TaskAssignmentUtils.validate_task_assignment(state, answer)
    except TaskAssignmentError as exc:
        _log.warning(
            "%s could not assign the tasks now; they are dealt out as without it until the next rebalance: %s", name, exc
        )
        return None
    except Exception as exc:
        raise ConfigError(f"task.assignor.class: {name} failed to assign {len(state.all_tasks)} tasks: {exc!r}") from exc
    heard = getattr(assignor, "on_assignment_computed", None)
    if callable(heard):
        try:
            heard(answer, error)
        except Exception as exc:
            raise ConfigError(f"task.assignor.class: on_assignment_computed of {name} failed: {exc!r}") from exc
    if error is not AssignmentError.NONE:
        raise ConfigError(f"task.assignor.class: {name} gave an assignment that cannot be: {error.name}")
    return _by_unit(answer, units, name)


def _tags(member: Member) -> dict[str, str]:
    return {tag: value for tag, value in member.tags.items() if tag != RACK_TAG}


def _tasks(plan: Plan, units: Units, racks: Mapping[TopicPartition, frozenset[str]]) -> dict[TaskId, TaskInfo]:
    found = {}
    for unit, tasks in units.items():
        for task in tasks:
            subtopology, changelogs = plan.subtopologies[task.subtopology], plan.changelogs(task)
            sources = [TopicPartition(topic, task.partition) for topic in subtopology.source_topics]
            partitions = {p: TaskTopicPartition(p, p in sources, p in changelogs, racks.get(p)) for p in (*sources, *changelogs)}
            found[task] = TaskInfo(
                task, plan.is_stateful(task), frozenset(changelogs.values()), frozenset(partitions.values()), unit
            )
    return found


def _client(member: Member, units: Units, named: Sequence[Unit], hosts: Mapping[str, str]) -> KafkaStreamsState:
    def tasks(names: frozenset[UnitId]) -> frozenset[TaskId]:
        return frozenset(task for name in names for task in units.get(name, ()))

    lags: dict[TaskId, int] = {}
    for unit in named:
        if unit.is_stateful:
            lag = member.lags.get(unit.id, unit.changelog or 0)
            of_unit = units[unit.id]
            # How far its tasks are is told for a unit as a whole.
            lags |= {task: lag if lag < 0 else lag // len(of_unit) for task in of_unit}
    return KafkaStreamsState(
        member.id,
        member.capacity,
        tasks(member.active),
        tasks(member.standby),
        lags,
        hosts.get(member.id, ""),
        _tags(member),
        member.rack or None,
    )


def _by_unit(answer: TaskAssignment, units: Units, name: str) -> Assignment:
    """A unit goes to the client that was given most of its tasks; what nobody was given stays with nobody."""
    clients = {assignment.process_id: assignment for assignment in answer.assignment}
    active: dict[str, list[UnitId]] = {process: [] for process in clients}
    standby: dict[str, list[UnitId]] = {process: [] for process in clients}
    for unit, tasks in units.items():
        runs = Counter({process: len(a.of_type(AssignedTask.Type.ACTIVE).intersection(tasks)) for process, a in clients.items()})
        owner, most = min(runs.items(), key=lambda entry: (-entry[1], entry[0]))
        if most:
            active[owner].append(unit)
        if 0 < most < len(tasks):
            _log.warning(
                "%s parts the tasks of pipeline %s, which a shuffle binds together: all of them go to %s", name, unit, owner
            )
        for process, assignment in clients.items():
            if process != owner and assignment.of_type(AssignedTask.Type.STANDBY).intersection(tasks):
                standby[process].append(unit)
    probing = any(assignment.followup_rebalance for assignment in answer.assignment)
    return Assignment(_sorted(active), _sorted(standby), dict.fromkeys(clients, ()), probing)


def _sorted(units: Mapping[str, list[UnitId]]) -> dict[str, tuple[UnitId, ...]]:
    return {process: tuple(sorted(names)) for process, names in units.items()}
