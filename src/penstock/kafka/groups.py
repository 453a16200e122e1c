"""The group of an application, seen from outside: who its members are, what they work on, what they have committed.

kafka-python's admin client, because librdkafka's neither shows what members tell each other nor removes one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import CoordinatorLoadInProgressError, GroupIdNotFoundError
from kafka.errors import KafkaError as ClientError
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.config import StreamsConfig
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.clients import group_admin_config

_PATIENCE = 30.0


@dataclass(frozen=True)
class MemberStatus:
    """One instance of the application, as the group knows it."""

    member_id: str
    client_id: str
    host: str
    process_id: str
    lanes: int
    units: tuple[str, ...]


@dataclass(frozen=True)
class GroupStatus:
    """The group of an application; a state of `Dead` means there is none."""

    state: str
    members: tuple[MemberStatus, ...]

    @property
    def exists(self) -> bool:
        """Whether the brokers know the group."""
        return self.state != "Dead"


class Groups:
    """Questions to and changes of consumer groups; also a context manager."""

    def __init__(self, config: StreamsConfig, client_id: str) -> None:
        given = group_admin_config(config, client_id)
        known = {key: value for key, value in given.items() if key in KafkaAdminClient.DEFAULT_CONFIG}
        try:
            self._client = KafkaAdminClient(**known)
        except ClientError as exc:
            raise BrokerError(
                f"the brokers at {','.join(config['bootstrap.servers'])} do not answer ({exc}): check bootstrap.servers"
            ) from exc

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def status(self, group: str) -> GroupStatus:
        """The state of a group and its members."""

        def describe() -> Any:
            found = self._client.describe_groups([group])[group]
            if found["error"] is not None and GroupIdNotFoundError.__name__ not in found["error"]:
                raise CoordinatorLoadInProgressError(found["error"])  # the client tells it in the answer, and does not ask again
            return found

        described = self._ask(describe, f"group {group} could not be described")
        return GroupStatus(described["group_state"], tuple(_member(member) for member in described["members"]))

    def names(self) -> list[str]:
        """The ids of all groups that the brokers let us see."""
        found = self._ask(self._client.list_groups, "the groups could not be listed")
        return [group["group_id"] for group in found]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """All offsets the group has committed."""
        try:
            found = self._ask(lambda: self._client.list_group_offsets([group]), f"offsets of group {group} could not be read")
        except BrokerError as exc:
            if isinstance(exc.__cause__, GroupIdNotFoundError):
                return {}
            raise
        return {TopicPartition(p.topic, p.partition): o.offset for p, o in found.get(group, {}).items() if o.offset >= 0}

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets in the name of a group that has no members."""
        wanted = {ClientPartition(*p): ClientOffset(offset, "", -1) for p, offset in offsets.items()}
        what = f"offsets of group {group} could not be set"
        self._refuse(what, self._ask(lambda: self._client.alter_group_offsets(group, wanted), what))

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group without members has committed for some partitions."""
        wanted = [ClientPartition(*p) for p in partitions]
        what = f"offsets of group {group} could not be deleted"
        self._refuse(what, self._ask(lambda: self._client.delete_group_offsets(group, wanted), what))

    def remove_members(self, group: str, members: Iterable[MemberStatus]) -> None:
        """Put members out of a group; those that are alive will come back."""
        wanted = [MemberToRemove(member_id=member.member_id) for member in members]
        self._ask(lambda: self._client.remove_group_members(group, wanted), f"members of group {group} could not be removed")

    @staticmethod
    def _ask(request: Callable[[], Any], what: str) -> Any:
        """The answer; a broker that has never had a group makes its coordinator first and asks for patience."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return request()
            except ClientError as exc:
                if not exc.retriable or time.monotonic() > deadline:
                    raise BrokerError(f"{what}: {exc}") from exc
                time.sleep(0.1)

    @staticmethod
    def _refuse(what: str, answers: Mapping[Any, Any]) -> None:
        for partition, error in answers.items():
            if getattr(error, "errno", 0) != 0:
                raise BrokerError(f"{what}: {partition.topic}-{partition.partition}: {getattr(error, '__name__', error)}")


def _member(described: Mapping[str, Any]) -> MemberStatus:
    told = _user_data(described.get("member_metadata"))
    given = _user_data(described.get("member_assignment"))
    return MemberStatus(
        described["member_id"],
        described["client_id"],
        str(told.get("host") or described["client_host"]).lstrip("/"),
        str(told.get("process_id", "")),
        int(told.get("capacity", 0)),
        tuple(given.get("units", ())),
    )


def _user_data(carrier: Any) -> dict[str, Any]:
    """What penstock's own assignor put there; nothing for members of another kind."""
    data = carrier.get("user_data") if isinstance(carrier, Mapping) else None
    try:
        found = json.loads(data) if data else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
