"""Where units should run in the end: evenly in all and within each sub-topology, and with as few moves as that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.client.assignor.board import Board, Lightest


def place_active(board: Board) -> None:
    """Deal out all units.

    1. Every unit stays with the member that runs it.
    2. Units that nobody runs go where their state is, as long as nobody gets more than an even share.
    3. What is left goes to whoever has least of its sub-topology, and least in all.
    4. Sub-topologies that are uneven are evened out.
    5. So are whole loads, by units whose move keeps their sub-topology even.
    6. Where a member both gave a unit away and got one of the same sub-topology, it keeps its own.
    7. With members of different capacity the two kinds of evenness may be at odds: where nothing was won, nothing moves.
    """
    _keep(board)
    _send_to_state(board)
    _deal_out_the_rest(board)
    if len({member.capacity for member in board.members.values()}) == 1:
        _even_out(board)
        return
    unevenness = _unevenness(board)
    while True:
        before = dict(board.owner)
        _even_out(board)
        found = _unevenness(board)
        if found >= unevenness:
            for unit, member in before.items():
                board.move(unit, member)
            return
        unevenness = found


def _even_out(board: Board) -> None:
    for subtopology, units in sorted(Counter(unit.subtopology for unit in board.units.values()).items()):
        if units > 1:
            _even_out_subtopology(board, subtopology)
    _even_out_loads(board)
    _shorten(board)


def _unevenness(board: Board) -> tuple[bool, int]:
    """Whether loads can be evened out, and in how many sub-topologies units can."""
    members = board.members
    uneven = 0
    for subtopology in {unit.subtopology for unit in board.units.values()}:
        most = max(board.share(member, subtopology, -1) for member in members)
        uneven += most >= min(board.share(member, subtopology, 1) for member in members)
    most = max(board.load(member, -1) for member in members)
    return most >= min(board.load(member, 1) for member in members), uneven


def _keep(board: Board) -> None:
    for member in board.members.values():
        for unit in sorted(member.active):
            if unit in board.units and unit not in board.owner:
                board.give(unit, member.id)


def _send_to_state(board: Board) -> None:
    capacity = sum(member.capacity for member in board.members.values())
    tasks = sum(unit.tasks for unit in board.units.values())
    parts = Counter(unit.subtopology for unit in board.units.values())
    copies = sorted(
        (member.lag_of(board.units[unit]), unit, member.id)
        for member in board.members.values()
        for unit in board.state_of(member.id)
        if unit not in board.owner
    )
    for lag, unit, member in copies:
        known, own = board.units[unit], board.members[member].capacity
        if unit in board.owner or lag > max(0, (known.changelog or 0) - 1):
            continue
        most, part = -(-tasks * own // capacity), -(-parts[known.subtopology] * own // capacity)
        if board.tasks[member] + known.tasks <= max(most, known.tasks) and board.count(member, known.subtopology) < part:
            board.give(unit, member)


def _deal_out_the_rest(board: Board) -> None:
    waiting: dict[int, list[str]] = {}
    for unit in sorted(board.units):
        if unit not in board.owner:
            waiting.setdefault(board.units[unit].subtopology, []).append(unit)
    lightest = Lightest(board.members, lambda member: (board.load(member),))
    for subtopology, units in sorted(waiting.items()):
        # Few units find a member without any of them near the top; for many, members are sorted by what they have of these.
        by_share = Lightest(board.members, _by_share(board, subtopology)) if 4 * len(units) > len(board.members) else None
        for unit in sorted(units, key=lambda unit: (-board.units[unit].tasks, unit)):
            if by_share is None:
                member = lightest.find(lambda member: not board.count(member, subtopology))  # noqa: B023 - called at once
                member = member or min(board.members, key=_by_share(board, subtopology))
            else:
                member = by_share.first()
            assert member is not None
            board.give(unit, member)
            lightest.changed(member)
            if by_share is not None:
                by_share.changed(member)


def _by_share(board: Board, subtopology: int) -> Callable[[str], tuple[float, ...]]:
    return lambda member: (board.share(member, subtopology), board.load(member))


def _even_out_subtopology(board: Board, subtopology: int) -> None:
    holders = [member for member in board.members if board.count(member, subtopology) > 1]
    if not holders:
        return
    lightest = Lightest(board.members, lambda member: (board.share(member, subtopology, 1), board.load(member)))
    heaviest = Lightest(board.members, lambda member: (-board.share(member, subtopology, -1), -board.load(member)))
    while True:
        source, target = heaviest.first(), lightest.first()
        assert source is not None
        assert target is not None
        if board.share(source, subtopology, -1) < board.share(target, subtopology, 1):
            return
        board.move(_choose(board, source, target, subtopology), target)
        lightest.changed(source, target)
        heaviest.changed(source, target)


def _even_out_loads(board: Board) -> None:
    lightest = Lightest(board.members, lambda member: (board.load(member, 1),))
    heaviest = Lightest(board.members, lambda member: (-board.load(member, -1),))
    stuck: set[str] = set()
    while True:
        source = heaviest.find(lambda member: member not in stuck)
        target = lightest.first()
        if source is None or target is None or board.load(source, -1) < board.load(target, 1):
            return
        unit = _movable(board, source, target)
        if unit is None:
            stuck.add(source)
            continue
        board.move(unit, target)
        lightest.changed(source, target)
        heaviest.changed(source, target)


def _movable(board: Board, source: str, target: str) -> str | None:
    """A unit whose move makes the loads more even, if it can be one that leaves its sub-topology even."""

    def helps(unit: str) -> bool:
        tasks = board.units[unit].tasks
        return board.load(source, -tasks) >= board.load(target, tasks)

    def keeps_even(subtopology: int) -> bool:
        return board.share(source, subtopology) > board.share(target, subtopology)

    with_state = [unit for unit in board.state_of(target) if board.owner.get(unit) == source and helps(unit)]
    for unit in with_state:
        if keeps_even(board.units[unit].subtopology):
            return unit
    fallback: str | None = with_state[0] if with_state else None
    for subtopology, units in board.held[source].items():
        helping = next((unit for unit in reversed(units) if helps(unit)), None)
        if helping is not None:
            if keeps_even(subtopology):
                return helping
            fallback = fallback or helping
    return fallback


def _choose(board: Board, source: str, target: str, subtopology: int) -> str:
    """The unit to move from one member to another: the one of which the other has most of the state."""
    units = board.held[source][subtopology]
    return next((unit for unit in board.state_of(target) if unit in units), None) or next(reversed(units))


def _shorten(board: Board) -> None:
    given: dict[tuple[str, int], list[str]] = {}
    for known in board.members.values():
        for unit in sorted(known.active):
            if unit in board.units and board.owner[unit] != known.id:
                given.setdefault((known.id, board.units[unit].subtopology), []).append(unit)
    for (member, subtopology), own in given.items():
        received = [unit for unit in board.held[member].get(subtopology, {}) if unit not in board.members[member].active]
        for unit, other in zip(own, received):
            if board.units[unit].tasks == board.units[other].tasks:
                target = board.owner[unit]
                board.move(unit, member)
                board.move(other, target)
