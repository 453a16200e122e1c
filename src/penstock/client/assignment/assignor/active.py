"""Where units should run in the end: evenly in all and within each sub-topology, and with as few moves as that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.client.assignment.assignor.draft import AssignmentDraft, Lightest
from penstock.ids import UnitId


def place_active(draft: AssignmentDraft) -> None:
    """Deal out all units.

    1. Every unit stays with the member that runs it.
    2. Units that nobody runs go where their state is, as long as nobody gets more than an even share.
    3. What is left goes to whoever has least of its sub-topology, and least in all.
    4. Sub-topologies that are uneven are evened out.
    5. So are whole loads, by units whose move keeps their sub-topology even.
    6. Where a member both gave a unit away and got one of the same sub-topology, it keeps its own.
    7. With members of different capacity the two kinds of evenness may be at odds: where nothing was won, nothing moves.
    """
    _keep(draft)
    _send_to_state(draft)
    _deal_out_the_rest(draft)
    if len({member.capacity for member in draft.members.values()}) == 1:
        _even_out(draft)
        return
    unevenness = _unevenness(draft)
    while True:
        before = dict(draft.owner)
        _even_out(draft)
        found = _unevenness(draft)
        if found >= unevenness:
            for unit, member in before.items():
                draft.move(unit, member)
            return
        unevenness = found


def _even_out(draft: AssignmentDraft) -> None:
    for subtopology, units in sorted(Counter(unit.subtopology for unit in draft.units.values()).items()):
        if units > 1:
            _even_out_subtopology(draft, subtopology)
    _even_out_loads(draft)
    _shorten(draft)


def _unevenness(draft: AssignmentDraft) -> tuple[bool, int]:
    """Whether loads can be evened out, and in how many sub-topologies units can."""
    members = draft.members
    uneven = 0
    for subtopology in {unit.subtopology for unit in draft.units.values()}:
        most = max(draft.share(member, subtopology, -1) for member in members)
        uneven += most >= min(draft.share(member, subtopology, 1) for member in members)
    most = max(draft.load(member, -1) for member in members)
    return most >= min(draft.load(member, 1) for member in members), uneven


def _keep(draft: AssignmentDraft) -> None:
    for member in draft.members.values():
        for unit in sorted(member.active):
            if unit in draft.units and unit not in draft.owner:
                draft.give(unit, member.id)


def _send_to_state(draft: AssignmentDraft) -> None:
    capacity = sum(member.capacity for member in draft.members.values())
    tasks = sum(unit.tasks for unit in draft.units.values())
    parts = Counter(unit.subtopology for unit in draft.units.values())
    copies = sorted(
        (member.lag_of(draft.units[unit]), unit, member.id)
        for member in draft.members.values()
        for unit in draft.state_of(member.id)
        if unit not in draft.owner
    )
    for lag, unit, member in copies:
        known, own = draft.units[unit], draft.members[member].capacity
        if unit in draft.owner or lag > max(0, (known.changelog or 0) - 1):
            continue
        most, part = -(-tasks * own // capacity), -(-parts[known.subtopology] * own // capacity)
        if draft.tasks[member] + known.tasks <= max(most, known.tasks) and draft.count(member, known.subtopology) < part:
            draft.give(unit, member)


def _deal_out_the_rest(draft: AssignmentDraft) -> None:
    waiting: dict[int, list[UnitId]] = {}
    for unit in sorted(draft.units):
        if unit not in draft.owner:
            waiting.setdefault(draft.units[unit].subtopology, []).append(unit)
    lightest = Lightest(draft.members, lambda member: (draft.load(member),))
    for subtopology, units in sorted(waiting.items()):
        # Few units find a member without any of them near the top; for many, members are sorted by what they have of these.
        by_share = Lightest(draft.members, _by_share(draft, subtopology)) if 4 * len(units) > len(draft.members) else None
        for unit in sorted(units, key=lambda unit: (-draft.units[unit].tasks, unit)):
            if by_share is None:
                member = lightest.find(lambda member: not draft.count(member, subtopology))  # noqa: B023 - called at once
                member = member or min(draft.members, key=_by_share(draft, subtopology))
            else:
                member = by_share.first()
            assert member is not None
            draft.give(unit, member)
            lightest.changed(member)
            if by_share is not None:
                by_share.changed(member)


def _by_share(draft: AssignmentDraft, subtopology: int) -> Callable[[str], tuple[float, ...]]:
    return lambda member: (draft.share(member, subtopology), draft.load(member))


def _even_out_subtopology(draft: AssignmentDraft, subtopology: int) -> None:
    holders = [member for member in draft.members if draft.count(member, subtopology) > 1]
    if not holders:
        return
    lightest = Lightest(draft.members, lambda member: (draft.share(member, subtopology, 1), draft.load(member)))
    heaviest = Lightest(draft.members, lambda member: (-draft.share(member, subtopology, -1), -draft.load(member)))
    while True:
        source, target = heaviest.first(), lightest.first()
        assert source is not None
        assert target is not None
        if draft.share(source, subtopology, -1) < draft.share(target, subtopology, 1):
            return
        draft.move(_choose(draft, source, target, subtopology), target)
        lightest.changed(source, target)
        heaviest.changed(source, target)


def _even_out_loads(draft: AssignmentDraft) -> None:
    lightest = Lightest(draft.members, lambda member: (draft.load(member, 1),))
    heaviest = Lightest(draft.members, lambda member: (-draft.load(member, -1),))
    stuck: set[str] = set()
    while True:
        source = heaviest.find(lambda member: member not in stuck)
        target = lightest.first()
        if source is None or target is None or draft.load(source, -1) < draft.load(target, 1):
            return
        unit = _movable(draft, source, target)
        if unit is None:
            stuck.add(source)
            continue
        draft.move(unit, target)
        lightest.changed(source, target)
        heaviest.changed(source, target)


def _movable(draft: AssignmentDraft, source: str, target: str) -> UnitId | None:
    """A unit whose move makes the loads more even, if it can be one that leaves its sub-topology even."""

    def helps(unit: UnitId) -> bool:
        tasks = draft.units[unit].tasks
        return draft.load(source, -tasks) >= draft.load(target, tasks)

    def keeps_even(subtopology: int) -> bool:
        return draft.share(source, subtopology) > draft.share(target, subtopology)

    with_state = [unit for unit in draft.state_of(target) if draft.owner.get(unit) == source and helps(unit)]
    for unit in with_state:
        if keeps_even(draft.units[unit].subtopology):
            return unit
    fallback: UnitId | None = with_state[0] if with_state else None
    for subtopology, units in draft.held[source].items():
        helping = next((unit for unit in reversed(units) if helps(unit)), None)
        if helping is not None:
            if keeps_even(subtopology):
                return helping
            fallback = fallback or helping
    return fallback


def _choose(draft: AssignmentDraft, source: str, target: str, subtopology: int) -> UnitId:
    """The unit to move from one member to another: the one of which the other has most of the state."""
    units = draft.held[source][subtopology]
    return next((unit for unit in draft.state_of(target) if unit in units), None) or next(reversed(units))


def _shorten(draft: AssignmentDraft) -> None:
    given: dict[tuple[str, int], list[UnitId]] = {}
    for known in draft.members.values():
        for unit in sorted(known.active):
            if unit in draft.units and draft.owner[unit] != known.id:
                given.setdefault((known.id, draft.units[unit].subtopology), []).append(unit)
    for (member, subtopology), own in given.items():
        received = [unit for unit in draft.held[member].get(subtopology, {}) if unit not in draft.members[member].active]
        for unit, other in zip(own, received):
            if draft.units[unit].tasks == draft.units[other].tasks:
                target = draft.owner[unit]
                draft.move(unit, member)
                draft.move(other, target)
