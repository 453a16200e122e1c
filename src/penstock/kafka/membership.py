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

import json
import logging
import queue
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kafka.errors import KafkaError as ClientError
from kafka.errors import KafkaTimeoutError as ClientTimeout
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.errors import BrokerAccessError, BrokerError, ConfigError, TaskMigratedError
from penstock.ids import TopicPartition
from penstock.kafka.quiet import keep_down
from penstock.runtime.carry_over import OffsetAndMetadata

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_JOIN_TIMEOUT_MS = 5_000
_REVOKE_STEP = 0.005
_RETRY_SECONDS = 0.5
_LEAVE_SECONDS = 60.0

# Java's AssignorError.SHUTDOWN_REQUESTED: a member that joins with it makes the leader send all members home.
SHUTDOWN_REQUESTED = 4

_FATAL = (
    AuthorizationError,
    ConfigError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)


@dataclass(frozen=True)
class MemberInfo:
    """What a member tells the others when it joins: who it is, what it runs, and how much of which state it has.

    `offsets` adds up, for each unit it has state of, how far its stores have read their changelogs; -2 says that it runs.
    `error_code` is Java's, as its subscriptions carry it.
    """

    process_id: str
    capacity: int = 1
    host: str = ""
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    error_code: int = 0


@dataclass(frozen=True)
class Shares:
    """What the leader decides: units by process. `copies` are standbys and warm-ups; `probing` asks for another look later."""

    active: Mapping[str, Sequence[str]]
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    probing: bool = False


@dataclass(frozen=True)
class Membership:
    """One generation of the group, as this member sees it."""

    generation: int
    group_metadata: bytes
    units: tuple[str, ...]
    owners: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[str, ...] = ()
    standbys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    probing: bool = False
    error_code: int = 0

    @property
    def shutdown_requested(self) -> bool:
        """Whether a member wants the whole application to stop."""
        return self.error_code == SHUTDOWN_REQUESTED


class Stopped(Protocol):
    """Something that is set when work has stopped as far as it has to, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Whether that is so now."""


AssignUnits = Callable[[Sequence[MemberInfo]], Shares]


