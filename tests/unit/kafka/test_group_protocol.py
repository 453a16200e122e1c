"""Whom members of the group believe, and what work strangers get: none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock import ConfigError
from penstock.ids import TaskId
from penstock.kafka import member_codec as codec
from penstock.kafka.group_protocol import GroupProtocol, JoinedMember, RefusedError, record_size
from penstock.kafka.member_codec import AssignmentFrame, MemberFrame
from penstock.kafka.members import SHUTDOWN_REQUESTED, Decision, MemberIdentity, MemberInfo, Shares
from penstock.peers.proofs import PeerKeys

KEYS = PeerKeys.derive("secret", "shop")
GENERATION = 5


class Group:
    """Members that join one after the other; the first leads."""

    def __init__(self, keys: PeerKeys | None = KEYS) -> None:
        self._keys = keys
        self.asked: list[list[str]] = []
        self.joined: list[JoinedMember] = []
        self.members: dict[str, GroupProtocol] = {}
        self.identities: dict[str, MemberIdentity] = {}

    def assign(self, infos: Sequence[MemberInfo]) -> Shares:
        self.asked.append([info.process_id for info in infos])
        return Shares({info.process_id: [TaskId(0, number)] for number, info in enumerate(infos)})

    def join(
        self, member_id: str, info: MemberInfo, keys: PeerKeys | None = None, static: str | None = None, generation: int = -1
    ) -> GroupProtocol:
        protocol = GroupProtocol("shop", keys or self._keys, lambda: info, self.assign)
        identity = self.identities[member_id] = MemberIdentity(member_id, static)
        self.joined.append(JoinedMember(identity, protocol.tell(identity, generation)))
        self.members[member_id] = protocol
        return protocol

    def bring(self, member_id: str, told: bytes | None, static: str | None = None, size: int = 0) -> None:
        """Somebody who is not of this release, or of this world."""
        self.identities[member_id] = MemberIdentity(member_id, static)
        self.joined.append(JoinedMember(self.identities[member_id], told, size))

    def decide(self, generation: int = GENERATION) -> dict[str, bytes]:
        leader = next(iter(self.members.values()))
        return leader.decide(self.joined, generation)

    def take(self, member_id: str, told: bytes | None, generation: int = GENERATION) -> Decision:
        return self.members[member_id].take(told, self.identities[member_id], generation)


@pytest.mark.parametrize("keys", [KEYS, None], ids=["token", "no token"])
def test_should_share_the_work_among_all(keys: PeerKeys | None) -> None:
    group = Group(keys)
    group.join("m1", MemberInfo("a", host="localhost:1"))
    group.join("m2", MemberInfo("b", host="localhost:2"), generation=GENERATION - 1)
    told = group.decide()
    taken = {member: group.take(member, told[member]) for member in told}
    assert {member: decision.tasks for member, decision in taken.items()} == {"m1": (TaskId(0, 0),), "m2": (TaskId(0, 1),)}
    assert taken["m2"].hosts == {"a": "localhost:1", "b": "localhost:2"}
    assert taken["m2"].owners == {TaskId(0, 0): "a", TaskId(0, 1): "b"}


def test_should_send_all_members_home_when_one_wants_the_application_to_stop() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"))
    group.join("m2", MemberInfo("b", error_code=SHUTDOWN_REQUESTED))
    told = group.decide()
    assert {(group.take(m, told[m]).tasks, group.take(m, told[m]).error_code) for m in told} == {((), SHUTDOWN_REQUESTED)}


def _stolen(group: Group) -> dict[str, tuple[bytes | None, str | None]]:
    """What strangers tell: nothing of it is worth anything under their own identity."""
    other = GroupProtocol("shop", PeerKeys.derive("guessed", "shop"), lambda: MemberInfo("evil", host="evil:1"), group.assign)
    without = GroupProtocol("shop", None, lambda: MemberInfo("evil", host="evil:1"), group.assign)
    elsewhere = GroupProtocol("shop-eu", KEYS, lambda: MemberInfo("evil", host="evil:1"), group.assign)
    real = group.joined[0].told
    assert real is not None
    frame = MemberFrame.decode(real)
    return {
        "another token": (other.tell(MemberIdentity("m9"), -1), None),
        "no token": (without.tell(MemberIdentity("m9"), -1), None),
        "another group": (elsewhere.tell(MemberIdentity("m9"), -1), None),
        "a copy of another's": (real, None),
        "a copy under a static id": (real, "m1"),
        "other versions": (MemberFrame(1, 9, frame.proof, frame.body).encode(), None),
        "garbage": (b"\xff" * 100, None),
        "nothing": (b"", None),
        "no bytes of the consumer protocol": (None, None),
    }


STRANGERS = ["another token", "no token", "another group", "a copy of another's", "a copy under a static id", "other versions"]
STRANGERS += ["garbage", "nothing", "no bytes of the consumer protocol"]


@pytest.mark.parametrize("who", STRANGERS)
def test_should_give_a_stranger_nothing_and_tell_nobody_of_it(who: str, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    group = Group()
    group.join("m1", MemberInfo("a", host="localhost:1"))
    group.bring("m9", *_stolen(group)[who])
    for _ in range(2):
        told = group.decide()
        assert told["m9"] == b""
        assert group.take("m1", told["m1"]).hosts == {"a": "localhost:1"}
    assert group.asked == [["a"], ["a"]]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "stranger" in caplog.text
    assert "secret" not in caplog.text


def test_should_not_stop_for_a_stranger_who_wants_it() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"))
    group.join("m9", MemberInfo("evil", error_code=SHUTDOWN_REQUESTED), PeerKeys.derive("guessed", "shop"))
    assert group.take("m1", group.decide()["m1"]) == Decision((TaskId(0, 0),), (), {TaskId(0, 0): "a"}, {}, {"a": ""})


def test_should_know_a_member_again_by_what_the_broker_calls_it() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"))
    late = group.join("m2", MemberInfo("b"), generation=3)
    told = late.tell(MemberIdentity(""), -1)  # the id was not known when it joined
    group.joined[1] = JoinedMember(MemberIdentity("m2"), told)
    assert group.decide()["m2"] == b""
    with pytest.raises(RefusedError, match="stranger"):
        group.take("m2", b"")
    group.joined[1] = JoinedMember(MemberIdentity("m2"), late.tell(MemberIdentity("m2"), GENERATION))
    assert group.take("m2", group.decide(GENERATION + 1)["m2"], GENERATION + 1).tasks == (TaskId(0, 1),)


def test_should_refuse_one_who_claims_a_generation_that_has_not_been() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"))
    group.join("m2", MemberInfo("b"), generation=GENERATION)
    assert group.decide()["m2"] == b""


def test_should_let_a_static_member_keep_its_part_under_a_new_member_id() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"), static="shop-1")
    told = group.decide()["m1"]
    group.identities["m1"] = MemberIdentity("m1-after-restart", "shop-1")
    assert group.take("m1", told).tasks == (TaskId(0, 0),)


def test_should_refuse_a_leader_that_does_not_know_the_token(caplog: Any) -> None:
    group, evil = Group(), Group(PeerKeys.derive("guessed", "shop"))
    group.join("m1", MemberInfo("a"))
    evil.join("m9", MemberInfo("evil", host="evil:1"))
    evil.bring("m1", group.joined[0].told)
    shared = codec.encode_shared(
        [("a", "localhost:1"), ("evil", "evil:1")], Shares({"a": [TaskId(0, 0)], "evil": [TaskId(0, 1)]}), 0
    )
    frames = {
        "unproved": AssignmentFrame(2, codec.NO_PROOF, codec.encode_own(0, False), shared).encode(),
        "proved with a guess": evil.members["m9"].decide(
            [JoinedMember(MemberIdentity("m1"), evil.members["m9"].tell(MemberIdentity("m1"), -1))],
            GENERATION,
        )["m1"],
        "garbage": b"\0" * 100,
        "nothing": b"",
        "no bytes of the consumer protocol": None,
    }
    for told in frames.values():
        with pytest.raises(RefusedError):
            group.take("m1", told)


def test_should_refuse_what_was_meant_for_another_member_or_generation() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"))
    group.join("m2", MemberInfo("b"))
    told = group.decide()
    with pytest.raises(RefusedError, match=r"proof of application\.server\.token is missing or wrong"):
        group.take("m1", told["m2"])
    with pytest.raises(RefusedError, match=r"proof of application\.server\.token is missing or wrong"):
        group.take("m1", told["m1"], GENERATION + 1)
    frame = AssignmentFrame.decode(told["m1"])
    for changed in (
        AssignmentFrame(3, frame.proof, frame.own, frame.shared),
        AssignmentFrame(2, frame.proof, frame.own[:-1] + b" }", frame.shared),
        AssignmentFrame(2, frame.proof, b"", frame.own + frame.shared),
    ):
        with pytest.raises(RefusedError):
            group.take("m1", changed.encode())


def test_should_speak_the_highest_version_that_all_know(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(None)
    monkeypatch.setattr(codec, "HIGHEST", 4)
    group.join("m1", MemberInfo("a"))
    group.join("m2", MemberInfo("b"))
    monkeypatch.setattr(codec, "HIGHEST", 3)
    group.join("m3", MemberInfo("c"))
    monkeypatch.setattr(codec, "HIGHEST", 4)
    told = group.decide()
    assert {AssignmentFrame.decode(given).version for given in told.values()} == {3}
    monkeypatch.setattr(codec, "LOWEST", 4)
    group.join("m4", MemberInfo("d"))
    monkeypatch.setattr(codec, "LOWEST", 2)
    told = group.decide()
    assert [member for member, given in told.items() if not given] == ["m4"]
    assert {AssignmentFrame.decode(given).version for given in told.values() if given} == {3}


def test_should_refuse_a_leader_that_speaks_a_version_nobody_here_knows() -> None:
    group = Group(None)
    group.join("m1", MemberInfo("a"))
    frame = AssignmentFrame.decode(group.decide()["m1"])
    with pytest.raises(RefusedError, match="version 9"):
        group.take("m1", AssignmentFrame(9, frame.proof, frame.own, frame.shared).encode())


def test_should_not_take_an_instance_on_another_host_where_there_is_no_token() -> None:
    group = Group(None)
    group.join("m1", MemberInfo("a", host="localhost:1"))
    group.join("m2", MemberInfo("b", host="192.0.2.1:80"))
    assert group.decide()["m2"] == b""


def test_should_give_all_to_one_of_two_members_with_one_process_id_and_tell_the_other(caplog: Any) -> None:
    group = Group()
    group.join("m1", MemberInfo("b"))
    group.join("m2-copy", MemberInfo("a"))
    group.join("m3", MemberInfo("a"), generation=4)
    told = group.decide()
    assert group.take("m3", told["m3"]).tasks == (TaskId(0, 1),)
    copy = group.take("m2-copy", told["m2-copy"])
    assert (copy.tasks, copy.copies, copy.is_double) == ((), (), True)
    assert not group.take("m1", told["m1"]).is_double
    assert "copied" in caplog.text


def test_should_not_take_a_connection_that_was_lost_for_a_copy() -> None:
    group = Group()
    again = group.join("m1", MemberInfo("a"), generation=4)
    group.bring("m2", again.tell(MemberIdentity("m2"), -1))
    told = group.decide()
    assert group.asked == [["a"]]
    assert again.take(told["m2"], MemberIdentity("m2"), GENERATION).tasks == (TaskId(0, 0),)


def test_should_fit_a_hundred_instances_with_a_thousand_partitions_into_the_brokers_record() -> None:
    """Every task has state and a standby; who has what is as scattered as it can be; hosts have long names."""
    members, partitions, chance = 100, 1_000, Random(7)
    tasks = [TaskId(0, partition) for partition in range(partitions)]
    spread = {task: chance.randrange(members) for task in tasks}
    copied = {task: (spread[task] + chance.randrange(1, members)) % members for task in tasks}
    names = [str(UUID(int=chance.getrandbits(128))) for _ in range(members)]
    active = {name: [task for task in tasks if spread[task] == number] for number, name in enumerate(names)}
    copies = {name: [task for task in tasks if copied[task] == number] for number, name in enumerate(names)}
    joined = []

    def protocol(number: int) -> GroupProtocol:
        name = names[number]
        offsets = {**dict.fromkeys(active[name], -2), **{task: chance.randrange(10**10) for task in copies[name]}}
        host = f"shop-instance-{number}.cluster-7.eu-central-1.example.com:8080"
        info = MemberInfo(name, 4, host, tuple(active[name]), tuple(copies[name]), offsets, {"zone": f"zone-{number % 3}"})
        return GroupProtocol("shop", KEYS, lambda: info, lambda infos: Shares(active, copies, True))

    protocols = [protocol(number) for number in range(members)]
    for number, member in enumerate(protocols):
        identity = MemberIdentity(f"shop-1234-consumer-{names[number]}")
        told = member.tell(identity, 4)
        joined.append(JoinedMember(identity, told, len(told) + 200))
    told_all = protocols[0].decide(joined, GENERATION)
    sizes = [len(told) for told in told_all.values()]
    assert max(sizes) < 6_000
    assert max(joined_one.size for joined_one in joined) < 800
    assert record_size([one.size for one in joined], sizes) < 700_000
    taken = protocols[99].take(told_all[joined[99].identity.member_id], joined[99].identity, GENERATION)
    assert set(taken.tasks) == set(active[names[99]])
    assert set(taken.copies) == set(copies[names[99]])
    assert taken.owners == {task: names[number] for task, number in spread.items()}


@pytest.mark.parametrize("keys", [KEYS, None], ids=["token", "no token"])
def test_should_not_fail_by_the_size_of_what_a_stranger_sends(keys: PeerKeys | None, caplog: Any) -> None:
    """The broker refuses such a group's record; the application's own members must not end by that."""
    group = Group(keys)
    group.join("m1", MemberInfo("a"))
    group.bring("m9", Random(7).randbytes(1_100_000), size=1_100_100)
    for _ in range(2):
        assert group.take("m1", group.decide()["m1"]).tasks == (TaskId(0, 0),)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "size of its user data" in caplog.text


def test_should_count_only_own_members_where_the_group_is_too_large() -> None:
    group = Group()
    group.join("m1", MemberInfo("a"))
    group.joined[0] = replace(group.joined[0], size=1_100_000)
    group.bring("m9", b"", size=1_100_000)
    with pytest.raises(ConfigError, match=r"1 members needs a record of 110\d{4} bytes"):
        group.decide()


def test_should_say_what_to_do_where_the_group_is_too_large() -> None:
    many = [MemberInfo(f"process-{number}" + "x" * 100) for number in range(600)]
    protocol = GroupProtocol("shop", None, lambda: many[0], lambda infos: Shares({}), lambda: 900_000)
    joined = []
    for number, info in enumerate(many):
        member = GroupProtocol("shop", None, lambda info=info: info, lambda infos: Shares({}))
        joined.append(JoinedMember(MemberIdentity(str(number)), member.tell(MemberIdentity(str(number)), -1), 1_000))
    with pytest.raises(ConfigError, match=r"600 members .* the brokers accept 900000. .*max\.message\.bytes"):
        protocol.decide(joined, GENERATION)
