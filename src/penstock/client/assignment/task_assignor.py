"""User assignors (`task.assignor.class`): their input and their result.

class Heavy(TaskAssignor):
    def assign(self, application_state):
        assignments = TaskAssignmentUtils.identity_assignment(application_state)
        ...
        return TaskAssignment(assignments.values())
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import ConfigError
from penstock.ids import TaskId, TopicPartition
from penstock.import_paths import imported_for, instance_for


@dataclass(frozen=True)
class TaskTopicPartition:
    """A partition of a task's input or changelog topic."""

    topic_partition: TopicPartition
    is_source: bool = False
    is_changelog: bool = False
    rack_ids: frozenset[str] | None = None
    """The racks of its replicas. None if unknown, or if `rack.aware.assignment.strategy` is none."""


@dataclass(frozen=True)
class TaskInfo:
    """A task to assign."""

    id: TaskId
    is_stateful: bool = False
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: frozenset[TaskTopicPartition] = frozenset()


@dataclass(frozen=True)
class AssignmentConfigs:
    """The settings for an assignor."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_assignment_strategy: str = "none"
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None

    @classmethod
    def of(cls, configs: Mapping[str, Any]) -> AssignmentConfigs:
        """Return the settings of an application."""
        return cls(
            configs["acceptable.recovery.lag"],
            configs["max.warmup.replicas"],
            configs["num.standby.replicas"],
            configs["probing.rebalance.interval.ms"],
            tuple(configs["rack.aware.assignment.tags"]),
            configs["rack.aware.assignment.strategy"],
            configs["rack.aware.assignment.traffic_cost"],
            configs["rack.aware.assignment.non_overlap_cost"],
        )


@dataclass(frozen=True)
class KafkaStreamsState:
    """A client (an instance of the application) with the data that it sent when it joined.

    >>> state = KafkaStreamsState("a", stateful_tasks_to_lag_sums={TaskId(0, 0): 7})
    >>> state.lag_for(TaskId(0, 0))
    7
    """

    process_id: str
    num_processing_threads: int = 1
    previous_active_tasks: frozenset[TaskId] = frozenset()
    previous_standby_tasks: frozenset[TaskId] = frozenset()
    stateful_tasks_to_lag_sums: Mapping[TaskId, int] = field(default_factory=dict)
    host_info: str = ""
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack_id: str | None = None

    def lag_for(self, task: TaskId) -> int:
        """Return the number of missing changelog records, -2 if the task runs here. Raises KeyError for a stateless task."""
        return self.stateful_tasks_to_lag_sums[task]


@dataclass(frozen=True)
class ApplicationState:
    """The clients, the tasks and the settings."""

    kafka_streams_states: Mapping[str, KafkaStreamsState]
    all_tasks: Mapping[TaskId, TaskInfo]
    assignment_configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)


@dataclass(frozen=True)
class AssignedTask:
    """A task assigned to a client."""

    class Type(enum.Enum):
        """The kind of an assigned task."""

        ACTIVE = "ACTIVE"
        STANDBY = "STANDBY"

    id: TaskId
    type: AssignedTask.Type

    @classmethod
    def active(cls, task: TaskId) -> AssignedTask:
        """Return an active task."""
        return cls(task, cls.Type.ACTIVE)

    @classmethod
    def standby(cls, task: TaskId) -> AssignedTask:
        """Return a standby task."""
        return cls(task, cls.Type.STANDBY)


class KafkaStreamsAssignment:
    """The tasks of one client. `with_followup_rebalance` requests another rebalance.

    >>> assignment = KafkaStreamsAssignment("a", {AssignedTask.active(TaskId(0, 0))})
    >>> assignment.assign_task(AssignedTask.standby(TaskId(0, 1)))
    >>> sorted(str(task) for task in assignment.tasks)
    ['0_0', '0_1']
    """

    def __init__(self, process_id: str, assignment: Iterable[AssignedTask] = (), *, followup_rebalance: bool = False) -> None:
        self.process_id = process_id
        self.tasks: dict[TaskId, AssignedTask] = {task.id: task for task in assignment}
        self.followup_rebalance = followup_rebalance

    @classmethod
    def of(cls, process_id: str, assignment: Iterable[AssignedTask]) -> KafkaStreamsAssignment:
        """Return the assignment of a client; Kafka Streams' name of the constructor."""
        return cls(process_id, assignment)

    def assign_task(self, task: AssignedTask) -> None:
        """Add a task."""
        self.tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Remove a task."""
        self.tasks.pop(task.id, None)

    def with_followup_rebalance(self) -> KafkaStreamsAssignment:
        """Return this assignment with a request for a rebalance within `probing.rebalance.interval.ms`."""
        return KafkaStreamsAssignment(self.process_id, self.tasks.values(), followup_rebalance=True)

    def of_type(self, kind: AssignedTask.Type) -> set[TaskId]:
        """Return the tasks of one kind."""
        return {task.id for task in self.tasks.values() if task.type is kind}


class TaskAssignment:
    """The result of an assignor: the tasks of each client."""

    def __init__(self, assignment: Iterable[KafkaStreamsAssignment]) -> None:
        self.assignment = list(assignment)


class AssignmentError(enum.Enum):
    """Errors in the result of an assignor."""

    NONE = "NONE"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    INVALID_STANDBY_TASK = "INVALID_STANDBY_TASK"
    MISSING_PROCESS_ID = "MISSING_PROCESS_ID"
    UNKNOWN_PROCESS_ID = "UNKNOWN_PROCESS_ID"
    UNKNOWN_TASK_ID = "UNKNOWN_TASK_ID"


class TaskAssignor(ABC):
    """Assigns tasks to clients. The group's leader calls it in every rebalance.

    `assign` may raise `TaskAssignmentError` to retry in a later rebalance.
    """

    @abstractmethod
    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign the tasks."""

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:  # noqa: B027 - optional
        """Called with the result and its error. An error ends the application."""

    def configure(self, configs: Mapping[str, Any]) -> None:  # noqa: B027 - optional
        """Called once with the application's settings."""


