"""What the assignor is told: units of work and the instances of the group, or tasks and the lanes of one instance."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from penstock.client.assignor import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, Member, Settings, Unit, assign
from penstock.client.custom_assignment import ask
from penstock.client.holdings import in_units
from penstock.client.transports import Transports
from penstock.client.units import changelogs_of, units_of
from penstock.config import StreamsConfig
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.membership import MemberInfo, Shares
from penstock.spark.plan import Plan
from penstock.task_assignor import resolve_task_assignor

_log = logging.getLogger(__name__)

# What nobody could count is more than anybody would restore while another has it.
_UNKNOWN_TOTAL = 1 << 62


def settings_of(config: StreamsConfig) -> Settings:
    """How the application wants its copies."""
    return Settings(
        config["num.standby.replicas"],
        config["acceptable.recovery.lag"],
        config["max.warmup.replicas"],
        tuple(config["rack.aware.assignment.tags"]),
    )


class GroupAssignor:
    """Deals out the units of a plan over the instances of the group; called where this instance leads it."""

    def __init__(self, config: StreamsConfig, admin: Admin, plan: Callable[[], Plan], transports: Transports) -> None:
        self._config = config
        self._own = resolve_task_assignor(config["task.assignor.class"], config)
        self._settings = settings_of(config)
        self._committed_only = config.eos_enabled
        self._admin = admin
        self._plan, self._transports = plan, transports

    def __call__(self, infos: Sequence[MemberInfo]) -> Shares:
        """Who gets what, from what all members have told, and which way repartitions go."""
        whole = self._plan()
        shuffled = self._transports.choose(whole, infos)
        plan = whole.shuffling(shuffled)
        units = units_of(plan)
        by_task = self._ends(plan)
        ends = {name: _sum(by_task, tasks) for name, tasks in units.items() if any(task in by_task for task in tasks)}
        held = in_units(infos, units, {**units_of(whole.shuffling(())), **units_of(whole), **units}, by_task)
        members = [
            Member(
                info.process_id,
                max(1, info.capacity),
                tags=info.tags,
                active=frozenset(info.active),
                standby=frozenset(info.standby),
                lags=_lags(info.offsets, ends),
            )
            for info in held
        ]
        named = [Unit(name, tasks[0].subtopology, len(tasks), _total(ends, name)) for name, tasks in units.items()]
        hosts = {info.process_id: info.host for info in infos}
        found = None if self._own is None else ask(self._own, self._config, plan, units, named, members, hosts)
        if found is None:
            found = assign(named, members, self._settings)
        _log.info("work by instance: %s%s", dict(found.active), ", warm-ups are under way" if found.probing else "")
        copies = {member: found.copies(member) for member in found.active}
        return Shares(found.active, copies, found.probing, tuple(sorted(shuffled)))

    def _ends(self, plan: Plan) -> dict[TaskId, int | None]:
        """How many records the changelogs of each task with state hold; None where the brokers do not tell."""
        changelogs = {task: list(changelogs_of(plan, task)) for task in plan.tasks()}
        try:
            ends: Mapping[TopicPartition, int] | None = self._admin.log_ends(
                [p for partitions in changelogs.values() for p in partitions], self._committed_only
            )
        except StreamsError as exc:
            _log.warning("the ends of the changelogs could not be read: whoever runs a task keeps it for now (%s)", exc)
            ends = None
        return {
            task: None if ends is None else sum(ends[p] for p in partitions)
            for task, partitions in changelogs.items()
            if partitions
        }


def _sum(ends: Mapping[TaskId, int | None], tasks: Sequence[TaskId]) -> int | None:
    found = [ends[task] for task in tasks if task in ends]
    return None if None in found else sum(end for end in found if end is not None)


def _total(ends: Mapping[str, int | None], unit: str) -> int | None:
    if unit not in ends:
        return None
    end = ends[unit]
    return _UNKNOWN_TOTAL if end is None else end


def _lags(offsets: Mapping[str, int], ends: Mapping[str, int | None]) -> dict[str, int]:
    """How far behind a member is in each unit; one that is further than the end has other state, which is worth nothing."""
    found = {}
    for unit, offset in offsets.items():
        if unit in ends:
            end = ends[unit]
            if offset == LATEST_OFFSET:
                found[unit] = LATEST_OFFSET
            elif end is None:
                found[unit] = UNKNOWN_OFFSET_SUM
            else:
                found[unit] = end - offset if 0 <= offset <= end else end
    return found


def tasks_to_lanes(
    tasks: Sequence[TaskId], lanes: Sequence[int], spread: bool, before: Mapping[TaskId, int]
) -> dict[TaskId, int]:
    """The lane of each task: all in one while one can carry it, else evenly over all; what need not move stays.

    >>> tasks_to_lanes([TaskId(0, 0), TaskId(0, 1)], [0, 2], True, {TaskId(0, 0): 2, TaskId(0, 1): 1})
    {TaskId(subtopology=0, partition=0): 2, TaskId(subtopology=0, partition=1): 0}
    """
    if not spread or len(lanes) == 1:
        home = min((lane for lane in before.values() if lane in lanes), default=min(lanes))
        return dict.fromkeys(tasks, home)
    by_name = {str(task): task for task in tasks}
    members = [Member(str(lane), active=frozenset(str(task) for task in tasks if before.get(task) == lane)) for lane in lanes]
    owners = assign([Unit(name, task.subtopology) for name, task in by_name.items()], members).owners
    return {task: int(owners[name]) for name, task in by_name.items()}
