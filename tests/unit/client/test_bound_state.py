"""A task whose state cannot move stays where it is until its thread or its host is gone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.replicas.local_replicas import StandbyEvents
from penstock.client.replicas.state_replicas import StateReplicas
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId
from penstock.spark.plan import Plan, StateBound
from penstock.topology.specs import Subtopology
from tests.unit.client.simulated import World, make_plan

ORDERS = [TaskId(2, 0), TaskId(2, 1)]
TASKS = [TaskId(0, partition) for partition in range(4)]


def bound_world(clock: list[float], **settings: Any) -> World:
    """Three threads; the tasks of `orders` have a store in memory without a changelog."""
    world = World(clock, threads=3, plan=replace(make_plan(3, 4, 2), bound={2: StateBound.PROCESS}), **settings)
    world.assign()
    world.settle()
    return world


def opened(world: World) -> dict[TaskId, Any]:
    """The open tasks of `orders`, each as its worker knows it since it was opened."""
    return {task: worker.tasks[task] for worker in world.jobs_of.processes.values() for task in ORDERS if task in worker.tasks}


def test_should_spread_tasks_that_cannot_move_from_the_start(clock: list[float]) -> None:
    world = bound_world(clock)
    assert sorted(world.loop.owners[task] for task in ORDERS) == [0, 1]
    others = {thread for task, thread in world.loop.owners.items() if task not in ORDERS}
    assert len(others) == 1, "the others are together while one thread can carry the load"


def test_should_not_move_a_task_with_the_load(clock: list[float]) -> None:
    world = bound_world(clock)
    before, threads = opened(world), {task: world.loop.owners[task] for task in ORDERS}
    for spread in (True, False, True):
        world.loop.tasks.spread.wants = lambda *_, spread=spread, **__: spread  # type: ignore[method-assign]
        world.clock[0] += 6.0
        world.settle(50)
        others = {thread for task, thread in world.loop.owners.items() if task not in ORDERS}
        assert len(others) == (3 if spread else 1)
        assert {task: world.loop.owners[task] for task in ORDERS} == threads
    assert all(opened(world)[task] is before[task] for task in ORDERS), "it was never closed"


def test_should_not_move_a_thread_to_an_executor_that_has_come(clock: list[float]) -> None:
    world = bound_world(clock)
    before = opened(world)
    moved: list[int] = []
    world.jobs_of.move_thread = lambda index, place: moved.append(index)  # type: ignore[method-assign]
    world.jobs_of.places = {0: "executor_host_7", 1: "executor_host_8"}
    world.clock[0] += 6.0
    world.settle(50)
    assert not moved
    assert all(opened(world)[task] is before[task] for task in ORDERS)


def test_should_move_a_task_when_its_thread_is_removed(clock: list[float]) -> None:
    world = bound_world(clock)
    thread = world.loop.owners[ORDERS[0]]
    world.loop.tasks.leave_for_good(thread)
    assert world.loop.owners[ORDERS[0]] != thread
    assert world.loop.owners[ORDERS[1]] != thread


@pytest.fixture
def on_disk() -> StateReplicas:
    """Tasks with a store on disk without a changelog."""
    counting = Subtopology(0, (), {}, (), {}, ("clicks",), (), {}, {})
    plan = Plan({0: counting}, {"clicks": 4}, bound={0: StateBound.HOST})
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1"})
    application = SimpleNamespace(client_id="client")
    spark_threads: Any = SimpleNamespace(updaters=None, application=application, hosts={}, neighbours=Counter())
    admin: Any = SimpleNamespace(log_ends=lambda partitions, committed: {})
    return StateReplicas(config, plan, spark_threads, admin, StandbyEvents())


def test_should_move_state_on_disk_between_the_threads_of_a_host(on_disk: StateReplicas) -> None:
    on_disk._spark_threads.hosts = {0: "a", 1: "a"}  # type: ignore[misc]
    on_disk.opened(dict.fromkeys(TASKS, 0))
    assert sorted(on_disk.placement(TASKS, True, dict.fromkeys(TASKS, 0)).owners.values()) == [0, 0, 1, 1]


@pytest.mark.parametrize("spread", [True, False])
def test_should_not_move_state_on_disk_to_another_host(on_disk: StateReplicas, spread: bool) -> None:
    """It would be empty there: nothing can restore it."""
    before = {TASKS[0]: 0, TASKS[1]: 0, TASKS[2]: 0, TASKS[3]: 1}
    on_disk._spark_threads.hosts = {0: "a", 1: "b", 2: "a"}  # type: ignore[misc]
    on_disk.opened(before)
    assert on_disk.placement(TASKS, spread, before).owners == before
    without = on_disk.placement(TASKS, spread, before, without=[0]).owners
    assert without == {**dict.fromkeys(TASKS, 2), TASKS[3]: 1}, "another thread of the host has it"
    assert set(on_disk.placement(TASKS, spread, before, without=[0, 2]).owners.values()) == {1}, "the host is gone"
