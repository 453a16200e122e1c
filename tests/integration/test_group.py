"""Members of a group on a real broker, without any work behind them: who is given what, and who is not."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.errors import KafkaConnectionError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from penstock import ConfigError, StreamsConfig
from penstock.ids import TaskId
from penstock.kafka.groups import Groups, GroupStatus
from penstock.kafka.members import MemberInfo, Membership, Shares
from penstock.kafka.membership import GroupMember
from penstock.peers.proofs import PeerKeys
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT

KEYS = PeerKeys.derive("secret", "shop")
TOPIC = "of-groups-without-work"


@pytest.fixture(autouse=True)
def topic(kafka: Kafka) -> None:
    if TOPIC not in kafka.topics():
        kafka.create(TOPIC, partitions=1)


class Member:
    """One that takes whatever it is given."""

    def __init__(
        self,
        kafka: Kafka,
        group: str,
        process: str,
        keys: PeerKeys | None,
        static: str | None = None,
        patience_ms: int = 10_000,
    ) -> None:
        self.process = process
        self.got: list[Membership] = []
        self.revoked: list[bool] = []
        config: dict[str, Any] = {
            "group_id": group,
            "bootstrap_servers": kafka.bootstrap_servers,
            "client_id": process,
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": patience_ms,
            "max_poll_interval_ms": max(30_000, patience_ms),
        }
        if static:
            config["group_instance_id"] = static
        self.member = GroupMember(
            config,
            [TOPIC],
            lambda: MemberInfo(self.process, host="localhost:1"),
            self._assign,
            self._revoke,
            self.got.append,
            keys=keys,
            on_double=self._take_new_id,
            others=lambda: self._look(kafka, group),
        )
        self.member.start()

    @staticmethod
    def _look(kafka: Kafka, group: str) -> GroupStatus:
        config = StreamsConfig({"application.id": group, "bootstrap.servers": kafka.bootstrap_servers})
        with Groups(config, "looking") as groups:
            return groups.status(group)

    def _assign(self, infos: Sequence[MemberInfo]) -> Shares:
        processes = sorted(info.process_id for info in infos)
        return Shares({process: [TaskId(0, number)] for number, process in enumerate(processes)})

    def _revoke(self, lost: bool) -> threading.Event:
        self.revoked.append(lost)
        stopped = threading.Event()
        stopped.set()
        return stopped

    def _take_new_id(self) -> None:
        self.process += "-new"

    def wait_for_hosts(self, *processes: str) -> Membership:
        def last() -> Membership | None:
            return self.got[-1] if self.got and set(self.got[-1].hosts) == set(processes) else None

        found: Membership = wait_until(last, f"{self.process} knows of {processes}")
        return found


@pytest.fixture
def join(kafka: Kafka) -> Iterator[Any]:
    with ExitStack() as stack:

        def start(*arguments: Any, kind: type[Member] = Member, **named: Any) -> Member:
            member = kind(kafka, *arguments, **named)
            stack.callback(member.member.close)
            return member

        yield start


def test_should_prove_themselves_with_the_first_join(join: Any) -> None:
    group = unique("proved")
    first = join(group, "a", KEYS)
    assert first.wait_for_hosts("a").generation == 1  # nobody had to join twice to be believed
    second = join(group, "b", KEYS)
    assert first.wait_for_hosts("a", "b").tasks == (TaskId(0, 0),)
    assert second.wait_for_hosts("a", "b").tasks == (TaskId(0, 1),)
    assert second.got[0].generation == first.got[-1].generation
    assert first.revoked == [True, False]  # before the first join, and before the second's


def test_should_come_back_before_its_session_ends_when_it_was_cut_off(kafka: Kafka, join: Any) -> None:
    group = unique("cut-off")
    member = join(group, "a", KEYS, patience_ms=300_000)
    first = member.wait_for_hosts("a")
    coordinator = member.member._consumer._coordinator

    def poll(timeout_ms: int) -> bool:
        coordinator.coordinator_id = None  # so that it cannot leave
        raise KafkaConnectionError("socket disconnected")

    coordinator.poll = poll
    wait_until(lambda: member.got[-1].generation > first.generation, "a member again, long before the old one is given up")
    assert member.revoked.count(True) > 1
    assert len(kafka.admin.describe_consumer_groups([group])[group].result(LIMIT).members) == 1


def test_should_keep_the_part_of_a_static_member_that_comes_back(join: Any) -> None:
    group = unique("static")
    first, second = join(group, "a", KEYS, static="shop-1"), join(group, "b", KEYS, static="shop-2")
    before = second.wait_for_hosts("a", "b")
    first.wait_for_hosts("a", "b")
    second.member.close()
    again = join(group, "b", KEYS, static="shop-2")
    after = again.wait_for_hosts("a", "b")
    assert (after.generation, after.tasks) == (before.generation, before.tasks)
    assert after.group_metadata != before.group_metadata  # a new member id


@pytest.mark.parametrize("static", [None, "shop-2"], ids=["dynamic", "static"])
@pytest.mark.parametrize("leave", [True, False])
def test_should_leave_the_group_or_stay_in_it_as_told(static: str | None, leave: bool, join: Any, kafka: Kafka) -> None:
    group = unique("told")
    first, second = join(group, "a", KEYS), join(group, "b", KEYS, static=static)
    for member in (first, second):
        member.wait_for_hosts("a", "b")
    second.member.close(leave=leave)
    assert kafka.members(group) == ({"a"} if leave else {"a", "b"})
    if leave:
        assert first.wait_for_hosts("a").tasks == (TaskId(0, 0),)


def test_should_leave_and_come_back_as_a_static_member_too(join: Any, kafka: Kafka) -> None:
    group = unique("back")
    first, second = join(group, "a", KEYS), join(group, "b", KEYS, static="shop-2")
    for member in (first, second):
        member.wait_for_hosts("a", "b")
    second.member.leave()
    wait_until(lambda: kafka.members(group) == {"a"}, "it is out of the group")
    first.wait_for_hosts("a")
    second.member.join_again()
    first.wait_for_hosts("a", "b")
    second.member.close()
    assert kafka.members(group) == {"a", "b"}  # a static member is waited for again


def test_should_give_a_member_with_another_token_nothing(join: Any, kafka: Kafka, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    group = unique("tokens")
    first = join(group, "a", KEYS)
    first.wait_for_hosts("a")
    stranger = join(group, "evil", PeerKeys.derive("guessed", "shop"))
    wait_until(lambda: "has no tasks in generation" in caplog.text, "the stranger has heard")
    assert stranger.got == []
    assert all(set(membership.hosts) == {"a"} for membership in first.got)
    assert "is a stranger" in caplog.text
    config = StreamsConfig({"application.id": group, "bootstrap.servers": kafka.bootstrap_servers})
    with Groups(config, "status") as groups:
        tasks = {member.process_id: member.tasks for member in groups.status(group).members}
    assert tasks == {"a": ("0_0",), "evil": ()}


def test_should_give_one_of_two_with_the_same_id_a_new_one(join: Any) -> None:
    group = unique("double")
    first = join(group, "a", KEYS)
    first.wait_for_hosts("a")
    copy = join(group, "a", KEYS)
    assert copy.wait_for_hosts("a", "a-new").tasks == (TaskId(0, 1),)
    assert first.wait_for_hosts("a", "a-new").tasks == (TaskId(0, 0),)
    assert all(membership.tasks != (TaskId(0, 0),) for membership in copy.got)


@pytest.mark.parametrize("kilobytes", [1_000, 1_060])
def test_should_keep_what_fits_the_brokers_record_and_refuse_the_rest_with_a_sentence(kilobytes: int, join: Any) -> None:
    """The arithmetic holds on a broker: what is just below its limit comes to a generation."""
    chance = Random(7)
    tasks = [
        TaskId(*(chance.randrange(10**9, 10**10) for _ in range(2))) for _ in range(int(kilobytes * 1_000 / 11.5))
    ]  # 11.5 bytes each

    class Large(Member):
        def _assign(self, infos: Sequence[MemberInfo]) -> Shares:
            return Shares({infos[0].process_id: tasks})

    member = join(unique("large"), "a", KEYS, kind=Large)
    if kilobytes < 1_048:
        assert len(member.wait_for_hosts("a").tasks) == len(tasks)
    else:
        wait_until(lambda: member.member.failure, "it is refused")
        assert isinstance(member.member.failure, ConfigError)
        assert re.search(r"of 1 members needs a record of \d+ bytes, but the brokers accept 1048588", str(member.member.failure))


class FirstRelease(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """The protocol of the first release, which this one does not speak any more."""

    name = "penstock"

    def __init__(self) -> None:
        self.has_joined = threading.Event()

    def metadata(self, topics: Any) -> Any:
        return ConsumerProtocolSubscription(topics=sorted(topics), user_data=b"{}", version=0)

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        return {m.member_id: ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"{}", version=0) for m in members}

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self.has_joined.set()


class Old:
    """A member of the first release on a thread of its own."""

    def __init__(self, kafka: Kafka, group: str, assignor: FirstRelease) -> None:
        self._ended = threading.Event()
        self._consumer = KafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            partition_assignment_strategy=[assignor],
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=30_000,
        )
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._consumer._coordinator.poll(timeout_ms=1_000)
            self._ended.wait(0.05)
        self._consumer.close(autocommit=False, timeout_ms=5_000)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LIMIT)


def test_should_wait_until_members_of_the_first_release_are_gone(join: Any, kafka: Kafka, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    group, assignor = unique("first"), FirstRelease()
    old = Old(kafka, group, assignor)
    try:
        assert assignor.has_joined.wait(LIMIT)
        member = join(group, "a", KEYS)
        wait_until(lambda: "members with another protocol version" in caplog.text, "it is told")
        assert member.member.failure is None
        assert member.got == []
    finally:
        old.close()
    assert member.wait_for_hosts("a").tasks == (TaskId(0, 0),)
