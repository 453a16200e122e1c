"""The assignment of units to members, in three steps: where units should run, where their copies should be, what waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.assignment.assignor.active import place_active
from penstock.client.assignment.assignor.draft import AssignmentDraft
from penstock.client.assignment.assignor.model import Assignment, AssignorSettings, Member, Unit
from penstock.client.assignment.assignor.movement import Movements
from penstock.client.assignment.assignor.racks import place_near
from penstock.client.assignment.assignor.standby import StandbyAssignor
from penstock.ids import UnitId

_DEFAULTS = AssignorSettings()


def assign(units: Iterable[Unit], members: Iterable[Member], settings: AssignorSettings = _DEFAULTS) -> Assignment:
    """Deal out units over members; the members tell what they had before.

    Even in all and within each sub-topology, sticky, copies apart from what they are copies of and spread over tags, and
    what has much state moves when the state is there. Where racks count, units are near what they read.

    >>> assign([Unit("0_0"), Unit("0_1")], [Member("a"), Member("b", active=frozenset({"0_0"}))]).active
    {'a': ('0_1',), 'b': ('0_0',)}
    """
    known = {unit.id: unit for unit in sorted(units, key=lambda unit: unit.id)}
    there = {member.id: member for member in sorted(members, key=lambda member: member.id)}
    if not there:
        return Assignment({}, {}, {})
    draft = AssignmentDraft(known, there)
    place_active(draft)
    place_near(draft, settings)
    movements = Movements(draft, StandbyAssignor(draft, settings).place(), settings)
    probing = movements.plan()
    return Assignment(
        _by_member(there, {unit: [member] for unit, member in draft.owner.items()}),
        _by_member(there, movements.standbys),
        _by_member(there, movements.warmups),
        probing,
    )


def bring_near(
    units: Iterable[Unit],
    members: Iterable[Member],
    owners: Mapping[UnitId, str],
    copies: Mapping[UnitId, Iterable[str]],
    settings: AssignorSettings,
) -> tuple[dict[UnitId, str], dict[UnitId, list[str]]]:
    """Owners and copies of units that somebody has dealt out, exchanged between racks where that costs less.

    >>> near, far = Unit("0_0", changelog=0, racks=(frozenset({"r1"}),)), Unit("0_1", changelog=0, racks=(frozenset({"r2"}),))
    >>> members = [Member("a", rack="r2"), Member("b", rack="r1")]
    >>> bring_near([near, far], members, {"0_0": "a", "0_1": "b"}, {}, AssignorSettings(rack_strategy="min_traffic"))[0]
    {'0_0': 'b', '0_1': 'a'}
    """
    known = {unit.id: unit for unit in sorted(units, key=lambda unit: unit.id)}
    draft = AssignmentDraft(known, {member.id: member for member in sorted(members, key=lambda member: member.id)})
    for unit in known:
        draft.give(unit, owners[unit])
    place_near(draft, settings)
    of_unit = {unit: list(copies.get(unit, ())) for unit in known}
    StandbyAssignor(draft, settings).bring_near(of_unit)
    return {unit: draft.owner[unit] for unit in known}, of_unit


def _by_member(members: Iterable[str], units: Mapping[UnitId, Iterable[str]]) -> dict[str, tuple[UnitId, ...]]:
    found: dict[str, list[UnitId]] = {member: [] for member in members}
    for unit, holders in units.items():
        for member in holders:
            found[member].append(unit)
    return {member: tuple(sorted(held)) for member, held in found.items()}
