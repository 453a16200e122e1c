"""Turns that could not read or write all they were to: what the next one does without. Lanes and brokers are played."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.client.scheduling import lane_roster
from penstock.client.scheduling.batch_sizer import BatchSizer
from penstock.client.scheduling.failures import LaneLostError
from penstock.client.scheduling.lane_changes import LaneChange
from penstock.client.scheduling.stuck_partitions import StuckPartitions
from penstock.errors import BrokerError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import Short, StuckPartitionsError
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.messages import Failure
from tests.unit.client.simulated import World

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
ENDS = {A: 10, B: 20}


def begin(clock: list[float], lanes: int = 1, *, produced: bool = True, **settings: Any) -> World:
    """All is open; then there is something to read, in turns that are planned one by one."""
    world = World(clock, lanes=lanes, guarantee=settings.pop("processing.guarantee", "exactly_once_v2"), **settings)
    world.assign()
    world.settle(20)
    assert world.told == ["running"]
    world.brokers.asked.clear()
    world.read.clear()
    for lane in world.conductor.tasks.lanes.values():
        lane.plans_until = math.inf
    if produced:
        produce(world)
    return world


def produce(world: World) -> None:
    for partition, end in ENDS.items():
        world.produce(*partition, end)


def consumed(world: World, partition: TopicPartition) -> list[int]:
    return sorted(offset for found, _, offset in world.brokers.consumed if found == partition)


def test_should_try_a_partition_again_less_and_less_often() -> None:
    now = [0.0]
    stuck, waits = StuckPartitions(clock=lambda: now[0]), []
    for _ in range(9):
        stuck.note(A, 5, "its leader is away")
        started = now[0]
        while stuck.without([A, B]) == [B]:
            now[0] += 0.25
        waits.append(now[0] - started)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    stuck.moved([A])
    stuck.note(A, 5, "its leader is away")
    now[0] += 0.5
    assert stuck.without([A, B]) == [A, B]


@pytest.mark.parametrize(
    ("settings", "committed_only"),
    [
        ({}, True),
        ({"processing.guarantee": "at_least_once"}, False),
        ({"processing.guarantee": "at_least_once", "consumer.isolation.level": "read_committed"}, True),
        ({"processing.guarantee": "at_least_once", "main.consumer.isolation.level": "read_committed"}, True),
        ({"processing.guarantee": "at_least_once", "isolation.level": "read_committed"}, True),
        ({"processing.guarantee": "at_least_once", "global.consumer.isolation.level": "read_committed"}, False),
    ],
)
def test_should_ask_for_the_ends_that_its_consumers_can_reach(
    clock: list[float], settings: dict[str, str], committed_only: bool
) -> None:
    world = begin(clock, **settings)
    world.settle(5)
    assert {committed for _, committed in world.brokers.asked} == {committed_only}
    assert {A, B} <= {partition for partitions, _ in world.brokers.asked for partition in partitions}


def test_should_go_on_with_the_others_where_a_leader_is_away(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    world = World(clock, lanes=1)
    world.brokers.committed[A] = OffsetAndMetadata(4)
    world.brokers.away = {A}
    produce(world)
    world.assign()
    world.settle(8)
    assert consumed(world, A) == []
    assert consumed(world, B) == list(range(20))
    assert "orders-0 cannot be read from offset 4 on" in caplog.text
    assert A not in world.brokers.asked[-1][0]
    world.brokers.away = set()
    world.settle(100)
    assert consumed(world, A) == list(range(4, 10))


def test_should_account_only_what_could_be_read_and_leave_the_rest_alone_for_a_while(clock: list[float]) -> None:
    world = begin(clock, produced=False)
    world.lane_jobs.short = {A: Short(3, "nothing came")}
    produce(world)
    world.settle(6)
    fetched = world.conductor.tasks.positions.fetched
    assert fetched == {A: 3, B: 20}
    world.lane_jobs.short = {}
    world.settle(3)
    assert fetched == {A: 3, B: 20}
    assert A not in world.brokers.asked[-1][0]
    world.settle(100)
    assert fetched == {A: 10, B: 20}
    assert (consumed(world, A), consumed(world, B)) == (list(range(10)), list(range(20)))


def test_should_load_positions_anew_where_the_log_does_not_have_them_any_more(clock: list[float]) -> None:
    world = begin(clock, produced=False)
    world.lane_jobs.short = {A: Short(0, "gone", out_of_range=True)}
    produce(world)
    world.settle(6)
    assert consumed(world, B) == list(range(20)), "what could be read is committed"
    world.lane_jobs.short = {}
    world.settle(100)
    assert TaskId(2, 0) in {task for tasks in world.read for task in tasks}
    assert not world.failures
    assert consumed(world, A) == list(range(10))
    assert max(world.brokers.consumed.values()) == 1


def test_should_do_without_the_partitions_that_a_stage_could_not_read(clock: list[float]) -> None:
    world = begin(clock, 2, produced=False, **{"task.spread": "always"})
    lines = [TopicPartition("lines", p) for p in range(3)]
    for partition in lines:
        world.produce(*partition, 5)
    world.until(lambda: world.lane_jobs.stages)
    stuck = StuckPartitionsError("not all could be read", {lines[0]: Short(3, "nothing came")})
    world.run_stage(Failure.of(stuck))
    world.until(lambda: world.lane_jobs.stages)
    upstream, _ = world.lane_jobs.stages[0][1].rows  # type: ignore[misc]
    assert {r.partition for work in upstream for r in work.ranges} == {1, 2}  # type: ignore[attr-defined]
    world.settle(100)
    assert not world.failures
    assert world.brokers.consumed == dict.fromkeys(world.wants(), 1)


@pytest.mark.parametrize(
    ("error", "seconds", "next_turn"),
    [
        (TaskMigratedError("fenced"), 11, 15),
        (BrokerError("away"), 11, 15),
        (LaneLostError("gone"), 1, 15),
        (TaskMigratedError("fenced"), 1, 30),
    ],
    ids=["longer than its transaction", "longer than its transaction", "its worker died", "something else"],
)
def test_should_make_a_turn_smaller_that_was_too_much(
    clock: list[float], error: Exception, seconds: float, next_turn: int
) -> None:
    world = begin(clock, produced=False)
    world.brokers.ends.update(ENDS)
    world.until(world.turns)
    lane = world.conductor.tasks.lanes[0]
    assert lane.job is not None
    assert lane.job.turn is not None
    assert lane.job.turn.size == 30
    world.clock[0] += seconds
    (turn,) = world.turns()
    if isinstance(error, LaneLostError):
        world.lane_jobs.fail(turn, lost=True)
    else:
        world.lane_jobs.fail(turn, failure=Failure.of(error))
    for _ in range(200):
        world.step()
        world.do_beside()
        if world.turns():
            break
        for job in world.jobs():
            world.lane_jobs.finish(job)
    assert lane.job is not None
    assert lane.job.turn is not None
    assert lane.job.turn.size == next_turn


def test_should_get_back_to_larger_turns_slowly() -> None:
    batch_sizer, turns = BatchSizer(), 0
    for _ in range(3):
        batch_sizer.failed(batch_sizer.max_records(1_000_000, backlog=1_000_000))
    assert batch_sizer.ceiling == 1_250
    while batch_sizer.max_records(1_000_000, backlog=1_000_000) < 10_000:
        batch_sizer.account(batch_sizer.max_records(1_000_000, backlog=1_000_000), 0.1)
        turns += 1
    assert 20 < turns < 40
    for _ in range(30):
        batch_sizer.failed(batch_sizer.max_records(1_000_000, backlog=1_000_000))
    assert batch_sizer.max_records(1_000_000, backlog=1_000_000) == 1


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_end_what_a_lane_may_have_left_open_that_does_not_come_back(
    clock: list[float], guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = begin(clock, 2, **{"processing.guarantee": guarantee})
    fenced: list[str] = []
    monkeypatch.setattr(lane_roster, "fence", lambda settings, transactional_id: fenced.append(transactional_id))
    world.conductor.change_lanes(LaneChange(1))
    world.settle(10)
    world.conductor.replace_lane(0, 2, "t3")
    world.settle(10)
    assert fenced == (["app-1", "app-0"] if guarantee == "exactly_once_v2" else [])
