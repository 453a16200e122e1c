"""The target assignment of active tasks: even in total and within each sub-topology, with few moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.client.assignment.assignor.draft import AssignmentDraft, Lightest
from penstock.ids import TaskId


def place_active(draft: AssignmentDraft) -> None:
    """Assign all tasks.

    1. Every task stays with its member.
    2. Tasks without a member go to a member with their state, up to its even share.
    3. Remaining tasks go to the member with the fewest of their sub-topology, then with the fewest in total.
    4. Balance each sub-topology.
    5. Balance total loads with moves that keep sub-topologies balanced.
    6. If a member gave away one task and got another of the same sub-topology, it keeps its own.
    7. With different capacities, steps 4 and 5 may conflict. They repeat while the result improves.
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
            for task, member in before.items():
                draft.move(task, member)
            return
        unevenness = found


def _even_out(draft: AssignmentDraft) -> None:
    for subtopology, tasks in sorted(Counter(task.subtopology for task in draft.tasks).items()):
        if tasks > 1:
            _even_out_subtopology(draft, subtopology)
    _even_out_loads(draft)
    _shorten(draft)


def _unevenness(draft: AssignmentDraft) -> tuple[bool, int]:
    """Return whether loads can be balanced further, and the number of sub-topologies that can be."""
    members = draft.members
    uneven = 0
    for subtopology in {task.subtopology for task in draft.tasks}:
        most = max(draft.share(member, subtopology, -1) for member in members)
        uneven += most >= min(draft.share(member, subtopology, 1) for member in members)
    most = max(draft.load(member, -1) for member in members)
    return most >= min(draft.load(member, 1) for member in members), uneven


def _keep(draft: AssignmentDraft) -> None:
    for member in draft.members.values():
        for task in sorted(member.active):
            if task in draft.tasks and task not in draft.owner:
                draft.give(task, member.id)


def _send_to_state(draft: AssignmentDraft) -> None:
    capacity = sum(member.capacity for member in draft.members.values())
    count = len(draft.tasks)
    parts = Counter(task.subtopology for task in draft.tasks)
    copies = sorted(
        (member.lag_of(draft.tasks[task]), task, member.id)
        for member in draft.members.values()
        for task in draft.state_of(member.id)
        if task not in draft.owner
    )
    for lag, task, member in copies:
        known, own = draft.tasks[task], draft.members[member].capacity
        if task in draft.owner or lag > max(0, (known.changelog or 0) - 1):
            continue
        most, part = -(-count * own // capacity), -(-parts[task.subtopology] * own // capacity)
        if draft.counts[member] < max(most, 1) and draft.count(member, task.subtopology) < part:
            draft.give(task, member)


def _deal_out_the_rest(draft: AssignmentDraft) -> None:
    waiting: dict[int, list[TaskId]] = {}
    for task in sorted(draft.tasks):
        if task not in draft.owner:
            waiting.setdefault(task.subtopology, []).append(task)
    lightest = Lightest(draft.members, lambda member: (draft.load(member),))
    for subtopology, tasks in sorted(waiting.items()):
        # For few tasks, a member without any is near the top of the heap. For many, members are sorted by their share.
        by_share = Lightest(draft.members, _by_share(draft, subtopology)) if 4 * len(tasks) > len(draft.members) else None
        for task in tasks:
            if by_share is None:
                member = lightest.find(lambda member: not draft.count(member, subtopology))  # noqa: B023 - called at once
                member = member or min(draft.members, key=_by_share(draft, subtopology))
            else:
                member = by_share.first()
            assert member is not None
            draft.give(task, member)
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
        task = _movable(draft, source, target)
        if task is None:
            stuck.add(source)
            continue
        draft.move(task, target)
        lightest.changed(source, target)
        heaviest.changed(source, target)


def _movable(draft: AssignmentDraft, source: str, target: str) -> TaskId | None:
    """Return a task whose move balances the loads, preferably one that keeps its sub-topology balanced."""

    def keeps_even(subtopology: int) -> bool:
        return draft.share(source, subtopology) > draft.share(target, subtopology)

    with_state = [task for task in draft.state_of(target) if draft.owner.get(task) == source]
    for task in with_state:
        if keeps_even(task.subtopology):
            return task
    fallback: TaskId | None = with_state[0] if with_state else None
    for subtopology, tasks in draft.held[source].items():
        helping = next(reversed(tasks), None)
        if helping is not None:
            if keeps_even(subtopology):
                return helping
            fallback = fallback or helping
    return fallback


def _choose(draft: AssignmentDraft, source: str, target: str, subtopology: int) -> TaskId:
    """Return the task to move from one member to another: the one with the most state at the target."""
    tasks = draft.held[source][subtopology]
    return next((task for task in draft.state_of(target) if task in tasks), None) or next(reversed(tasks))


def _shorten(draft: AssignmentDraft) -> None:
    given: dict[tuple[str, int], list[TaskId]] = {}
    for known in draft.members.values():
        for task in sorted(known.active):
            if task in draft.tasks and draft.owner[task] != known.id:
                given.setdefault((known.id, task.subtopology), []).append(task)
    for (member, subtopology), own in given.items():
        received = [task for task in draft.held[member].get(subtopology, {}) if task not in draft.members[member].active]
        for task, other in zip(own, received):
            target = draft.owner[task]
            draft.move(task, member)
            draft.move(other, target)
