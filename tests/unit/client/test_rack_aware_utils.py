"""What assignors of one's own are helped with: the cases of Kafka Streams' own tests of its utilities."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock import (
    ApplicationState,
    AssignedTask,
    AssignmentConfigs,
    KafkaStreamsAssignment,
    KafkaStreamsState,
    RackAwareOptimizationParams,
    StickyTaskAssignor,
    TaskAssignmentUtils,
    TaskId,
    TaskInfo,
    TopicPartition,
)
from penstock.client.assignment.task_assignor import TaskTopicPartition

T0, T1, T2 = (TaskId(0, partition) for partition in range(3))
STRATEGIES = ("min_traffic", "balance_subtopology")


def task(task_id: TaskId, *racks: str) -> TaskInfo:
    where = frozenset(racks) or None
    partitions = [
        TaskTopicPartition(TopicPartition("in", task_id.partition), True, False, where),
        TaskTopicPartition(TopicPartition("log", task_id.partition), False, True, where),
    ]
    return TaskInfo(task_id, True, frozenset({"store"}), frozenset(partitions))


def state(strategy: str, infos: Iterable[TaskInfo], racks: dict[str, str | None], **more: dict[str, str]) -> ApplicationState:
    clients = {
        p: KafkaStreamsState(p, 2, rack_id=rack, client_tags=more.get("tags", {}) and {"az": more["tags"][p]})
        for p, rack in racks.items()
    }
    tags = ("az",) if more else ()
    return ApplicationState(clients, {info.id: info for info in infos}, AssignmentConfigs(100, 2, 1, 60_000, tags, strategy))


def dealt(active: dict[str, list[TaskId]], standby: dict[str, list[TaskId]] | None = None) -> dict[str, KafkaStreamsAssignment]:
    return {
        process: KafkaStreamsAssignment(
            process,
            [*map(AssignedTask.active, tasks), *map(AssignedTask.standby, (standby or {}).get(process, ()))],
        )
        for process, tasks in active.items()
    }


def tasks(assignments: dict[str, KafkaStreamsAssignment]) -> dict[str, set[TaskId]]:
    return {process: set(assignment.tasks) for process, assignment in assignments.items()}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_exchange_active_tasks_and_then_leave_them(strategy: str) -> None:
    application = state(strategy, [task(T0, "rack-2"), task(T1, "rack-1")], {"1": "rack-1", "2": "rack-2"})
    assignments = dealt({"1": [T0], "2": [T1]})
    for _ in range(2):
        TaskAssignmentUtils.optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(application), assignments)
        assert tasks(assignments) == {"1": {T1}, "2": {T0}}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_exchange_copies(strategy: str) -> None:
    racks = {"1": "rack-1", "2": "rack-2", "3": "rack-3"}
    application = state(strategy, [task(T0, "rack-2"), task(T1, "rack-3")], racks)
    assignments = dealt({"1": [T0, T1], "2": [], "3": []}, {"2": [T1], "3": [T0]})
    TaskAssignmentUtils.optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(application), assignments)
    assert tasks(assignments) == {"1": {T0, T1}, "2": {T0}, "3": {T1}}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_not_bring_copies_of_a_zone_together(strategy: str) -> None:
    zones = {"1": "1", "2": "2", "3": "3", "4": "2"}
    application = state(strategy, [task(T0, "r1"), task(T1, "r1")], dict.fromkeys(zones, "r1"), tags=zones)
    active, standby = {"1": [T0], "2": [T1], "3": [], "4": []}, {"1": [T1], "2": [T0], "3": [T0, T1]}
    assignments = dealt(active, standby)
    TaskAssignmentUtils.optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(application), assignments)
    assert tasks(assignments) == {"1": {T0, T1}, "2": {T0, T1}, "3": {T0, T1}, "4": set()}


def test_should_go_by_the_tasks_and_costs_that_are_given() -> None:
    application = state("min_traffic", [task(T0, "r2"), task(T1, "r1"), task(T2, "r1")], {"1": "r1", "2": "r2"})
    params = RackAwareOptimizationParams.of(application)
    for left in (
        params.for_tasks([T0, T2]),
        params.for_stateless_tasks(),
        params.with_traffic_cost_override(0),
        params.for_stateful_tasks().with_non_overlap_cost_override(50),
    ):
        assignments = dealt({"1": [T0, T2], "2": [T1]})
        TaskAssignmentUtils.optimize_rack_aware_active_tasks(left, assignments)
        assert tasks(assignments) == {"1": {T0, T2}, "2": {T1}}


@pytest.mark.parametrize(
    ("strategy", "known", "racks"),
    [
        ("none", ("r2",), {"1": "r1", "2": "r2"}),
        ("min_traffic", (), {"1": "r1", "2": "r2"}),
        ("min_traffic", ("r2",), {"1": "r1", "2": None}),
    ],
)
def test_should_leave_all_as_it_is_where_racks_do_not_count(
    strategy: str, known: tuple[str, ...], racks: dict[str, str | None]
) -> None:
    application = state(strategy, [task(T0, *known), task(T1, "r1")], racks)
    assignments = dealt({"1": [T0], "2": [T1]})
    TaskAssignmentUtils.optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(application), assignments)
    assert tasks(assignments) == {"1": {T0}, "2": {T1}}


def test_should_weigh_moves_more_than_traffic_when_it_is_sticky() -> None:
    infos = [task(T0, "r2"), task(T1, "r1")]
    clients = {
        "1": KafkaStreamsState("1", 1, frozenset({T0}), rack_id="r1"),
        "2": KafkaStreamsState("2", 1, frozenset({T1}), rack_id="r2"),
    }
    by_id = {info.id: info for info in infos}
    sticky = ApplicationState(clients, by_id, AssignmentConfigs(rack_aware_assignment_strategy="min_traffic"))
    found = {a.process_id: set(a.tasks) for a in StickyTaskAssignor().assign(sticky).assignment}
    assert found == {"1": {T0}, "2": {T1}}
    costs = AssignmentConfigs(
        rack_aware_assignment_strategy="min_traffic", rack_aware_traffic_cost=20, rack_aware_non_overlap_cost=1
    )
    found = {a.process_id: set(a.tasks) for a in StickyTaskAssignor().assign(ApplicationState(clients, by_id, costs)).assignment}
    assert found == {"1": {T1}, "2": {T0}}
