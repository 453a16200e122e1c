"""Lanes that stay for many turns: which do, when they are called back, and what counts of what they have done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.stays import account_stay, plan_stay, turns_of
from penstock.client.scheduling.turns import Turn
from penstock.ids import TopicPartition
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.messages import LaneAnswer, TurnOfStay
from tests.unit.client.simulated import Pending, World
from tests.unit.client.test_simulation import consumed_once

ORDERS = TopicPartition("orders", 0)


def staying(clock: list[float], lanes: int = 2, **settings: Any) -> tuple[World, Pending]:
    """An application that has little to do, and the turn that it does."""
    world = World(clock, lanes=lanes, **settings)
    world.on_failure = lambda error, lane: True
    world.assign()
    world.settle(20)
    world.produce("orders", 0, 3)
    world.produce("lines", 1, 2)
    world.until(world.turns)
    (turn,) = world.turns()
    return world, turn


def test_should_stay_where_one_lane_has_little_to_do(clock: list[float]) -> None:
    world, turn = staying(clock)
    assert turn.stays
    world.settle()
    consumed_once(world)


def test_should_stay_once_more_at_once_where_only_its_time_was_up(clock: list[float]) -> None:
    world, turn = staying(clock)
    world.lane_jobs.stays_go_on = 1
    world.produce("orders", 0, 2)
    world.lane_jobs.finish(turn)
    world.step()
    (again,) = world.turns()
    assert again.stays
    world.settle()
    consumed_once(world)


def test_should_not_stay_once_more_where_something_else_is_to_be_done(clock: list[float]) -> None:
    world, turn = staying(clock)
    world.lane_jobs.stays_go_on = 1
    world.conductor.pause(True)
    world.lane_jobs.finish(turn)
    world.step()
    assert world.turns() == []


def test_should_give_way_to_others_that_wait_for_a_core_when_it_has_stayed_for_a_while(clock: list[float]) -> None:
    world, _ = staying(clock)
    world.lane_jobs.others_wait = True
    world.step()
    world.do_beside()
    assert world.lane_jobs.called == []
    clock[0] += 3.0
    for _ in range(5):
        world.step()
        world.do_beside()
    assert world.lane_jobs.called == [1]


def test_should_call_a_lane_back_that_went_on_where_more_waits_than_it_takes_in(clock: list[float]) -> None:
    world, turn = staying(clock)
    world.lane_jobs.stays_go_on = 1
    world.lane_jobs.finish(turn)
    world.produce("orders", 1, 30_000)
    world.until(lambda: world.lane_jobs.called)
    assert world.lane_jobs.called == [2]
    world.settle()
    consumed_once(world)


@pytest.mark.parametrize("settings", [{"commit.interval.ms": 1000}, {"batch.max.records": 100}])
def test_should_plan_turns_where_commits_are_to_be_few_or_turns_small(clock: list[float], settings: dict[str, Any]) -> None:
    world, turn = staying(clock, **settings)
    assert not turn.stays
    world.settle()
    consumed_once(world)


def test_should_plan_turns_for_a_backlog_and_where_tasks_are_in_several_lanes(clock: list[float]) -> None:
    world, turn = staying(clock)
    world.lane_jobs.finish(turn)
    world.produce("orders", 1, 30_000)
    world.until(world.turns)
    assert [turn.stays for turn in world.turns()] == [False]
    spread, _ = staying(clock, **{"task.spread": "always"})
    assert not any(turn.stays for turn in spread.turns())


@pytest.mark.parametrize(
    "wanted",
    [
        lambda world: world.conductor.pause(True),
        lambda world: world.conductor.stop(),
        lambda world: world.conductor.revoked(),
        lambda world: world.conductor.revoked(lost=True),
        lambda world: world.assign("orders"),
        lambda world: world.conductor.reopen(),
    ],
    ids=["pause", "close", "rebalance", "lost", "other tasks", "a reader that gets no answer"],
)
def test_should_call_a_lane_back_once_when_something_else_is_to_be_done(
    clock: list[float], wanted: Callable[[World], Any]
) -> None:
    world, _ = staying(clock)
    world.until(lambda: True)
    assert world.lane_jobs.called == []
    wanted(world)
    for _ in range(5):
        world.step()
        world.do_beside()
    assert world.lane_jobs.called == [1]


def test_should_plan_turns_after_a_stay_has_failed_and_count_what_it_had_committed(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.scheduling.lane_loop.PLANNED_SECONDS", 60.0)
    counted: list[int] = []
    world, turn = staying(clock)
    world.events.on_account = lambda turn, answers, seconds: counted.append(turn.records)
    world.lane_jobs.fail(turn, committed=True)
    world.until(lambda: counted)
    assert counted == [3]  # half of it, rounded up: 2 of 3 orders, and 1 of 2 lines
    world.settle()
    consumed_once(world)
    assert world.lane_jobs.called == []
    world.produce("orders", 0, 3)
    world.until(world.turns)
    assert [turn.stays for turn in world.turns()] == [False]


def test_should_commit_under_at_least_once_while_a_lane_stays_and_take_its_answer_behind_that(clock: list[float]) -> None:
    world, turn = staying(clock, guarantee="at_least_once")
    world.lane_jobs.done_so_far = {ORDERS: OffsetAndMetadata(1)}
    world.until(lambda: world.brokers.committed.get(ORDERS) == OffsetAndMetadata(1))
    clock[0] += 1.0
    world.conductor.step()  # asks again
    assert world.beside.pending
    world.lane_jobs.finish(turn)
    world.step()
    assert world.turns() == []
    assert world.brokers.committed[ORDERS].offset == 1  # the answer waits for what was asked before
    world.do_beside()
    world.until(lambda: world.brokers.committed[ORDERS].offset == 3)
    world.settle()
    consumed_once(world)


def positions_of(world: World) -> Positions:
    return world.conductor.tasks.positions


def test_should_not_stay_where_tasks_behind_a_shuffle_are_at_different_positions(clock: list[float]) -> None:
    world, _ = staying(clock)
    positions, tasks = positions_of(world), sorted(world.conductor.tasks.owners)
    plan = plan_stay(positions, tasks, 1, seconds=2.0, commit_seconds=0.1)
    assert plan is not None
    assert plan.stay.tasks == tuple(tasks)
    vector = next(iter(positions.vectors.values()))
    vector[TopicPartition("lines", 0)] += 1
    assert plan_stay(positions, tasks, 1, seconds=2.0, commit_seconds=0.1) is None


def test_should_account_a_stay_for_what_is_still_known_and_notice_what_it_has_not_read(clock: list[float]) -> None:
    world, _ = staying(clock)
    positions, tasks = positions_of(world), sorted(world.conductor.tasks.owners)
    plan = plan_stay(positions, tasks, 1, seconds=2.0, commit_seconds=0.1)
    assert plan is not None
    given_up = TopicPartition("orders", 1)
    del positions.fetched[given_up]
    line = TopicPartition("lines", 1)
    answer = LaneAnswer("w", reached={ORDERS: 3, given_up: 9, line: 2})
    account_stay(positions, plan, answer)
    assert positions.fetched == {ORDERS: 3}
    assert {vector[line] for vector in positions.vectors.values()} == {2}
    left = next(iter(positions.vectors))
    account_stay(positions, plan, LaneAnswer("w", reached={line: 5}, behind={left: {line: 3}}))
    assert sorted(vector[line] for vector in positions.vectors.values()) == [3, *[5] * (len(positions.vectors) - 1)]
    assert not plan.has_missed({ORDERS: 3}, answer)
    assert plan.has_missed({ORDERS: 4}, answer)
    assert plan.has_missed({TopicPartition("lines", 2): 1}, answer)


def test_should_go_on_from_where_a_stay_has_come_though_tasks_behind_a_shuffle_are_not_level(clock: list[float]) -> None:
    world, _ = staying(clock)
    positions, tasks = positions_of(world), sorted(world.conductor.tasks.owners)
    plan = plan_stay(positions, tasks, 1, seconds=2.0, commit_seconds=0.1)
    assert plan is not None
    reached = {partition: at + 1 for partition, at in plan.stay.positions.items()}
    next(iter(positions.vectors.values()))[TopicPartition("lines", 0)] += 1
    again = plan.again(positions, 2, reached)
    assert again is not None
    assert (again.stay.number, again.stay.positions, again.stay.tasks) == (2, reached, plan.stay.tasks)
    assert plan.again(positions, 2, {ORDERS: 1}) is None
    del positions.fetched[ORDERS]
    assert plan.again(positions, 2, reached) is None


def test_should_tell_the_turns_of_a_stay_one_by_one_the_first_with_what_it_took_to_begin() -> None:
    told = [TurnOfStay(at, 0.1, {"orders": 2}, 2, 2, 0, 4, {"process": 0.05}) for at in (0.5, 1.0)]
    planned = Turn(started=10.0, poll_seconds=0.02)
    first, second = turns_of(planned, LaneAnswer("w", turns=tuple(told)), ended=11.5)
    assert [(alone.turn.records, alone.answer.produced, alone.answer.work_seconds) for alone in (first, second)] == [
        (2, 4, 0.05)
    ] * 2
    assert (round(first.seconds, 3), first.turn.poll_seconds) == (0.5, 0.02)
    assert (round(second.seconds, 3), round(second.turn.started, 3)) == (0.1, 11.4)
