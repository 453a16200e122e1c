"""The input of the assignor: tasks and instances of the group, or tasks and threads of one instance."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.client.assignment.assignor import (
    LATEST_OFFSET,
    RACK_TAG,
    UNKNOWN_OFFSET_SUM,
    AssignorSettings,
    AssignorTask,
    Member,
    assign,
)
from penstock.client.assignment.custom_assignment import ask
from penstock.client.assignment.task_assignor import resolve_task_assignor
from penstock.config.streams_config import StreamsConfig
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.membership import MemberInfo, Shares
from penstock.spark.plan import Plan, partitions_of

_log = logging.getLogger(__name__)

# An unknown number of records is larger than any that is restored while another member has the task.
_UNKNOWN_TOTAL = 1 << 62

_STRATEGY = "rack.aware.assignment.strategy"

Racks = tuple[frozenset[str], ...]


def settings_of(config: StreamsConfig) -> AssignorSettings:
    """Return the settings of standbys."""
    return AssignorSettings(
        config["num.standby.replicas"],
        config["acceptable.recovery.lag"],
        config["max.warmup.replicas"],
        tuple(config["rack.aware.assignment.tags"]),
        config["rack.aware.assignment.strategy"],
        config["rack.aware.assignment.traffic_cost"],
        config["rack.aware.assignment.non_overlap_cost"],
    )


def member_tags(config: StreamsConfig) -> dict[str, str]:
    """Return an instance's tags, and its rack for rack-aware assignment."""
    rack = config.main_consumer_configs(config["application.id"], "").get("client.rack")
    return config.client_tags | ({RACK_TAG: str(rack)} if rack else {})


_OF_THE_GROUP = {
    "num.standby.replicas": "streams.num.standby.replicas",
    "session.timeout.ms": "streams.session.timeout.ms",
    "heartbeat.interval.ms": "streams.heartbeat.interval.ms",
    **dict.fromkeys(
        ("acceptable.recovery.lag", "max.warmup.replicas", "probing.rebalance.interval.ms", "task.assignor.class", _STRATEGY)
    ),
}


def warn_of_settings_of_the_group(config: StreamsConfig) -> None:
    """Warn of settings that have no effect in a streams group, where the brokers assign tasks."""
    given = config.originals
    for key, group_key in _OF_THE_GROUP.items():
        if any(name in given for name in (key, f"consumer.{key}", f"main.consumer.{key}")):
            instead = f"set {group_key} for the group with kafka-configs.sh" if group_key else "the brokers' assignor decides"
            _log.warning("%s has no effect with group.protocol = streams: %s", key, instead)


