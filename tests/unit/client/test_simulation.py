"""Residencies, failures and moves of simulated threads, in any order: nothing is lost, nothing twice, and nobody stands still."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.client.scheduling.task_table import TaskState
from penstock.client.scheduling.thread_roster import ThreadChange
from penstock.ids import TaskId, TopicPartition
from tests.unit.client.simulated import WORDS, World, consumed_once

GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])


def seeds(quick: int, all_: int) -> list[Any]:
    """Some in every run, the rest in the slow suite."""
    return [pytest.param(seed, marks=[] if seed < quick else [pytest.mark.slow]) for seed in range(all_)]


@pytest.mark.parametrize("spread", ["always", "auto"])
def test_should_consume_everything_once(clock: list[float], spread: str) -> None:
    world = World(clock, threads=3, **{"task.spread": spread})
    for partition in range(3):
        world.produce("lines", partition, 50)
    world.produce("orders", 1, 7)
    world.assign()
    world.settle()
    assert world.told == ["running"]
    consumed_once(world)
    world.produce("lines", 2, 5)
    world.settle()
    consumed_once(world)


@pytest.mark.parametrize("seed", seeds(16, 200))
def test_should_lose_nothing_and_repeat_nothing_whatever_fails(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, threads=chance.randrange(1, 5), **{"task.spread": chance.choice(["always", "auto"])})
    world.on_failure = lambda error, thread: True
    world.jobs_of.restores = chance.randrange(3)
    world.assign()
    world.shake(chance, 600, failures=chance.choice([0.0, 0.1, 0.3]))
    world.jobs_of.restores = 0
    world.settle(300)
    consumed_once(world)
    assert world.told[-1] == "running"


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_lose_nothing_while_threads_come_and_go(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, threads=2, **{"task.spread": "always"})
    world.on_failure = lambda error, thread: True
    world.assign()
    threads = {0, 1}
    for _ in range(8):
        world.shake(chance, 60, failures=0.1)
        if len(threads) > 1 and chance.random() < 0.5:
            gone = chance.choice(sorted(threads))
            threads.discard(gone)
            world.loop.change_threads(ThreadChange(gone))
        elif (free := sorted(set(range(5)) - set(world.loop.tasks.threads))) and chance.random() < 0.8:
            threads.add(free[0])
            world.loop.change_threads(ThreadChange(free[0], f"t{free[0] + 1}"))
    world.settle(300)
    consumed_once(world)
    assert {thread for thread, worker in world.jobs_of.processes.items() if worker.tasks} <= threads


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_lose_nothing_while_threads_that_fail_are_replaced(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, threads=chance.randrange(1, 4), **{"task.spread": chance.choice(["always", "auto"])})
    left: list[int] = []
    replaced: list[int] = []

    def replace(_: BaseException, thread: int | None) -> bool:
        if thread is not None:
            new = next(index for index in range(20) if index not in world.loop.tasks.threads)
            world.loop.replace_thread(thread, new, f"t{new + 1}", lambda: left.append(thread))
            replaced.append(thread)
        return True

    world.on_failure = replace
    world.assign()
    threads = len(world.jobs_of.workers)
    world.shake(chance, 600, failures=0.2)
    world.settle(300)
    consumed_once(world)
    assert sorted(left) == sorted(replaced)
    assert len(world.jobs_of.workers) == threads
    assert world.told[-1] == "running"


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_lose_nothing_from_generation_to_generation(clock: list[float], seed: int) -> None:
    """Tasks go and come back; nobody else works on them meanwhile, so what is committed is where they go on."""
    chance = random.Random(seed)
    world = World(clock, threads=2, **{"task.spread": chance.choice(["always", "auto"])})
    world.on_failure = lambda error, thread: True
    world.assign()
    for _ in range(8):
        world.shake(chance, 60, failures=0.1)
        if chance.random() < 0.3:
            world.loop.revoked(lost=True)
            world.shake(chance, 20, failures=0.1)
        tasks = sorted(world.plan.tasks())
        world.assign(*chance.sample(tasks, chance.randrange(1, len(tasks) + 1)))
    world.assign()
    world.settle(300)
    consumed_once(world)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_should_lose_nothing_under_at_least_once(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, threads=3, guarantee="at_least_once", **{"task.spread": "always"})
    world.on_failure = lambda error, thread: True
    world.assign()
    world.shake(chance, 600, failures=0.2)
    world.settle(300)
    assert not [entry for entry in world.wants() if not world.brokers.consumed[entry]]


def thread_of(world: World, task: TaskId) -> int:
    return world.loop.owners[task]


def test_should_spread_tasks_evenly_over_the_threads_that_num_stream_threads_names(clock: list[float]) -> None:
    world = World(clock, threads=3, **{"num.stream.threads": 3})
    world.assign()
    world.settle(50)
    assert world.owned() == {0: 3, 1: 3, 2: 3}


def test_should_gather_tasks_in_one_thread_until_one_fails(clock: list[float]) -> None:
    world = World(clock, threads=3)
    world.on_failure = lambda error, thread: True
    world.assign()
    world.settle(50)
    assert world.owned() == {0: 9, 1: 0, 2: 0}
    world.produce("orders", 0)
    world.until(world.residents)
    world.jobs_of.fail(world.residents()[0])
    world.settle(150)
    assert world.owned() == {0: 3, 1: 3, 2: 3}
    consumed_once(world)


@GUARANTEES
def test_should_go_on_with_the_others_while_a_thread_is_slow(clock: list[float], guarantee: str) -> None:
    world = World(clock, threads=4, guarantee=guarantee, **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    slow = thread_of(world, TaskId(2, 0))
    lines = [p for p in range(3) if thread_of(world, TaskId(0, p)) != slow]
    others = [TopicPartition(WORDS, p) for p in range(4) if thread_of(world, TaskId(1, p)) != slow]
    world.jobs_of.deaf = {slow}
    for round_ in range(10):
        world.produce("lines", lines[round_ % len(lines)], 3)
        world.settle(30)
        behind = [entry for entry in world.wants() if entry[0] in others and not world.brokers.consumed[entry]]
        assert not behind, f"after {round_} rounds"
    world.jobs_of.deaf = set()
    world.settle()
    consumed_once(world)


@GUARANTEES
def test_should_fail_alone_and_commit_what_the_others_have_done(clock: list[float], guarantee: str) -> None:
    world = World(clock, threads=4, guarantee=guarantee, **{"task.spread": "always"})
    world.on_failure = lambda error, thread: True
    world.assign()
    world.settle(50)
    bad = thread_of(world, TaskId(2, 0))
    others = {task for task, thread in world.loop.owners.items() if thread != bad}
    for round_ in range(10):
        for partition in range(3):
            world.produce("lines", partition, 3)
        for _ in range(40):
            world.clock[0] += 0.05
            world.step()
            for job in world.jobs():
                if job.thread == bad and job.processes:
                    world.jobs_of.fail(job)
                elif job.processes and not job.is_called:
                    world.jobs_of.advance(job)
                else:
                    world.jobs_of.finish(job)
            world.do_background()
        assert {thread for _, thread in world.failures} == {bad}, round_
    numbers = {"lines": 0, WORDS: 1, "orders": 2}
    own = {TaskId(numbers[partition.topic], partition.partition): partition for partition, _ in world.wants()}
    for task in others & own.keys():
        times = {world.brokers.consumed[own[task], offset] for offset in range(world.brokers.ends[own[task]])}
        assert times <= {1}, task


def test_should_process_nothing_while_paused_and_go_on_afterwards(clock: list[float]) -> None:
    world = World(clock, threads=2)
    world.assign()
    world.settle(50)
    world.loop.pause(True)
    world.settle(20)
    world.produce("lines", 0, 5)
    world.settle(50)
    assert not world.brokers.consumed
    world.loop.pause(False)
    world.settle(50)
    consumed_once(world)


def test_should_restore_nothing_while_paused(clock: list[float]) -> None:
    world = World(clock, threads=1)
    world.jobs_of.restores = 3
    world.loop.pause(True)
    world.assign()
    world.settle(50)
    assert not world.jobs_of.processes[0].running
    world.loop.pause(False)
    world.jobs_of.restores = 0
    world.settle(50)
    assert world.told[-1] == "running"


def test_should_run_what_is_restored_while_its_neighbours_are_not(clock: list[float]) -> None:
    world = World(clock, threads=1)
    world.jobs_of.restores = 5
    world.produce("orders", 0, 10)
    world.produce("orders", 1, 10)
    world.assign()
    world.settle(20)
    states = [world.loop.tasks.state_of(task) for task in world.loop.owners]
    assert {TaskState.RUNNING, TaskState.RESTORING} == set(states)
    world.jobs_of.restores = 0
    world.settle()
    consumed_once(world)


def test_should_wait_for_all_threads_before_it_gives_its_tasks_back_under_at_least_once(clock: list[float]) -> None:
    world = World(clock, threads=2, guarantee="at_least_once", **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    world.until(world.residents)
    stopped = world.loop.revoked()
    assert not stopped.is_set()
    world.settle(20)
    assert stopped.is_set()
    world.produce("orders", 0, 1)
    world.settle(20)
    assert not world.residents()
    world.assign()
    world.settle(50)
    consumed_once(world)


@GUARANTEES
def test_should_end_when_the_batches_that_run_are_committed(clock: list[float], guarantee: str) -> None:
    world = World(clock, threads=2, guarantee=guarantee, **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    world.produce("orders", 0, 4)
    world.settle(3)
    world.loop.stop()
    world.settle(20)
    assert not world.loop.is_processing
    assert world.brokers.committed[TopicPartition("orders", 0)].offset == 4


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_should_empty_a_thread_that_goes_to_another_executor_and_use_it_there(clock: list[float], seed: int) -> None:
    """The simulated workers fail if a thread moves that has something open."""
    chance = random.Random(seed)
    world = World(clock, threads=3, **{"task.spread": "always"})
    world.on_failure = lambda error, thread: True
    world.assign()
    world.settle(50)
    world.jobs_of.places = {1: "executor_host_2", 2: "executor_host_3"}
    world.clock[0] += 6.0
    world.shake(chance, 300, failures=0.05)
    world.settle(300)
    assert not world.jobs_of.places
    assert all(worker.tasks for worker in world.jobs_of.processes.values())
    consumed_once(world)


def test_should_call_back_a_thread_that_has_been_resident_for_long_if_others_wait_for_a_core(clock: list[float]) -> None:
    world = World(clock, threads=1)
    world.assign()
    world.settle(50)
    world.until(world.residents)
    [job] = world.residents()
    world.settle(60)
    assert not job.is_called
    world.jobs_of.others_wait = True
    world.settle(60)
    assert job.is_called
    world.jobs_of.others_wait = False
    world.produce("orders", 0, 3)
    world.settle()
    consumed_once(world)


def test_should_commit_what_a_resident_thread_has_done_so_far_under_at_least_once(clock: list[float]) -> None:
    world = World(clock, threads=1, guarantee="at_least_once")
    world.assign()
    world.settle(50)
    world.produce("orders", 0, 5)
    world.settle(20)
    assert world.residents()
    assert world.brokers.committed[TopicPartition("orders", 0)].offset == 5


@pytest.mark.parametrize("is_busy", [True, False])
def test_should_leave_a_thread_whose_executor_is_gone_until_it_has_another(clock: list[float], is_busy: bool) -> None:
    world = World(clock, threads=2, **{"task.spread": "always"})
    world.on_failure = lambda error, thread: True
    world.assign()
    world.settle(50)
    assert set(world.loop.owners.values()) == {0, 1}
    if is_busy:
        world.produce("orders", 0, 5)
        world.produce("orders", 1, 5)
        world.until(lambda: any(job.thread == 1 for job in world.residents()))
    places = world.jobs_of.place_thread
    world.jobs_of.place_thread = lambda index: False  # type: ignore[method-assign]  # for now there is no other executor
    world.jobs_of.lose_executor(1)
    world.jobs_of.deaf = {1}
    world.until(lambda: set(world.loop.owners.values()) == {0})
    world.jobs_of.place_thread = places  # type: ignore[method-assign]
    owners = []
    for _ in range(60):
        world.settle(1)
        owners.append(frozenset(world.loop.owners.values()))
    assert set(owners) == {frozenset({0})}, "nothing goes back to a thread that cannot be opened"
    world.jobs_of.deaf = set()
    world.settle(300)
    assert set(world.loop.owners.values()) == {0, 1}
    consumed_once(world)
