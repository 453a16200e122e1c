"""Reset an application for `penstock reset`, as Kafka's application reset tool does.

1. Look: the group's members, internal topics, committed offsets, and other applications.
2. Plan: topics to delete and offsets to set. Nothing is changed up to here.
3. Carry out: remove members (if forced), delete internal topics and their offsets, set input offsets, delete local state.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.client.reset.topic_owners import TopicOwners, local_applications, local_stores, topic_owners
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError, ConfigError, StreamsError
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.groups import Groups, MemberStatus
from penstock.state.directory import StateDirectory, delete_shared_history

_DELETION_SECONDS = 60.0

ChooseOffsets = Callable[[Admin, Mapping[TopicPartition, "int | None"]], Mapping[TopicPartition, int]]
"""Chooses offsets for partitions with their committed offsets."""


@dataclass(frozen=True)
class ResetPlan:
    """The actions of a reset."""

    application_id: str
    members: tuple[MemberStatus, ...]
    internal_topics: tuple[str, ...]
    forgotten: tuple[TopicPartition, ...]
    offsets: Mapping[TopicPartition, int]
    before: Mapping[TopicPartition, int | None]
    state_folder: Path | None
    left: Mapping[str, str | None]
    """Topics that are not deleted although their names fit: their owner's application id, None if unknown."""


def plan_reset(
    config: StreamsConfig,
    admin: Admin,
    groups: Groups,
    choose: ChooseOffsets,
    input_topics: Sequence[str] = (),
    internal_topics: Sequence[str] | None = None,
) -> ResetPlan:
    """Make the plan of a reset without changing anything.

    Without `input_topics`, all topics with committed offsets are reset. Without `internal_topics`, only topics that certainly
    belong to the application are deleted (`topic_owners`).
    """
    application_id = config["application.id"]
    counts = admin.partition_counts()
    committed = groups.committed(application_id)
    owners = _owners(config, counts, groups)
    internal = list(owners.ours)
    if internal_topics is not None:
        _refuse_unknown("internal topic", internal_topics, owners.all)
        internal = sorted(internal_topics)
    inputs = {p.topic for p in committed} - {*internal, *owners.ours}
    topics = list(input_topics) or sorted(inputs & set(counts))
    _refuse_unknown("input topic", topics, counts)
    before = {p: committed.get(p) for topic in topics for p in _partitions(topic, counts)}
    wanted = dict(choose(admin, before))
    folder = Path(config["state.dir"]) / application_id
    return ResetPlan(
        application_id,
        groups.status(application_id).members,
        tuple(internal),
        tuple(p for p in committed if p.topic in internal),
        _within_log(admin, wanted),
        before,
        folder if folder.is_dir() else None,
        {} if internal_topics is not None else {**dict(owners.others), **dict.fromkeys(owners.unknown)},
    )


def carry_out(plan: ResetPlan, config: StreamsConfig, admin: Admin, groups: Groups, force: bool = False) -> None:
    """Carry out a plan. Raises StreamsError if members are active and `force` is not set, or if the owner of a topic is
    unknown.
    """
    if reason := refusal(plan, force):
        raise StreamsError(reason)
    if plan.members:
        groups.remove_members(plan.application_id, plan.members)
    if plan.forgotten:
        groups.delete_offsets(plan.application_id, plan.forgotten)
    if plan.internal_topics:
        admin.delete_topics(plan.internal_topics)
        _wait_until_gone(admin, plan.internal_topics)
    if plan.offsets:
        groups.set_offsets(plan.application_id, plan.offsets)
    if plan.state_folder is not None:
        group_write = config["allow.os.group.write.access"]
        directory = StateDirectory(config["state.dir"], plan.application_id, allow_group_write=group_write)
        directory.clean()
        delete_shared_history(config["history.dir"], plan.application_id)
        directory.close()


def refusal(plan: ResetPlan, force: bool = False) -> str | None:
    """Return the reason why a reset is refused, or None."""
    doubtful = [topic for topic, owner in plan.left.items() if owner is None]
    if doubtful:
        return (
            f"The topics {', '.join(doubtful)} may belong to the application {plan.application_id} or to another one. "
            "If they stay, they may "
            "restore its old state. Name all topics to delete with --internal-topics; no other is deleted "
            "(--internal-topics '' deletes none)"
        )
    if force or not plan.members:
        return None
    hosts = ", ".join(sorted({member.host for member in plan.members}))
    return (
        f"The application {plan.application_id} has {len(plan.members)} active member(s) on {hosts}. Stop them first, or use "
        "--force if they are dead and only their session has not expired"
    )


def _owners(config: StreamsConfig, topics: Iterable[str], groups: Groups) -> TopicOwners:
    application_id, folder = config["application.id"], Path(config["state.dir"])
    applications = {*groups.names(), *local_applications(folder)}
    committed = functools.cache(lambda group: {p.topic for p in groups.committed(group)})
    return topic_owners(topics, application_id, applications, local_stores(folder, application_id), committed)


def _wait_until_gone(admin: Admin, topics: Iterable[str]) -> None:
    """Wait until topics are deleted. Brokers delete in the background, and an application that starts meanwhile would use
    them.
    """
    deadline = monotonic() + _DELETION_SECONDS
    while left := set(topics) & set(admin.partition_counts()):
        if monotonic() > deadline:
            raise BrokerError(
                f"The topics {', '.join(sorted(left))} are not deleted after {_DELETION_SECONDS:.0f} s. Check the brokers"
            )
        time.sleep(0.1)


def _partitions(topic: str, counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(counts[topic])]


def _refuse_unknown(what: str, given: Iterable[str], there: Iterable[str]) -> None:
    missing = sorted(set(given) - set(there))
    if missing:
        raise ConfigError(f"there is no {what} {', '.join(missing)}; check the name")


def _within_log(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the offsets, limited to their logs."""
    starts, ends = admin.log_starts(wanted), admin.log_ends(wanted, False)
    return {p: min(max(offset, starts[p]), ends[p]) for p, offset in wanted.items()}
