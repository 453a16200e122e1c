"""Start an application over: what `penstock reset` plans and carries out, as Kafka's application reset tool does.

1. Look: the group's members, its internal topics, the offsets it has committed, and who else is there.
2. Plan: which topics go, which offsets become what. Nothing is changed up to here.
3. Carry out: members out (if forced), internal topics and their offsets away, input offsets set, local state deleted.
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
from penstock.state.directory import StateDirectory

_DELETION_SECONDS = 60.0

ChooseOffsets = Callable[[Admin, Mapping[TopicPartition, "int | None"]], Mapping[TopicPartition, int]]
"""From partitions with what is committed for them to the offsets wanted."""


@dataclass(frozen=True)
class ResetPlan:
    """What a reset will do."""

    application_id: str
    members: tuple[MemberStatus, ...]
    internal_topics: tuple[str, ...]
    forgotten: tuple[TopicPartition, ...]
    offsets: Mapping[TopicPartition, int]
    before: Mapping[TopicPartition, int | None]
    state_folder: Path | None
    left: Mapping[str, str | None]
    """Topics that stay although they are named as this application's internal ones: whose they are, None where nobody knows."""


def plan_reset(
    config: StreamsConfig,
    admin: Admin,
    groups: Groups,
    choose: ChooseOffsets,
    input_topics: Sequence[str] = (),
    internal_topics: Sequence[str] | None = None,
) -> ResetPlan:
    """Look at everything and decide; changes nothing.

    Without `input_topics` the offsets of every topic the group has committed something for are reset. Without
    `internal_topics` those are deleted that are this application's beyond doubt (`topic_owners`), else the ones named.
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
    """Do what the plan says; refuses while members are active unless forced, and where it cannot be told what is whose."""
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
        directory.close()


def refusal(plan: ResetPlan, force: bool = False) -> str | None:
    """Why a reset is refused: the application runs, or is only half found; None where nothing speaks against it."""
    doubtful = [topic for topic, owner in plan.left.items() if owner is None]
    if doubtful:
        return (
            f"it cannot be told whether {', '.join(doubtful)} belong to the application {plan.application_id}: left there, they "
            "would bring its old state back. Name all that is to be deleted with --internal-topics, and nothing else is "
            "(--internal-topics '' deletes none)"
        )
    if force or not plan.members:
        return None
    hosts = ", ".join(sorted({member.host for member in plan.members}))
    return (
        f"the application {plan.application_id} has {len(plan.members)} active member(s) on {hosts}: stop them first, or use "
        "--force if they are dead and only their session has not run out yet"
    )


def _owners(config: StreamsConfig, topics: Iterable[str], groups: Groups) -> TopicOwners:
    application_id, folder = config["application.id"], Path(config["state.dir"])
    applications = {*groups.names(), *local_applications(folder)}
    committed = functools.cache(lambda group: {p.topic for p in groups.committed(group)})
    return topic_owners(topics, application_id, applications, local_stores(folder, application_id), committed)


def _wait_until_gone(admin: Admin, topics: Iterable[str]) -> None:
    """A topic is deleted in the background: an application that starts meanwhile would take it for its own."""
    deadline = monotonic() + _DELETION_SECONDS
    while left := set(topics) & set(admin.partition_counts()):
        if monotonic() > deadline:
            raise BrokerError(
                f"the topics {', '.join(sorted(left))} are not gone after {_DELETION_SECONDS:.0f} s; look at the brokers"
            )
        time.sleep(0.1)


def _partitions(topic: str, counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(counts[topic])]


def _refuse_unknown(what: str, given: Iterable[str], there: Iterable[str]) -> None:
    missing = sorted(set(given) - set(there))
    if missing:
        raise ConfigError(f"there is no {what} {', '.join(missing)}; check the name")


def _within_log(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offsets wanted, moved to the log's start or end where they lie outside of it."""
    starts, ends = admin.log_starts(wanted), admin.log_ends(wanted, False)
    return {p: min(max(offset, starts[p]), ends[p]) for p, offset in wanted.items()}
