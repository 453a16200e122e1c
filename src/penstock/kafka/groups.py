"""The group of an application, seen from outside: members, tasks, committed offsets.

This uses kafka-python's admin client: librdkafka's shows no user data of members and cannot remove members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import CoordinatorLoadInProgressError, GroupIdNotFoundError, IncompatibleBrokerVersion
from kafka.errors import KafkaError as ClientError
from kafka.errors import for_code as error_of
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka import member_codec as codec
from penstock.kafka.abandon import AbandonedError, call_within, close_within
from penstock.kafka.clients import group_admin_config
from penstock.kafka.consumer_protocol import assignment_user_data, subscription_user_data
from penstock.kafka.member_clients import open_member_client
from penstock.kafka.member_codec import AssignmentFrame, MemberFrame
from penstock.kafka.members import Decision, MemberInfo
from penstock.kafka.streams_messages import StreamsGroupDescribeRequest
from penstock.runtime.offset_metadata import OffsetAndMetadata, from_committed

_PATIENCE = 30.0
_ANSWER_SECONDS = 90.0  # the client may need request.timeout.ms (30 s by default) twice


@dataclass(frozen=True)
class MemberStatus:
    """One instance of the application, as the group describes it."""

    member_id: str
    client_id: str
    host: str
    process_id: str
    threads: int
    tasks: tuple[str, ...]
    epoch: int | None = None
    """The epoch of a member of a streams group."""
    copies: tuple[str, ...] = ()
    """The standbys and warm-ups of a member of a streams group."""


@dataclass(frozen=True)
class GroupStatus:
    """The group of an application. The state `Dead` means that it does not exist."""

    state: str
    members: tuple[MemberStatus, ...]
    protocol: str = ""
    """The name of the assignor: `stream` for Kafka Streams. Empty if undecided or unknown."""

    @property
    def exists(self) -> bool:
        return self.state != "Dead"


STREAMS_PROTOCOL = "streams"
"""What a group's protocol is said to be where the brokers assign the tasks."""


