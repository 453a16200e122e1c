"""A member of a streams group, over brokers that answer what they are told to answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import IllegalGenerationError, KafkaConnectionError

from penstock.errors import ConfigError
from penstock.ids import TaskId
from penstock.kafka.members import SHUTDOWN_REQUESTED, MemberInfo, Membership
from penstock.kafka.streams_membership import StreamsMember
from penstock.kafka.streams_messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from penstock.kafka.streams_requests import ASSIGNMENT_DELAYED, SHUTDOWN_APPLICATION, tasks_of
from penstock.topology.broker_topology import BrokerSubtopology

TOPOLOGY = (
    BrokerSubtopology("0", ("lines",), ("app-words-repartition",), (), (), ()),
    BrokerSubtopology("1", ("orders",), (), (), (), ()),
)
TASKS = [TaskId(number, partition) for number in (0, 1) for partition in (0, 1)]


def ids(*tasks: TaskId) -> list[Any]:
    kind = StreamsGroupHeartbeatResponse.TaskIds
    return [kind(subtopology_id=str(task.subtopology), partitions=[task.partition]) for task in tasks]


def answer(epoch: int, *active: TaskId, standby: Sequence[TaskId] = (), same: bool = False, **more: Any) -> Any:
    given = {} if same else {"active_tasks": ids(*active), "standby_tasks": ids(*standby), "warmup_tasks": []}
    known = {"member_id": "m", "member_epoch": epoch, "heartbeat_interval_ms": 5_000, "endpoint_information_epoch": -1}
    return StreamsGroupHeartbeatResponse(error_code=0, error_message=None, **known, **given, **more)


class Group:
    """Answers heartbeats one after the other, and keeps what came."""

    def __init__(self, *, exactly_once: bool = True) -> None:
        self.sent: list[Any] = []
        self.answers: list[Any] = []
        self.assigned: list[Membership] = []
        self.revoked: list[bool] = []
        self.stopped = threading.Event()
        self.info = MemberInfo("me", 2, "host-1:80", tags={"zone": "a"})
        self.member = StreamsMember(
            {"group_id": "app"},
            lambda: TOPOLOGY,
            lambda: TASKS,
            lambda: self.info,
            self._revoke,
            self.assigned.append,
            fenced_by_epoch=exactly_once,
        )
        coordinator = SimpleNamespace(
            coordinator_id=1,
            ensure_coordinator_ready_async=self._ready,
            coordinator_dead=lambda error: None,
            _manager=SimpleNamespace(send=self._send, wait_for=self._wait),
            _net=SimpleNamespace(run=lambda function: asyncio.run(function())),
        )
        self.consumer = SimpleNamespace(_coordinator=coordinator)

    def _revoke(self, lost: bool) -> threading.Event:
        self.revoked.append(lost)
        return self.stopped

    async def _ready(self, timeout_ms: float) -> bool:
        return True

    def _send(self, request: Any, node_id: int) -> Any:
        # As on the wire, so that what cannot be written is found here.
        self.sent.append(StreamsGroupHeartbeatRequest.decode(request.encode(version=0), version=0))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _wait(self, sent: Any, timeout_ms: float) -> Any:
        return StreamsGroupHeartbeatResponse.decode(sent.encode(version=0), version=0)

    def beat(self, *answers: Any) -> None:
        """Heartbeats until there are no answers left."""
        self.answers.extend(answers)
        member = self.member
        while self.answers:
            if member._stopping is not None and member._stopping.is_set():
                member._stopping, member._owned = None, member._target
            member._beat(self.consumer)


def active(request: Any) -> set[TaskId]:
    return set(tasks_of(request.active_tasks))


def test_should_join_with_its_topology_and_take_up_what_it_is_given() -> None:
    group = Group()
    group.beat(answer(1, *TASKS[:2], standby=TASKS[2:3]), answer(2, same=True))
    joining, acknowledging = group.sent
    assert (joining.member_epoch, joining.process_id) == (0, "me")
    assert [subtopology.subtopology_id for subtopology in joining.topology.subtopologies] == ["0", "1"]
    assert (joining.user_endpoint.host, joining.user_endpoint.port) == ("host-1", 80)
    assert {tag.key: tag.value for tag in joining.client_tags} == {"zone": "a"}
    assert active(joining) == set()
    assert (acknowledging.member_epoch, acknowledging.topology) == (1, None)
    assert active(acknowledging) == set(TASKS[:2])
    (membership,) = group.assigned
    assert (membership.generation, membership.tasks, membership.copies) == (2, tuple(TASKS[:2]), (TASKS[2],))
    assert membership.owners == {**dict.fromkeys(TASKS[:2], "me"), **dict.fromkeys(TASKS[2:], "another member")}
    assert b"app\0" + group.member._member_id.encode() in membership.group_metadata


def test_should_tell_its_tasks_only_when_they_have_changed() -> None:
    group = Group()
    group.beat(answer(1, TASKS[0]), answer(1, same=True), answer(1, same=True))
    assert group.sent[-1].active_tasks is None
    assert len(group.assigned) == 1


def test_should_give_tasks_back_when_their_work_has_stopped() -> None:
    group = Group()
    group.beat(answer(1, *TASKS), answer(1, same=True))
    group.beat(answer(1, *TASKS[:2]))
    assert group.revoked == [False]
    group.beat(answer(1, same=True))
    assert group.sent[-1].active_tasks is None, "it still has all of them"
    group.stopped.set()
    group.beat(answer(2, same=True))
    assert active(group.sent[-1]) == set(TASKS[:2])
    assert (group.assigned[-1].generation, group.assigned[-1].tasks) == (2, tuple(TASKS[:2]))


@pytest.mark.parametrize(("exactly_once", "generations"), [(True, [1, 2]), (False, [1, 1])])
def test_should_keep_its_generation_while_it_commits_itself_and_loses_nothing(exactly_once: bool, generations: list[int]) -> None:
    group = Group(exactly_once=exactly_once)
    group.beat(answer(1, TASKS[0]), answer(1, same=True), answer(2, same=True))
    assert [membership.generation for membership in group.assigned] == generations


def test_should_join_anew_with_nothing_when_it_was_fenced() -> None:
    group = Group()
    group.beat(answer(3, TASKS[0]), answer(3, same=True))
    group.beat(StreamsGroupHeartbeatResponse(error_code=110, error_message="old", member_id="m"))  # FENCED_MEMBER_EPOCH
    assert group.revoked == [True]
    group.beat(answer(5, TASKS[1]), answer(5, same=True))
    assert (group.sent[-2].member_epoch, active(group.sent[-2])) == (0, set())
    assert group.assigned[-1].tasks == (TASKS[1],)


def test_should_wait_while_the_brokers_assign_nothing_yet() -> None:
    group = Group()
    delayed = [StreamsGroupHeartbeatResponse.Status(status_code=ASSIGNMENT_DELAYED, status_detail="more may come")]
    group.beat(answer(1, status=delayed), answer(1, same=True, status=delayed))
    assert not group.assigned
    group.beat(answer(2, *TASKS), answer(2, same=True))
    assert len(group.assigned[0].tasks) == 4


def test_should_ask_for_and_hear_of_the_end_of_all_instances() -> None:
    group = Group()
    group.beat(answer(1, TASKS[0]), answer(1, same=True))
    group.info = MemberInfo("me", error_code=SHUTDOWN_REQUESTED)
    status = [StreamsGroupHeartbeatResponse.Status(status_code=SHUTDOWN_APPLICATION, status_detail="stop")]
    group.beat(answer(1, same=True, status=status))
    assert group.sent[-1].shutdown_application
    assert group.assigned[-1].shutdown_requested


def test_should_know_where_other_instances_answer_queries() -> None:
    kind = StreamsGroupHeartbeatResponse.EndpointToPartitions
    partitions = [kind.TopicPartition(topic="orders", partitions=[0, 1])]
    standby = [kind.TopicPartition(topic="lines", partitions=[0])]
    there = kind.UserEndpoint if hasattr(kind, "UserEndpoint") else kind.Endpoint
    told = [kind(user_endpoint=there(host="host-2", port=81), active_partitions=partitions, standby_partitions=standby)]
    group = Group()
    group.beat(answer(1, *TASKS[:2]), answer(1, same=True, partitions_by_user_endpoint=told))
    membership = group.assigned[-1]
    assert {membership.owners[task] for task in TASKS[2:]} == {"host-2:81"}
    assert membership.standbys == {TASKS[0]: ("host-2:81",)}
    assert membership.hosts == {"me": "host-1:80", "host-2:81": "host-2:81"}


def test_should_refuse_commits_of_another_generation() -> None:
    group = Group()
    group.beat(answer(4, TASKS[0]), answer(4, same=True))
    with pytest.raises(IllegalGenerationError):
        asyncio.run(group.member._commit(group.consumer._coordinator, 3, {}, 1.0, once=False))


def test_should_say_why_the_brokers_refuse_its_topology() -> None:
    group = Group()
    with pytest.raises(ConfigError, match=r"STREAMS_INVALID_TOPOLOGY a topic is missing. All members need the same topology"):
        group.beat(StreamsGroupHeartbeatResponse(error_code=130, error_message="a topic is missing.", member_id="m"))


@pytest.mark.parametrize("name", ["", "x", "-1", "1_2", "9" * 30])
def test_should_refuse_sub_topologies_that_nobody_can_have(name: str) -> None:
    kind = StreamsGroupHeartbeatResponse.TaskIds
    with pytest.raises(ValueError, match="not a task id"):
        tasks_of([kind(subtopology_id=name, partitions=[0])])


def test_should_tell_its_tasks_again_when_an_answer_was_lost() -> None:
    """The brokers accept the previous epoch only with tasks that the member may have."""
    group = Group()
    group.beat(answer(1, TASKS[0]), answer(1, same=True))
    with pytest.raises(KafkaConnectionError):
        group.beat(KafkaConnectionError("lost"))
    group.beat(answer(2, same=True))
    assert active(group.sent[-1]) == {TASKS[0]}
    assert group.assigned[-1].generation == 2


def test_should_advise_to_leave_the_static_id_out_where_brokers_refuse_it() -> None:
    group = Group()
    group.member._instance = "static-1"
    with pytest.raises(ConfigError, match=r"Leave group.instance.id out, or use group.protocol = classic"):
        group.beat(StreamsGroupHeartbeatResponse(error_code=42, error_message="Static membership is not yet supported."))
