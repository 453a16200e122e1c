"""What members tell each other when they join."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from penstock.kafka.membership import SHUTDOWN_REQUESTED, MemberInfo, Shares, _UnitAssignor


def halves(infos: Sequence[MemberInfo]) -> Shares:
    return Shares({"a": ["0_1"], "b": ["0_0"]})


def assigned(*infos: MemberInfo) -> dict[str, dict[str, Any]]:
    """What the leader hands to each process."""
    members = []
    for info in infos:
        subscription = _UnitAssignor(lambda info=info: info, halves).metadata(["in"])
        members.append(SimpleNamespace(member_id=info.process_id, metadata=subscription))
    leader = _UnitAssignor(lambda: infos[0], halves)
    return {member: json.loads(given.user_data) for member, given in leader.assign(None, members).items()}


def test_should_hand_the_work_out() -> None:
    given = assigned(MemberInfo("a", 2, "host:1", ("0_1",)), MemberInfo("b"))
    assert {member: (told["units"], told["error"]) for member, told in given.items()} == {"a": (["0_1"], 0), "b": (["0_0"], 0)}
    assert given["a"]["hosts"] == {"a": "host:1", "b": ""}


def test_should_send_all_members_home_when_one_wants_the_application_to_stop() -> None:
    given = assigned(MemberInfo("a"), MemberInfo("b", error_code=SHUTDOWN_REQUESTED), MemberInfo("c"))
    assert {(tuple(told["units"]), told["error"]) for told in given.values()} == {((), SHUTDOWN_REQUESTED)}
