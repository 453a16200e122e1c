"""This instance as a member of a streams group (KIP-1071): the brokers assign the tasks.

    JOINING ── epoch 0, with the topology ──► STABLE ◄── the brokers assign the same, or more ──┐
       ▲                                        │  └────────────────────────────────────────────┘
       │                                        │ the brokers want tasks back
       │ fenced, or unknown                     ▼
       └────────────────────────────────── REVOKING ── work has stopped; a heartbeat without them ──► STABLE

A member says in each heartbeat which epoch it has. The brokers raise it whenever the member has taken up an assignment, and
refuse commits with an older one. Another member gets a task only after this one has said that it has given it up.

The rest of the application uses the same callbacks as for a classic group: `on_revoked` before work has to stop, `on_assigned`
with the new tasks. The generation of an assignment is the member's epoch.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import GroupIdNotFoundError, IllegalGenerationError, IncompatibleBrokerVersion, for_code
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.errors import BrokerError, ConfigError
from penstock.ids import TaskId
from penstock.kafka.fenced_commit import REFUSED_FOR_NOW
from penstock.kafka.group_client import FATAL, LEAVE_SECONDS, RETRY_SECONDS, REVOKE_STEP, GroupClient, Stopped
from penstock.kafka.groups import GroupStatus
from penstock.kafka.member_clients import open_member_client
from penstock.kafka.members import SHUTDOWN_REQUESTED, MemberInfo, Membership
from penstock.kafka.membership import group_metadata
from penstock.kafka.other_kinds import OtherKinds
from penstock.kafka.streams_requests import (
    JOIN,
    LEAVE,
    LEAVE_FOR_NOW,
    NOT_ASSIGNED,
    SHUTDOWN_APPLICATION,
    Joining,
    Tasks,
    commit_as,
    heartbeat,
    tasks_of,
)
from penstock.peers.addresses import advertised
from penstock.printable import printable
from penstock.topology.broker_topology import BrokerSubtopology

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0
_FIRST_INTERVAL = 1.0
_OTHERS_SECONDS = 1.0
_MOST_WARNINGS = 100
_REJOIN = frozenset({"UnknownMemberIdError", "FencedMemberEpochError"})
_TOPOLOGY_CODES = {130: "STREAMS_INVALID_TOPOLOGY", 131: "STREAMS_INVALID_TOPOLOGY_EPOCH", 132: "STREAMS_TOPOLOGY_FENCED"}
_ELSEWHERE = "another member"
_RACK_TAG = "client.rack"


class StreamsMember(GroupClient):
    """Joins a streams group in the background and stays a member until closed.

    `topology()` returns the topology when the member joins, `tasks()` all tasks of the application, `info()` the data of this
    instance. `on_revoked` and `on_assigned` are as for `GroupMember`.

    `fenced_by_epoch`: the threads commit with the member epoch (exactly-once), so each new epoch is a new generation. Otherwise
    this member commits for its threads, and the generation changes only when the instance loses a task.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topology: Callable[[], Sequence[BrokerSubtopology]],
        tasks: Callable[[], Collection[TaskId]],
        info: Callable[[], MemberInfo],
        on_revoked: Callable[[bool], Stopped],
        on_assigned: Callable[[Membership], None],
        name: str = "streams-member",
        *,
        fenced_by_epoch: bool,
        others: Callable[[], GroupStatus] | None = None,
    ) -> None:
        super().__init__(client_config, name)
        self._group: str = self._config["group_id"]
        self._instance: str | None = self._config.get("group_instance_id")
        self._topology, self._tasks, self._info = topology, tasks, info
        self._on_revoked, self._on_assigned, self._fenced_by_epoch = on_revoked, on_assigned, fenced_by_epoch
        self._others = OtherKinds(self._config, others)
        self._joined: Sequence[BrokerSubtopology] = ()
        self._member_id = str(uuid.uuid4())
        self._is_out = False
        self._warned: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        """Reset to a member without epoch and tasks."""
        self._epoch, self._endpoint_epoch = JOIN, -1
        self._target, self._owned = Tasks(), Tasks()
        self._told: Tasks | None = None
        """The tasks that the brokers were last told of; None if that is not known."""
        self._stopping: Stopped | None = None
        self._announced: tuple[int, Tasks, Mapping[TaskId, str], Mapping[TaskId, tuple[str, ...]], int] | None = None
        self._generation = -1
        self._elsewhere: Mapping[TaskId, str] = {}
        self._copies: Mapping[TaskId, tuple[str, ...]] = {}
        self._error_code = 0
        self._is_waiting = False
        """Whether the brokers do not assign tasks yet."""
        self._due_at, self._interval = 0.0, _FIRST_INTERVAL

    # -- called by the application -------------------------------------------------------------------------------------

    async def _commit(
        self, coordinator: Any, generation: int, offsets: Mapping[ClientPartition, ClientOffset], timeout: float, *, once: bool
    ) -> None:
        if generation != self._generation or self._epoch <= 0:
            raise IllegalGenerationError(f"they are of generation {generation}")
        await commit_as(coordinator, self._member_id, self._epoch, self._instance, offsets, timeout, once=once)

    @property
    def is_leader(self) -> bool:
        """Whether this member has the first task. A streams group has no leader, and only one member has that task."""
        first = min((TaskId(int(subtopology.id), 0) for subtopology in self._joined), default=None)
        return first is not None and first in self._owned.active

    def request_rejoin(self) -> None:
        """Send a heartbeat at once, with the wish to shut down if there is one. The brokers decide when tasks move."""
        self._requests.put((lambda consumer: self._hurry(), Future()))

    def _hurry(self) -> None:
        self._due_at = 0.0

    def resubscribe(self, topics: Iterable[str], timeout: float = 60.0) -> None:
        """Leave, and join with the current topology."""
        self._ask(self._leave_now, timeout)
        self._ask(self._join_once_more, timeout)

    def leave(self) -> None:
        """Give up all tasks and stay out of the group until `join_again`. Returns at once."""
        self._requests.put((self._leave_now, Future()))

    def _leave_now(self, consumer: KafkaConsumer) -> None:
        stopped, deadline = self._on_revoked(True), time.monotonic() + LEAVE_SECONDS
        while not stopped.is_set() and time.monotonic() < deadline:
            time.sleep(REVOKE_STEP)
        self._say_goodbye(consumer, LEAVE)
        self._is_out = True

    def _join_once_more(self, consumer: KafkaConsumer) -> None:
        self._is_out = False

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._join_and_serve()
            except GroupIdNotFoundError as exc:
                self._lost()
                self._failure = self._others.refusal()
                if self._failure is not None:
                    _log.error("Membership of group %s ended: %s", self._group, self._failure)
                    return
                _log.debug("Group %s is not a streams group yet: %s", self._group, exc)
                self._closing.wait(_OTHERS_SECONDS)
            except IncompatibleBrokerVersion as exc:
                self._failure = ConfigError(
                    "group.protocol = streams needs brokers with Kafka 4.2 or later whose feature streams.version is 1: these "
                    f"do not speak StreamsGroupHeartbeat ({exc}). Upgrade them, or use group.protocol = classic"
                )
                _log.error("Membership of group %s ended: %s", self._group, self._failure)
                return
            except (*FATAL, BrokerError) as exc:
                self._failure = exc
                _log.error("Membership of group %s ended: %s", self._group, exc)
                return
            except Exception as exc:  # noqa: BLE001 - a broken connection shows as one of many exceptions
                _log.warning("Membership of group %s is interrupted: %r", self._group, exc)
                self._closing.wait(RETRY_SECONDS)

    def _lost(self) -> None:
        """Give up all tasks: the group continues without this member."""
        had = self._announced is not None
        self._forget()
        if had:
            self._on_revoked(True)

    def _join_and_serve(self) -> None:
        """Open a connection and send heartbeats until closed. The membership outlives a lost connection."""
        consumer = open_member_client(
            KafkaConsumer,
            **self._config,
            enable_auto_commit=False,
            isolation_level="read_committed",  # the broker answers committed offsets after open transactions are decided
            exclude_internal_topics=False,
        )
        try:
            self._consumer = consumer
            while not self._closing.is_set():
                self._serve(consumer)
                if self._is_out:
                    continue
                if self._stopping is not None and self._stopping.is_set():
                    self._stopping, self._owned, self._due_at = None, self._target, 0.0
                if time.monotonic() >= self._due_at:
                    self._beat(consumer)
            if self._leaves is not False and not self._is_out:
                self._say_goodbye(consumer, LEAVE if self._leaves or self._instance is None else LEAVE_FOR_NOW)
        finally:
            self._consumer = None
            consumer.close(autocommit=False, timeout_ms=5_000)

    def _beat(self, consumer: KafkaConsumer) -> None:
        """Send a heartbeat and process the answer."""
        info, owned = self._info(), self._owned
        request = heartbeat(
            *(self._group, self._member_id, self._epoch, self._endpoint_epoch, self._instance),
            joining=self._joining(info) if self._epoch == JOIN else None,
            owned=owned if owned != self._told else None,
            shutdown=bool(info.error_code),
        )
        # If the answer is lost, the brokers may have raised the epoch. They accept the old one only together with the tasks.
        self._told = None
        answer = self._send(consumer, request)
        if answer is None:
            return
        self._others.are_gone()
        self._told = owned
        self._take(answer, info)

    def _joining(self, info: MemberInfo) -> Joining:
        self._joined = self._topology()
        endpoint = advertised(info.host) if info.host else None
        return Joining(
            self._joined,
            info.process_id,
            int(self._config.get("max_poll_interval_ms", 300_000)),
            {key: value for key, value in info.tags.items() if key != _RACK_TAG},
            info.tags.get(_RACK_TAG),
            None if endpoint is None else (endpoint.host, endpoint.port),
        )

    def _send(self, consumer: KafkaConsumer, request: Any) -> Any | None:
        """Return the coordinator's answer; None if it cannot answer now. The next heartbeat follows soon then."""
        coordinator = consumer._coordinator
        self._due_at = time.monotonic() + min(self._interval, RETRY_SECONDS)

        async def ask() -> Any:
            if not await coordinator.ensure_coordinator_ready_async(timeout_ms=_ANSWER_SECONDS * 1000):
                return None
            sent = coordinator._manager.send(request, node_id=coordinator.coordinator_id)
            return await coordinator._manager.wait_for(sent, _ANSWER_SECONDS * 1000)

        answer = coordinator._net.run(ask)
        if answer is None or answer.error_code == 0:
            return answer
        error, told = for_code(answer.error_code), printable(answer.error_message or "")
        if error.__name__ in _REJOIN:
            reason = told or error.__name__
            _log.warning("This instance is no member of group %s any more and joins again: %s", self._group, reason)
            self._lost()
        elif issubclass(error, REFUSED_FOR_NOW):
            if not issubclass(error, REFUSED_FOR_NOW[0]):
                coordinator.coordinator_dead(error())
        elif issubclass(error, (GroupIdNotFoundError, *FATAL)):
            raise error(told)
        elif answer.error_code in _TOPOLOGY_CODES or error.__name__ == "InvalidRequestError":
            raise ConfigError(self._refusal(_TOPOLOGY_CODES.get(answer.error_code, "INVALID_REQUEST"), told))
        elif not getattr(error, "retriable", False):
            raise BrokerError(f"The group {self._group} refused the heartbeat of this instance: {error.__name__} {told}")
        return None

    def _refusal(self, kind: str, told: str) -> str:
        if self._instance is not None and "tatic member" in told:
            advice = "Leave group.instance.id out, or use group.protocol = classic"
        else:
            advice = (
                "All members need the same topology, with the same internal topics and settings for them. To change it, stop all "
                "members and choose another application.id, or delete the group"
            )
        return f"The brokers refuse this instance in the streams group {self._group}: {kind} {told} {advice}"

    def _take(self, answer: Any, info: MemberInfo) -> None:
        self._epoch, self._interval = answer.member_epoch, max(0.1, answer.heartbeat_interval_ms / 1000)
        self._due_at = time.monotonic() + self._interval
        self._endpoint_epoch = answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            told = Tasks(tasks_of(answer.active_tasks), tasks_of(answer.standby_tasks), tasks_of(answer.warmup_tasks))
            self._target = told
        if answer.partitions_by_user_endpoint is not None:
            self._read_endpoints(answer.partitions_by_user_endpoint)
        self._take_status(answer.status)
        if self._stopping is None and self._target != self._owned:
            self._reconcile()
        elif self._stopping is None and self._told == self._owned and not self._is_waiting:
            self._announce(info)

    def _reconcile(self) -> None:
        """Take over the target assignment. Tasks that the brokers take away have to stop first."""
        if self._owned.active <= self._target.active:
            self._owned, self._due_at = self._target, 0.0
        else:
            self._stopping = self._on_revoked(False)

    def _take_status(self, status: Sequence[Any] | None) -> None:
        self._is_waiting = any(one.status_code in NOT_ASSIGNED for one in status or ())
        for one in status or ():
            if one.status_code == SHUTDOWN_APPLICATION:
                self._error_code, self._is_waiting = SHUTDOWN_REQUESTED, False
            told = printable(one.status_detail)
            if one.status_code < SHUTDOWN_APPLICATION and told not in self._warned and len(self._warned) < _MOST_WARNINGS:
                self._warned.add(told)
                _log.warning("The brokers of streams group %s say: %s", self._group, told)

    def _read_endpoints(self, told: Sequence[Any]) -> None:
        """Read which tasks the members with an `application.server` have."""
        subtopology_of = {topic: int(known.id) for known in self._joined for topic in known.inputs}

        def tasks(partitions: Iterable[Any]) -> set[TaskId]:
            known = [(subtopology_of[p.topic], p.partitions) for p in partitions if p.topic in subtopology_of]
            return {TaskId(number, partition) for number, partitions in known for partition in partitions}

        active: dict[TaskId, str] = {}
        copies: dict[TaskId, tuple[str, ...]] = {}
        for one in told:
            host = f"{printable(one.user_endpoint.host)}:{one.user_endpoint.port}"
            active |= dict.fromkeys(tasks(one.active_partitions), host)
            for task in tasks(one.standby_partitions):
                copies[task] = (*copies.get(task, ()), host)
        self._elsewhere, self._copies = active, copies

    def _announce(self, info: MemberInfo) -> None:
        """Pass a changed assignment to the application."""
        now = self._epoch, self._owned, self._elsewhere, self._copies, self._error_code
        if now == self._announced:
            return
        before, self._announced = self._announced, now
        if before is None or self._fenced_by_epoch or not before[1].active <= self._owned.active:
            self._generation = self._epoch
        own = dict.fromkeys(self._owned.active, info.process_id)
        others = {task: host for task, host in self._elsewhere.items() if host != info.host and task not in own}
        copies = {task: tuple(host for host in hosts if host != info.host) for task, hosts in self._copies.items()}
        hosts = {info.process_id: info.host} | {host: host for host in chain(others.values(), *copies.values())}
        membership = Membership(
            self._generation,
            group_metadata(self._group, self._epoch, self._member_id, self._instance),
            tuple(sorted(self._owned.active)),
            {**others, **own},
            hosts,
            tuple(sorted(self._owned.standby | self._owned.warmup)),
            {task: found for task, found in copies.items() if found},
            bool(self._owned.warmup),
            self._error_code,
        )
        self._on_assigned(self._with_strangers(membership))

    def _with_strangers(self, membership: Membership) -> Membership:
        """Add an unnamed member as the owner of all other tasks: the brokers name only members with an `application.server`."""
        left = set(self._tasks()) - membership.owners.keys()
        if not left:
            return membership
        return replace(
            membership,
            owners={**membership.owners, **dict.fromkeys(left, _ELSEWHERE)},
            hosts={**membership.hosts, _ELSEWHERE: ""},
        )

    def _say_goodbye(self, consumer: KafkaConsumer, epoch: int) -> None:
        """Leave the group if this instance is a member."""
        if self._epoch == JOIN:
            return
        request = heartbeat(self._group, self._member_id, epoch, -1, self._instance)
        self._forget()
        try:
            self._send(consumer, request)
        except Exception as exc:  # noqa: BLE001 - the group notices when the session ends
            _log.debug("Group %s was not told that this instance leaves: %s", self._group, exc)
