"""This instance as a member of the application's group.

kafka-python's group protocol carries our assignor's user data, which librdkafka cannot. No record flows through it. One thread
joins. Under at-least-once, commits come from the event loop's background threads and run on the client's own loop, also during
a rebalance: a running batch is committed before its tasks are given up.

    start() ──► joining ──► member of generation n ──► (rebalance) on_revoked ──► joining ──► generation n + 1

Under exactly-once, work pauses only briefly while the group joins: the broker refuses transactions of an old generation. Under
at-least-once, a running batch is waited for, and no other starts.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.errors import (
    InconsistentGroupProtocolError,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.kafka.consumer_protocol import assignment_user_data, subscription_user_data
from penstock.kafka.fenced_commit import commit_under
from penstock.kafka.group_client import FATAL, LEAVE_SECONDS, RETRY_SECONDS, REVOKE_STEP, GroupClient, Stopped
from penstock.kafka.group_protocol import DEFAULT_LIMIT, NAME, AssignTasks, GroupProtocol, JoinedMember, RefusedError
from penstock.kafka.groups import GroupStatus
from penstock.kafka.leave_group import leave_group
from penstock.kafka.member_clients import open_member_client
from penstock.kafka.members import SHUTDOWN_REQUESTED, Decision, MemberIdentity, MemberInfo, Membership, Shares
from penstock.kafka.other_kinds import OtherKinds
from penstock.peers.proofs import PeerKeys

__all__ = ["SHUTDOWN_REQUESTED", "GroupMember", "MemberInfo", "Membership", "Shares", "Stopped", "group_metadata"]

_log = logging.getLogger(__name__)

_JOIN_TIMEOUT_MS = 5_000
_LEAVE_OLD_IDS_SECONDS = 20.0  # a broker that has just started loads its groups first

# A refused member that joins with new data makes the whole group rebalance, so the delay between attempts grows.
_REFUSED_SECONDS = 1.0
_REFUSED_FACTOR = 8.0
_MAX_REFUSED_SECONDS = 300.0

_OTHERS_SECONDS = 1.0  # an attempt that fails does not disturb the other members


class GroupMember(GroupClient):
    """Joins the group in the background and stays a member until closed.

    `assign(members)` assigns tasks to processes; the group's leader calls it.

    `on_revoked(lost)` is called before this member joins again. It returns an event that is set when work has stopped. It must
    not block, because the same loop sends the heartbeats. `lost`: the group continues without this member.

    `on_assigned` is called on the member's thread with the assignment of a new generation. `on_double` is called there if
    another member has the same process id; afterwards `info` must return a new id.

    With `keys`, members prove that they know the application's token. A member refuses an unproved assignment, has no tasks
    then, and joins again later. `limit` returns the largest size of a group's record. `others` describes the group, for the
    error when members of another application keep this one out.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Iterable[str],
        info: Callable[[], MemberInfo],
        assign: AssignTasks,
        on_revoked: Callable[[bool], Stopped],
        on_assigned: Callable[[Membership], None],
        name: str = "group-member",
        *,
        keys: PeerKeys | None = None,
        limit: Callable[[], int] = lambda: DEFAULT_LIMIT,
        on_double: Callable[[], None] | None = None,
        others: Callable[[], GroupStatus] | None = None,
    ) -> None:
        super().__init__(client_config, name)
        self._topics = sorted(topics)
        self._protocol = GroupProtocol(self._config["group_id"], keys, info, assign, limit)
        self._others = OtherKinds(self._config, others)
        self._received: tuple[bytes | None, int] | None = None
        self._sizes: dict[str, int] = {}
        self._refused_seconds = _REFUSED_SECONDS
        self._ask_again_at: float | None = None
        self._generation: Callable[[], Any] = lambda: None
        self._on_revoked, self._on_assigned, self._on_double = on_revoked, on_assigned, on_double
        self._old_ids: set[str] = set()

    async def _commit(
        self, coordinator: Any, generation: int, offsets: Mapping[ClientPartition, ClientOffset], timeout: float, *, once: bool
    ) -> None:
        await commit_under(coordinator, generation, offsets, timeout, once=once)

    def resubscribe(self, topics: Iterable[str], timeout: float = 60.0) -> None:
        """Join again with other topics."""
        self._topics = sorted(topics)
        self.rejoin(timeout)

    def rejoin(self, timeout: float = 60.0) -> None:
        """Leave and join again, which ends the old generation."""

        def leave_and_join(consumer: KafkaConsumer) -> None:
            consumer.unsubscribe()
            self._subscribe(consumer)

        self._ask(leave_and_join, timeout)

    def request_rejoin(self) -> None:
        """Request a rebalance with the members' current data. No member leaves or stops."""
        self._requests.put((lambda consumer: consumer._coordinator.request_rejoin(), Future()))

    @property
    def is_leader(self) -> bool:
        consumer = self._consumer
        return consumer is not None and bool(consumer._coordinator._is_leader)

    def leave(self) -> None:
        """Give up all tasks and stay out of the group until `join_again`, also as a static member. Returns at once."""

        def give_up_and_leave(consumer: KafkaConsumer) -> None:
            stopped, deadline = self._on_revoked(True), time.monotonic() + LEAVE_SECONDS
            while not stopped.is_set() and time.monotonic() < deadline:
                time.sleep(REVOKE_STEP)
            with _leaving(consumer._coordinator, True):
                consumer.unsubscribe()

        self._requests.put((give_up_and_leave, Future()))

    def _join_once_more(self, consumer: KafkaConsumer) -> None:
        self._subscribe(consumer)

    def _subscribe(self, consumer: KafkaConsumer) -> None:
        """Subscribe and load the metadata of all topics before the first join. If the leader loaded them later, it would
        rebalance again.
        """
        consumer.subscribe(self._topics, listener=_Listener(self, consumer))
        coordinator = consumer._coordinator
        coordinator._net.run(coordinator._manager.wait_for, coordinator._cluster.request_update(), _JOIN_TIMEOUT_MS)

    def _run(self) -> None:
        """Stay a member: join again after a lost connection, end at an error that a retry cannot cure."""
        while not self._closing.is_set():
            try:
                self._join_and_serve()
            except InconsistentGroupProtocolError:
                self._on_revoked(True)
                self._failure = self._others.refusal()
                if self._failure is not None:
                    _log.error("Membership of group %s ended: %s", self._config.get("group_id"), self._failure)
                    return
                self._closing.wait(_OTHERS_SECONDS)
            except FATAL as exc:
                self._failure = exc
                _log.error("Membership of group %s ended: %s", self._config.get("group_id"), exc)
                return
            except Exception as exc:  # noqa: BLE001 - a broken connection shows as one of many exceptions
                _log.warning("Membership of group %s is interrupted: %r", self._config.get("group_id"), exc)
                self._on_revoked(True)
                self._closing.wait(RETRY_SECONDS)

    def _next_patience(self) -> float:
        seconds = self._refused_seconds
        self._refused_seconds = min(seconds * _REFUSED_FACTOR, _MAX_REFUSED_SECONDS)
        return seconds

    def _join_and_serve(self) -> None:
        consumer = open_member_client(
            KafkaConsumer,
            **self._config,
            enable_auto_commit=False,
            isolation_level="read_committed",  # the broker answers committed offsets after open transactions are decided
            partition_assignment_strategy=[_TaskAssignor(self)],
            exclude_internal_topics=False,
        )
        try:
            _look_after(consumer._coordinator, self)
            self._generation = lambda: consumer._coordinator._generation
            self._leave_under_old_ids(consumer)
            self._subscribe(consumer)
            self._consumer = consumer
            while not self._closing.is_set():
                self._serve(consumer)
                if self._ask_again_at is not None and time.monotonic() > self._ask_again_at:
                    self._ask_again_at = None
                    consumer._coordinator.request_rejoin()
                # The coordinator's own poll: there are no partitions to fetch, and a join must not be cut short.
                consumer._coordinator.poll(timeout_ms=_JOIN_TIMEOUT_MS)
                self._announce(consumer)
        finally:
            self._consumer = None
            self._keep_old_id(consumer)
            with _leaving(consumer._coordinator, self._leaves):
                consumer.close(autocommit=False, timeout_ms=5_000)

    def _keep_old_id(self, consumer: KafkaConsumer) -> None:
        """Remember the old member id, unless this member is static and returns under the same id."""
        member_id = consumer._coordinator._generation.member_id
        if member_id and not self._closing.is_set() and not self._config.get("group_instance_id"):
            self._old_ids.add(member_id)

    def _leave_under_old_ids(self, consumer: KafkaConsumer) -> None:
        if self._old_ids:
            coordinator = consumer._coordinator
            coordinator._net.run(leave_group, coordinator, sorted(self._old_ids), _LEAVE_OLD_IDS_SECONDS)
            self._old_ids.clear()

    def _announce(self, consumer: KafkaConsumer) -> None:
        received, self._received = self._received, None
        if received is None:
            return
        raw, generation = received
        self._others.are_gone()
        identity = self._identity(consumer._coordinator._generation.member_id)
        try:
            decision = self._protocol.take(raw, identity, generation)
        except RefusedError as exc:
            self._refuse(generation, exc)
            return
        self._refused_seconds, self._ask_again_at = _REFUSED_SECONDS, None
        if decision.is_double:
            self._take_new_id(consumer)
            return
        self._on_assigned(self._membership(decision, identity, generation))

    def _refuse(self, generation: int, reason: RefusedError) -> None:
        """Give up all tasks and join again later."""
        seconds = self._next_patience()
        self._ask_again_at = time.monotonic() + seconds
        _log.warning(
            "This instance has no tasks in generation %d of group %s and joins again in %.0f s or when the group changes: %s. "
            "All instances need the same application.server.token. The brokers' ACLs decide which clients may join the group",
            *(generation, self._config.get("group_id"), seconds, reason),
        )
        self._on_revoked(True)

    def _take_new_id(self, consumer: KafkaConsumer) -> None:
        _log.warning(
            "Another member of group %s has the process id of this instance: the state directory is a copy. It gets a new id",
            self._config.get("group_id"),
        )
        self._on_revoked(True)
        if self._on_double is not None:
            self._on_double()
            consumer._coordinator.request_rejoin()

    def _membership(self, decision: Decision, identity: MemberIdentity, generation: int) -> Membership:
        return Membership(
            generation,
            group_metadata(self._config["group_id"], generation, identity.member_id, identity.instance_id),
            decision.tasks,
            decision.owners,
            decision.hosts,
            decision.copies,
            decision.standbys,
            decision.probing,
            decision.error_code,
        )

    # -- called by the client's loop -----------------------------------------------------------------------------------

    def _identity(self, member_id: str, instance_id: str | None = None) -> MemberIdentity:
        return MemberIdentity(member_id, instance_id or self._config.get("group_instance_id"))

    def tell(self) -> bytes:
        """Return this member's user data. After a first refusal the broker has assigned its member id."""
        generation = self._generation()
        return self._protocol.tell(self._identity(generation.member_id), generation.generation_id)

    def decide(self, members: Sequence[Any]) -> dict[str, bytes]:
        """Return the assignment of each member. Called on the group's leader."""
        joined = [
            JoinedMember(MemberIdentity(m.member_id, m.group_instance_id), m.metadata.user_data, self._sizes.get(m.member_id, 0))
            for m in members
        ]
        return self._protocol.decide(joined, self._generation().generation_id)

    @property
    def shown(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The partitions of each member by topic, as this member last decided."""
        return self._protocol.shown

    def receive(self, told: bytes | None, generation: int) -> None:
        """Keep an assignment until this member's own thread reads it."""
        self._received = told, generation

    def cleaned(self, members: Sequence[Any]) -> None:
        """Reduce other members' subscriptions to the user data. The client would otherwise subscribe to their topics."""
        self._sizes = {}
        for member in members:
            raw = bytes(member.metadata or b"")
            self._sizes[member.member_id] = len(raw) + len(member.member_id)
            try:
                told: bytes | None = subscription_user_data(raw)
            except ValueError:
                told = None
            member.metadata = ConsumerProtocolSubscription(topics=self._topics, user_data=told, version=0).encode()


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, member: GroupMember, consumer: KafkaConsumer) -> None:
        self._member = member
        self._sleep = consumer._coordinator._net.sleep
        self._is_lost: Callable[[], bool] = lambda: consumer._coordinator._generation.is_lost()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Stop work. Heartbeats and commits continue while the last batch ends."""
        stopped = self._member._on_revoked(self._is_lost())
        while not stopped.is_set():
            await self._sleep(REVOKE_STEP)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Do nothing: the tasks are in the assignor's user data."""


