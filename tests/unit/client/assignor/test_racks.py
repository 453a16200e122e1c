"""Units and copies near what they read: Kafka Streams' own cases, and the least cost there is, found by trying everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.assignment.assignor import Assignment, AssignorSettings, AssignorTask, Member, assign
from penstock.ids import TaskId

STRATEGIES = ("min_traffic", "balance_subtopology")


def task(name: TaskId, *racks: str, changelog: int | None = 0, partitions: int = 1) -> AssignorTask:
    where = (frozenset(racks),) * partitions
    return AssignorTask(name, changelog, where, where)


def member(name: str, rack: str, *active: TaskId, **more: Any) -> Member:
    return Member(name, active=frozenset(active), lags=dict.fromkeys(active, -2), rack=rack, **more)


def follow(tasks: list[AssignorTask], members: list[Member], settings: AssignorSettings) -> Assignment:
    """The assignment after which nothing moves any more; the state is small, so that nothing waits for it."""
    found = assign(tasks, members, settings)
    again = [
        replace(
            m,
            active=frozenset(found.active[m.id]),
            standby=frozenset(found.copies(m.id)),
            lags=dict.fromkeys(found.active[m.id], -2),
        )
        for m in members
    ]
    assert assign(tasks, again, settings).active == found.active
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_exchange_tasks_that_are_in_the_wrong_racks(strategy: str) -> None:
    tasks = [task(TaskId(0, 0), "rack-2"), task(TaskId(0, 1), "rack-1")]
    members = [member("1", "rack-1", TaskId(0, 0)), member("2", "rack-2", TaskId(0, 1))]
    assert assign(tasks, members).active == {"1": (TaskId(0, 0),), "2": (TaskId(0, 1),)}
    assert follow(tasks, members, AssignorSettings(rack_strategy=strategy)).active == {"1": (TaskId(0, 1),), "2": (TaskId(0, 0),)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_leave_tasks_where_all_have_a_replica_near(strategy: str) -> None:
    tasks = [
        task(TaskId(0, 0), "rack-1", "rack-2"),
        task(TaskId(0, 1), "rack-2", "rack-3"),
        task(TaskId(0, 2), "rack-3", "rack-4"),
    ]
    members = [member("1", "rack-1", TaskId(0, 0)), member("2", "rack-2", TaskId(0, 1)), member("3", "rack-3", TaskId(0, 2))]
    assert follow(tasks, members, AssignorSettings(rack_strategy=strategy)).active == {
        "1": (TaskId(0, 0),),
        "2": (TaskId(0, 1),),
        "3": (TaskId(0, 2),),
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_exchange_copies_that_are_in_the_wrong_racks(strategy: str) -> None:
    tasks = [task(TaskId(0, 0), "rack-2"), task(TaskId(0, 1), "rack-3")]
    members = [
        member("1", "rack-1", TaskId(0, 0), TaskId(0, 1), capacity=2),
        member("2", "rack-2", standby=frozenset({TaskId(0, 1)})),
        member("3", "rack-3", standby=frozenset({TaskId(0, 0)})),
    ]
    settings = AssignorSettings(standby_replicas=1, rack_strategy=strategy)
    for task_id, copy in assign(tasks, members, settings).standby.items():
        assert copy == {"1": copy, "2": (TaskId(0, 0),), "3": (TaskId(0, 1),)}[task_id]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_not_bring_copies_of_a_zone_together_for_less_traffic(strategy: str) -> None:
    tasks = [task(TaskId(0, 0), "r1"), task(TaskId(0, 1), "r1")]
    zones = {"1": "1", "2": "2", "3": "3", "4": "2"}
    members = [
        Member(
            name,
            2,
            tags={"az": zone},
            active=frozenset({"1": {TaskId(0, 0)}, "2": {TaskId(0, 1)}}.get(name, set())),
            standby=frozenset({"1": {TaskId(0, 1)}, "2": {TaskId(0, 0)}, "3": {TaskId(0, 0), TaskId(0, 1)}}.get(name, set())),
            lags=dict.fromkeys({"1": (TaskId(0, 0),), "2": (TaskId(0, 1),)}.get(name, ()), -2),
            rack="r1",
        )
        for name, zone in zones.items()
    ]
    found = assign(tasks, members, AssignorSettings(2, rack_aware_tags=("az",), rack_strategy=strategy))
    for name in (TaskId(0, 0), TaskId(0, 1)):
        holders = [found.owners[name], *(m for m, copies in found.standby.items() if name in copies)]
        assert {zones[holder] for holder in holders} == {"1", "2", "3"}


def test_should_keep_sub_topologies_even_only_where_it_is_asked_to() -> None:
    tasks = [task(TaskId(0, 0), "r1"), task(TaskId(0, 1), "r1"), task(TaskId(1, 0), "r2"), task(TaskId(1, 1), "r2")]
    members = [member("1", "r1", TaskId(0, 0), TaskId(1, 0)), member("2", "r2", TaskId(0, 1), TaskId(1, 1))]
    assert follow(tasks, members, AssignorSettings(rack_strategy="min_traffic")).active == {
        "1": (TaskId(0, 0), TaskId(0, 1)),
        "2": (TaskId(1, 0), TaskId(1, 1)),
    }
    even = follow(tasks, members, AssignorSettings(rack_strategy="balance_subtopology"))
    assert [sorted(task_id.subtopology for task_id in active) for active in even.active.values()] == [[0, 1], [0, 1]]


def test_should_move_nothing_where_that_costs_more_than_the_traffic() -> None:
    tasks = [task(TaskId(0, 0), "r2"), task(TaskId(0, 1), "r1")]
    members = [member("1", "r1", TaskId(0, 0)), member("2", "r2", TaskId(0, 1))]
    settings = AssignorSettings(rack_strategy="min_traffic", rack_traffic_cost=1, rack_non_overlap_cost=2)
    assert assign(tasks, members, settings).active == {"1": (TaskId(0, 0),), "2": (TaskId(0, 1),)}


def test_should_warm_up_what_has_much_state_before_it_goes_to_the_right_rack() -> None:
    tasks = [task(TaskId(0, 0), "r2", changelog=1_000_000), task(TaskId(0, 1), "r1", changelog=1_000_000)]
    members = [member("1", "r1", TaskId(0, 0)), member("2", "r2", TaskId(0, 1))]
    found = assign(tasks, members, AssignorSettings(rack_strategy="min_traffic"))
    assert found.active == {"1": (TaskId(0, 0),), "2": (TaskId(0, 1),)}
    assert found.warmup == {"1": (TaskId(0, 1),), "2": (TaskId(0, 0),)}
    assert found.probing


@st.composite
def situations(draw: Any) -> tuple[list[AssignorTask], list[Member], AssignorSettings]:
    names = ("r1", "r2", "r3")[: draw(st.integers(2, 3))]
    racks = st.sets(st.sampled_from(names), min_size=1).map(frozenset)
    changelog = draw(st.sampled_from([None, 0]))
    tasks = [
        AssignorTask(TaskId(s, p), changelog, tuple(draw(st.lists(racks, min_size=1, max_size=2))))
        for s in range(draw(st.integers(1, 2)))
        for p in range(draw(st.integers(1, 3)))
    ]
    ids = [f"m{i}" for i in range(draw(st.integers(2, 4)))]
    runs = {u.id: draw(st.sampled_from(ids)) for u in tasks}
    members = [member(m, draw(st.sampled_from(names)), *(u for u, by in runs.items() if by == m)) for m in ids]
    costs = draw(st.sampled_from([(None, None), (1, 10), (5, 2), (1, 0)]))
    return tasks, members, AssignorSettings(0, 10_000, 2, (), draw(st.sampled_from(STRATEGIES)), *costs)


@given(situations())
def test_should_find_the_least_cost_and_leave_loads_as_they_were(
    situation: tuple[list[AssignorTask], list[Member], AssignorSettings],
) -> None:
    tasks, members, settings = situation
    rack = {m.id: m.rack for m in members}
    before = assign(tasks, members, replace(settings, rack_strategy="none")).owners
    found = assign(tasks, members, settings).owners
    traffic, overlap = (settings.rack_traffic_cost, settings.rack_non_overlap_cost) if tasks[0].is_stateful else (1, 0)
    traffic, overlap = 10 if traffic is None else traffic, 1 if overlap is None else overlap

    def cost(owners: dict[TaskId, str]) -> int:
        far = sum(traffic * (rack[owners[u.id]] not in where) for u in tasks for where in u.racks)
        return far + overlap * sum(owners[u.id] != before[u.id] for u in tasks)

    def parts(owners: dict[TaskId, str]) -> Counter[tuple[str, int]]:
        by_part = settings.rack_strategy == "balance_subtopology"
        return Counter((owners[u.id], u.id.subtopology if by_part else 0) for u in tasks)

    names = [u.id for u in tasks]
    dealt = (dict(zip(names, owners)) for owners in set(permutations([before[name] for name in names])))
    assert cost(found) == min(cost(owners) for owners in dealt if parts(owners) == parts(before))
    assert parts(found) == parts(before)
