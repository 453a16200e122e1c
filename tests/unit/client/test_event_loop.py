"""How the event loop puts tasks on threads that come and go; threads, brokers and group are simulated."""

from __future__ import annotations

import threading

from penstock.client.scheduling.thread_roster import ThreadChange
from penstock.errors import ProcessingError
from penstock.ids import TaskId
from penstock.kafka.membership import SHUTDOWN_REQUESTED, Membership
from tests.unit.client.simulated import World

TASKS = 9


def change(world: World, index: int, name: str | None = None) -> None:
    done = threading.Event()
    world.loop.change_threads(ThreadChange(index, name, done.set))
    world.settle(30)
    assert done.is_set()


def started(clock: list[float], threads: int, guarantee: str = "exactly_once_v2") -> World:
    world = World(clock, threads=threads, guarantee=guarantee)
    world.assign()
    world.settle(30)
    assert world.told == ["running"]
    return world


def test_should_move_the_tasks_of_a_thread_that_goes(clock: list[float]) -> None:
    world = started(clock, 2)
    assert world.owned() == {0: TASKS, 1: 0}
    change(world, 0)
    assert world.owned() == {1: TASKS}
    assert world.told == ["running", "rebalancing", "running"]
    assert world.loop.tasks.spread.wants(backlog=1_000_000)
    change(world, 0, "t1")
    assert sorted(world.owned().values()) == [4, 5]
    assert world.told[3:] == ["rebalancing", "running"]


def test_should_wait_without_threads_and_open_everything_in_a_new_one(clock: list[float]) -> None:
    world = started(clock, 1)
    change(world, 0)
    assert world.owned() == {}
    change(world, 0, "t1")
    assert world.owned() == {0: TASKS}


def test_should_change_threads_between_generations_and_while_paused(clock: list[float]) -> None:
    world = World(clock, threads=1, guarantee="at_least_once")
    change(world, 1, "t2")
    world.assign()
    world.settle(30)
    assert world.owned() == {0: TASKS, 1: 0}
    world.loop.pause(True)
    change(world, 0)
    assert world.owned() == {1: TASKS}
    world.loop.pause(False)
    assert world.loop.revoked().is_set()
    world.settle(10)
    assert world.told[-1] == "rebalancing"
    change(world, 1)
    change(world, 0, "t1")
    world.assign(TaskId(2, 0))
    world.settle(30)
    assert world.owned() == {0: 1}


def test_should_say_which_thread_failed_and_go_on_in_the_one_that_replaces_it(clock: list[float]) -> None:
    world = World(clock, threads=2)
    world.on_failure = lambda error, thread: world.loop.replace_thread(thread or 0, 2, "t3") is None
    world.assign()
    world.step()
    world.jobs_of.fail(next(job for job in world.jobs() if job.thread == 1))
    world.settle(30)
    ((error, index),) = world.failures
    assert isinstance(error, ProcessingError)
    assert index == 1
    assert set(world.jobs_of.workers) == {0, 2}
    assert world.told[-1:] == ["running"]


def ends(world: World) -> bool:
    """Whether the loop ends, while its threads do what they are told."""
    rounds = iter(range(200))

    def sleep(_: float) -> None:
        next(rounds)
        world.clock[0] += 0.05
        world.play()
        world.do_background()

    world.loop.queue.sleep = sleep  # type: ignore[method-assign]
    world.loop.run()
    return True


def test_should_end_when_a_member_wants_the_application_to_stop(clock: list[float]) -> None:
    world = started(clock, 1)
    world.loop.assigned(Membership(2, b"", (), error_code=SHUTDOWN_REQUESTED))
    assert ends(world)


def test_should_start_nothing_once_halted(clock: list[float]) -> None:
    world = World(clock, threads=1)
    world.loop.halt()
    world.assign()
    world.settle(30)
    assert world.told == []
    assert world.owned() == {0: 0}
    world.loop.end()
    assert ends(world)