class GroupMember:
    """Joins the group in the background and stays a member until closed.

    `assign(members)` says which process gets which units; the group's leader calls it. `on_revoked(lost)` is called before
    this member joins again and returns an event that is set when the work has stopped as far as it has to; it must not
    block, since heartbeats are sent by the same loop. `lost` says that the group goes on without this member already.
    `on_assigned` is called on the member's own thread when it has its part of a new generation.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Iterable[str],
        info: Callable[[], MemberInfo],
        assign: AssignUnits,
        on_revoked: Callable[[bool], Stopped],
        on_assigned: Callable[[Membership], None],
        name: str = "group-member",
    ) -> None:
        self._config = dict(client_config)
        self._topics = sorted(topics)
        self._assignor = _UnitAssignor(info, assign)
        self._on_revoked, self._on_assigned = on_revoked, on_assigned
        self._requests: queue.SimpleQueue[tuple[Callable[[KafkaConsumer], None], Future[None]]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._consumer: KafkaConsumer | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to join; `on_assigned` tells when that is done."""
        keep_down()
        self._thread.start()

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float = 15.0) -> None:
        """Commit offsets as this member; refused when the group has moved on."""
        positions = {ClientPartition(*p): ClientOffset(o.offset, o.metadata, -1) for p, o in offsets.items()}
        coordinator = self._coordinator()
        with self._errors(timeout):
            coordinator._net.run(coordinator._commit_offsets_sync_async, positions, int(timeout * 1000))

    def committed(self, partitions: Iterable[TopicPartition], timeout: float = 60.0) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, with its metadata, when open transactions are decided.

        Not asked with librdkafka, which hands out metadata that others have committed with whatever bytes follow it.
        """
        asked = [ClientPartition(*p) for p in partitions]
        coordinator = self._coordinator()
        with self._errors(timeout):
            found = coordinator.fetch_committed_offsets(asked, int(timeout * 1000))
        # What librdkafka commits in a transaction has the text's closing zero byte in it.
        return {
            TopicPartition(p.topic, p.partition): OffsetAndMetadata(o.offset, (o.metadata or "").rstrip("\0"))
            for p, o in found.items()
        }

    def _coordinator(self) -> Any:
        consumer = self._consumer
        if consumer is None:
            raise TaskMigratedError(f"this instance is not a member of its group {self._config.get('group_id')} now")
        return consumer._coordinator

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
        """Give up all work and stay out of the group until told to join again; returns at once."""

        def give_up_and_leave(consumer: KafkaConsumer) -> None:
            stopped, deadline = self._on_revoked(True), time.monotonic() + _LEAVE_SECONDS
            while not stopped.is_set() and time.monotonic() < deadline:
                time.sleep(_REVOKE_STEP)
            consumer.unsubscribe()

        self._requests.put((give_up_and_leave, Future()))

    def join_again(self) -> None:
        """Come back after `leave`, or join for the first time; returns at once."""
        if self._thread.ident is None:
            self.start()
        else:
            self._requests.put((self._subscribe, Future()))

    def close(self, timeout: float = 10.0) -> None:
        """Leave the group; a static member only goes away, and is waited for until its session ends."""
        self._closing.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    @property
    def failure(self) -> BaseException | None:
        """What ended the membership, if anything did."""
        return self._failure

    def _ask(self, request: Callable[[KafkaConsumer], None], timeout: float) -> None:
        done: Future[None] = Future()
        self._requests.put((request, done))
        with self._errors(timeout):
            done.result(timeout + 5)

    @contextmanager
    def _errors(self, timeout: float) -> Iterator[None]:
        """What the client raises, in penstock's words."""
        try:
            yield
        except (ClientTimeout, TimeoutError, FutureTimeout) as exc:
            raise BrokerError(f"the group {self._config.get('group_id')} did not answer within {timeout:.0f} s") from exc
        except ClientError as exc:
            if type(exc).__name__ in (
                "CommitFailedError",
                "UnknownMemberIdError",
                "IllegalGenerationError",
                "RebalanceInProgressError",
            ):
                raise TaskMigratedError(
                    f"offsets were refused ({exc}): another member of the group has taken over this work"
                ) from exc
            kind = BrokerAccessError if isinstance(exc, AuthorizationError) else BrokerError
            raise kind(f"the group {self._config.get('group_id')} refused: {exc}") from exc
        except RuntimeError as exc:  # the client's loop has been closed
            raise TaskMigratedError(f"this instance has left the group {self._config.get('group_id')}") from exc

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
            except _FATAL as exc:
                self._failure = exc
                _log.error("membership of group %s ended: %s", self._config.get("group_id"), exc)
                return
            except Exception as exc:  # noqa: BLE001 - a broken connection shows as one of many exceptions
                _log.warning("membership of group %s is interrupted: %r", self._config.get("group_id"), exc)
                self._on_revoked(True)
                self._closing.wait(_RETRY_SECONDS)

    def _join_and_serve(self) -> None:
        consumer = KafkaConsumer(
            **self._config,
            enable_auto_commit=False,
            isolation_level="read_committed",  # committed offsets are told when open transactions are decided
            partition_assignment_strategy=[self._assignor],
            exclude_internal_topics=False,
        )
        try:
            self._subscribe(consumer)
            self._consumer = consumer
            while not self._closing.is_set():
                self._serve(consumer)
                # The coordinator's own poll: there are no partitions to fetch, and a join must not be cut short.
                consumer._coordinator.poll(timeout_ms=_JOIN_TIMEOUT_MS)
                self._announce(consumer)
        finally:
            self._consumer = None
            consumer.close(autocommit=False, timeout_ms=5_000)

    def _serve(self, consumer: KafkaConsumer) -> None:
        """Handle requests; wait a moment for the first so that commits do not wait for a poll."""
        wait = _POLL_SECONDS
        while True:
            try:
                request, done = self._requests.get(timeout=wait)
            except queue.Empty:
                return
            try:
                request(consumer)
                done.set_result(None)
            except Exception as exc:  # noqa: BLE001 - handed to the caller, who waits for it
                done.set_exception(exc)
            wait = 0.0

    def _announce(self, consumer: KafkaConsumer) -> None:
        received = self._assignor.take_received()
        if received is None:
            return
        assignment, generation = received
        current = consumer._coordinator._generation
        metadata = group_metadata(self._config["group_id"], generation, current.member_id, self._config.get("group_instance_id"))
        active, copies = assignment.get("active", {}), assignment.get("copies", {})
        self._on_assigned(
            Membership(
                generation,
                metadata,
                tuple(assignment["units"]),
                {unit: process for process, units in active.items() for unit in units},
                assignment.get("hosts", {}),
                tuple(assignment.get("kept", ())),
                _by_unit(copies),
                bool(assignment.get("probing")),
                int(assignment.get("error", 0)),
            )
        )


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, member: GroupMember, consumer: KafkaConsumer) -> None:
        self._member = member
        self._sleep = consumer._coordinator._net.sleep
        self._is_lost: Callable[[], bool] = lambda: consumer._coordinator._generation.is_lost()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Give up what has to be given up; heartbeats and commits go on while the last turn ends."""
        stopped = self._member._on_revoked(self._is_lost())
        while not stopped.is_set():
            await self._sleep(_REVOKE_STEP)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """The units came with the assignor's user data."""


