"""Which lane runs which task, and which host keeps a copy: the same assignor, over the lanes of one instance.

On one machine state is on the disk that all lanes share, and a move costs a close and an open. Over several hosts a task runs
where its state is; one that should run elsewhere is warmed up there first. A task whose state cannot move keeps its lane until
that is gone; such tasks are spread over all lanes from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.client.assignment.assignor import LATEST_OFFSET, AssignorSettings, AssignorTask, Member, assign
from penstock.client.assignment.group_assignment import tasks_to_lanes
from penstock.ids import TaskId


@dataclass(frozen=True)
class Placement:
    """The lane of each task, the host that keeps a copy of it where one does, and whether a move waits for its copy."""

    owners: dict[TaskId, int]
    copies: dict[TaskId, str] = field(default_factory=dict)
    is_waiting: bool = False


@dataclass(frozen=True)
class KnownState:
    """What is known of tasks' state: how much there is of it, and how far behind the part on a host is."""

    totals: Mapping[TaskId, int]
    lags: Mapping[TaskId, Mapping[str, int]]

    def lag(self, task: TaskId, host: str) -> int:
        """How many records a host would have to read before it could run a task."""
        return self.lags.get(task, {}).get(host, self.totals.get(task, 0))


def place(
    tasks: Sequence[TaskId],
    lanes: Mapping[int, str],
    spread: bool,
    before: Mapping[TaskId, int],
    state: KnownState,
    settings: AssignorSettings,
) -> Placement:
    """Lanes for tasks. `lanes` has the host of each lane, in the order in which they are chosen if several would do; `before` the
    lane that has a task open or had it last.
    """
    if len(set(lanes.values())) < 2:
        return Placement(tasks_to_lanes(tasks, list(lanes), spread, before))
    before = {task: lane for task, lane in before.items() if lane in lanes}
    if spread:
        return _over_all(tasks, lanes, before, state, settings)
    return _together(tasks, lanes, before, state, settings)


def keep_bound(
    tasks: Sequence[TaskId], lanes: Mapping[int, str], before: Mapping[TaskId, int], homes: Mapping[TaskId, str]
) -> dict[TaskId, int]:
    """Lanes for tasks whose state cannot move; `homes` has the host where each was opened.

    A task stays where it is. One without a lane gets the lane with the fewest of them, on its home if that has a lane.

    >>> task, other = TaskId(0, 0), TaskId(0, 1)
    >>> keep_bound([task, other], {0: "a", 1: "a"}, {task: 1}, {task: "a"}) == {task: 1, other: 0}
    True
    """
    owners = {
        task: lane for task in tasks if (lane := before.get(task, -1)) in lanes and homes.get(task, lanes[lane]) == lanes[lane]
    }
    load = Counter(owners.values())
    for task in tasks:
        if task not in owners:
            at_home = [lane for lane, host in lanes.items() if host == homes.get(task)]
            owners[task] = min(at_home or lanes, key=lambda lane: (load[lane], lane))
            load[owners[task]] += 1
    return owners


def _over_all(
    tasks: Sequence[TaskId], lanes: Mapping[int, str], before: Mapping[TaskId, int], state: KnownState, settings: AssignorSettings
) -> Placement:
    members = []
    for lane, host in sorted(lanes.items()):
        active = {task for task in tasks if before.get(task) == lane}
        known = {task: state.lag(task, host) for task in tasks if host in state.lags.get(task, {})}
        copied = {task for task in known if task not in active and not _runs_at(task, host, lanes, before)}
        lags = {**known, **dict.fromkeys(active, LATEST_OFFSET)}
        members.append(Member(f"{lane:05}", place=host, active=frozenset(active), standby=frozenset(copied), lags=lags))
    unassigned = [AssignorTask(task, state.totals.get(task)) for task in tasks]
    found = assign(unassigned, members, replace(settings, standby_replicas=min(1, settings.standby_replicas)))
    owners = {task: int(lane) for task, lane in found.owners.items()}
    copies = {}
    for kept in (found.standby, found.warmup):  # a task has one copy in an instance: a warm-up is the one that is wanted most
        copies.update({task: lanes[int(lane)] for lane, copied_here in kept.items() for task in copied_here})
    return Placement({task: owners[task] for task in tasks}, copies, found.probing)


def _together(
    tasks: Sequence[TaskId], lanes: Mapping[int, str], before: Mapping[TaskId, int], state: KnownState, settings: AssignorSettings
) -> Placement:
    home = Counter(before.values()).most_common(1)[0][0] if before else next(iter(lanes))
    owners: dict[TaskId, int] = {}
    copies: dict[TaskId, str] = {}
    waiting = False
    for task in tasks:
        owners[task] = home
        best = min(lanes, key=lambda lane: (state.lag(task, lanes[lane]), lane != home, lane))
        lag = state.lag(task, lanes[home])
        if task in before and lanes[before[task]] != lanes[home]:
            best = before[task]
        if not settings.is_caught_up(lag) and state.lag(task, lanes[best]) < lag:
            owners[task], waiting = best, True
            if sum(host == lanes[home] for host in copies.values()) < settings.max_warmup_replicas:
                copies[task] = lanes[home]
    if settings.standby_replicas:
        for task in tasks:
            if task in state.totals and task not in copies:
                copies[task] = _other_host(task, lanes[owners[task]], lanes, state, copies)
    return Placement(owners, copies, waiting)


def _other_host(task: TaskId, host: str, lanes: Mapping[int, str], state: KnownState, copies: Mapping[TaskId, str]) -> str:
    """A host for a copy: one that has it already, else the one with the fewest."""
    load = Counter(copies.values())
    known = state.lags.get(task, {})
    return min(
        (other for other in set(lanes.values()) if other != host), key=lambda other: (other not in known, load[other], other)
    )


def _runs_at(task: TaskId, host: str, lanes: Mapping[int, str], before: Mapping[TaskId, int]) -> bool:
    return task in before and lanes[before[task]] == host
