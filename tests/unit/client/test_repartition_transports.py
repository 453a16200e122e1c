"""Which way repartitions go, decided by the group's leader from what members tell."""

from __future__ import annotations

import pytest

from penstock.client.scheduling.repartition_transports import Transports, only_for_one
from penstock.kafka.members import MemberInfo
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology


def reading(number: int, *topics: str) -> Subtopology:
    return Subtopology(number, (), {}, (), {}, topics, (), {}, {})


PLAN = Plan(
    {0: reading(0, "lines"), 1: reading(1, "words"), 2: reading(2, "single"), 3: reading(3, "one")},
    {"lines": 5, "words": 5, "single": 1, "one": 1},
    {"words": 0, "one": 2},
)
ALL, SHARED = frozenset({0, 2}), frozenset({2})


def members(*settings: str) -> list[MemberInfo]:
    return [MemberInfo(str(number), transport=setting) for number, setting in enumerate(settings)]


def leader(setting: str = "auto", went: tuple[int, ...] | None = None, now: list[float] | None = None) -> Transports:
    clock = now or [0.0]
    return Transports(setting, 60.0, lambda: went, lambda: clock[0])


def test_should_shuffle_alone_and_share_with_others_what_can_be_shared() -> None:
    assert leader().choose(PLAN, members("auto")) == ALL
    assert leader().choose(PLAN, members("auto", "auto")) == SHARED
    assert leader().choose(PLAN, members(*["auto"] * 7)) == SHARED


@pytest.mark.parametrize(
    ("partitions", "shared"),
    [({"lines": 1, "words": 1}, {0}), ({"lines": 2, "words": 1}, set()), ({"lines": 1, "words": 2}, set())],
)
def test_should_know_what_only_one_instance_can_have(partitions: dict[str, int], shared: set[int]) -> None:
    plan = Plan({0: reading(0, "lines"), 1: reading(1, "words")}, partitions, {"words": 0})
    assert only_for_one(plan) == shared


def test_should_share_all_that_is_bound_together_where_some_of_it_can_be() -> None:
    plan = Plan(
        {0: reading(0, "a"), 1: reading(1, "b"), 2: reading(2, "by-a", "by-b")},
        {"a": 1, "b": 3, "by-a": 1, "by-b": 1},
        {"by-a": 0, "by-b": 1},
    )
    assert only_for_one(plan) == frozenset()


@pytest.mark.parametrize(
    ("own", "others", "chosen"),
    [
        ("auto", ["auto", ""], ALL),  # an older release shuffles, and does not hear of anything else
        ("auto", ["auto", "shuffle"], ALL),
        ("auto", ["auto", "topic"], frozenset()),
        ("topic", ["topic"], frozenset()),
        ("topic", ["topic", "auto"], frozenset()),
        ("shuffle", ["shuffle", "shuffle"], ALL),
    ],
)
def test_should_do_as_those_who_can_do_nothing_else(own: str, others: list[str], chosen: frozenset[int]) -> None:
    assert leader(own).choose(PLAN, members(*others)) == chosen


def test_should_stay_with_the_topic_until_it_was_alone_for_a_while() -> None:
    """An instance that is started anew is away for a moment: two changes would be for nothing."""
    now = [0.0]
    found = leader(went=(2,), now=now)
    assert found.choose(PLAN, members("auto")) == SHARED
    now[0] = 30.0
    assert found.choose(PLAN, members("auto")) == SHARED
    assert not found.look_again()
    now[0] = 60.0
    assert found.look_again()
    assert not found.look_again()
    assert found.choose(PLAN, members("auto")) == ALL
    assert not found.look_again()


def test_should_begin_to_wait_anew_when_it_was_not_alone_meanwhile() -> None:
    now = [0.0]
    found = leader(went=(2,), now=now)
    found.choose(PLAN, members("auto"))
    now[0] = 50.0
    assert found.choose(PLAN, members("auto", "auto")) == SHARED
    now[0] = 70.0
    assert not found.look_again()
    assert found.choose(PLAN, members("auto")) == SHARED
    now[0] = 129.0
    assert not found.look_again()


def test_should_not_wait_where_it_shuffles_or_has_just_started() -> None:
    assert leader(went=(0, 2)).choose(PLAN, members("auto")) == ALL
    assert leader(went=None).choose(PLAN, members("auto")) == ALL