class Groups:
    """Queries and changes consumer groups. Also a context manager."""

    def __init__(self, config: StreamsConfig, client_id: str) -> None:
        given = group_admin_config(config, client_id)
        known = {key: value for key, value in given.items() if key in KafkaAdminClient.DEFAULT_CONFIG}
        try:
            self._client = open_member_client(KafkaAdminClient, **known)
        except ClientError as exc:
            raise BrokerError(
                f"the brokers at {','.join(config['bootstrap.servers'])} do not answer ({exc}). Check bootstrap.servers"
            ) from exc
        # The client's own decoder fails for members whose bytes are not of the consumer protocol.
        self._client._describe_groups_process_response = _described

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, *_: object) -> None:
        close_within("the group's admin client", self._client.close)

    def status(self, group: str) -> GroupStatus:
        def describe() -> Any:
            found = self._client.describe_groups([group])[group]
            if found["error"] is not None and GroupIdNotFoundError.__name__ not in found["error"]:
                # the client returns this error in the answer and does not retry
                raise CoordinatorLoadInProgressError(found["error"])
            return found

        described = self._ask(describe, f"group {group} could not be described")
        if described["group_state"] == "Dead":  # or a group of another type, which the brokers do not tell
            found = self._ask(lambda: self._describe_streams_group(group), f"streams group {group} could not be described")
            if found is not None:
                return _streams_status(found)
        members = tuple(_member(member) for member in described["members"])
        return GroupStatus(described["group_state"], members, _shown(described["protocol"] or ""))

    def _describe_streams_group(self, group: str) -> Any | None:
        """A streams group; None if the brokers know none of that name, or no streams groups."""
        client = self._client

        async def describe() -> Any:
            nodes = await client._find_coordinator_ids([group])
            request = StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
            return (await client._manager.send(request, node_id=nodes[group])).groups[0]

        try:
            found = client._manager.run(describe)
        except IncompatibleBrokerVersion:
            return None
        error = error_of(found.error_code)
        if error is GroupIdNotFoundError or error.__name__ in ("UnsupportedVersionError", "InvalidGroupIdError"):
            return None
        if found.error_code:
            raise error(found.error_message)
        return found

    def names(self) -> list[str]:
        """Return the ids of all visible groups."""
        found = self._ask(self._client.list_groups, "the groups could not be listed")
        return [group["group_id"] for group in found]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return all committed offsets of a group."""
        return {partition: some.offset for partition, some in self.committed_with_metadata(group).items()}

    def committed_with_metadata(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all committed offsets of a group with their metadata."""
        try:
            found = self._ask(lambda: self._client.list_group_offsets([group]), f"offsets of group {group} could not be read")
        except BrokerError as exc:
            if isinstance(exc.__cause__, GroupIdNotFoundError):
                return {}
            raise
        # What confluent-kafka commits in a transaction has the text's closing zero byte in it.
        return {
            TopicPartition(p.topic, p.partition): OffsetAndMetadata(o.offset, from_committed((o.metadata or "").rstrip("\0")))
            for p, o in found.get(group, {}).items()
            if o.offset >= 0
        }

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members."""
        wanted = {ClientPartition(*p): ClientOffset(offset, "", -1) for p, offset in offsets.items()}
        what = f"offsets of group {group} could not be set"
        self._refuse(what, self._ask(lambda: self._client.alter_group_offsets(group, wanted), what))

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group without members."""
        wanted = [ClientPartition(*p) for p in partitions]
        what = f"offsets of group {group} could not be deleted"
        self._refuse(what, self._ask(lambda: self._client.delete_group_offsets(group, wanted), what))

    def remove_members(self, group: str, members: Iterable[MemberStatus]) -> None:
        """Remove members from a group. Members that are alive join again."""
        wanted = [MemberToRemove(member_id=member.member_id) for member in members]
        self._ask(lambda: self._client.remove_group_members(group, wanted), f"members of group {group} could not be removed")

    @staticmethod
    def _ask(request: Callable[[], Any], what: str) -> Any:
        """Send a request and return the answer. Retry while the coordinator of a new group is loading."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return call_within(_ANSWER_SECONDS, request)
            except AbandonedError as exc:
                raise BrokerError(f"{what}: {exc}") from exc
            except ClientError as exc:
                if not exc.retriable or time.monotonic() > deadline:
                    raise BrokerError(f"{what}: {exc}") from exc
                time.sleep(0.1)

    @staticmethod
    def _refuse(what: str, answers: Mapping[Any, Any]) -> None:
        for partition, error in answers.items():
            if getattr(error, "errno", 0) != 0:
                raise BrokerError(f"{what}: {partition.topic}-{partition.partition}: {getattr(error, '__name__', error)}")


def _described(response: Any) -> dict[str, dict[str, Any]]:
    """Return the groups of an answer, with user data as bytes."""
    return {
        group.group_id: {
            "error": str(error_of(group.error_code)()) if group.error_code else None,
            "group_state": group.group_state,
            "protocol": group.protocol_data,
            "members": group.members,
        }
        for group in response.groups
    }


def _member(described: Any) -> MemberStatus:
    told, given = _told(described.member_metadata), _given(described.member_assignment)
    return MemberStatus(
        described.member_id,
        _shown(described.client_id),
        _shown((told.host if told is not None else "") or described.client_host).lstrip("/"),
        told.process_id if told is not None else "",
        told.capacity if told is not None else 0,
        tuple(map(str, given.tasks)),
    )


def _streams_status(described: Any) -> GroupStatus:
    """A streams group in the words of a classic one."""
    return GroupStatus(described.group_state, tuple(map(_streams_member, described.members)), STREAMS_PROTOCOL)


def _streams_member(described: Any) -> MemberStatus:
    assigned = described.assignment
    active = [f"{ids.subtopology_id}_{p}" for ids in assigned.active_tasks for p in ids.partitions]
    copies = [f"{ids.subtopology_id}_{p}" for ids in (*assigned.standby_tasks, *assigned.warmup_tasks) for p in ids.partitions]
    endpoint = described.user_endpoint
    host = described.client_host if endpoint is None else f"{endpoint.host}:{endpoint.port}"
    return MemberStatus(
        described.member_id,
        _shown(described.client_id),
        _shown(host).lstrip("/"),
        _shown(described.process_id),
        0,
        tuple(map(_shown, active)),
        described.member_epoch,
        tuple(map(_shown, copies)),
    )


def _told(raw: bytes | None) -> MemberInfo | None:
    """Decode a member's user data. Returns None for other applications."""
    try:
        data = subscription_user_data(bytes(raw or b""))
        return codec.decode_member(MemberFrame.decode(data).body)[0]
    except ValueError:
        return None


def _given(raw: bytes | None) -> Decision:
    """Decode a member's assignment. Returns an empty one for other applications."""
    try:
        data = assignment_user_data(bytes(raw or b""))
        frame = AssignmentFrame.decode(data)
        return codec.decode_decision(frame.own, frame.shared)
    except ValueError:
        return Decision()


def _shown(text: str) -> str:
    """Replace characters that would control a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text[:300])
