"""What a member of a streams group sends, and how answers are read: from plain data to kafka-python's messages and back.

Offsets are committed with requests of our own, too. kafka-python commits with version 8, and a streams group takes version 9
and later, since only those have an answer for a member whose epoch is old.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import IllegalGenerationError, KafkaError, KafkaTimeoutError, for_code
from kafka.protocol.consumer.group import OffsetCommitRequest
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.ids import TaskId
from penstock.kafka.fenced_commit import REFUSED_FOR_NOW, milliseconds_left
from penstock.kafka.streams_messages import StreamsGroupHeartbeatRequest
from penstock.topology.broker_topology import BrokerSubtopology, BrokerTopic

JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2
"""Member epochs that say what a member wants. A static member that comes back soon leaves with -2 and keeps its tasks."""

SHUTDOWN_APPLICATION, ASSIGNMENT_DELAYED = 4, 5
NOT_ASSIGNED = frozenset({1, 2, 3, ASSIGNMENT_DELAYED})
"""Codes of a group's status. With these nothing is assigned yet: topics are missing or do not fit, or more members may come."""

_MOST_TASKS = 100_000
_VERSION = 9


@dataclass(frozen=True)
class Tasks:
    """The tasks of a member: those it runs, standbys and warm-ups."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()


@dataclass(frozen=True)
class Joining:
    """What a member tells only when it joins."""

    topology: Sequence[BrokerSubtopology]
    process_id: str
    rebalance_timeout_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    endpoint: tuple[str, int] | None = None


def heartbeat(
    group: str,
    member: str,
    epoch: int,
    endpoint_epoch: int,
    instance: str | None,
    *,
    joining: Joining | None = None,
    owned: Tasks | None = None,
    shutdown: bool = False,
) -> Any:
    """A heartbeat. `owned` are the tasks that the member has, where that has changed."""
    request = StreamsGroupHeartbeatRequest
    told: dict[str, Any] = {}
    if joining is not None:
        told |= {
            "topology": request.Topology(epoch=0, subtopologies=[_subtopology(one) for one in joining.topology]),
            "process_id": joining.process_id,
            "rebalance_timeout_ms": joining.rebalance_timeout_ms,
            "client_tags": [request.KeyValue(key=key, value=value) for key, value in sorted(joining.tags.items())],
            "rack_id": joining.rack,
        }
        if joining.endpoint is not None:
            told["user_endpoint"] = request.Endpoint(host=joining.endpoint[0], port=joining.endpoint[1])
    if owned is not None:
        told |= {
            "active_tasks": _task_ids(owned.active),
            "standby_tasks": _task_ids(owned.standby),
            "warmup_tasks": _task_ids(owned.warmup),
        }
    return request(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=endpoint_epoch,
        instance_id=instance,
        shutdown_application=shutdown,
        **told,
    )


def _subtopology(known: BrokerSubtopology) -> Any:
    kind = StreamsGroupHeartbeatRequest.Topology.Subtopology
    return kind(
        subtopology_id=known.id,
        source_topics=list(known.sources),
        source_topic_regex=[],
        state_changelog_topics=[_topic(topic) for topic in known.changelogs],
        repartition_sink_topics=list(known.repartition_sinks),
        repartition_source_topics=[_topic(topic) for topic in known.repartition_sources],
        copartition_groups=[
            kind.CopartitionGroup(
                source_topics=list(group.sources), source_topic_regex=[], repartition_source_topics=list(group.repartitions)
            )
            for group in known.copartition_groups
        ],
    )


def _topic(known: BrokerTopic) -> Any:
    kind = StreamsGroupHeartbeatRequest.Topology.Subtopology.TopicInfo
    configs = [StreamsGroupHeartbeatRequest.KeyValue(key=key, value=value) for key, value in known.configs]
    return kind(name=known.name, partitions=known.partitions, replication_factor=known.replication_factor, topic_configs=configs)


def _task_ids(tasks: Collection[TaskId]) -> list[Any]:
    by_subtopology: dict[int, list[int]] = {}
    for task in sorted(tasks):
        by_subtopology.setdefault(task.subtopology, []).append(task.partition)
    kind = StreamsGroupHeartbeatRequest.TaskIds
    return [kind(subtopology_id=str(number), partitions=found) for number, found in by_subtopology.items()]


def tasks_of(told: Iterable[Any] | None) -> frozenset[TaskId]:
    """The tasks of an answer. ValueError where the brokers name a sub-topology that no application here can have."""
    found = {TaskId.parse(f"{ids.subtopology_id}_{partition}") for ids in told or () for partition in ids.partitions}
    if len(found) > _MOST_TASKS:
        raise ValueError(f"{len(found)} tasks are too many")
    return frozenset(found)


async def commit_as(
    coordinator: Any,
    member: str,
    epoch: int,
    instance: str | None,
    offsets: Mapping[ClientPartition, ClientOffset],
    seconds: float,
    *,
    once: bool,
) -> None:
    """Commit as a member with this epoch, on the client's loop; the brokers refuse an old epoch.

    What fails in passing is tried again. With `once` only what was refused is (see `commit_under`).
    """
    until = time.monotonic() + seconds
    while True:
        await coordinator.ensure_coordinator_ready_async(timeout_ms=milliseconds_left(until))
        try:
            request = _commit_request(coordinator.group_id, member, epoch, instance, offsets)
            sent = coordinator._manager.send(request, _node(coordinator))
            answer = await coordinator._manager.wait_for(sent, milliseconds_left(until))
            _raise_for(coordinator, {p.error_code for topic in answer.topics for p in topic.partitions})
            return
        except KafkaError as exc:
            if not exc.retriable or (once and not isinstance(exc, REFUSED_FOR_NOW)):
                raise
        await coordinator._net.sleep(min(coordinator.config["retry_backoff_ms"], milliseconds_left(until)) / 1000)
        if not milliseconds_left(until):
            raise KafkaTimeoutError(f"offsets could not be committed within {seconds:.0f} s")


def _node(coordinator: Any) -> Any:
    node = coordinator.coordinator()
    if node is None:
        raise REFUSED_FOR_NOW[1]()
    return node


def _commit_request(
    group: str, member: str, epoch: int, instance: str | None, offsets: Mapping[ClientPartition, ClientOffset]
) -> Any:
    topic_kind = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = {}
    for partition, offset in offsets.items():
        by_topic.setdefault(partition.topic, []).append(
            topic_kind.OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=-1,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        min_version=_VERSION,
        max_version=_VERSION,
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=instance,
        topics=[topic_kind(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    )


_STALE = frozenset({"StaleMemberEpochError", "FencedMemberEpochError", "UnknownMemberIdError"})


def _raise_for(coordinator: Any, codes: set[int]) -> None:
    for error in map(for_code, codes - {0}):
        if error.__name__ in _STALE:
            raise IllegalGenerationError(f"the epoch of this member is old: {error.__name__}")
        if issubclass(error, REFUSED_FOR_NOW[1:]):
            coordinator.coordinator_dead(error())
        raise error()
