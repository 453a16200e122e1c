"""What travels in the group protocol: members' tales and the leader's decisions, there and back."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from penstock.kafka.membership import MemberInfo, Shares, _by_unit, _UnitAssignor, group_metadata

INFOS = {
    "m1": MemberInfo("p1", 2, "h:1", ("0_0",), ("0_1",), {"0_0": -2, "0_1": 17}, {"zone": "a"}),
    "m2": MemberInfo("p2", 1),
}


def assignor(info: MemberInfo, told: list[Sequence[MemberInfo]]) -> _UnitAssignor:
    def assign(infos: Sequence[MemberInfo]) -> Shares:
        told.append(infos)
        return Shares({"p1": ["0_0"], "p2": ["0_1"]}, {"p1": ["0_1"], "p2": []}, True)

    return _UnitAssignor(lambda: info, assign)


def test_should_carry_what_members_tell_and_what_the_leader_decides() -> None:
    told: list[Sequence[MemberInfo]] = []
    own = {member: assignor(info, told) for member, info in INFOS.items()}
    joined = [SimpleNamespace(member_id=m, metadata=a.metadata({"clicks"})) for m, a in own.items()]
    decided = own["m1"].assign(None, joined)
    assert told == [list(INFOS.values())]
    for member, known in own.items():
        known.on_assignment(decided[member], 7)
    received: Any = own["m1"].take_received()
    assert received[1] == 7
    assert received[0]["units"] == ["0_0"]
    assert received[0]["kept"] == ["0_1"]
    assert received[0]["probing"] is True
    assert received[0]["active"] == {"p1": ["0_0"], "p2": ["0_1"]}
    assert received[0]["hosts"] == {"p1": "h:1", "p2": ""}
    assert own["m1"].take_received() is None


def test_should_ask_once_for_a_process_that_is_in_the_group_twice() -> None:
    told: list[Sequence[MemberInfo]] = []
    joined = [
        SimpleNamespace(member_id=m, metadata=assignor(MemberInfo("p1"), told).metadata({"clicks"})) for m in ("old", "new")
    ]
    assignor(MemberInfo("p1"), told).assign(None, joined)
    assert told == [[MemberInfo("p1")]]


def test_should_turn_copies_by_process_into_processes_by_unit() -> None:
    assert _by_unit({"p1": ["a", "b"], "p2": ["a"]}) == {"a": ("p1", "p2"), "b": ("p1",)}


def test_should_pack_the_static_id_into_the_metadata() -> None:
    assert group_metadata("g", 3, "m", "i") == b"CGMDv2:\x03\0\0\0g\0m\0\0i\0"
    assert group_metadata("g", 3, "m") == b"CGMDv2:\x03\0\0\0g\0m\0\1"
