"""Placement of tasks on threads and of standbys on hosts: the group's assignor, for the threads of one instance.

On one machine all threads share the state's disk, and a move costs a close and an open. On several hosts a task runs where
its state is, and a warm-up precedes a move. A task whose state cannot move keeps its thread as long as that exists; such
tasks are spread over all threads from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.client.assignment.assignor import LATEST_OFFSET, AssignorSettings, AssignorTask, Member, assign
from penstock.client.assignment.group_assignment import tasks_to_threads
from penstock.ids import TaskId


@dataclass(frozen=True)
class Placement:
    """The thread of each task, the host of its standby if any, and whether a move waits for a warm-up."""

    owners: dict[TaskId, int]
    copies: dict[TaskId, str] = field(default_factory=dict)
    is_waiting: bool = False


@dataclass(frozen=True)
class KnownState:
    """The size of each task's state, and the lag of its parts on each host."""

    totals: Mapping[TaskId, int]
    lags: Mapping[TaskId, Mapping[str, int]]

    def lag(self, task: TaskId, host: str) -> int:
        """Return the number of records that a host must restore to run a task."""
        return self.lags.get(task, {}).get(host, self.totals.get(task, 0))


def place(
    tasks: Sequence[TaskId],
    threads: Mapping[int, str],
    spread: bool,
    before: Mapping[TaskId, int],
    state: KnownState,
    settings: AssignorSettings,
) -> Placement:
    """Return the thread of each task.

    `threads` maps each thread to its host, in order of preference. `before` maps a task to the thread that has it open or had it
    last.
    """
    if len(set(threads.values())) < 2:
        return Placement(tasks_to_threads(tasks, list(threads), spread, before))
    before = {task: thread for task, thread in before.items() if thread in threads}
    if spread:
        return _over_all(tasks, threads, before, state, settings)
    return _together(tasks, threads, before, state, settings)


def keep_bound(
    tasks: Sequence[TaskId], threads: Mapping[int, str], before: Mapping[TaskId, int], homes: Mapping[TaskId, str]
) -> dict[TaskId, int]:
    """Return threads for tasks whose state cannot move. `homes` has the host where each was opened.

    A task keeps its thread. A task without a thread gets the one with the fewest such tasks, on its home if that has a
    thread.

    >>> task, other = TaskId(0, 0), TaskId(0, 1)
    >>> keep_bound([task, other], {0: "a", 1: "a"}, {task: 1}, {task: "a"}) == {task: 1, other: 0}
    True
    """
    owners = {
        task: thread
        for task in tasks
        if (thread := before.get(task, -1)) in threads and homes.get(task, threads[thread]) == threads[thread]
    }
    load = Counter(owners.values())
    for task in tasks:
        if task not in owners:
            at_home = [thread for thread, host in threads.items() if host == homes.get(task)]
            owners[task] = min(at_home or threads, key=lambda thread: (load[thread], thread))
            load[owners[task]] += 1
    return owners


def _over_all(
    tasks: Sequence[TaskId],
    threads: Mapping[int, str],
    before: Mapping[TaskId, int],
    state: KnownState,
    settings: AssignorSettings,
) -> Placement:
    members = []
    for thread, host in sorted(threads.items()):
        active = {task for task in tasks if before.get(task) == thread}
        known = {task: state.lag(task, host) for task in tasks if host in state.lags.get(task, {})}
        copied = {task for task in known if task not in active and not _runs_at(task, host, threads, before)}
        lags = {**known, **dict.fromkeys(active, LATEST_OFFSET)}
        members.append(Member(f"{thread:05}", place=host, active=frozenset(active), standby=frozenset(copied), lags=lags))
    unassigned = [AssignorTask(task, state.totals.get(task)) for task in tasks]
    found = assign(unassigned, members, replace(settings, standby_replicas=min(1, settings.standby_replicas)))
    owners = {task: int(thread) for task, thread in found.owners.items()}
    copies = {}
    for kept in (found.standby, found.warmup):  # a task has one standby per instance: a warm-up takes precedence
        copies.update({task: threads[int(thread)] for thread, copied_here in kept.items() for task in copied_here})
    return Placement({task: owners[task] for task in tasks}, copies, found.probing)


def _together(
    tasks: Sequence[TaskId],
    threads: Mapping[int, str],
    before: Mapping[TaskId, int],
    state: KnownState,
    settings: AssignorSettings,
) -> Placement:
    home = Counter(before.values()).most_common(1)[0][0] if before else next(iter(threads))
    owners: dict[TaskId, int] = {}
    copies: dict[TaskId, str] = {}
    waiting = False
    for task in tasks:
        owners[task] = home
        best = min(threads, key=lambda thread: (state.lag(task, threads[thread]), thread != home, thread))
        lag = state.lag(task, threads[home])
        if task in before and threads[before[task]] != threads[home]:
            best = before[task]
        if not settings.is_caught_up(lag) and state.lag(task, threads[best]) < lag:
            owners[task], waiting = best, True
            if sum(host == threads[home] for host in copies.values()) < settings.max_warmup_replicas:
                copies[task] = threads[home]
    if settings.standby_replicas:
        for task in tasks:
            if task in state.totals and task not in copies:
                copies[task] = _other_host(task, threads[owners[task]], threads, state, copies)
    return Placement(owners, copies, waiting)


def _other_host(task: TaskId, host: str, threads: Mapping[int, str], state: KnownState, copies: Mapping[TaskId, str]) -> str:
    """Return a host for a standby: one that already has it, else the one with the fewest."""
    load = Counter(copies.values())
    known = state.lags.get(task, {})
    return min(
        (other for other in set(threads.values()) if other != host), key=lambda other: (other not in known, load[other], other)
    )


def _runs_at(task: TaskId, host: str, threads: Mapping[int, str], before: Mapping[TaskId, int]) -> bool:
    return task in before and threads[before[task]] == host