@dataclass(frozen=True)
class RackAwareOptimizationParams:
    """Tasks for the rack-aware optimization, and its costs. Costs that are not overridden are those of the settings.

    RackAwareOptimizationParams.of(application_state).for_stateful_tasks().with_traffic_cost_override(5)
    """

    application_state: ApplicationState
    tasks: frozenset[TaskId]
    traffic_cost_override: int | None = None
    non_overlap_cost_override: int | None = None

    @classmethod
    def of(cls, application_state: ApplicationState) -> RackAwareOptimizationParams:
        """Return the parameters for all tasks."""
        return cls(application_state, frozenset(application_state.all_tasks))

    def for_tasks(self, tasks: Iterable[TaskId]) -> RackAwareOptimizationParams:
        """Return the parameters for these tasks."""
        return replace(self, tasks=frozenset(tasks))

    def for_stateful_tasks(self) -> RackAwareOptimizationParams:
        """Return the parameters for stateful tasks."""
        return self.for_tasks(task for task, info in self.application_state.all_tasks.items() if info.is_stateful)

    def for_stateless_tasks(self) -> RackAwareOptimizationParams:
        """Return the parameters for stateless tasks."""
        return self.for_tasks(task for task, info in self.application_state.all_tasks.items() if not info.is_stateful)

    def with_traffic_cost_override(self, cost: int) -> RackAwareOptimizationParams:
        """Return the parameters with another cost of a partition in another rack."""
        return replace(self, traffic_cost_override=cost)

    def with_non_overlap_cost_override(self, cost: int) -> RackAwareOptimizationParams:
        """Return the parameters with another cost of a task that moves."""
        return replace(self, non_overlap_cost_override=cost)


