"""From where units should run to where they run now: what would have to restore much stays, and is warmed up elsewhere.

A unit that should move to a member which is too far behind runs on where it is (or where most of its state is), and a copy
is made at its destination, a warm-up, of which there are only so many at a time. When the destination has caught up, the
next assignment moves the unit there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.client.assignment.assignor.draft import AssignmentDraft
from penstock.client.assignment.assignor.model import AssignorSettings
from penstock.ids import UnitId


class Movements:
    """Takes back the moves of a draft that are too early, and hands out warm-ups for them."""

    def __init__(self, draft: AssignmentDraft, standbys: dict[UnitId, list[str]], settings: AssignorSettings) -> None:
        self._draft = draft
        self._settings = settings
        self._left = settings.max_warmup_replicas
        self.standbys = standbys
        self.warmups: dict[UnitId, list[str]] = {}
        self._running = {unit: member.id for member in reversed(list(draft.members.values())) for unit in member.active}
        self._copies: dict[UnitId, list[tuple[float, str]]] = {}
        for member in draft.members.values():
            for unit in {*member.lags, *member.active, *member.standby}:
                if unit in standbys:
                    self._copies.setdefault(unit, []).append((self._lag(unit, member.id), member.id))

    def plan(self) -> bool:
        """Whether moves are left for later."""
        early = [unit for unit in self.standbys if self._is_early(unit, self._draft.owner[unit])]
        # What has the fewest places to be at gets them first.
        early.sort(key=lambda unit: (sum(self._settings.is_caught_up(lag) for lag, _ in self._copies.get(unit, ())), unit))
        for unit in early:
            self._hold_back(unit)
        late = sum(
            self._hold_back_standby(unit, member) for unit in sorted(self.standbys) for member in list(self.standbys[unit])
        )
        return bool(early) or late > 0

    def _is_early(self, unit: UnitId, member: str) -> bool:
        lag = self._lag(unit, member)
        return not self._settings.is_caught_up(lag) and any(other < lag for other, _ in self._copies.get(unit, ()))

    def _hold_back(self, unit: UnitId) -> None:
        """Let a unit run where its state is, until its destination has caught up."""
        draft, destination = self._draft, self._draft.owner[unit]
        source = self._best(unit, lambda member: member != destination)
        assert source is not None
        draft.move(unit, source)
        standbys = self.standbys[unit]
        freed = [member for member in standbys if self._where(member) == self._where(source)]
        for member in freed:
            standbys.remove(member)
        if self._where(destination) == self._where(source) or destination in standbys:
            return
        if freed:
            standbys.append(destination)  # the copy that was to be where the unit still runs
        else:
            self._warm_up(unit, destination)

    def _hold_back_standby(self, unit: UnitId, destination: str) -> bool:
        """Keep a copy that is nearly complete while the one that should replace it is made."""
        if not self._is_early(unit, destination):
            return False
        taken = {self._where(self._draft.owner[unit]), *map(self._where, self._having(unit))}
        held = [member for _, member in self._copies[unit] if unit in self._draft.members[member].standby]
        source = self._best(unit, lambda member: member in held and self._where(member) not in taken)
        if source is None or self._lag(unit, source) >= self._lag(unit, destination):
            return False
        self.standbys[unit].remove(destination)
        self.standbys[unit].append(source)
        self._warm_up(unit, destination)
        return True

    def _best(self, unit: UnitId, suits: Callable[[str], bool]) -> str | None:
        """Where it runs; else a copy that has caught up, on the member with the least to do; else the best copy there is."""
        found: list[tuple[tuple[int, float, float], str]] = [
            ((0, 0.0, self._draft.load(member)) if self._settings.is_caught_up(lag) else (1, lag, 0.0), member)
            for lag, member in self._copies.get(unit, ())
            if suits(member)
        ]
        running = self._running.get(unit)
        if running is not None and suits(running):
            return running
        return min(found)[1] if found else None

    def _warm_up(self, unit: UnitId, member: str) -> None:
        if self._left > 0:
            self._left -= 1
            self.warmups.setdefault(unit, []).append(member)

    def _having(self, unit: UnitId) -> Iterable[str]:
        return (*self.standbys[unit], *self.warmups.get(unit, ()))

    def _lag(self, unit: UnitId, member: str) -> float:
        known = self._draft.members[member]
        return -1 if unit in known.active and unit not in known.lags else known.lag_of(self._draft.units[unit])

    def _where(self, member: str) -> str:
        return self._draft.members[member].where
