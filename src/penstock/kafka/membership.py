"""This instance as a member of the application's group: who does which work, fenced by the group's generation.

kafka-python carries our own assignor with user data in the group protocol, which librdkafka cannot; no record flows
through it. Joining belongs to one thread; commits for the at-least-once guarantee come from the conductor's and run on the
client's own loop, also while the group rebalances: a turn that runs is committed before its work is given up.

    start() ──► joining ──► member of generation n ──► (rebalance) on_revoked ──► joining ──► generation n + 1

Under exactly-once the work pauses for a moment at most while the group joins: a transaction of an old generation is refused by
the broker, so nobody has to stop before another may begin. Under at-least-once a turn that runs is waited for, and none is
started.
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
from kafka.errors import InconsistentGroupProtocolError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.kafka.consumer_protocol import assignment_user_data, subscription_user_data
from penstock.kafka.farewell import leave_for
from penstock.kafka.fenced_commit import commit_under
from penstock.kafka.group_client import FATAL, LEAVE_SECONDS, RETRY_SECONDS, REVOKE_STEP, GroupClient, Stopped
from penstock.kafka.group_protocol import DEFAULT_LIMIT, NAME, AssignTasks, GroupProtocol, JoinedMember, RefusedError
from penstock.kafka.groups import GroupStatus
from penstock.kafka.member_clients import open_member_client
from penstock.kafka.members import SHUTDOWN_REQUESTED, Decision, MemberIdentity, MemberInfo, Membership, Shares
from penstock.kafka.other_kinds import OtherKinds
from penstock.peers.proofs import PeerKeys

__all__ = ["SHUTDOWN_REQUESTED", "GroupMember", "MemberInfo", "Membership", "Shares", "Stopped", "group_metadata"]

_log = logging.getLogger(__name__)

_JOIN_TIMEOUT_MS = 5_000
_FAREWELL_SECONDS = 20.0  # a broker that has just started loads its groups first

# A member that tells something else than before makes the whole group join: one that is refused asks again soon, then rarely.
_REFUSED_SECONDS = 1.0
_REFUSED_FACTOR = 8.0
_MAX_REFUSED_SECONDS = 300.0

_OTHERS_SECONDS = 1.0  # one that cannot join costs the others nothing


class GroupMember(GroupClient):
    """Joins the group in the background and stays a member until closed.

    `assign(members)` says which process gets which tasks; the group's leader calls it. `on_revoked(lost)` is called before
    this member joins again and returns an event that is set when the work has stopped as far as it has to; it must not
    block, since heartbeats are sent by the same loop. `lost` says that the group goes on without this member already.
    `on_assigned` is called on the member's own thread when it has its part of a new generation. `on_double` is called there
    where another member has this one's process id, and has to see to it that `info` tells a new one.

    With `keys` members prove that they know the application's token, and a part that the leader does not prove is refused: the
    member then has nothing, and asks again. `limit` tells how large the record of a group may be, `others` who is in the group
    where members of another kind keep this one out of it.
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
        self._left_behind: set[str] = set()

    async def _commit(
        self, coordinator: Any, generation: int, offsets: Mapping[ClientPartition, ClientOffset], timeout: float, *, once: bool
    ) -> None:
        await commit_under(coordinator, generation, offsets, timeout, once=once)

    def resubscribe(self, topics: Iterable[str], timeout: float = 60.0) -> None:
        """Join anew for other topics."""
        self._topics = sorted(topics)
        self.rejoin(timeout)

    def rejoin(self, timeout: float = 60.0) -> None:
        """Leave and join anew: whoever still works under the old generation is refused from now on."""

        def leave_and_join(consumer: KafkaConsumer) -> None:
            consumer.unsubscribe()
            self._subscribe(consumer)

        self._ask(leave_and_join, timeout)

    def request_rejoin(self) -> None:
        """Have the work dealt out anew, with what the members have to tell by then; nobody leaves or stops for it."""
        self._requests.put((lambda consumer: consumer._coordinator.request_rejoin(), Future()))

    @property
    def is_leader(self) -> bool:
        """Whether this member deals out the work."""
        consumer = self._consumer
        return consumer is not None and bool(consumer._coordinator._is_leader)

    def leave(self) -> None:
        """Give up all work and stay out of the group until told to join again, also as a static member; returns at once."""

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
        """Subscribe, and know all topics before the first join: what the leader learns later makes it rebalance again."""
        consumer.subscribe(self._topics, listener=_Listener(self, consumer))
        coordinator = consumer._coordinator
        coordinator._net.run(coordinator._manager.wait_for, coordinator._cluster.request_update(), _JOIN_TIMEOUT_MS)

    def _run(self) -> None:
        """Stay a member: what the brokers' absence breaks is begun anew, what no retry can cure ends it."""
        while not self._closing.is_set():
            try:
                self._join_and_serve()
            except InconsistentGroupProtocolError:
                self._on_revoked(True)
                self._failure = self._others.refusal()
                if self._failure is not None:
                    _log.error("membership of group %s ended: %s", self._config.get("group_id"), self._failure)
                    return
                self._closing.wait(_OTHERS_SECONDS)
            except FATAL as exc:
                self._failure = exc
                _log.error("membership of group %s ended: %s", self._config.get("group_id"), exc)
                return
            except Exception as exc:  # noqa: BLE001 - a broken connection shows as one of many exceptions
                _log.warning("membership of group %s is interrupted: %r", self._config.get("group_id"), exc)
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
            isolation_level="read_committed",  # committed offsets are told when open transactions are decided
            partition_assignment_strategy=[_TaskAssignor(self)],
            exclude_internal_topics=False,
        )
        try:
            _look_after(consumer._coordinator, self)
            self._generation = lambda: consumer._coordinator._generation
            self._take_leave(consumer)
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
            self._leave_behind(consumer)
            with _leaving(consumer._coordinator, self._leaves):
                consumer.close(autocommit=False, timeout_ms=5_000)

    def _leave_behind(self, consumer: KafkaConsumer) -> None:
        """Remember who this member was, if it comes back as another. A static one comes back as itself."""
        member_id = consumer._coordinator._generation.member_id
        if member_id and not self._closing.is_set() and not self._config.get("group_instance_id"):
            self._left_behind.add(member_id)

    def _take_leave(self, consumer: KafkaConsumer) -> None:
        if self._left_behind:
            coordinator = consumer._coordinator
            coordinator._net.run(leave_for, coordinator, sorted(self._left_behind), _FAREWELL_SECONDS)
            self._left_behind.clear()

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
        """Have nothing, and ask again."""
        seconds = self._next_patience()
        self._ask_again_at = time.monotonic() + seconds
        _log.warning(
            "this instance takes no part in generation %d of group %s, and asks again in %.0f s or when the group changes: %s. "
            "All instances need the same application.server.token; who may join the group is for the brokers' rights to say",
            *(generation, self._config.get("group_id"), seconds, reason),
        )
        self._on_revoked(True)

    def _take_new_id(self, consumer: KafkaConsumer) -> None:
        _log.warning(
            "another member of group %s has the process id of this instance: the state folder is a copy; it gets a new id",
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
        """What this member tells as it joins; after a first refusal the broker has told it the id it will have."""
        generation = self._generation()
        return self._protocol.tell(self._identity(generation.member_id), generation.generation_id)

    def decide(self, members: Sequence[Any]) -> dict[str, bytes]:
        """Where this member leads the group: what each of these is told."""
        joined = [
            JoinedMember(MemberIdentity(m.member_id, m.group_instance_id), m.metadata.user_data, self._sizes.get(m.member_id, 0))
            for m in members
        ]
        return self._protocol.decide(joined, self._generation().generation_id)

    @property
    def shown(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The partitions each member reads, by topic, as this member has decided last."""
        return self._protocol.shown

    def receive(self, told: bytes | None, generation: int) -> None:
        """Keep what came until this member's own thread looks at it."""
        self._received = told, generation

    def cleaned(self, members: Sequence[Any]) -> None:
        """Leave of what others tell only what is for this protocol: their topics are nothing to the client."""
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
        """Give up what has to be given up; heartbeats and commits go on while the last turn ends."""
        stopped = self._member._on_revoked(self._is_lost())
        while not stopped.is_set():
            await self._sleep(REVOKE_STEP)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """The tasks came with the assignor's user data."""


class _TaskAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """The protocol of the group. What members tell and are told travels as its user data.

    The partitions that are handed out are for lag tools, which show by them who reads what; no member looks at them.
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
    """Have what other members send looked at before the client decodes it: bytes that are none would end the membership."""
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
    """Whether the client tells the brokers that it goes; None leaves it to the client, which does so as a dynamic member only."""
    if leaves is None:
        yield
        return
    coordinator.is_dynamic_member = lambda: leaves  # all that it looks at; it says both its ids where it goes
    try:
        yield
    finally:
        del coordinator.is_dynamic_member


def group_metadata(group: str, generation: int, member: str, instance: str | None = None) -> bytes:
    """What librdkafka's consumer_group_metadata() would give: magic, generation, group, member, static id."""
    static = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    return b"CGMDv2:" + struct.pack("<i", generation) + group.encode() + b"\0" + member.encode() + b"\0" + static
