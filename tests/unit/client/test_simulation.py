"""Whole turns, failures and moves over played lanes, in any order: nothing is lost, nothing twice, and nobody stands still."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from penstock.client.scheduling.lane_changes import LaneChange
from penstock.errors import BrokerError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import Failure
from penstock.spark.vectors import Vector
from tests.unit.client.simulated import WORDS, World


def seeds(quick: int, all_: int) -> list[Any]:
    """Some in every run, the rest in the slow suite."""
    return [pytest.param(seed, marks=[] if seed < quick else [pytest.mark.slow]) for seed in range(all_)]


def consumed_once(world: World) -> None:
    missing = [entry for entry in world.wants() if not world.brokers.consumed[entry]]
    assert (len(missing), missing[:1]) == (0, [])
    twice = [entry for entry, times in world.brokers.consumed.items() if times > 1]
    assert (len(twice), twice[:1]) == (0, [])


@pytest.mark.parametrize("spread", ["always", "auto"])
def test_should_consume_everything_once(clock: list[float], spread: str) -> None:
    world = World(clock, lanes=3, **{"task.spread": spread})
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
    world = World(clock, lanes=chance.randrange(1, 5), **{"task.spread": chance.choice(["always", "auto"])})
    world.on_failure = lambda error, lane: True
    world.lane_jobs.restores = chance.randrange(3)
    world.assign()
    world.shake(chance, 600, failures=chance.choice([0.0, 0.1, 0.3]))
    world.settle()
    consumed_once(world)
    assert world.told[-1] == "running"


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_lose_nothing_while_lanes_come_and_go(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, lanes=2, **{"task.spread": "always"})
    world.on_failure = lambda error, lane: True
    world.assign()
    lanes = {0, 1}
    for _ in range(8):
        world.shake(chance, 60, failures=0.1)
        if len(lanes) > 1 and chance.random() < 0.5:
            gone = chance.choice(sorted(lanes))
            lanes.discard(gone)
            world.conductor.change_lanes(LaneChange(gone))
        elif (free := sorted(set(range(5)) - set(world.conductor.tasks.lanes))) and chance.random() < 0.8:
            lanes.add(free[0])
            world.conductor.change_lanes(LaneChange(free[0], f"t{free[0] + 1}"))
    world.settle()
    consumed_once(world)
    assert {lane for lane, worker in world.lane_jobs.workers.items() if worker.tasks} <= lanes


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_lose_nothing_while_lanes_that_fail_are_replaced(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, lanes=chance.randrange(1, 4), **{"task.spread": chance.choice(["always", "auto"])})
    world.lane_jobs.restores = chance.randrange(2)
    left: list[int] = []
    replaced: list[int] = []

    def replace(_: BaseException, lane: int | None) -> bool:
        if lane is not None:
            new = next(index for index in range(20) if index not in world.conductor.tasks.lanes)
            world.conductor.replace_lane(lane, new, f"t{new + 1}", lambda: left.append(lane))
            replaced.append(lane)
        return True

    world.on_failure = replace
    world.assign()
    lanes = len(world.lane_jobs.lanes)
    world.shake(chance, 600, failures=0.2)
    world.settle()
    consumed_once(world)
    assert sorted(left) == sorted(replaced)
    assert len(world.lane_jobs.lanes) == lanes
    assert world.told[-1] == "running"


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_lose_nothing_from_generation_to_generation(clock: list[float], seed: int) -> None:
    """Units go and come back; nobody else works on them meanwhile, so what is committed is where they go on."""
    chance = random.Random(seed)
    world = World(clock, lanes=2, **{"task.spread": chance.choice(["always", "auto"])})
    world.on_failure = lambda error, lane: True
    world.assign()
    for _ in range(8):
        world.shake(chance, 60, failures=0.1)
        if chance.random() < 0.3:
            world.conductor.revoked(lost=True)
            world.shake(chance, 20, failures=0.1)
        world.assign(*chance.sample(sorted(world.units), chance.randrange(1, len(world.units) + 1)))
    world.assign()
    world.settle()
    consumed_once(world)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_should_lose_nothing_under_at_least_once(clock: list[float], seed: int) -> None:
    chance = random.Random(seed)
    world = World(clock, lanes=3, guarantee="at_least_once", **{"task.spread": "always"})
    world.on_failure = lambda error, lane: True
    world.assign()
    world.shake(chance, 600, failures=0.2)
    world.settle()
    assert not [entry for entry in world.wants() if not world.brokers.consumed[entry]]


def lane_of(world: World, task: TaskId) -> int:
    return world.conductor.owners[task]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_go_on_with_the_others_while_a_lane_is_slow(clock: list[float], guarantee: str) -> None:
    world = World(clock, lanes=4, guarantee=guarantee, **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    slow = lane_of(world, TaskId(1, 0))
    others = [TopicPartition(WORDS, p) for p in range(4) if lane_of(world, TaskId(1, p)) != slow]
    world.lane_jobs.deaf = {slow}
    for round_ in range(20):
        world.produce("lines", round_ % 3, 3)
        world.settle(60)
        behind = [entry for entry in world.wants() if entry[0] in others and not world.brokers.consumed[entry]]
        assert not behind, f"after {round_} rounds"
    world.lane_jobs.deaf = set()
    world.settle()
    consumed_once(world)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_fail_alone_and_commit_what_the_others_have_done(clock: list[float], guarantee: str) -> None:
    world = World(clock, lanes=4, guarantee=guarantee, **{"task.spread": "always"})
    world.on_failure = lambda error, lane: True
    world.assign()
    world.settle(50)
    bad = lane_of(world, TaskId(1, 0))
    alone = {task for task, lane in world.conductor.owners.items() if lane == bad}
    for round_ in range(10):
        world.produce("lines", round_ % 3, 3)
        for _ in range(60):
            world.step()
            for job in world.jobs():
                if job.lane == bad and job.changes:
                    world.lane_jobs.fail(job, committed=False, lost=False)
                else:
                    world.lane_jobs.finish(job)
            while world.beside.pending:
                world.beside.run_one()
            while world.lane_jobs.stages:
                world.run_stage()
    done = {entry: times for entry, times in world.brokers.consumed.items() if not _is_of(entry[0], alone)}
    assert set(done.values()) == {1}
    assert done.keys() == {entry for entry in world.wants() if not _is_of(entry[0], alone)}
    assert {lane for _, lane in world.failures} == {bad}
    assert all(world.brokers.committed[partition] for partition, *_ in done)


def _is_of(partition: TopicPartition, tasks: set[TaskId]) -> bool:
    return TaskId(1 if partition.topic == WORDS else 2, partition.partition) in tasks


def test_should_run_what_is_restored_while_its_neighbours_are_not(clock: list[float]) -> None:
    world = World(clock, lanes=1)
    world.lane_jobs.restores = 3  # of four that wait, three wait longer
    world.produce("lines", 0, 10)
    world.assign()
    seen: Counter[int] = Counter()
    for _ in range(60):
        world.step()
        for job in world.jobs():
            world.lane_jobs.finish(job)
        while world.beside.pending:
            world.beside.run_one()
        seen[sum(1 for entry, times in world.brokers.consumed.items() if times)] += 1
        world.lane_jobs.restores = max(0, world.lane_jobs.restores - 1) if len(seen) > 1 else world.lane_jobs.restores
    world.settle()
    consumed_once(world)


def test_should_start_no_turn_while_paused_and_go_on_afterwards(clock: list[float]) -> None:
    world = World(clock, lanes=2)
    world.assign()
    world.settle(50)
    world.conductor.pause(True)
    world.produce("lines", 0, 5)
    world.settle(50)
    assert not world.brokers.consumed
    world.conductor.pause(False)
    world.settle(50)
    consumed_once(world)


def test_should_wait_for_all_turns_before_it_gives_its_tasks_back_under_at_least_once(clock: list[float]) -> None:
    world = World(clock, lanes=2, guarantee="at_least_once", **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    world.produce("orders", 0, 1)
    world.produce("orders", 1, 1)
    world.until(world.turns)
    stopped = world.conductor.revoked()
    assert not stopped.is_set()
    world.settle(20)
    assert stopped.is_set()
    world.produce("orders", 0, 1)
    world.settle(20)
    assert not [job for job in world.jobs() if job.changes]
    world.assign()
    world.settle(50)
    consumed_once(world)


def test_should_end_when_the_turns_that_run_are_accounted_for(clock: list[float]) -> None:
    world = World(clock, lanes=2, guarantee="at_least_once", **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    world.produce("orders", 0, 4)
    world.until(world.turns)
    world.conductor.stop()
    world.settle(20)
    assert world.brokers.committed[TopicPartition("orders", 0)].offset == 4


def end(world: World, chance: random.Random | None = None) -> None:
    """Close the instance: jobs and stages end one after the other until the loop does."""
    world.conductor.stop()
    world.conductor.notes.sleep = lambda seconds: play(world, chance)  # type: ignore[method-assign]
    world.conductor.run()


def play(world: World, chance: random.Random | None) -> None:
    world.clock[0] += 0.04
    jobs = world.jobs()
    for job in jobs if chance is None else chance.sample(jobs, min(1, len(jobs))):
        world.lane_jobs.finish(job)
    world.do_beside()
    if world.lane_jobs.stages:
        world.run_stage()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("seed", seeds(8, 100))
def test_should_end_with_all_tasks_behind_a_shuffle_at_the_same_position(clock: list[float], seed: int, guarantee: str) -> None:
    """Under load, in the midst of turns and stages: whoever knows nothing of vectors goes on from the offsets of the sources."""
    chance = random.Random(seed)
    world = World(clock, lanes=chance.randrange(1, 5), guarantee=guarantee, **{"task.spread": chance.choice(["always", "auto"])})
    world.assign()
    world.settle(50)
    world.shake(chance, chance.randrange(50, 300), failures=0.0)
    for partition in range(3):
        world.produce("lines", partition, chance.randrange(1000))
    world.shake(chance, chance.randrange(50), failures=0.0)
    positions = world.conductor.tasks.positions
    front = {source: positions.highest(source) for source in positions.sources() if source.topic == "lines"}
    end(world, chance)
    sources = sorted(front)
    committed = [world.brokers.committed.get(TopicPartition(WORDS, p)) for p in range(4)]
    assert [dict(Vector.of(some, sources).positions) for some in committed] == [world.shown] * 4
    assert all(world.shown[source] >= at for source, at in front.items())


def test_should_not_wait_for_tasks_that_cannot_be_brought_to_the_same_position(clock: list[float]) -> None:
    world = World(clock, lanes=4, **{"task.spread": "always"})
    world.assign()
    world.settle(50)
    deaf = lane_of(world, TaskId(1, 0))
    world.produce("lines", 0, 50)
    world.lane_jobs.deaf = {deaf}
    world.settle(100)
    world.lane_jobs.deaf = set()
    [job] = [job for job in world.turns() if job.lane == deaf]
    world.lane_jobs.fail(job)
    world.on_failure = lambda error, lane: True
    world.step()
    since = clock[0]
    end(world)
    assert world.conductor.tasks.positions.uneven() == {TopicPartition("lines", 0)}
    assert clock[0] - since < 5


def test_should_let_the_client_decide_on_a_failure_before_the_shuffle(clock: list[float]) -> None:
    world = World(clock, lanes=2, **{"task.spread": "always"})
    answers: list[Any] = []
    world.on_failure = lambda error, lane: bool(answers.append((str(error), lane))) or True
    world.assign()
    world.settle(50)
    world.produce("lines", 0, 4)
    while not world.lane_jobs.stages:
        world.step()
        while world.beside.pending:
            world.beside.run_one()
    world.run_stage(Failure("ProcessingError", "a bad line", ""))
    world.settle()
    assert [lane for _, lane in answers] == [None]
    consumed_once(world)


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_should_empty_a_lane_that_goes_elsewhere_and_use_it_there(clock: list[float], seed: int) -> None:
    """The simulated lane_jobs fails where a lane moves that has something open."""
    chance = random.Random(seed)
    world = World(clock, lanes=3, **{"task.spread": "always"})
    world.on_failure = lambda error, lane: True
    world.assign()
    world.settle(50)
    world.lane_jobs.places = {1: "executor_host_2", 2: "executor_host_3"}
    world.clock[0] += 6.0
    world.shake(chance, 300, failures=0.05)
    world.settle()
    assert not world.lane_jobs.places
    assert all(worker.tasks for worker in world.lane_jobs.workers.values())
    consumed_once(world)


def test_should_forget_whose_leader_does_not_answer_where_it_was_given_up_meanwhile(clock: list[float]) -> None:
    world = World(clock, lanes=1)
    world.assign()
    world.settle(50)
    world.brokers.away = {TopicPartition("orders", 0)}
    while not world.beside.pending:  # the question is under way when the group takes the partition
        world.step()
    world.assign("2_1")
    world.step()
    world.settle(50)
    world.brokers.away = set()
    world.produce("orders", 1, 3)
    world.settle(50)
    assert not world.failures
    assert world.brokers.consumed[TopicPartition("orders", 1), TopicPartition("orders", 1), 2] == 1


def test_should_go_on_however_long_the_lag_cannot_be_shown(clock: list[float]) -> None:
    world = World(clock, lanes=2, **{"task.spread": "always", "task.timeout.ms": 1000})

    def refuse(offsets: Any, generation: int, whole: bool = False) -> None:
        raise BrokerError("the coordinator is away")

    world.conductor.member.commit = refuse  # type: ignore[method-assign, union-attr]
    world.assign()
    world.produce("lines", 0, 5)
    world.settle(400)
    world.produce("lines", 1, 5)
    world.settle(400)
    assert not world.failures
    consumed_once(world)


@pytest.mark.parametrize("is_busy", [True, False])
def test_should_leave_a_lane_whose_executor_is_gone_until_it_has_another(clock: list[float], is_busy: bool) -> None:
    world = World(clock, lanes=2, **{"task.spread": "always"})
    world.on_failure = lambda error, lane: True
    world.assign()
    world.settle(50)
    before = set(world.conductor.owners.values())
    assert before == {0, 1}
    if is_busy:
        world.produce("orders", 0, 5)
        world.produce("orders", 1, 5)
        world.until(lambda: any(job.lane == 1 for job in world.turns()))
    places = world.lane_jobs.place_lane
    world.lane_jobs.place_lane = lambda index: False  # type: ignore[method-assign]  # for now there is no other executor
    world.lane_jobs.lose_executor(1)
    world.lane_jobs.deaf = {1}
    world.until(lambda: set(world.conductor.owners.values()) == {0})
    world.lane_jobs.place_lane = places  # type: ignore[method-assign]
    owners = []
    for _ in range(60):
        world.settle(1)
        owners.append(frozenset(world.conductor.owners.values()))
    assert set(owners) == {frozenset({0})}, "nothing goes back to a lane that cannot be opened"
    world.lane_jobs.deaf = set()
    world.settle(200)
    assert set(world.conductor.owners.values()) == {0, 1}
    consumed_once(world)
