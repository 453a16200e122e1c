"""From generation to generation: what the event loop closes, opens and leaves alone, over simulated threads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import Membership
from tests.unit.client.simulated import World, make_plan

A, B, C, D = (TaskId(2, p) for p in range(4))


def assigned(world: World, *tasks: TaskId) -> None:
    world.assign(*tasks)


def forget(world: World) -> None:
    world.jobs_of.opened.clear()
    world.read.clear()


def with_abc(clock: list[float], guarantee: str = "exactly_once_v2") -> World:
    world = World(clock, threads=1, guarantee=guarantee, plan=make_plan(1, 1, 4))
    assigned(world, A, B, C)
    world.settle(20)
    assert sorted(world.loop.owners) == [A, B, C]
    assert world.loop.is_open
    forget(world)
    return world


@pytest.fixture
def world(clock: list[float]) -> World:
    return with_abc(clock)


def known(world: World) -> set[TaskId]:
    return set(world.loop.owners)


def begin_batch(world: World) -> None:
    """A thread processes."""
    world.produce("orders", 0)
    world.until(world.residents)


def test_should_leave_everything_alone_when_nothing_changes(world: World) -> None:
    assigned(world, A, B, C)
    world.settle(20)
    assert not world.jobs_of.opened
    assert not world.read


def test_should_close_what_others_have_and_read_only_what_is_new(world: World) -> None:
    assigned(world, A, B, D)
    world.settle(20)
    assert world.jobs_of.opened[-1] == [A, B, D]
    assert world.read == [[D]]
    assert known(world) == {A, B, D}


def test_should_open_anew_what_was_somebody_elses_in_between(world: World) -> None:
    assigned(world, A, B)
    assigned(world, A, B, C)
    world.settle(20)
    assert world.jobs_of.opened == [[A, B], [A, B, C]]
    assert world.read == [[C]]


@pytest.mark.parametrize("first", ["the group goes on", "they are read"])
def test_should_open_anew_what_was_somebody_elses_while_its_offsets_were_read(clock: list[float], first: str) -> None:
    """Given, taken and given back before it is open: the other one's commits came after the reading."""
    world = World(clock, threads=1, plan=make_plan(1, 1, 4))
    assigned(world, A, B, C)
    for _ in range(3):
        world.step()
        for job in world.jobs():
            world.jobs_of.finish(job)
    world.do_background()  # whether offsets were moved
    world.step()
    assert world.background.pending
    if first == "they are read":
        world.do_background()
    assigned(world, A, B)
    assigned(world, A, B, C)
    world.settle(20)
    assert world.read == [[A, B, C], [C]]
    assert world.jobs_of.opened[-1] == [A, B, C]
    before = [tasks for tasks in world.jobs_of.opened[:-1] if C in tasks]
    assert not before, "what was read first is never opened"


def test_should_open_anew_what_was_read_for_a_generation_that_had_passed(world: World) -> None:
    """The group goes on again while a generation is adopted; what is read under it is old again when it comes back."""
    assigned(world, A, B)
    world.step()
    assigned(world, A, C)  # B is somebody else's
    world.step()
    assigned(world, A, B, C)
    world.settle(20)
    assert {task for tasks in world.read for task in tasks} == {B, C}
    assert world.jobs_of.opened[-1] == [A, B, C]
    assert world.loop.is_open


def test_should_read_offsets_anew_where_a_worker_is_new(world: World) -> None:
    """A worker may have ended unnoticed since the last residency; an earlier process may have committed since."""
    world.until(world.residents)
    [job] = world.residents()
    world.jobs_of.fail(job, lost=True)
    world.produce("orders", 0, 7)
    world.settle(40)
    assert world.read == [[A, B, C]]
    assert world.brokers.consumed == dict.fromkeys(world.wants(), 1)


def test_should_pause_for_a_moment_while_the_group_joins_under_exactly_once(world: World) -> None:
    begin_batch(world)
    stopped = world.loop.revoked()
    assert not stopped.is_set()
    world.settle(4)
    assert stopped.is_set()
    world.produce("orders", 1)
    world.settle(10)
    assert TopicPartition("orders", 1) not in {partition for partition, _ in world.brokers.consumed}
    assigned(world, A, B, C)
    world.settle(10)
    assert world.brokers.consumed.keys() == world.wants()
    assert not world.jobs_of.opened


def test_should_go_on_where_the_group_takes_long_to_join_under_exactly_once(world: World) -> None:
    begin_batch(world)
    stopped = world.loop.revoked()
    assert not stopped.is_set()
    world.clock[0] += 9
    assert stopped.is_set()
    world.produce("orders", 1)
    world.settle(20)
    assert world.brokers.consumed.keys() == world.wants()


def test_should_wait_for_the_turn_and_start_none_under_at_least_once(clock: list[float]) -> None:
    world = with_abc(clock, "at_least_once")
    begin_batch(world)
    stopped = world.loop.revoked()
    assert not stopped.is_set()
    world.settle(5)
    assert stopped.is_set()
    world.produce("orders", 1)
    world.clock[0] += 9
    world.settle(10)
    assert not world.residents()
    assigned(world, A, B, C)
    world.settle(20)
    assert world.brokers.consumed.keys() == world.wants()
    assert not world.jobs_of.opened  # what stays was not closed


def test_should_read_everything_anew_after_the_group_went_on_without_it(world: World) -> None:
    world.loop.revoked(lost=True)
    assert world.loop.holdings()[0] == ()  # it claims nothing any more
    assigned(world, A, B, C)
    world.settle(20)
    assert world.read == [[A, B, C]]


def test_should_not_take_for_opened_what_was_lost_meanwhile(clock: list[float]) -> None:
    world = World(clock, threads=1, plan=make_plan(1, 1, 4))
    assigned(world, A, B, C)
    while not (world.jobs_of.opened and world.jobs_of.opened[-1] == [A, B, C]):
        for job in world.jobs():
            world.jobs_of.finish(job)
        world.step()
        world.do_background()
    world.loop.revoked(lost=True)
    world.settle(20)
    assert not world.loop.is_open
    assert world.told == []


def test_should_tell_the_group_what_it_runs(world: World) -> None:
    assert world.loop.holdings() == ((TaskId(2, 0), TaskId(2, 1), TaskId(2, 2)), (), {})


def test_should_ask_the_group_to_look_again_once_in_a_generation(world: World) -> None:
    asked: list[int] = []
    world.loop.member = SimpleNamespace(  # type: ignore[assignment]
        is_leader=True, request_rejoin=lambda: asked.append(1), failure=None
    )
    world.loop.assignments.probe()
    assert not asked  # nothing waits
    world.loop.assigned(Membership(2, b"", (TaskId(2, 0),), probing=True))
    world.settle(5)
    assert not asked
    world.clock[0] += 3600
    world.settle(5)
    assert asked == [1]