class _TaskAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Carries members' data and assignments as user data of the group protocol.

    The listed partitions are for lag tools only.
    """

    name = NAME

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def metadata(self, topics: Any) -> Any:
        return ConsumerProtocolSubscription(topics=sorted(topics), user_data=self._member.tell(), version=0)

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        told = self._member.decide(members)
        shown = self._member.shown
        return {
            member_id: ConsumerProtocolAssignment(
                assigned_partitions=[(topic, list(numbers)) for topic, numbers in shown.get(member_id, {}).items()],
                user_data=given,
                version=0,
            )
            for member_id, given in told.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._member.receive(assignment.user_data, generation)


def _look_after(coordinator: Any, member: GroupMember) -> None:
    """Check other members' bytes before the client decodes them: malformed bytes would end the membership."""
    perform, complete = coordinator._perform_assignment, coordinator._on_join_complete_async

    def perform_assignment(leader_id: str, protocol: str, members: Sequence[Any]) -> Any:
        member.cleaned(members)
        return perform(leader_id, protocol, members)

    async def on_join_complete(generation: int, member_id: str, protocol: str, raw: bytes) -> None:
        try:
            told: bytes | None = assignment_user_data(bytes(raw or b""))
        except ValueError:
            told = None
        cleaned = ConsumerProtocolAssignment(assigned_partitions=[], user_data=told, version=0).encode()
        await complete(generation, member_id, protocol, cleaned)

    coordinator._perform_assignment, coordinator._on_join_complete_async = perform_assignment, on_join_complete


@contextmanager
def _leaving(coordinator: Any, leaves: bool | None) -> Iterator[None]:
    """Decide whether the client leaves the group. None leaves that to the client, which leaves unless it is static."""
    if leaves is None:
        yield
        return
    coordinator.is_dynamic_member = lambda: leaves  # the client reads nothing else to decide, and sends both its ids
    try:
        yield
    finally:
        del coordinator.is_dynamic_member


def group_metadata(group: str, generation: int, member: str, instance: str | None = None) -> bytes:
    """Return librdkafka's consumer_group_metadata(): magic, generation, group, member, static id."""
    static = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    return b"CGMDv2:" + struct.pack("<i", generation) + group.encode() + b"\0" + member.encode() + b"\0" + static
