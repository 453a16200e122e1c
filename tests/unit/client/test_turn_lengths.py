"""No turn of a backlog is long, whatever records cost; lanes, brokers and group are played."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.client.simulated import Pending, World

_LONG = 3.5
_FIXED = 0.1


def work_off(world: World, cost: Callable[[float], float]) -> list[float]:
    """Let everything be done in the time it takes, `cost` seconds a record at that moment; how long each turn took."""
    ends: dict[int, tuple[float, Pending]] = {}  # with the job, or another would get its id
    lengths, quiet = [], 0
    while quiet < 100:
        world.step()
        world.do_beside()
        while world.lane_jobs.stages:
            world.run_stage()
        jobs = world.jobs()
        quiet = 0 if jobs else quiet + 1
        for job in jobs:
            running = world.conductor.tasks.lanes[job.lane].job
            turn = None if running is None else running.turn
            if id(job) not in ends:
                seconds = 0.0 if turn is None else _FIXED + turn.size * cost(world.clock[0])
                ends[id(job)] = world.clock[0] + seconds, job
                lengths += [seconds] if turn is not None else []
            if world.clock[0] >= ends[id(job)][0]:
                world.lane_jobs.finish(job)
    return lengths


def backlog(clock: list[float], records: int) -> World:
    world = World(clock, lanes=2)
    world.assign()
    world.settle(30)
    for partition in range(3):
        world.produce("lines", partition, records // 4)
    for partition in range(2):
        world.produce("orders", partition, records)
    return world


@pytest.mark.parametrize("cost", [50e-6, 500e-6, 2e-3])
def test_should_have_no_long_turn_from_the_first_on(clock: list[float], cost: float) -> None:
    world = backlog(clock, round(10 / cost) if cost > 1e-4 else 40_000)
    lengths = work_off(world, lambda _: cost)
    assert world.brokers.consumed.keys() == world.wants()
    assert max(lengths) <= max(_LONG, _FIXED + 2_000 * cost)  # of which nothing was known
    assert sum(seconds > _LONG for seconds in lengths) <= 2


def test_should_have_one_long_turn_a_lane_where_records_begin_to_cost_more(clock: list[float]) -> None:
    """Two parts may wait for a lane when the first tells what records cost now: what is read after that is short again."""
    world, changes = backlog(clock, 40_000), clock[0] + 2.0
    lengths = work_off(world, lambda now: 50e-6 if now < changes else 1e-3)
    assert world.brokers.consumed.keys() == world.wants()
    assert sum(seconds > _LONG for seconds in lengths) <= 6


def test_should_take_more_again_where_records_begin_to_cost_less(clock: list[float]) -> None:
    world, changes = backlog(clock, 30_000), clock[0] + 8.0
    lengths = work_off(world, lambda now: 1e-3 if now < changes else 20e-6)
    assert world.brokers.consumed.keys() == world.wants()
    assert max(lengths) < _LONG
    assert len(lengths) < 40
