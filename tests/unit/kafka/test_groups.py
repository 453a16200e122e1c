"""The group as the brokers describe it, with members of any kind in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from penstock.kafka import member_codec as codec
from penstock.kafka.groups import GroupStatus, MemberStatus, _described, _member
from penstock.kafka.member_codec import AssignmentFrame, MemberFrame
from penstock.kafka.members import MemberInfo, Shares

INFO, SHARES = MemberInfo("p", 2), Shares({"p": ["p0", "1_1"]})
OLD = (codec.encode_member_without_version(INFO), codec.encode_decision_without_version("p", {"p": ""}, SHARES, 0))
NEW = (
    MemberFrame(2, 2, b"x" * 32, codec.encode_member(INFO, 3, "run")).encode(),
    AssignmentFrame(2, b"x" * 32, codec.encode_own(0, False), codec.encode_shared([("p", "")], SHARES, 0)).encode(),
)


def described(told: bytes, given: bytes, client_id: str = "shop-1-consumer") -> Any:
    return SimpleNamespace(
        member_id="m-1", client_id=client_id, client_host="/10.0.0.1", member_metadata=told, member_assignment=given
    )


@pytest.mark.parametrize(("told", "given"), [OLD, NEW], ids=["first version", "second version"])
def test_should_read_what_a_member_told_and_was_given(told: bytes, given: bytes) -> None:
    subscription = ConsumerProtocolSubscription(topics=["in"], user_data=told, version=0).encode()
    assignment = ConsumerProtocolAssignment(assigned_partitions=[], user_data=given, version=0).encode()
    assert _member(described(subscription, assignment)) == MemberStatus(
        "m-1", "shop-1-consumer", "10.0.0.1", "p", 2, ("p0", "1_1")
    )


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_should_take_members_of_another_kind_as_they_are(told: bytes, given: bytes) -> None:
    for head in (b"", b"\0\0" + bytes(4)):
        found = _member(described(head + told, head + given, "evil\x1b[2J\r\n"))
        assert found == MemberStatus("m-1", "evil?[2J??", "10.0.0.1", "", 0, ())


def test_should_read_the_brokers_answer_without_a_look_at_the_members() -> None:
    members = [described(b"\xff", b"\xff")]
    groups = [SimpleNamespace(group_id="shop", error_code=0, group_state="Stable", protocol_data="stream", members=members)]
    groups.append(SimpleNamespace(group_id="none", error_code=69, group_state="Dead", protocol_data="", members=[]))
    found = _described(SimpleNamespace(groups=groups))
    assert found["shop"] == {"error": None, "group_state": "Stable", "protocol": "stream", "members": members}
    assert "GroupIdNotFoundError" in found["none"]["error"]


def test_should_know_whether_the_group_is_there() -> None:
    assert GroupStatus("Empty", ()).exists
    assert not GroupStatus("Dead", ()).exists