class TaskAssignmentUtils:
    """Utilities for assignors."""

    @staticmethod
    def optimize_rack_aware_active_tasks(
        optimization_params: RackAwareOptimizationParams, assignments: Mapping[str, KafkaStreamsAssignment]
    ) -> None:
        """Exchange active tasks between clients if that reduces traffic between racks.

        Does nothing if the strategy is none, or if the rack of a client or partition is unknown.
        """
        active = AssignedTask.Type.ACTIVE
        owners = {task: process for process, assignment in assignments.items() for task in assignment.of_type(active)}
        found = _brought_near(optimization_params, assignments, owners)
        if found is not None:
            for task, process in found[0].items():
                if process != owners[task]:
                    assignments[owners[task]].remove_task(AssignedTask.active(task))
            for task, process in found[0].items():
                assignments[process].assign_task(AssignedTask.active(task))

    @staticmethod
    def optimize_rack_aware_standby_tasks(
        optimization_params: RackAwareOptimizationParams, assignments: Mapping[str, KafkaStreamsAssignment]
    ) -> None:
        """Exchange standbys between clients if that reduces traffic between racks and tags allow it."""
        active = AssignedTask.Type.ACTIVE
        owners = {task: process for process, assignment in assignments.items() for task in assignment.of_type(active)}
        found = _brought_near(optimization_params, assignments, owners, copies_only=True)
        if found is not None:
            for task, processes in found[1].items():
                for assignment in assignments.values():
                    if task in assignment.of_type(AssignedTask.Type.STANDBY):
                        assignment.remove_task(AssignedTask.standby(task))
                for process in processes:
                    assignments[process].assign_task(AssignedTask.standby(task))

    @staticmethod
    def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
        """Return the error of a result, `NONE` if it is valid."""
        clients, tasks = application_state.kafka_streams_states, application_state.all_tasks
        active: set[TaskId] = set()
        answered: set[str] = set()
        for assignment in task_assignment.assignment:
            answered.add(assignment.process_id)
            for task in assignment.tasks.values():
                if task.id not in tasks:
                    return AssignmentError.UNKNOWN_TASK_ID
                if task.type is AssignedTask.Type.STANDBY:
                    if not tasks[task.id].is_stateful:
                        return AssignmentError.INVALID_STANDBY_TASK
                elif task.id in active:
                    return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
                else:
                    active.add(task.id)
        if not answered <= set(clients):
            return AssignmentError.UNKNOWN_PROCESS_ID
        return AssignmentError.NONE if answered == set(clients) else AssignmentError.MISSING_PROCESS_ID

    @staticmethod
    def identity_assignment(application_state: ApplicationState) -> dict[str, KafkaStreamsAssignment]:
        """Return each client's previous tasks."""
        known = application_state.all_tasks
        return {
            process: KafkaStreamsAssignment(
                process,
                [
                    *(AssignedTask.active(task) for task in sorted(state.previous_active_tasks) if task in known),
                    *(AssignedTask.standby(task) for task in sorted(state.previous_standby_tasks) if task in known),
                ],
            )
            for process, state in application_state.kafka_streams_states.items()
        }

    @staticmethod
    def default_standby_task_assignment(
        application_state: ApplicationState, assignments: Mapping[str, KafkaStreamsAssignment]
    ) -> None:
        """Add `num.standby.replicas` standbys of each stateful task on the clients with the fewest tasks per thread."""
        states = application_state.kafka_streams_states
        for task, info in sorted(application_state.all_tasks.items()):
            for _ in range(application_state.assignment_configs.num_standby_replicas if info.is_stateful else 0):
                free = [process for process, assignment in assignments.items() if task not in assignment.tasks]
                if free:
                    least = min(free, key=lambda p: (len(assignments[p].tasks) / states[p].num_processing_threads, p))
                    assignments[least].assign_task(AssignedTask.standby(task))