class GroupAssignor:
    """Assigns the tasks of a plan to the instances of the group. Called on the group's leader."""

    def __init__(self, config: StreamsConfig, admin: Admin, plan: Callable[[], Plan]) -> None:
        self._config = config
        self._own = resolve_task_assignor(config["task.assignor.class"], config)
        self._settings = settings_of(config)
        self._committed_only = config.eos_enabled
        self._admin = admin
        self._plan = plan

    def __call__(self, infos: Sequence[MemberInfo]) -> Shares:
        """Return the assignment for these members."""
        plan = self._plan()
        ends = self._ends(plan)
        members = [
            Member(
                info.process_id,
                max(1, info.capacity),
                tags=info.tags,
                active=frozenset(info.active),
                standby=frozenset(info.standby),
                lags=_lags(info.offsets, ends),
                rack=info.tags.get(RACK_TAG, ""),
            )
            for info in infos
        ]
        racks = self._racks(plan, members)
        tasks = [AssignorTask(task, _total(ends, task), *_racks_of(plan, task, racks)) for task in plan.tasks()]
        hosts = {info.process_id: info.host for info in infos}
        found = None if self._own is None else ask(self._own, self._config, plan, tasks, members, hosts, racks)
        if found is None:
            found = assign(tasks, members, self._settings if racks else replace(self._settings, rack_strategy="none"))
        _log.info("Tasks by instance: %s%s", _shown(found.active), ", warm-ups are under way" if found.probing else "")
        read = {member: partitions_of(plan, given) for member, given in found.active.items()}
        copies = {member: found.copies(member) for member in found.active}
        return Shares(found.active, copies, found.probing, read)

    def _racks(self, plan: Plan, members: Sequence[Member]) -> Mapping[TopicPartition, frozenset[str]]:
        """Return the racks of input partitions and changelogs. Empty if racks do not count or not all are known."""
        if self._settings.are_racks_ignored:
            return {}
        without = [member.id for member in members if not member.rack]
        if without:
            _log.warning("%s: instances %s have no client.rack, so racks do not count", _STRATEGY, ", ".join(without))
            return {}
        tasks = plan.tasks()
        asked = {p for task in tasks for p in plan.inputs(task)}
        if self._settings.standby_replicas:  # changelogs matter for standbys only, as in Kafka Streams
            asked |= {p for task in tasks for p in plan.changelogs(task)}
        try:
            racks = self._admin.racks({p.topic for p in asked})
        except StreamsError as exc:
            _log.warning("%s: reading the replicas' racks failed, so racks do not count now (%s)", _STRATEGY, exc)
            return {}
        unknown = sorted(asked - racks.keys())
        if unknown:
            _log.warning("%s: brokers of %s have no broker.rack, so racks do not count", _STRATEGY, unknown[0])
            return {}
        return racks

    def _ends(self, plan: Plan) -> dict[TaskId, int | None]:
        """Return the number of changelog records of each stateful task, None if the brokers do not answer."""
        changelogs = {task: list(plan.changelogs(task)) for task in plan.tasks()}
        try:
            ends: Mapping[TopicPartition, int] | None = self._admin.log_ends(
                [p for partitions in changelogs.values() for p in partitions], self._committed_only
            )
        except StreamsError as exc:
            _log.warning("Reading the ends of the changelogs failed. Tasks stay with their members for now (%s)", exc)
            ends = None
        return {
            task: None if ends is None else sum(ends[p] for p in partitions)
            for task, partitions in changelogs.items()
            if partitions
        }


def _shown(active: Mapping[str, Sequence[TaskId]]) -> dict[str, str]:
    return {member: " ".join(map(str, tasks)) or "none" for member, tasks in active.items()}


def _racks_of(plan: Plan, task: TaskId, racks: Mapping[TopicPartition, frozenset[str]]) -> tuple[Racks, Racks]:
    """Return the racks of a task's input partitions and of its changelogs."""
    if not racks:
        return (), ()
    return tuple(racks[p] for p in plan.inputs(task)), tuple(racks[p] for p in plan.changelogs(task) if p in racks)


def _total(ends: Mapping[TaskId, int | None], task: TaskId) -> int | None:
    if task not in ends:
        return None
    end = ends[task]
    return _UNKNOWN_TOTAL if end is None else end


def _lags(offsets: Mapping[TaskId, int], ends: Mapping[TaskId, int | None]) -> dict[TaskId, int]:
    """Return a member's lag for each task. A position beyond the end means other state, which is worthless."""
    found = {}
    for task, offset in offsets.items():
        if task in ends:
            end = ends[task]
            if offset == LATEST_OFFSET:
                found[task] = LATEST_OFFSET
            elif end is None:
                found[task] = UNKNOWN_OFFSET_SUM
            else:
                found[task] = end - offset if 0 <= offset <= end else end
    return found


def tasks_to_threads(
    tasks: Sequence[TaskId], threads: Sequence[int], spread: bool, before: Mapping[TaskId, int]
) -> dict[TaskId, int]:
    """Assign tasks to threads: all to one thread if `spread` is False, else evenly. Tasks stay if possible.

    Of several suitable threads the first is used.

    >>> tasks_to_threads([TaskId(0, 0), TaskId(0, 1)], [0, 2], True, {TaskId(0, 0): 2, TaskId(0, 1): 1})
    {TaskId(subtopology=0, partition=0): 2, TaskId(subtopology=0, partition=1): 0}
    """
    if not spread or len(threads) == 1:
        had = set(before.values())
        return dict.fromkeys(tasks, next((thread for thread in threads if thread in had), threads[0]))
    members = [
        Member(str(thread), active=frozenset(task for task in tasks if before.get(task) == thread)) for thread in sorted(threads)
    ]
    owners = assign(map(AssignorTask, tasks), members).owners
    return {task: int(owners[task]) for task in tasks}
