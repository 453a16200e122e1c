"""Threads that are lost, by a turn that does not end or with their executor, or that move: the others go on, nothing is lost."""

from __future__ import annotations

import logging

import pytest

from penstock.ids import TaskId, TopicPartition
from tests.unit.client.simulated import World, consumed_once

GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
ORDERS = TaskId(2, 0), TaskId(2, 1)


def running_world(clock: list[float], guarantee: str, **settings: object) -> World:
    """Three threads that work, with a task that reads by itself in two of them."""
    world = World(clock, threads=3, guarantee=guarantee, **{"task.spread": "always", **settings})
    world.on_failure = lambda error, thread: True
    world.assign()
    world.settle(50)
    assert len({world.loop.owners[task] for task in ORDERS}) == 2
    return world


def work_on(world: World, task: TaskId, seconds: float) -> None:
    """Records for one task, again and again for so long; each has to be consumed before the next."""
    until = world.clock[0] + seconds
    while world.clock[0] < until:
        world.produce("orders", task.partition)
        partition = TopicPartition("orders", task.partition)
        world.settle(30)
        assert world.brokers.consumed[partition, world.brokers.ends[partition] - 1] == 1


@GUARANTEES
def test_should_end_a_turn_that_takes_longer_than_max_poll_interval_and_say_what_it_did(
    clock: list[float], guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = running_world(clock, guarantee, **{"max.poll.interval.ms": 5_000})
    stuck, _ = (world.loop.owners[task] for task in ORDERS)
    world.jobs_of.deaf = {stuck}
    world.produce("orders", 0, 3)
    world.until(lambda: any(job.processes for job in world.jobs_of.pending[stuck]))
    work_on(world, ORDERS[1], 3.0)
    assert not world.jobs_of.cancelled
    with caplog.at_level(logging.ERROR):
        work_on(world, ORDERS[1], 4.0)
    assert [thread for thread, _ in world.jobs_of.cancelled] == [stuck]
    said = world.jobs_of.cancelled[0][1]
    assert "a residency with" in said
    assert "max.poll.interval.ms (5 s)" in said
    assert "task 2_0 runs an operator" in said
    assert said in caplog.text
    world.settle()
    consumed_once(world)
    assert {thread for _, thread in world.failures} <= {stuck}
    assert world.told[-1] == "running"


def test_should_not_end_a_turn_that_waits_for_a_core(clock: list[float]) -> None:
    world = running_world(clock, "exactly_once_v2", **{"max.poll.interval.ms": 5_000})
    waits, _ = (world.loop.owners[task] for task in ORDERS)
    world.jobs_of.deaf = {waits}
    world.jobs_of.waits.seconds[world.jobs_of.workers[waits].name] = 1.0
    world.produce("orders", 0, 3)
    work_on(world, ORDERS[1], 8.0)
    assert not world.jobs_of.cancelled
    world.jobs_of.deaf = set()
    world.settle()
    consumed_once(world)


@GUARANTEES
def test_should_leave_threads_alone_that_stay_when_an_executor_is_lost(clock: list[float], guarantee: str) -> None:
    world = running_world(clock, guarantee)
    lost, stays = (world.loop.owners[task] for task in ORDERS)
    kept = dict(world.jobs_of.processes[stays].tasks)
    world.jobs_of.lose_executor(lost)
    world.jobs_of.deaf = {lost}  # its new worker takes its time
    opened = len(world.jobs_of.opened)
    work_on(world, ORDERS[1], 8.0)
    assert world.loop.owners[ORDERS[0]] != lost, "the others have what it had"
    still = world.jobs_of.processes[stays].tasks
    assert all(still[task] is positions for task, positions in kept.items()), "what stayed was never closed"
    assert all(task in tasks for tasks in world.jobs_of.opened[opened:] for task in kept if ORDERS[1] in tasks)
    world.jobs_of.deaf = set()
    world.settle()
    consumed_once(world)
    assert world.told[-1] == "running"


@GUARANTEES
def test_should_move_one_thread_after_the_other_when_others_work_on_its_tasks(clock: list[float], guarantee: str) -> None:
    world = running_world(clock, guarantee)
    tasks, move = world.loop.tasks, world.jobs_of.move_thread
    moved: list[int] = []

    def move_thread(index: int, place: str) -> None:
        assert all(map(tasks.is_ready, tasks.owners)), "nobody works on what it had"
        assert all(thread.is_open for thread in tasks.threads.values()), "another is on its way"
        moved.append(index)
        move(index, place)

    world.jobs_of.move_thread = move_thread  # type: ignore[method-assign]
    world.jobs_of.places = {1: "executor_host_7", 2: "executor_host_8"}
    world.clock[0] += 6.0
    for task in ORDERS:
        work_on(world, task, 3.0)
    assert moved == [1, 2]
    world.settle()
    assert set(tasks.owners.values()) == {0, 1, 2}
    consumed_once(world)


DECOMMISSIONED = "is being decommissioned, or about to end"


def refuse(world: World, *threads: int) -> None:
    """Spark gives the executors of these threads no more tasks."""
    world.jobs_of.refusals = dict.fromkeys(threads, DECOMMISSIONED)
    world.jobs_of.places = {thread: f"executor_host_{thread + 5}" for thread in threads}


@GUARANTEES
@pytest.mark.parametrize("is_resident", [True, False], ids=["while it works", "while it is idle"])
def test_should_take_a_thread_at_once_from_an_executor_that_gets_no_more_tasks(
    clock: list[float], guarantee: str, is_resident: bool
) -> None:
    world = running_world(clock, guarantee)
    leaves, stays = (world.loop.owners[task] for task in ORDERS)
    world.produce("orders", 0, 3)
    if is_resident:
        world.until(lambda: any(job.processes and job.has_begun for job in world.jobs_of.pending[leaves]))
    else:
        world.settle()
    kept = dict(world.jobs_of.processes[stays].tasks)
    refuse(world, leaves)
    jobs = world.jobs_of.opened[:]
    world.clock[0] += 1.1
    world.until(lambda: leaves in world.jobs_of.closed)
    assert world.jobs_of.opened[: len(jobs)] == jobs, "its tasks are closed without a Spark job"
    for task in ORDERS:
        work_on(world, task, 1.0)
    assert world.jobs_of.workers[leaves].executor == f"executor_host_{leaves + 5}"
    still = world.jobs_of.processes[stays].tasks
    assert all(still[task] is positions for task, positions in kept.items() if task in still)
    assert not world.failures
    world.settle()
    consumed_once(world)
    assert world.told[-1] == "running"
    assert set(world.loop.owners.values()) == {0, 1, 2}


@GUARANTEES
def test_should_take_all_threads_at_once_from_executors_that_get_no_more_tasks(clock: list[float], guarantee: str) -> None:
    world = running_world(clock, guarantee)
    world.produce("orders", 0, 3)
    refuse(world, 0, 1, 2)
    world.clock[0] += 1.1
    world.settle(60)
    assert sorted(world.jobs_of.closed) == [0, 1, 2]
    for task in ORDERS:
        work_on(world, task, 1.0)
    assert not world.failures
    world.settle()
    consumed_once(world)
    assert world.told[-1] == "running"


def test_should_end_a_job_that_waits_for_an_executor_which_gets_no_more_tasks(clock: list[float]) -> None:
    world = running_world(clock, "exactly_once_v2")
    waits, _ = (world.loop.owners[task] for task in ORDERS)
    world.jobs_of.deaf = {waits}
    world.jobs_of.waits.seconds[world.jobs_of.workers[waits].name] = 1.0
    world.produce("orders", 0, 3)
    world.until(lambda: any(job.processes for job in world.jobs_of.pending[waits]))
    refuse(world, waits)
    world.clock[0] += 1.1
    world.until(lambda: world.jobs_of.cancelled)
    assert world.jobs_of.cancelled[0] == (waits, f"its executor {DECOMMISSIONED}")
    world.jobs_of.waits.seconds.clear()
    for task in ORDERS:
        work_on(world, task, 1.0)
    world.settle()
    consumed_once(world)


def elastic_world(clock: list[float]) -> World:
    """Three threads of a session with dynamic allocation, whose tasks are together in one."""
    world = World(clock, threads=3)
    world.jobs_of.is_elastic = True
    world.assign()
    world.settle(50)
    return world


def test_should_begin_only_one_thread_while_it_can_carry_the_load_with_dynamic_allocation(clock: list[float]) -> None:
    """Workers of the others would wait for executors that are only there when tasks wait for them."""
    world = elastic_world(clock)
    assert world.told == ["running"]
    assert [len(world.jobs_of.processes[thread].tasks) > 0 for thread in range(3)] == [True, False, False]
    assert [thread.phase.name for thread in world.loop.tasks.threads.values()] == ["RUNNING", "CREATED", "CREATED"]
    world.loop.tasks.spread.pin("a record took long")
    work_on(world, ORDERS[0], 3.0)
    assert set(world.loop.owners.values()) == {0, 1, 2}
    world.settle()
    consumed_once(world)
    assert world.told[-1] == "running"


def test_should_take_no_executor_for_failed_that_was_given_back_with_nothing_on_it(clock: list[float]) -> None:
    world = elastic_world(clock)
    world.loop.tasks.threads[1].has_begun = False
    world.loop.tasks.threads[1].is_parked = False
    world.jobs_of.is_elastic = False
    world.settle(20)
    assert world.loop.tasks.threads[1].is_open
    world.jobs_of.is_elastic = True
    world.jobs_of.lose_executor(1)
    world.clock[0] += 1.0
    for task in ORDERS:
        work_on(world, task, 1.0)
    assert not world.failures
    assert world.loop.tasks.threads[1].is_parked
    assert set(world.loop.owners.values()) == {0}, "the load has not changed"
    consumed_once(world)


def test_should_begin_on_another_executor_if_its_own_has_no_core(clock: list[float]) -> None:
    world = World(clock, threads=2)
    world.jobs_of.deaf = {1}
    world.jobs_of.waits.seconds["t2"] = 1.0
    world.assign()
    world.settle(10)
    assert world.loop.tasks.threads[1].is_to_begin
    world.jobs_of.places = {1: "executor_host_9"}
    world.clock[0] += 1.1
    world.until(lambda: world.jobs_of.cancelled)
    assert world.jobs_of.workers[1].executor == "executor_host_9"
    world.jobs_of.waits.seconds.clear()
    world.settle()
    assert world.told == ["running"]
    assert not world.failures
