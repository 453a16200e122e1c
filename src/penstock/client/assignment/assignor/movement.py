"""Deferred moves: a task with much to restore stays until a warm-up at its destination has caught up.

A task whose destination lags too much stays with its member, or runs where most of its state is. A warm-up is made at the
destination; the number of warm-ups is limited. When the warm-up has caught up, the next assignment moves the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.client.assignment.assignor.draft import AssignmentDraft
from penstock.client.assignment.assignor.model import AssignorSettings
from penstock.ids import TaskId


class Movements:
    """Reverts moves of a draft that are too early, and adds warm-ups for them."""

    def __init__(self, draft: AssignmentDraft, standbys: dict[TaskId, list[str]], settings: AssignorSettings) -> None:
        self._draft = draft
        self._settings = settings
        self._left = settings.max_warmup_replicas
        self.standbys = standbys
        self.warmups: dict[TaskId, list[str]] = {}
        self._running = {task: member.id for member in reversed(list(draft.members.values())) for task in member.active}
        self._copies: dict[TaskId, list[tuple[float, str]]] = {}
        for member in draft.members.values():
            for task in {*member.lags, *member.active, *member.standby}:
                if task in standbys:
                    self._copies.setdefault(task, []).append((self._lag(task, member.id), member.id))

    def plan(self) -> bool:
        """Return True if moves are deferred."""
        early = [task for task in self.standbys if self._is_early(task, self._draft.owner[task])]
        # Tasks with the fewest possible members come first.
        early.sort(key=lambda task: (sum(self._settings.is_caught_up(lag) for lag, _ in self._copies.get(task, ())), task))
        for task in early:
            self._hold_back(task)
        late = sum(
            self._hold_back_standby(task, member) for task in sorted(self.standbys) for member in list(self.standbys[task])
        )
        return bool(early) or late > 0

    def _is_early(self, task: TaskId, member: str) -> bool:
        lag = self._lag(task, member)
        return not self._settings.is_caught_up(lag) and any(other < lag for other, _ in self._copies.get(task, ()))

    def _hold_back(self, task: TaskId) -> None:
        """Run a task where its state is until its destination has caught up."""
        draft, destination = self._draft, self._draft.owner[task]
        source = self._best(task, lambda member: member != destination)
        assert source is not None
        draft.move(task, source)
        standbys = self.standbys[task]
        freed = [member for member in standbys if self._where(member) == self._where(source)]
        for member in freed:
            standbys.remove(member)
        if self._where(destination) == self._where(source) or destination in standbys:
            return
        if freed:
            standbys.append(destination)  # this standby replaces the one on the task's current host
        else:
            self._warm_up(task, destination)

    def _hold_back_standby(self, task: TaskId, destination: str) -> bool:
        """Keep an almost complete standby while its replacement is made."""
        if not self._is_early(task, destination):
            return False
        taken = {self._where(self._draft.owner[task]), *map(self._where, self._having(task))}
        held = [member for _, member in self._copies[task] if task in self._draft.members[member].standby]
        source = self._best(task, lambda member: member in held and self._where(member) not in taken)
        if source is None or self._lag(task, source) >= self._lag(task, destination):
            return False
        self.standbys[task].remove(destination)
        self.standbys[task].append(source)
        self._warm_up(task, destination)
        return True

    def _best(self, task: TaskId, suits: Callable[[str], bool]) -> str | None:
        """Return the member that runs the task; else the caught-up copy with the lowest load; else the copy with the smallest
        lag.
        """
        found: list[tuple[tuple[int, float, float], str]] = [
            ((0, 0.0, self._draft.load(member)) if self._settings.is_caught_up(lag) else (1, lag, 0.0), member)
            for lag, member in self._copies.get(task, ())
            if suits(member)
        ]
        running = self._running.get(task)
        if running is not None and suits(running):
            return running
        return min(found)[1] if found else None

    def _warm_up(self, task: TaskId, member: str) -> None:
        if self._left > 0:
            self._left -= 1
            self.warmups.setdefault(task, []).append(member)

    def _having(self, task: TaskId) -> Iterable[str]:
        return (*self.standbys[task], *self.warmups.get(task, ()))

    def _lag(self, task: TaskId, member: str) -> float:
        known = self._draft.members[member]
        return -1 if task in known.active and task not in known.lags else known.lag_of(self._draft.tasks[task])

    def _where(self, member: str) -> str:
        return self._draft.members[member].where
