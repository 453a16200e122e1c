"""Repartitions that go another way from generation to generation, in a group of simulated instances: nothing is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.client.scheduling.housekeeping import show_lag
from penstock.ids import TopicPartition
from tests.unit.client.simulated import WORDS
from tests.unit.client.simulated_group import Group, Member
from tests.unit.client.test_simulation import seeds


def produce(group: Group, count: int = 5) -> None:
    for partition in range(3):
        group.brokers.ends[TopicPartition("lines", partition)] += count
    for partition in range(2):
        group.brokers.ends[TopicPartition("orders", partition)] += count


def consumed_once(group: Group) -> None:
    wanted, consumed = group.members[0].world.wants(), group.brokers.consumed
    missing = [entry for entry in wanted if not consumed[entry]]
    assert (len(missing), missing[:1]) == (0, [])
    twice = [entry for entry, times in consumed.items() if times > 1]
    assert (len(twice), twice[:1]) == (0, [])
    nothing_is_left(group)


def nothing_is_left(group: Group) -> None:
    """Whoever takes over reads the topic from what is committed for it."""
    assert all(partition.topic == WORDS for partition in group.brokers.written)
    assert not [p for p in group.brokers.written if group.brokers.committed[p].offset < group.brokers.ends[p]]


def alone(clock: list[float], **settings: Any) -> tuple[Group, Member]:
    group = Group(clock, **settings)
    member = group.join()
    group.rebalance()
    produce(group)
    group.settle(60)
    return group, member


def test_should_shuffle_alone_and_share_the_tasks_of_all_sub_topologies_with_another(clock: list[float]) -> None:
    group, _ = alone(clock)
    assert group.ways() == {(0,)}
    assert not group.brokers.written
    group.join()
    group.rebalance()
    produce(group)
    group.settle(60)
    assert group.ways() == {()}
    found = group.tasks()
    assert sorted(task for tasks in found.values() for task in tasks) == [
        *("0_0", "0_1", "0_2", "1_0", "1_1", "1_2", "1_3", "2_0", "2_1"),
    ]
    assert {len(tasks) for tasks in found.values()} == {4, 5}
    for subtopology in "012":
        assert all(any(task.startswith(subtopology) for task in tasks) for tasks in found.values())
    assert group.left == 1
    consumed_once(group)


def test_should_go_back_to_the_shuffle_when_the_others_have_gone(clock: list[float]) -> None:
    group, _ = alone(clock)
    other = group.join()
    group.rebalance()
    group.settle(60)
    produce(group)
    group.shake(random.Random(1), 40)
    group.die(other)
    group.rebalance()
    group.settle(120)
    assert group.ways() == {(0,)}
    written = sum(map(len, group.brokers.written.values()))
    produce(group)
    group.settle(60)
    assert sum(map(len, group.brokers.written.values())) == written
    consumed_once(group)


def test_should_stay_with_the_topic_while_an_instance_is_away_for_a_moment(clock: list[float]) -> None:
    group, _ = alone(clock, **{"repartition.transport.delay.ms": 60_000})
    other = group.join()
    group.rebalance()
    group.settle(60)
    group.die(other)
    group.rebalance()
    group.settle(60)
    assert group.ways() == {()}
    group.join()
    group.rebalance()
    group.settle(60)
    assert group.left == 1  # for good
    clock[0] += 120
    group.settle(20)
    assert group.ways() == {()}
    group.die(group.members[1])
    group.rebalance()
    group.settle(20)
    clock[0] += 60
    group.settle(20)
    assert group.ways() == {(0,)}
    produce(group)
    group.settle(60)
    consumed_once(group)


def test_should_leave_the_shuffle_where_the_leader_has_no_work_of_its_own(clock: list[float]) -> None:
    group, _ = alone(clock)
    members = [group.join() for _ in range(9)]
    shares = members[0].assign([member.info() for member in group.members])
    (idle,) = [member for member in members if not shares.active[member.name]]
    group.rebalance(idle)
    assert idle.heard[0][0].units == ()
    produce(group)
    group.settle(120)
    assert group.ways() == {()}
    consumed_once(group)


@pytest.mark.parametrize("before", [True, False])
def test_should_go_on_where_the_leader_dies_as_it_leaves_the_shuffle(clock: list[float], before: bool) -> None:
    group, first = alone(clock)
    leader, _ = group.join(), group.join()
    produce(group)
    group.rebalance(leader)
    dead: list[Member] = []

    def die(member: Member) -> None:
        group.die(member)
        dead.append(member)

    if before:
        die(leader)
    else:
        group.on_left = die
    group.settle(30)
    assert dead == [leader]
    assert group.left == (0 if before else 1)
    group.rebalance(first)
    produce(group)
    group.settle(120)
    assert group.left == 1
    consumed_once(group)


def test_should_wait_for_the_leader_before_it_works(clock: list[float]) -> None:
    group, first = alone(clock)
    other = group.join()
    group.rebalance(first)
    produce(group)
    other.hear()
    for _ in range(100):
        clock[0] += 0.05
        other.world.step()
        for job in other.world.jobs():
            other.world.lane_jobs.finish(job)
        other.world.do_beside()
    assert not other.world.read
    assert not other.world.failures
    group.settle(60)
    assert other.world.read
    consumed_once(group)


def test_should_ask_the_group_anew_where_its_leader_does_not_leave_the_shuffle(clock: list[float]) -> None:
    """One that was started anew as a static member has its old generation, and leads it no more."""
    group, first = alone(clock)
    other = group.join()
    group.rebalance()
    membership, _ = first.heard.pop()
    first.heard.append((membership, False))
    produce(group)
    group.hear()
    for _ in range(100):
        group.round()
    assert not group.left
    assert not other.world.read
    for _ in range(150):
        group.round()
    assert group.is_asked
    group.settle(60)
    assert group.left == 1
    consumed_once(group)


def test_should_not_show_a_lag_that_was_true_before_the_shuffle_was_left(clock: list[float]) -> None:
    group, first = alone(clock)
    group.join()
    produce(group)
    first.world.until(lambda: first.world.turns())
    shown = first.world.conductor.tasks.positions.shown()
    assert shown
    generation = group.brokers.generation
    assert generation is not None
    group.rebalance()
    group.settle(60)
    committed = dict(group.brokers.committed)
    show_lag(first.world.conductor.words, shown, generation)
    assert group.brokers.committed == committed
    consumed_once(group)


def test_should_read_anew_what_went_another_way_for_a_generation_it_did_not_see(clock: list[float]) -> None:
    """Shuffle, topic, shuffle: the first instance hears of the last two at once, when the other has worked and gone."""
    group, _ = alone(clock)
    other = group.join()
    produce(group)
    group.rebalance(other)
    other.hear()
    for _ in range(60):
        clock[0] += 0.05
        other.world.step()
        for job in other.world.jobs():
            other.world.lane_jobs.finish(job)
        other.world.do_beside()
    assert group.left == 1
    group.die(other)
    group.rebalance()
    clock[0] += 1
    group.settle(30)
    group.rebalance()
    produce(group)
    group.settle(120)
    assert group.ways() == {(0,)}
    consumed_once(group)


@pytest.mark.parametrize("old", ["", "shuffle"])
def test_should_shuffle_as_long_as_a_member_knows_nothing_else(clock: list[float], old: str) -> None:
    group, _ = alone(clock)
    other = group.join(transport=old)
    group.rebalance()
    produce(group)
    group.settle(60)
    assert group.ways() == {(0,)}
    group.join()
    group.die(other)
    group.rebalance()
    produce(group)
    group.settle(60)
    assert group.ways() == {()}
    consumed_once(group)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("seed", seeds(8, 300))
def test_should_lose_nothing_whoever_comes_goes_and_dies_while_it_changes_over(
    clock: list[float], seed: int, guarantee: str
) -> None:
    chance = random.Random(seed)
    group = Group(clock, guarantee)
    for _ in range(chance.randrange(1, 4)):
        group.join(chance.randrange(1, 4), spread=chance.choice(["auto", "always"]))
    for _ in range(10):
        produce(group, chance.randrange(4))
        what = chance.random()
        if what < 0.45 and len(group.members) < 4:
            group.join(chance.randrange(1, 4), spread=chance.choice(["auto", "always"]))
        elif what < 0.9 and len(group.members) > 1:
            group.die(chance.choice(group.members))
        group.rebalance(chance.choice(group.members))
        group.shake(chance, chance.choice([0, 5, 20, 100, 300]))
    if len(group.members) > 1 and chance.random() < 0.5:
        while len(group.members) > 1:
            group.die(chance.choice(group.members))
    produce(group)
    group.rebalance()
    group.settle(500)
    assert len(group.ways()) == 1
    if guarantee == "exactly_once_v2":
        consumed_once(group)
    else:
        wanted = group.members[0].world.wants()
        missing = [entry for entry in wanted if not group.brokers.consumed[entry]]
        assert (len(missing), missing[:1]) == (0, [])
        nothing_is_left(group)
