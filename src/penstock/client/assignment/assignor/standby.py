"""The target assignment of standbys: never on the task's host, spread over tags, balanced, and sticky."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.client.assignment.assignor.draft import AssignmentDraft, Lightest
from penstock.client.assignment.assignor.model import AssignorSettings
from penstock.client.assignment.assignor.racks import place_copies_near
from penstock.ids import TaskId

TagEntry = tuple[str, str]


class StandbyAssignor:
    """Assigns standbys for a draft with assigned active tasks."""

    def __init__(self, draft: AssignmentDraft, settings: AssignorSettings) -> None:
        self._draft = draft
        self._settings = settings
        self._copies = settings.standby_replicas
        self._tags = settings.rack_aware_tags
        self._load = dict(draft.counts)
        self.of_task: dict[TaskId, list[str]] = {task.id: [] for task in draft.tasks.values() if task.is_stateful}
        self._of_member: dict[str, dict[TaskId, None]] = {member: {} for member in draft.members}
        self._entries = {member: self._entries_of(member) for member in draft.members}
        self._values = {
            tag: {value for entries in self._entries.values() for t, value in entries if t == tag} for tag in self._tags
        }
        groups: dict[frozenset[TagEntry], list[str]] = {}
        for member, entries in self._entries.items():
            groups.setdefault(entries, []).append(member)
        # Members with equal tags differ in load only. The groups make it cheap to skip a whole zone.
        self._groups = {entries: Lightest(members, self._weight) for entries, members in groups.items()}
        self._holders: dict[TaskId, list[str]] = {}
        for known in draft.members.values():
            for task in draft.state_of(known.id):
                if task in known.standby:
                    self._holders.setdefault(task, []).append(known.id)

    def place(self) -> dict[TaskId, list[str]]:
        """Return the members with a standby of each task."""
        if not self._copies or len(self._draft.members) < 2:
            return self.of_task
        kept = self._kept()
        if kept is None:
            for task in sorted(self.of_task):
                self._place_task(task)
            self._even_out()
        self.bring_near(self.of_task if kept is None else kept)
        return self.of_task

    def bring_near(self, of_task: dict[TaskId, list[str]]) -> None:
        """Exchange standbys between racks if that brings them nearer to their changelogs."""
        self.of_task = of_task
        place_copies_near(self._draft, of_task, self._settings, self._fits)

    # -- existing standbys ---------------------------------------------------------------------------------------------

    def _kept(self) -> dict[TaskId, list[str]] | None:
        """Return the existing standbys if they are complete, allowed, spread over tags and balanced: then nothing moves."""
        load = dict(self._load)
        found: dict[TaskId, list[str]] = {}
        for task in self.of_task:
            holders = sorted(h for h in self._holders.get(task, ()) if h != self._draft.owner[task])
            places = {self._where(member) for member in (self._draft.owner[task], *holders)}
            if len(holders) != self._copies or len(places) != self._copies + 1 or not self._is_spread(task, holders):
                return None
            found[task] = holders
            for holder in holders:
                load[holder] += 1
        per_thread = {member: load[member] / self._draft.members[member].capacity for member in load}
        most = max(per_thread, key=lambda member: (load[member] - 1) / self._draft.members[member].capacity)
        least = min((load[member] + 1) / self._draft.members[member].capacity for member in load)
        return found if (load[most] - 1) / self._draft.members[most].capacity < least else None

    def _is_spread(self, task: TaskId, holders: Iterable[str]) -> bool:
        members = [self._draft.owner[task], *holders]
        return all(
            len({value for member in members for t, value in self._entries[member] if t == tag})
            == min(len(members), len(self._values[tag]))
            for tag in self._tags
        )

    # -- one task ------------------------------------------------------------------------------------------------------

    def _place_task(self, task: TaskId) -> None:
        """Place the standbys of one task: with unused values of all tags, then anywhere."""
        draft = self._draft
        last, used = draft.owner[task], set[TagEntry]()
        while len(self.of_task[task]) < self._copies:
            self._use(last, 1 + len(self.of_task[task]), used)
            member = self._find(task, lambda entries: not entries & used)
            if member is None:
                break
            self._give(task, member)
            last = member
        while len(self.of_task[task]) < self._copies:
            member = self._find(task, lambda _: True)
            if member is None:
                return
            self._give(task, member)

    def _use(self, member: str, members: int, used: set[TagEntry]) -> None:
        """Mark a member's tag values as used. A tag with all values used is cleared."""
        for tag, value in self._entries[member]:
            if len(self._values[tag]) <= members:
                used -= {entry for entry in used if entry[0] == tag}
            else:
                used.add((tag, value))

    def _find(self, task: TaskId, suits: Callable[[frozenset[TagEntry]], bool]) -> str | None:
        """Return a member that already has the standby, else the one with the lowest load."""
        taken = {self._where(self._draft.owner[task]), *map(self._where, self.of_task[task])}
        for member in self._holders.get(task, ()):
            if self._where(member) not in taken and suits(self._entries[member]):
                return member
        found = [
            member
            for entries, lightest in self._groups.items()
            if suits(entries)
            for member in [lightest.find(lambda member: self._where(member) not in taken)]
            if member is not None
        ]
        return min(found, key=lambda member: (self._weight(member), member), default=None)

    # -- balance -------------------------------------------------------------------------------------------------------

    def _even_out(self) -> None:
        heaviest = Lightest(self._draft.members, lambda member: (-self._per_thread(member, -1),))
        stuck: set[str] = set()
        while True:
            source = heaviest.find(lambda member: member not in stuck)
            if source is None:
                return
            move = self._best_move(source)
            if move is None:
                stuck.add(source)
                continue
            task, target = move
            self._take(task, source)
            self._give(task, target)
            heaviest.changed(source, target)

    def _best_move(self, source: str) -> tuple[TaskId, str] | None:
        """Return a standby and a member with a lower load for it. Only the four lightest members of each tag group are tried."""
        for lightest in self._groups.values():
            asked: set[str] = set()
            while len(asked) < 4:
                target = lightest.find(lambda member: member not in asked and member != source)  # noqa: B023 - called at once
                if target is None or self._per_thread(source, -1) < self._per_thread(target, 1):
                    break
                asked.add(target)
                mine = self._of_member[source]
                with_state = (task for task in self._draft.state_of(target) if task in mine)
                for task in (*with_state, *reversed(mine)):
                    if self._fits(task, source, target):
                        return task, target
        return None

    def _fits(self, task: TaskId, source: str, target: str) -> bool:
        """Return True if a standby can move between two members: on another host than the task's other copies, and with no
        fewer tag values.
        """
        others = [self._draft.owner[task], *(member for member in self.of_task[task] if member != source)]
        if self._where(target) in map(self._where, others):
            return False
        spread = frozenset[TagEntry]().union(*(self._entries[member] for member in others))
        return len(spread | self._entries[target]) >= len(spread | self._entries[source])

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _give(self, task: TaskId, member: str) -> None:
        self.of_task[task].append(member)
        self._of_member[member][task] = None
        self._load[member] += 1
        self._groups[self._entries[member]].changed(member)

    def _take(self, task: TaskId, member: str) -> None:
        self.of_task[task].remove(member)
        del self._of_member[member][task]
        self._load[member] -= 1
        self._groups[self._entries[member]].changed(member)

    def _weight(self, member: str) -> tuple[float, ...]:
        return (self._per_thread(member, 1),)

    def _per_thread(self, member: str, more: int) -> float:
        return (self._load[member] + more) / self._draft.members[member].capacity

    def _where(self, member: str) -> str:
        return self._draft.members[member].where

    def _entries_of(self, member: str) -> frozenset[TagEntry]:
        tags = self._draft.members[member].tags
        return frozenset((tag, tags[tag]) for tag in self._tags if tag in tags)
