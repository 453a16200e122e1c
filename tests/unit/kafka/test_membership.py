"""The member and the client that carries it: what others send cannot break either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition as ClientPartition

from penstock.ids import TaskId
from penstock.kafka.group_protocol import NAME
from penstock.kafka.members import MemberInfo, Membership, Shares
from penstock.kafka.membership import GroupMember, _look_after, _TaskAssignor, group_metadata
from penstock.peers.proofs import PeerKeys

KEYS = PeerKeys.derive("secret", "shop")


class Member:
    """A member without brokers: what the client would call is called here."""

    def __init__(self, member_id: str, info: MemberInfo, keys: PeerKeys | None = KEYS) -> None:
        self.got: list[Membership] = []
        self.revoked: list[bool] = []
        self.doubles = 0
        self.group = GroupMember(
            {"group_id": "shop"},
            ["in"],
            lambda: info,
            self._assign,
            self._revoke,
            self.got.append,
            keys=keys,
            on_double=self._double,
        )
        self.generation = SimpleNamespace(member_id=member_id, generation_id=-1)
        self.group._generation = lambda: self.generation
        self.rejoins = 0
        self.consumer: Any = SimpleNamespace(
            _coordinator=SimpleNamespace(_generation=self.generation, request_rejoin=self._rejoin)
        )
        self.assignor = _TaskAssignor(self.group)

    def _assign(self, infos: Sequence[MemberInfo]) -> Shares:
        return Shares({info.process_id: [TaskId(0, number)] for number, info in enumerate(infos)})

    def _revoke(self, lost: bool) -> threading.Event:
        self.revoked.append(lost)
        return threading.Event()

    def _double(self) -> None:
        self.doubles += 1

    def _rejoin(self) -> None:
        self.rejoins += 1

    def joining(self) -> Any:
        metadata = self.assignor.metadata({"in"}).encode()
        return SimpleNamespace(member_id=self.generation.member_id, group_instance_id=None, metadata=metadata)


def decide(leader: Member, members: list[Any]) -> dict[str, bytes]:
    """As the client does it, with its own decoding."""
    leader.generation.generation_id = 7

    def perform(leader_id: str, protocol: str, joined: Sequence[Any]) -> Any:
        for member in joined:
            member.metadata = ConsumerProtocolSubscription.decode(member.metadata)
            assert list(member.metadata.topics) == ["in"]  # what others subscribe to is nothing to this client
        return leader.assignor.assign(None, joined)

    async def complete(*_: Any) -> None: ...

    coordinator = SimpleNamespace(_perform_assignment=perform, _on_join_complete_async=complete)
    _look_after(coordinator, leader.group)
    return {member: given.encode() for member, given in coordinator._perform_assignment("m1", NAME, members).items()}


def receive(member: Member, raw: bytes, generation: int = 7) -> None:
    async def complete(generation: int, member_id: str, protocol: str, cleaned: bytes) -> None:
        assignment = ConsumerProtocolAssignment.decode(cleaned)
        assert assignment.partitions() == []
        member.assignor.on_assignment(assignment, generation)

    coordinator = SimpleNamespace(_perform_assignment=None, _on_join_complete_async=complete)
    _look_after(coordinator, member.group)
    asyncio.run(coordinator._on_join_complete_async(generation, member.generation.member_id, NAME, raw))
    member.group._announce(member.consumer)


def test_should_carry_what_members_tell_and_what_the_leader_decides() -> None:
    first, second = Member("m1", MemberInfo("a", host="h:1")), Member("m2", MemberInfo("b"))
    told = decide(first, [first.joining(), second.joining()])
    for member in (first, second):
        receive(member, told[member.generation.member_id])
    assert first.got == [
        Membership(
            7, group_metadata("shop", 7, "m1"), (TaskId(0, 0),), {TaskId(0, 0): "a", TaskId(0, 1): "b"}, {"a": "h:1", "b": ""}
        )
    ]
    assert second.got[0].tasks == (TaskId(0, 1),)


def test_should_show_who_reads_what_to_those_who_look_at_the_group_from_outside() -> None:
    """Lag tools look at the partitions of an assignment; the client of a member never sees them."""
    first, second = Member("m1", MemberInfo("a")), Member("m2", MemberInfo("b"))
    shares = Shares({"a": [TaskId(0, 0)], "b": [TaskId(0, 1)]}, partitions={"a": {"in": [0]}, "b": {"in": [1], "other": [1]}})
    first.group._protocol._assign = lambda infos: shares
    told = decide(first, [first.joining(), second.joining()])
    shown = {member: ConsumerProtocolAssignment.decode(raw).partitions() for member, raw in told.items()}
    assert shown == {"m1": [ClientPartition("in", 0)], "m2": [ClientPartition("in", 1), ClientPartition("other", 1)]}
    receive(second, told["m2"])
    assert second.got[0].tasks == (TaskId(0, 1),)


def test_should_go_on_with_members_whose_bytes_are_none() -> None:
    leader = Member("m1", MemberInfo("a"))
    others: list[bytes | None] = [None, b"", b"\xff" * 50, b"\0\0\x7f\xff\xff\xff", b"\0\x09" + bytes(4) + b"\0\0\0\x05hello"]
    evil = ConsumerProtocolSubscription(topics=["not-allowed"] * 10, user_data=b"{}", version=0).encode()
    members = [leader.joining()]
    for number, raw in enumerate([*others, evil]):
        members.append(SimpleNamespace(member_id=f"x{number}", group_instance_id=None, metadata=raw))
    told = decide(leader, members)
    receive(leader, told["m1"])
    assert leader.got[0].tasks == (TaskId(0, 0),)
    assert leader.got[0].hosts == {"a": ""}


def test_should_take_nothing_from_a_leader_that_proves_nothing_and_ask_again() -> None:
    member = Member("m1", MemberInfo("a"))
    evil = Member("m9", MemberInfo("evil", host="evil:1"), PeerKeys.derive("guessed", "shop"))
    told = decide(evil, [evil.joining(), Member("m1", MemberInfo("a"), PeerKeys.derive("guessed", "shop")).joining()])
    partitions = ConsumerProtocolAssignment(assigned_partitions=[("in", [0, 1])], user_data=b"{}", version=0).encode()
    for number, raw in enumerate([told["m1"], partitions, b"", b"\xff" * 9, ConsumerProtocolAssignment(version=0).encode()]):
        receive(member, raw, generation=7 + number)
        assert member.revoked == [True] * (number + 1)
    assert member.got == []
    assert member.group._ask_again_at is not None
    assert member.group._refused_seconds == 300.0
    leader = Member("m2", MemberInfo("b"))
    receive(member, decide(leader, [leader.joining(), member.joining()])["m1"])
    assert member.got[0].tasks == (TaskId(0, 1),)
    assert (member.group._ask_again_at, member.group._refused_seconds) == (None, 1.0)


def test_should_take_a_new_id_and_join_again_where_another_has_its_own() -> None:
    first, copy = Member("m1", MemberInfo("a")), Member("m2", MemberInfo("a"))
    told = decide(first, [first.joining(), copy.joining()])
    receive(copy, told["m2"])
    assert (copy.doubles, copy.rejoins, copy.revoked, copy.got) == (1, 1, [True], [])
    receive(first, told["m1"])
    assert first.got[0].tasks == (TaskId(0, 0),)


def test_should_pack_the_static_id_into_the_metadata() -> None:
    assert group_metadata("g", 3, "m", "i") == b"CGMDv2:\x03\0\0\0g\0m\0\0i\0"
    assert group_metadata("g", 3, "m") == b"CGMDv2:\x03\0\0\0g\0m\0\1"
