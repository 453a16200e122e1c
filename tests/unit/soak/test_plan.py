"""Plans are the same for the same seed, can be given back, and have faults that can happen."""

from __future__ import annotations

import pytest

from tests.soak.plan import CLUSTER, KINDS, Kinds, Plan, Setup, counted, draw, draw_each, possible


def test_should_draw_the_same_plan_from_the_same_seed() -> None:
    assert draw(7, 30) == draw(7, 30)
    assert draw(7, 30) != draw(8, 30)


@pytest.mark.parametrize("seed", range(20))
def test_should_read_back_what_was_printed(seed: int) -> None:
    plan = draw(seed, 10)
    assert Plan.read(plan.lines()) == plan
    assert Plan.read(["something else was printed here, too", *plan.lines()]) == plan


@pytest.mark.parametrize("seed", range(20))
def test_should_draw_what_can_happen_within_its_time(seed: int) -> None:
    plan = draw(seed, 20)
    assert {fault.kind for fault in plan.faults} <= set(possible(plan.setup))
    assert sum(fault.after + fault.seconds for fault in plan.faults) <= 20 * 60
    assert len(plan.faults) > 50


def test_should_draw_every_kind_there_is() -> None:
    everything = Setup(brokers=3, spark=CLUSTER, instances=2)
    assert {fault.kind for fault in draw(1, 600, everything).faults} == set(KINDS)


def test_should_draw_every_kind_once() -> None:
    setup = Setup(brokers=3)
    assert sorted(fault.kind for fault in draw_each(1, setup).faults) == sorted(possible(setup))


def test_should_draw_no_step_of_a_transaction_where_there_is_none() -> None:
    kinds = possible(Setup(guarantee="at_least_once"))
    assert "die at committed" not in kinds
    assert {"die at begun", "kill worker"} <= set(kinds)
    assert "die at committed" in possible(Setup())


def test_should_draw_only_what_it_is_asked_for() -> None:
    assert {fault.kind for fault in draw(1, 10, Setup(), drawn=Kinds(only=["kill worker"])).faults} == {"kill worker"}
    with pytest.raises(ValueError, match="kill executor"):
        draw(1, 10, Setup(), drawn=Kinds(only=["kill executor"]))


def test_should_leave_out_what_is_not_to_happen() -> None:
    left_out = ["kill driver", "kill jvm", "full disk"]
    drawn = {fault.kind for fault in draw(1, 120, Setup(), 2.0, Kinds(without=left_out)).faults}
    assert drawn == set(possible(Setup())) - set(left_out)


def test_should_draw_all_set_ups_from_some_seeds() -> None:
    setups = [draw(seed, 0).setup for seed in range(60)]
    assert {setup.brokers for setup in setups} == {1, 3}
    assert {setup.spark for setup in setups} == {"local", "cluster"}
    assert {setup.format for setup in setups} == {"blocks", "records"}
    assert {setup.standbys for setup in setups} == {0, 1}
    assert {setup.spread for setup in setups} == {False, True}
    assert len({name for setup in setups for name in setup.applications}) == 13


def test_should_count_by_kind() -> None:
    assert counted(["kill worker", "die at begun", "die at produced"]) == {"die at a step": 2, "kill worker": 1}
