"""Units and copies near what they read: Kafka Streams' own cases, and the least cost there is, found by trying everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.assignment.assignor import Assignment, AssignorSettings, Member, Unit, assign

STRATEGIES = ("min_traffic", "balance_subtopology")


def unit(name: str, *racks: str, changelog: int | None = 0, partitions: int = 1) -> Unit:
    where = (frozenset(racks),) * partitions
    return Unit(name, int(name[0]), 1, changelog, where, where)


def member(name: str, rack: str, *active: str, **more: Any) -> Member:
    return Member(name, active=frozenset(active), lags=dict.fromkeys(active, -2), rack=rack, **more)


def follow(units: list[Unit], members: list[Member], settings: AssignorSettings) -> Assignment:
    """The assignment after which nothing moves any more; the state is small, so that nothing waits for it."""
    found = assign(units, members, settings)
    again = [
        replace(
            m,
            active=frozenset(found.active[m.id]),
            standby=frozenset(found.copies(m.id)),
            lags=dict.fromkeys(found.active[m.id], -2),
        )
        for m in members
    ]
    assert assign(units, again, settings).active == found.active
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_exchange_units_that_are_in_the_wrong_racks(strategy: str) -> None:
    units = [unit("0_0", "rack-2"), unit("0_1", "rack-1")]
    members = [member("1", "rack-1", "0_0"), member("2", "rack-2", "0_1")]
    assert assign(units, members).active == {"1": ("0_0",), "2": ("0_1",)}
    assert follow(units, members, AssignorSettings(rack_strategy=strategy)).active == {"1": ("0_1",), "2": ("0_0",)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_leave_units_where_all_have_a_replica_near(strategy: str) -> None:
    units = [unit("0_0", "rack-1", "rack-2"), unit("0_1", "rack-2", "rack-3"), unit("0_2", "rack-3", "rack-4")]
    members = [member("1", "rack-1", "0_0"), member("2", "rack-2", "0_1"), member("3", "rack-3", "0_2")]
    assert follow(units, members, AssignorSettings(rack_strategy=strategy)).active == {
        "1": ("0_0",),
        "2": ("0_1",),
        "3": ("0_2",),
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_exchange_copies_that_are_in_the_wrong_racks(strategy: str) -> None:
    units = [unit("0_0", "rack-2"), unit("0_1", "rack-3")]
    members = [
        member("1", "rack-1", "0_0", "0_1", capacity=2),
        member("2", "rack-2", standby=frozenset({"0_1"})),
        member("3", "rack-3", standby=frozenset({"0_0"})),
    ]
    settings = AssignorSettings(standby_replicas=1, rack_strategy=strategy)
    for unit_, copy in assign(units, members, settings).standby.items():
        assert copy == {"1": copy, "2": ("0_0",), "3": ("0_1",)}[unit_]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_not_bring_copies_of_a_zone_together_for_less_traffic(strategy: str) -> None:
    units = [unit("0_0", "r1"), unit("0_1", "r1")]
    zones = {"1": "1", "2": "2", "3": "3", "4": "2"}
    members = [
        Member(
            name,
            2,
            tags={"az": zone},
            active=frozenset({"1": {"0_0"}, "2": {"0_1"}}.get(name, set())),
            standby=frozenset({"1": {"0_1"}, "2": {"0_0"}, "3": {"0_0", "0_1"}}.get(name, set())),
            lags=dict.fromkeys({"1": ("0_0",), "2": ("0_1",)}.get(name, ()), -2),
            rack="r1",
        )
        for name, zone in zones.items()
    ]
    found = assign(units, members, AssignorSettings(2, rack_aware_tags=("az",), rack_strategy=strategy))
    for name in ("0_0", "0_1"):
        holders = [found.owners[name], *(m for m, copies in found.standby.items() if name in copies)]
        assert {zones[holder] for holder in holders} == {"1", "2", "3"}


def test_should_keep_sub_topologies_even_only_where_it_is_asked_to() -> None:
    units = [unit("0_0", "r1"), unit("0_1", "r1"), unit("1_0", "r2"), unit("1_1", "r2")]
    members = [member("1", "r1", "0_0", "1_0"), member("2", "r2", "0_1", "1_1")]
    assert follow(units, members, AssignorSettings(rack_strategy="min_traffic")).active == {
        "1": ("0_0", "0_1"),
        "2": ("1_0", "1_1"),
    }
    even = follow(units, members, AssignorSettings(rack_strategy="balance_subtopology"))
    assert [sorted(name[0] for name in active) for active in even.active.values()] == [["0", "1"], ["0", "1"]]


def test_should_move_nothing_where_that_costs_more_than_the_traffic() -> None:
    units = [unit("0_0", "r2"), unit("0_1", "r1")]
    members = [member("1", "r1", "0_0"), member("2", "r2", "0_1")]
    settings = AssignorSettings(rack_strategy="min_traffic", rack_traffic_cost=1, rack_non_overlap_cost=2)
    assert assign(units, members, settings).active == {"1": ("0_0",), "2": ("0_1",)}


def test_should_warm_up_what_has_much_state_before_it_goes_to_the_right_rack() -> None:
    units = [unit("0_0", "r2", changelog=1_000_000), unit("0_1", "r1", changelog=1_000_000)]
    members = [member("1", "r1", "0_0"), member("2", "r2", "0_1")]
    found = assign(units, members, AssignorSettings(rack_strategy="min_traffic"))
    assert found.active == {"1": ("0_0",), "2": ("0_1",)}
    assert found.warmup == {"1": ("0_1",), "2": ("0_0",)}
    assert found.probing


@st.composite
def situations(draw: Any) -> tuple[list[Unit], list[Member], AssignorSettings]:
    names = ("r1", "r2", "r3")[: draw(st.integers(2, 3))]
    racks = st.sets(st.sampled_from(names), min_size=1).map(frozenset)
    changelog = draw(st.sampled_from([None, 0]))
    units = [
        Unit(f"{s}_{p}", s, 1, changelog, tuple(draw(st.lists(racks, min_size=1, max_size=2))))
        for s in range(draw(st.integers(1, 2)))
        for p in range(draw(st.integers(1, 3)))
    ]
    ids = [f"m{i}" for i in range(draw(st.integers(2, 4)))]
    runs = {u.id: draw(st.sampled_from(ids)) for u in units}
    members = [member(m, draw(st.sampled_from(names)), *(u for u, by in runs.items() if by == m)) for m in ids]
    costs = draw(st.sampled_from([(None, None), (1, 10), (5, 2), (1, 0)]))
    return units, members, AssignorSettings(0, 10_000, 2, (), draw(st.sampled_from(STRATEGIES)), *costs)


@given(situations())
def test_should_find_the_least_cost_and_leave_loads_as_they_were(
    situation: tuple[list[Unit], list[Member], AssignorSettings],
) -> None:
    units, members, settings = situation
    rack = {m.id: m.rack for m in members}
    before = assign(units, members, replace(settings, rack_strategy="none")).owners
    found = assign(units, members, settings).owners
    traffic, overlap = (settings.rack_traffic_cost, settings.rack_non_overlap_cost) if units[0].is_stateful else (1, 0)
    traffic, overlap = 10 if traffic is None else traffic, 1 if overlap is None else overlap

    def cost(owners: dict[str, str]) -> int:
        far = sum(traffic * (rack[owners[u.id]] not in where) for u in units for where in u.racks)
        return far + overlap * sum(owners[u.id] != before[u.id] for u in units)

    def parts(owners: dict[str, str]) -> Counter[tuple[str, int]]:
        by_part = settings.rack_strategy == "balance_subtopology"
        return Counter((owners[u.id], u.subtopology if by_part else 0) for u in units)

    names = [u.id for u in units]
    dealt = (dict(zip(names, owners)) for owners in set(permutations([before[name] for name in names])))
    assert cost(found) == min(cost(owners) for owners in dealt if parts(owners) == parts(before))
    assert parts(found) == parts(before)
