"""Units near what they read: members change places where that saves traffic between racks, and nobody has more or less for it.

What Kafka Streams does with a flow of least cost through all clients is done here between racks alone: to a unit all members of a
rack are equally near, and of those that leave a rack each makes room for one that comes. The costs are Kafka Streams' own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from penstock.client.assignment.assignor.draft import AssignmentDraft
from penstock.client.assignment.assignor.model import AssignorSettings, Unit
from penstock.ids import UnitId

# Java's for its default assignor; those of tasks without state cannot be set there either.
_TRAFFIC_COST, _NON_OVERLAP_COST = 10, 1
_STATELESS_TRAFFIC_COST, _STATELESS_NON_OVERLAP_COST = 1, 0
_ROUNDS = 10

Cost = Callable[[UnitId, str], int]


def place_near(draft: AssignmentDraft, settings: AssignorSettings) -> None:
    """Let members exchange units where that costs less.

    With `min_traffic` any unit may go for any other, with `balance_subtopology` only for one of the same sub-topology. Units
    with state are exchanged for such as have some, and for as many tasks.
    """
    if settings.are_racks_ignored:
        return
    rack_of = {member.id: member.rack for member in draft.members.values()}
    groups: dict[tuple[int, bool, int], list[UnitId]] = {}
    for unit in draft.units.values():
        part = unit.subtopology if settings.rack_strategy == "balance_subtopology" else 0
        groups.setdefault((unit.tasks, unit.is_stateful, part), []).append(unit.id)
    for (_, is_stateful, _), units in sorted(groups.items()):
        home = {unit: rack_of[draft.owner[unit]] for unit in units}
        traffic, overlap = costs_of(settings) if is_stateful else (_STATELESS_TRAFFIC_COST, _STATELESS_NON_OVERLAP_COST)
        _move_home(draft, home, _Exchange(home, _unit_cost(draft, home, traffic, overlap)).racks())


def place_copies_near(
    draft: AssignmentDraft,
    of_unit: Mapping[UnitId, list[str]],
    settings: AssignorSettings,
    fits: Callable[[UnitId, str, str], bool],
) -> None:
    """Let members exchange copies where that costs less; `fits(unit, source, target)` says whether a copy may go there."""
    if settings.are_racks_ignored:
        return
    traffic, overlap = costs_of(settings)
    before = {unit: set(members) for unit, members in of_unit.items()}

    def cost(unit: UnitId, member: str) -> int:
        far = _far(draft.units[unit].changelog_racks, draft.members[member].rack)
        return traffic * far + (overlap if member not in before[unit] else 0)

    held: dict[str, set[UnitId]] = {member: set() for member in draft.members}
    for unit, members in of_unit.items():
        for member in members:
            held[member].add(unit)
    for _ in range(_ROUNDS):
        swapped = 0
        for one, other in _pairs(draft):
            for unit, source, target in _swaps(draft.units, held, one, other, cost, fits):
                of_unit[unit][of_unit[unit].index(source)] = target
                held[source].discard(unit)
                held[target].add(unit)
                swapped += 1
        if not swapped:
            return


def costs_of(settings: AssignorSettings) -> tuple[int, int]:
    """What a partition in another rack costs, and what a unit costs that goes elsewhere."""
    return (
        _TRAFFIC_COST if settings.rack_traffic_cost is None else settings.rack_traffic_cost,
        _NON_OVERLAP_COST if settings.rack_non_overlap_cost is None else settings.rack_non_overlap_cost,
    )


def _far(partitions: Sequence[frozenset[str]], rack: str) -> int:
    return sum(rack not in racks for racks in partitions)


def _unit_cost(draft: AssignmentDraft, home: Mapping[UnitId, str], traffic: int, overlap: int) -> Cost:
    def cost(unit: UnitId, rack: str) -> int:
        return traffic * _far(draft.units[unit].racks, rack) + (overlap if rack != home[unit] else 0)

    return cost


class _Exchange:
    """Units that go round between racks as long as a round saves something; then no exchange is better than what there is.

    An edge from one rack to another is the unit whose move costs least, or saves most. A cycle whose sum is negative is a
    round that saves: each rack on it gives a unit and gets one.
    """

    def __init__(self, home: Mapping[UnitId, str], cost: Cost) -> None:
        self._at = dict(home)
        self._cost = cost
        self._names = sorted(set(home.values()))
        self._best: dict[tuple[str, str], list[tuple[int, UnitId]]] = {
            (one, other): [] for one in self._names for other in self._names if one != other
        }
        for unit in home:
            self._offer(unit)

    def racks(self) -> dict[UnitId, str]:
        """Where each unit ends."""
        while True:
            cycle = self._cycle()
            if cycle is None:
                return self._at
            moves = [(self._edge(one, other), other) for one, other in pairwise(cycle)]
            for edge, other in moves:
                assert edge is not None
                self._at[edge[1]] = other
            for edge, _ in moves:
                assert edge is not None
                self._offer(edge[1])

    def _offer(self, unit: UnitId) -> None:
        here = self._at[unit]
        for rack in self._names:
            if rack != here:
                heapq.heappush(self._best[here, rack], (self._cost(unit, rack) - self._cost(unit, here), unit))

    def _edge(self, one: str, other: str) -> tuple[int, UnitId] | None:
        """The unit of a rack that goes to another at the least cost."""
        known = self._best[one, other]
        while known and self._at[known[0][1]] != one:
            heapq.heappop(known)
        return known[0] if known else None

    def _cycle(self) -> list[str] | None:
        """Racks in a circle around which units are passed on at a gain, the first of them once more at the end."""
        edges = [(one, other, edge[0]) for one, other in self._best if (edge := self._edge(one, other)) is not None]
        distance, came_from = dict.fromkeys(self._names, 0), dict[str, str]()
        last = None
        for _ in self._names:
            last = None
            for one, other, weight in edges:
                if distance[one] + weight < distance[other]:
                    distance[other], came_from[other], last = distance[one] + weight, one, other
            if last is None:
                return None
        for _ in self._names:  # back until it is surely on the circle
            last = came_from[last]  # type: ignore[index]
        assert last is not None
        found = [last]
        while len(found) < 2 or found[-1] != last:
            found.append(came_from[found[-1]])
        return found[::-1]


def _move_home(draft: AssignmentDraft, home: Mapping[UnitId, str], ends: Mapping[UnitId, str]) -> None:
    """Give what comes to a rack to those of its members that had to give something, where there is state to whom has it."""
    room: dict[str, int] = {}
    coming: dict[str, list[UnitId]] = {}
    for unit, rack in sorted(ends.items()):
        if rack != home[unit]:
            room[draft.owner[unit]] = room.get(draft.owner[unit], 0) + 1
            coming.setdefault(rack, []).append(unit)
    for rack, units in sorted(coming.items()):
        targets = sorted(member for member in room if draft.members[member].rack == rack)
        wishes = sorted((draft.members[m].lag_of(draft.units[u]), u, m) for u in units for m in targets)
        waiting = set(units)
        for _, unit, member in wishes:
            if unit in waiting and room[member]:
                waiting.discard(unit)
                room[member] -= 1
                draft.move(unit, member)


def _pairs(draft: AssignmentDraft) -> Iterator[tuple[str, str]]:
    members = sorted(draft.members)
    for index, one in enumerate(members):
        for other in members[index + 1 :]:
            if draft.members[one].rack != draft.members[other].rack:
                yield one, other


def _swaps(
    units: Mapping[UnitId, Unit],
    held: Mapping[str, set[UnitId]],
    one: str,
    other: str,
    cost: Cost,
    fits: Callable[[UnitId, str, str], bool],
) -> Iterator[tuple[UnitId, str, str]]:
    """Which copies two members exchange as long as it saves something, each as it goes from one to the other."""
    while True:
        there, back = _gains(held, one, other, cost), _gains(held, other, one, cost)
        if not there or not back or there[0][0] + back[0][0] >= 0:
            return
        found = next(
            (
                (unit, instead)
                for gain, unit in there
                for loss, instead in back
                if gain + loss < 0 and units[unit].tasks == units[instead].tasks
                if fits(unit, one, other) and fits(instead, other, one)
            ),
            None,
        )
        if found is None:
            return
        yield found[0], one, other
        yield found[1], other, one


def _gains(held: Mapping[str, set[UnitId]], source: str, target: str, cost: Cost) -> list[tuple[int, UnitId]]:
    """What it costs to have each copy there instead of here, those that save most first."""
    return sorted((cost(unit, target) - cost(unit, source), unit) for unit in held[source] - held[target])
