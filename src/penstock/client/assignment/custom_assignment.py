"""Calls the user's assignor with the tasks and clients of the group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from penstock.client.assignment.assignor import RACK_TAG, Assignment, AssignorTask, Member
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
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError, TaskAssignmentError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)

_NO_RACKS: Mapping[TopicPartition, frozenset[str]] = MappingProxyType({})


def ask(
    assignor: TaskAssignor,
    config: StreamsConfig,
    plan: Plan,
    tasks: Sequence[AssignorTask],
    members: Sequence[Member],
    hosts: Mapping[str, str],
    racks: Mapping[TopicPartition, frozenset[str]] = _NO_RACKS,
) -> Assignment | None:
    """Return the assignment of the user's assignor. None if it asks to retry later."""
    clients = {member.id: _client(member, tasks, hosts) for member in members}
    state = ApplicationState(clients, _tasks(plan, racks), AssignmentConfigs.of(config))
    name = type(assignor).__name__
    try:
        answer = assignor.assign(state)
        error = TaskAssignmentUtils.validate_task_assignment(state, answer)
    except TaskAssignmentError as exc:
        _log.warning(
            "%s could not assign the tasks now. The default assignor assigns them until the next rebalance: %s", name, exc
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
        raise ConfigError(f"task.assignor.class: {name} returned an invalid assignment: {error.name}")
    return _assignment(answer, {task.id for task in tasks})


def _tags(member: Member) -> dict[str, str]:
    return {tag: value for tag, value in member.tags.items() if tag != RACK_TAG}


def _tasks(plan: Plan, racks: Mapping[TopicPartition, frozenset[str]]) -> dict[TaskId, TaskInfo]:
    found = {}
    for task in plan.tasks():
        subtopology, changelogs = plan.subtopologies[task.subtopology], plan.changelogs(task)
        sources = [TopicPartition(topic, task.partition) for topic in subtopology.source_topics]
        partitions = {p: TaskTopicPartition(p, p in sources, p in changelogs, racks.get(p)) for p in (*sources, *changelogs)}
        found[task] = TaskInfo(task, plan.is_stateful(task), frozenset(changelogs.values()), frozenset(partitions.values()))
    return found


def _client(member: Member, tasks: Sequence[AssignorTask], hosts: Mapping[str, str]) -> KafkaStreamsState:
    known = {task.id for task in tasks}
    return KafkaStreamsState(
        member.id,
        member.capacity,
        member.active & known,
        member.standby & known,
        {task.id: member.lags.get(task.id, task.changelog or 0) for task in tasks if task.is_stateful},
        hosts.get(member.id, ""),
        _tags(member),
        member.rack or None,
    )


def _assignment(answer: TaskAssignment, tasks: Set[TaskId]) -> Assignment:
    """Return active and standby tasks by client. Tasks without a client remain unassigned."""
    active, standby = AssignedTask.Type.ACTIVE, AssignedTask.Type.STANDBY
    given = {client.process_id: client for client in answer.assignment}
    return Assignment(
        {process: tuple(sorted(client.of_type(active) & tasks)) for process, client in given.items()},
        {process: tuple(sorted(client.of_type(standby) & tasks)) for process, client in given.items()},
        dict.fromkeys(given, ()),
        any(client.followup_rebalance for client in given.values()),
    )