def _brought_near(
    params: RackAwareOptimizationParams,
    assignments: Mapping[str, KafkaStreamsAssignment],
    owners: Mapping[TaskId, str],
    copies_only: bool = False,
) -> tuple[dict[TaskId, str], dict[TaskId, list[str]]] | None:
    from penstock.client.assignment.assignor import AssignorSettings, AssignorTask, Member, bring_near

    state, configs = params.application_state, params.application_state.assignment_configs
    infos = {task: state.all_tasks[task] for task in sorted(params.tasks) if task in owners}
    clients = state.kafka_streams_states
    if configs.rack_aware_assignment_strategy == "none" or any(clients[process].rack_id is None for process in assignments):
        return None
    kind, wanted = ("is_changelog", "changelog_racks") if copies_only else ("is_source", "racks")
    # Any two of these tasks can be exchanged, stateful or not.
    tasks = [AssignorTask(task, 0, **{wanted: _racks(info, kind)}) for task, info in infos.items()]
    if any(None in (*task.racks, *task.changelog_racks) for task in tasks):
        return None
    settings = AssignorSettings(
        rack_aware_tags=configs.rack_aware_assignment_tags,
        rack_strategy=configs.rack_aware_assignment_strategy,
        rack_traffic_cost=_first(params.traffic_cost_override, configs.rack_aware_traffic_cost),
        rack_non_overlap_cost=_first(params.non_overlap_cost_override, configs.rack_aware_non_overlap_cost),
    )
    members = [Member(process, tags=clients[process].client_tags, rack=clients[process].rack_id or "") for process in assignments]
    standby = AssignedTask.Type.STANDBY
    copies = {
        task: [process for process, assignment in assignments.items() if task in assignment.of_type(standby)] for task in infos
    }
    return bring_near(tasks, members, {task: owners[task] for task in infos}, copies if copies_only else {}, settings)


def _racks(info: TaskInfo, kind: str) -> tuple[Any, ...]:
    of_kind = sorted((p for p in info.topic_partitions if getattr(p, kind)), key=lambda p: p.topic_partition)
    return tuple(partition.rack_ids for partition in of_kind)


def _first(override: int | None, configured: int | None) -> int | None:
    return configured if override is None else override


class StickyTaskAssignor(TaskAssignor):
    """Balanced and sticky, without considering lags: a task moves at once and restores at its destination."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign the tasks."""
        from penstock.client.assignment.assignor import AssignorTask, Member, assign

        states, configs = application_state.kafka_streams_states, application_state.assignment_configs
        tasks = application_state.all_tasks
        members = [
            Member(
                process,
                max(1, state.num_processing_threads),
                active=frozenset(state.previous_active_tasks) & tasks.keys(),
                standby=frozenset(state.previous_standby_tasks) & tasks.keys(),
            )
            for process, state in states.items()
        ]
        found = assign(map(AssignorTask, tasks), members)
        assignments = {
            process: KafkaStreamsAssignment(process, [AssignedTask.active(task) for task in found.active.get(process, ())])
            for process in states
        }
        near = _sticky_costs(RackAwareOptimizationParams.of(application_state))
        TaskAssignmentUtils.optimize_rack_aware_active_tasks(near, assignments)
        if configs.num_standby_replicas:
            TaskAssignmentUtils.default_standby_task_assignment(application_state, assignments)
            TaskAssignmentUtils.optimize_rack_aware_standby_tasks(near, assignments)
        return TaskAssignment(assignments.values())


def _sticky_costs(params: RackAwareOptimizationParams) -> RackAwareOptimizationParams:
    """Make moves cost more than traffic, as Java does for this assignor, unless costs are configured."""
    configs = params.application_state.assignment_configs
    return replace(
        params,
        traffic_cost_override=1 if configs.rack_aware_traffic_cost is None else None,
        non_overlap_cost_override=10 if configs.rack_aware_non_overlap_cost is None else None,
    )


_KEY = "task.assignor.class"
_ALLOWED = "allowed: an object with assign(application_state), its class, or its import path ('package.module.Class')"


def resolve_task_assignor(value: Any, configs: Mapping[str, Any]) -> TaskAssignor | None:
    """Return the assignor of `task.assignor.class`, None for the default one."""
    if isinstance(value, str):
        short = value.rpartition(".")[2]
        if short == "HighAvailabilityTaskAssignor" or not value:
            return None
        value = StickyTaskAssignor if short == "StickyTaskAssignor" else imported_for(_KEY, value, _ALLOWED)
    if value is None:
        return None
    value = instance_for(_KEY, value, _ALLOWED)
    if not callable(getattr(value, "assign", None)):
        raise ConfigError(f"{_KEY}: {value!r} is not an assignor; {_ALLOWED}")
    if callable(getattr(value, "configure", None)):
        value.configure(configs)
    found: TaskAssignor = value
    return found