class _UnitAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Members say what they hold; the leader hands out units. Both travel as user data of the group protocol."""

    name = "penstock"

    def __init__(self, info: Callable[[], MemberInfo], assign: AssignUnits) -> None:
        self._info, self._assign = info, assign
        self._received: tuple[dict[str, Any], int] | None = None

    def metadata(self, topics: Any) -> Any:
        return ConsumerProtocolSubscription(
            topics=sorted(topics), user_data=json.dumps(self._info().__dict__).encode(), version=0
        )

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        infos = {m.member_id: MemberInfo(**_tupled(json.loads(m.metadata.user_data))) for m in members}
        error_code = max((info.error_code for info in infos.values()), default=0)
        told = list({info.process_id: info for info in infos.values()}.values())
        shares = Shares({}) if error_code else self._assign(told)
        active = {process: list(units) for process, units in shares.active.items()}
        copies = {process: list(units) for process, units in shares.copies.items() if units}
        hosts = {info.process_id: info.host for info in infos.values()}
        return {
            member_id: ConsumerProtocolAssignment(
                assigned_partitions=[],
                user_data=json.dumps(
                    {
                        "units": active.get(info.process_id, []),
                        "kept": copies.get(info.process_id, []),
                        "active": active,
                        "copies": copies,
                        "hosts": hosts,
                        "probing": shares.probing,
                        "error": error_code,
                    }
                ).encode(),
                version=0,
            )
            for member_id, info in infos.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._received = json.loads(assignment.user_data or b'{"units": []}'), generation

    def take_received(self) -> tuple[dict[str, Any], int] | None:
        received, self._received = self._received, None
        return received


def _by_unit(units: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for process, held in units.items():
        for unit in held:
            found[unit] = (*found.get(unit, ()), process)
    return found


def _tupled(info: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in info.items()}


def group_metadata(group: str, generation: int, member: str, instance: str | None = None) -> bytes:
    """What librdkafka's consumer_group_metadata() would give: magic, generation, group, member, static id."""
    static = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    return b"CGMDv2:" + struct.pack("<i", generation) + group.encode() + b"\0" + member.encode() + b"\0" + static
