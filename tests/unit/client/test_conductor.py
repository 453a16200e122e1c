"""How the conductor puts tasks on lanes that come and go; lanes, brokers and group are played."""

from __future__ import annotations

import threading

from penstock.client.scheduling.lane_changes import LaneChange
from penstock.errors import ProcessingError
from penstock.kafka.membership import SHUTDOWN_REQUESTED, Membership
from tests.harness.waiting import LIMIT
from tests.unit.client.simulated import World

TASKS = 6


def change(world: World, index: int, name: str | None = None) -> None:
    done = threading.Event()
    world.conductor.change_lanes(LaneChange(index, name, done.set))
    world.settle(30)
    assert done.is_set()


def started(clock: list[float], lanes: int, guarantee: str = "exactly_once_v2") -> World:
    world = World(clock, lanes=lanes, guarantee=guarantee)
    world.assign()
    world.settle(30)
    assert world.told == ["running"]
    return world


def test_should_move_the_tasks_of_a_lane_that_goes(clock: list[float]) -> None:
    world = started(clock, 2)
    assert world.owned() == {0: TASKS, 1: 0}
    change(world, 0)
    assert world.owned() == {1: TASKS}
    assert world.told == ["running", "rebalancing", "running"]
    assert world.conductor.tasks.spread.wants(backlog=1_000_000)
    change(world, 0, "t1")
    assert world.owned() == {0: TASKS // 2, 1: TASKS // 2}
    assert world.told[3:] == ["rebalancing", "running"]


def test_should_wait_without_lanes_and_open_everything_in_a_new_one(clock: list[float]) -> None:
    world = started(clock, 1)
    change(world, 0)
    assert world.owned() == {}
    change(world, 0, "t1")
    assert world.owned() == {0: TASKS}


def test_should_change_lanes_between_generations_and_while_paused(clock: list[float]) -> None:
    world = World(clock, lanes=1, guarantee="at_least_once")
    change(world, 1, "t2")
    world.assign()
    world.settle(30)
    assert world.owned() == {0: TASKS, 1: 0}
    world.conductor.pause(True)
    change(world, 0)
    assert world.owned() == {1: TASKS}
    world.conductor.pause(False)
    assert world.conductor.revoked().is_set()
    world.settle(10)
    assert world.told[-1] == "rebalancing"
    change(world, 1)
    change(world, 0, "t1")
    world.assign("2_0")
    world.settle(30)
    assert world.owned() == {0: 1}


def test_should_say_which_lane_failed_and_go_on_in_the_one_that_replaces_it(clock: list[float]) -> None:
    world = World(clock, lanes=2)
    world.on_failure = lambda error, lane: world.conductor.replace_lane(lane or 0, 2, "t3") is None
    world.assign()
    world.until(lambda: len(world.jobs()) == 2)
    world.lane_jobs.fail(next(job for job in world.jobs() if job.lane == 1))
    world.settle(30)
    ((error, lane),) = world.failures
    assert isinstance(error, ProcessingError)
    assert lane == 1
    assert set(world.lane_jobs.lanes) == {0, 2}
    assert world.told[-1:] == ["running"]


def ends(world: World) -> bool:
    thread = threading.Thread(target=world.conductor.run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return not thread.is_alive()


def test_should_end_when_a_member_wants_the_application_to_stop(clock: list[float]) -> None:
    world = started(clock, 1)
    world.conductor.assigned(Membership(2, b"", (), error_code=SHUTDOWN_REQUESTED))
    assert ends(world)


def test_should_start_nothing_once_halted(clock: list[float]) -> None:
    world = World(clock, lanes=1)
    world.conductor.halt()
    world.assign()
    world.settle(30)
    assert world.told == []
    assert world.owned() == {0: 0}
    world.conductor.end()
    assert ends(world)
