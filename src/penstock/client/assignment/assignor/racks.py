"""Rack-aware assignment: members exchange tasks if that reduces traffic between racks, and keep their numbers of tasks.

Kafka Streams solves a minimum-cost flow over all clients. Here the exchange is computed between racks only: all members of a
rack are equally near to a task, and each task that leaves a rack is replaced by one that comes. The costs are those of Kafka
Streams.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from penstock.client.assignment.assignor.draft import AssignmentDraft
from penstock.client.assignment.assignor.model import AssignorSettings
from penstock.ids import TaskId

# The defaults of Java's default assignor. The costs of stateless tasks cannot be configured there either.
_TRAFFIC_COST, _NON_OVERLAP_COST = 10, 1
_STATELESS_TRAFFIC_COST, _STATELESS_NON_OVERLAP_COST = 1, 0
_ROUNDS = 10

Cost = Callable[[TaskId, str], int]


def place_near(draft: AssignmentDraft, settings: AssignorSettings) -> None:
    """Exchange active tasks between racks if that reduces the cost.

    With `min_traffic` any two tasks can be exchanged, with `balance_subtopology` only tasks of one sub-topology. Stateful
    tasks are exchanged with stateful tasks only.
    """
    if settings.are_racks_ignored:
        return
    rack_of = {member.id: member.rack for member in draft.members.values()}
    groups: dict[tuple[bool, int], list[TaskId]] = {}
    for task in draft.tasks.values():
        part = task.id.subtopology if settings.rack_strategy == "balance_subtopology" else 0
        groups.setdefault((task.is_stateful, part), []).append(task.id)
    for (is_stateful, _), tasks in sorted(groups.items()):
        home = {task: rack_of[draft.owner[task]] for task in tasks}
        traffic, overlap = costs_of(settings) if is_stateful else (_STATELESS_TRAFFIC_COST, _STATELESS_NON_OVERLAP_COST)
        _move_home(draft, home, _Exchange(home, _task_cost(draft, home, traffic, overlap)).racks())


def place_copies_near(
    draft: AssignmentDraft,
    of_task: Mapping[TaskId, list[str]],
    settings: AssignorSettings,
    fits: Callable[[TaskId, str, str], bool],
) -> None:
    """Exchange standbys between racks if that reduces the cost. `fits(task, source, target)` allows a move."""
    if settings.are_racks_ignored:
        return
    traffic, overlap = costs_of(settings)
    before = {task: set(members) for task, members in of_task.items()}

    def cost(task: TaskId, member: str) -> int:
        far = _far(draft.tasks[task].changelog_racks, draft.members[member].rack)
        return traffic * far + (overlap if member not in before[task] else 0)

    held: dict[str, set[TaskId]] = {member: set() for member in draft.members}
    for task, members in of_task.items():
        for member in members:
            held[member].add(task)
    for _ in range(_ROUNDS):
        swapped = 0
        for one, other in _pairs(draft):
            for task, source, target in _swaps(held, one, other, cost, fits):
                of_task[task][of_task[task].index(source)] = target
                held[source].discard(task)
                held[target].add(task)
                swapped += 1
        if not swapped:
            return


def costs_of(settings: AssignorSettings) -> tuple[int, int]:
    """Return the cost of a partition in another rack, and of a task that moves."""
    return (
        _TRAFFIC_COST if settings.rack_traffic_cost is None else settings.rack_traffic_cost,
        _NON_OVERLAP_COST if settings.rack_non_overlap_cost is None else settings.rack_non_overlap_cost,
    )


def _far(partitions: Sequence[frozenset[str]], rack: str) -> int:
    return sum(rack not in racks for racks in partitions)


def _task_cost(draft: AssignmentDraft, home: Mapping[TaskId, str], traffic: int, overlap: int) -> Cost:
    def cost(task: TaskId, rack: str) -> int:
        return traffic * _far(draft.tasks[task].racks, rack) + (overlap if rack != home[task] else 0)

    return cost


class _Exchange:
    """Exchanges tasks between racks in cycles until no cycle reduces the cost.

    The edge between two racks is the task that moves at the lowest cost. A cycle with a negative sum reduces the cost: each
    rack in it gives one task and gets one.
    """

    def __init__(self, home: Mapping[TaskId, str], cost: Cost) -> None:
        self._at = dict(home)
        self._cost = cost
        self._names = sorted(set(home.values()))
        self._best: dict[tuple[str, str], list[tuple[int, TaskId]]] = {
            (one, other): [] for one in self._names for other in self._names if one != other
        }
        for task in home:
            self._offer(task)

    def racks(self) -> dict[TaskId, str]:
        """Return the final rack of each task."""
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

    def _offer(self, task: TaskId) -> None:
        here = self._at[task]
        for rack in self._names:
            if rack != here:
                heapq.heappush(self._best[here, rack], (self._cost(task, rack) - self._cost(task, here), task))

    def _edge(self, one: str, other: str) -> tuple[int, TaskId] | None:
        """Return the task with the lowest cost of moving from one rack to another."""
        known = self._best[one, other]
        while known and self._at[known[0][1]] != one:
            heapq.heappop(known)
        return known[0] if known else None

    def _cycle(self) -> list[str] | None:
        """Return racks of a cycle with a negative sum, the first rack also last."""
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
        for _ in self._names:  # go back until the rack is certainly in the cycle
            last = came_from[last]  # type: ignore[index]
        assert last is not None
        found = [last]
        while len(found) < 2 or found[-1] != last:
            found.append(came_from[found[-1]])
        return found[::-1]


def _move_home(draft: AssignmentDraft, home: Mapping[TaskId, str], ends: Mapping[TaskId, str]) -> None:
    """Assign tasks that came to a rack to its members that gave tasks away, preferring those with state."""
    room: dict[str, int] = {}
    coming: dict[str, list[TaskId]] = {}
    for task, rack in sorted(ends.items()):
        if rack != home[task]:
            room[draft.owner[task]] = room.get(draft.owner[task], 0) + 1
            coming.setdefault(rack, []).append(task)
    for rack, tasks in sorted(coming.items()):
        targets = sorted(member for member in room if draft.members[member].rack == rack)
        wishes = sorted((draft.members[m].lag_of(draft.tasks[u]), u, m) for u in tasks for m in targets)
        waiting = set(tasks)
        for _, task, member in wishes:
            if task in waiting and room[member]:
                waiting.discard(task)
                room[member] -= 1
                draft.move(task, member)


def _pairs(draft: AssignmentDraft) -> Iterator[tuple[str, str]]:
    members = sorted(draft.members)
    for index, one in enumerate(members):
        for other in members[index + 1 :]:
            if draft.members[one].rack != draft.members[other].rack:
                yield one, other


def _swaps(
    held: Mapping[str, set[TaskId]],
    one: str,
    other: str,
    cost: Cost,
    fits: Callable[[TaskId, str, str], bool],
) -> Iterator[tuple[TaskId, str, str]]:
    """Yield standbys that two members exchange while the cost decreases, each with source and target."""
    while True:
        there, back = _gains(held, one, other, cost), _gains(held, other, one, cost)
        if not there or not back or there[0][0] + back[0][0] >= 0:
            return
        found = next(
            (
                (task, instead)
                for gain, task in there
                for loss, instead in back
                if gain + loss < 0
                if fits(task, one, other) and fits(instead, other, one)
            ),
            None,
        )
        if found is None:
            return
        yield found[0], one, other
        yield found[1], other, one


def _gains(held: Mapping[str, set[TaskId]], source: str, target: str, cost: Cost) -> list[tuple[int, TaskId]]:
    """Return the cost change of moving each standby, the lowest first."""
    return sorted((cost(task, target) - cost(task, source), task) for task in held[source] - held[target])
