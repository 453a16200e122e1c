"""The draft of an assignment: current owners and loads."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from penstock.client.assignment.assignor.model import AssignorTask, Member
from penstock.ids import TaskId

Weight = Callable[[str], tuple[float, ...]]


class Lightest:
    """Finds the member with the lowest changing weight in logarithmic time.

    A member is pushed again when its weight changes. Outdated entries are recognised by their weight and skipped.
    """

    def __init__(self, members: Iterable[str], weight: Weight) -> None:
        self._weight = weight
        self._heap = [(weight(member), member) for member in members]
        heapq.heapify(self._heap)

    def changed(self, *members: str) -> None:
        """Push members whose weights have changed."""
        for member in members:
            heapq.heappush(self._heap, (self._weight(member), member))

    def find(self, suits: Callable[[str], bool]) -> str | None:
        """Return the lightest suitable member, or None."""
        passed: list[tuple[tuple[float, ...], str]] = []
        found = None
        while self._heap:
            weight, member = self._heap[0]
            if weight != self._weight(member) or (passed and passed[-1][1] == member):
                heapq.heappop(self._heap)  # outdated, or a duplicate
                continue
            if suits(member):
                found = member
                break
            passed.append(heapq.heappop(self._heap))
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found

    def first(self) -> str | None:
        return self.find(_anybody)


class AssignmentDraft:
    """The owner of each task, and the resulting loads."""

    def __init__(self, tasks: Mapping[TaskId, AssignorTask], members: Mapping[str, Member]) -> None:
        self.tasks = tasks
        self.members = members
        self.owner: dict[TaskId, str] = {}
        self.held: dict[str, dict[int, dict[TaskId, None]]] = {member: {} for member in members}
        self.counts: dict[str, int] = dict.fromkeys(members, 0)
        self._states = {member.id: _by_lag(member, tasks) for member in members.values()}

    def give(self, task: TaskId, member: str) -> None:
        """Assign a task that has no owner."""
        self.owner[task] = member
        self.held[member].setdefault(task.subtopology, {})[task] = None
        self.counts[member] += 1

    def move(self, task: TaskId, member: str) -> None:
        """Assign a task to another owner."""
        before = self.owner[task]
        del self.held[before][task.subtopology][task]
        self.counts[before] -= 1
        self.give(task, member)

    def load(self, member: str, more: int = 0) -> float:
        """Return the tasks per thread of a member, with `more` tasks added."""
        return (self.counts[member] + more) / self.members[member].capacity

    def share(self, member: str, subtopology: int, more: int = 0) -> float:
        """Return the tasks per thread of one sub-topology, with `more` tasks added."""
        return (self.count(member, subtopology) + more) / self.members[member].capacity

    def count(self, member: str, subtopology: int) -> int:
        """Return the number of a member's tasks in a sub-topology."""
        return len(self.held[member].get(subtopology, ()))

    def state_of(self, member: str) -> list[TaskId]:
        """Return the inactive tasks whose state a member has, the smallest lag first."""
        return self._states[member]


def _by_lag(member: Member, tasks: Mapping[TaskId, AssignorTask]) -> list[TaskId]:
    known = [tasks[task] for task in {*member.lags, *member.standby} if task in tasks and task not in member.active]
    return [task.id for task in sorted(known, key=lambda task: (member.lag_of(task), task.id))]


def _anybody(_: str) -> bool:
    return True
