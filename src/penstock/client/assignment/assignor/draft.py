"""The draft on which units are dealt out: who has what at the moment, and who carries most and least."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from penstock.client.assignment.assignor.model import Member, Unit
from penstock.ids import UnitId

Weight = Callable[[str], tuple[float, ...]]


class Lightest:
    """Members by a weight that changes while units are dealt out: the lightest first, in logarithmic time.

    A member whose weight has changed is put in again; its older entries are recognised by their weight and left out.
    """

    def __init__(self, members: Iterable[str], weight: Weight) -> None:
        self._weight = weight
        self._heap = [(weight(member), member) for member in members]
        heapq.heapify(self._heap)

    def changed(self, *members: str) -> None:
        """The weights of these members are different now."""
        for member in members:
            heapq.heappush(self._heap, (self._weight(member), member))

    def find(self, suits: Callable[[str], bool]) -> str | None:
        """The lightest member that suits; None where none does."""
        passed: list[tuple[tuple[float, ...], str]] = []
        found = None
        while self._heap:
            weight, member = self._heap[0]
            if weight != self._weight(member) or (passed and passed[-1][1] == member):
                heapq.heappop(self._heap)  # outdated, or the same once more
                continue
            if suits(member):
                found = member
                break
            passed.append(heapq.heappop(self._heap))
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found

    def first(self) -> str | None:
        """The lightest member."""
        return self.find(_anybody)


class AssignmentDraft:
    """Which member has which unit, with the loads that follow from it."""

    def __init__(self, units: Mapping[UnitId, Unit], members: Mapping[str, Member]) -> None:
        self.units = units
        self.members = members
        self.owner: dict[UnitId, str] = {}
        self.held: dict[str, dict[int, dict[UnitId, None]]] = {member: {} for member in members}
        self.tasks: dict[str, int] = dict.fromkeys(members, 0)
        self._states = {member.id: _by_lag(member, units) for member in members.values()}

    def give(self, unit: UnitId, member: str) -> None:
        """Let a member have a unit that nobody has."""
        known = self.units[unit]
        self.owner[unit] = member
        self.held[member].setdefault(known.subtopology, {})[unit] = None
        self.tasks[member] += known.tasks

    def move(self, unit: UnitId, member: str) -> None:
        """Let a member have a unit instead of the one that has it."""
        before, known = self.owner[unit], self.units[unit]
        del self.held[before][known.subtopology][unit]
        self.tasks[before] -= known.tasks
        self.give(unit, member)

    def load(self, member: str, more: int = 0) -> float:
        """Tasks for each of a member's threads, with so many more."""
        return (self.tasks[member] + more) / self.members[member].capacity

    def share(self, member: str, subtopology: int, more: int = 0) -> float:
        """The same for the units of one sub-topology."""
        return (self.count(member, subtopology) + more) / self.members[member].capacity

    def count(self, member: str, subtopology: int) -> int:
        """How many units of a sub-topology a member has."""
        return len(self.held[member].get(subtopology, ()))

    def state_of(self, member: str) -> list[UnitId]:
        """The units of which a member has state without running them, those least behind first."""
        return self._states[member]


def _by_lag(member: Member, units: Mapping[UnitId, Unit]) -> list[UnitId]:
    known = [units[unit] for unit in {*member.lags, *member.standby} if unit in units and unit not in member.active]
    return [unit.id for unit in sorted(known, key=lambda unit: (member.lag_of(unit), unit.id))]


def _anybody(_: str) -> bool:
    return True
