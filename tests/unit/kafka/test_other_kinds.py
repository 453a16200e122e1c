"""What becomes of an instance whose group has members of another kind."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.errors import BrokerError
from penstock.kafka import other_kinds
from penstock.kafka.groups import GroupStatus, MemberStatus
from penstock.kafka.other_kinds import OtherKinds, kind_of

JAVA = GroupStatus("Stable", (MemberStatus("m-1", "shop-StreamThread-1-consumer", "10.0.0.1", "", 0, ()),), "stream")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(other_kinds.time, "monotonic", lambda: now[0])
    return now


def refused_at(others: OtherKinds, clock: list[float], seconds: int) -> float | None:
    """Tried every second: when it gives up."""
    for second in range(seconds):
        if others.refusal() is not None:
            return second
        clock[0] += 1
    return None


def test_should_wait_until_a_session_in_java_has_ended_and_then_name_who_is_there(clock: list[float], caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    others = OtherKinds({"group_id": "shop"}, lambda: JAVA)
    assert refused_at(others, clock, 120) == 61
    [told] = caplog.messages[:1]
    assert "Kafka Streams in Java (assignor stream), 1 member: shop-StreamThread-1-consumer on 10.0.0.1" in told
    assert "60 s" in told
    text = str(others.refusal())
    assert "group shop" in text
    assert "shop-StreamThread-1-consumer on 10.0.0.1" in text


def test_should_wait_for_as_long_as_sessions_are_set_to(clock: list[float]) -> None:
    assert refused_at(OtherKinds({"group_id": "shop", "session_timeout_ms": 300_000}, lambda: JAVA), clock, 500) == 316


def test_should_wait_anew_after_it_has_joined(clock: list[float]) -> None:
    others = OtherKinds({"group_id": "shop"}, lambda: JAVA)
    assert refused_at(others, clock, 50) is None
    others.are_gone()
    clock[0] += 100
    assert refused_at(others, clock, 50) is None


def test_should_wait_for_members_of_another_release_however_long_they_stay(clock: list[float], caplog: Any) -> None:
    others = OtherKinds({"group_id": "shop"}, lambda: GroupStatus("Stable", (), "penstock"))
    assert refused_at(others, clock, 600) is None
    assert "members with another protocol version" in caplog.text


def test_should_refuse_a_group_that_nobody_may_look_into(clock: list[float]) -> None:
    def look() -> GroupStatus:
        raise BrokerError("not allowed")

    assert refused_at(OtherKinds({"group_id": "shop"}, look), clock, 120) == 61


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "the brokers do not describe them"),
        (GroupStatus("Dead", ()), "the brokers do not describe them"),
        (GroupStatus("Stable", JAVA.members * 7, "range"), "consumers (assignor range), 7 members"),
        (GroupStatus("Stable", JAVA.members * 7, "range"), "and 2 more"),
        (GroupStatus("PreparingRebalance", JAVA.members, ""), "members in a rebalance"),
    ],
)
def test_should_say_of_which_kind_they_are(status: GroupStatus | None, text: str) -> None:
    assert text in kind_of(status)
