"""Who takes leave for members that are gone; the client's coordinator is played."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import (
    CoordinatorLoadInProgressError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotCoordinatorError,
    UnknownMemberIdError,
)

from penstock.kafka.leave_group import leave_group


class Coordinator:
    """Answers with one code after the other."""

    group_id, coordinator_id = "shop", 1

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)
        self.config = {"retry_backoff_ms": 0}
        self.sent: list[list[str]] = []
        self.dead = 0
        self._manager = SimpleNamespace(send=self._send, wait_for=self._wait_for)
        self._net = SimpleNamespace(sleep=asyncio.sleep)

    async def ensure_coordinator_ready_async(self, timeout_ms: int) -> bool:
        assert timeout_ms > 0
        return bool(self._answers)

    def coordinator_dead(self, error: Exception) -> None:
        self.dead += 1

    async def _send(self, request: Any, node_id: int) -> Any:
        self.sent.append([member.member_id for member in request.members])
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(error_code=answer)

    @staticmethod
    async def _wait_for(sent: Any, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        return await sent


def leave(*answers: int | Exception, members: tuple[str, ...] = ("a", "b")) -> Coordinator:
    coordinator = Coordinator(*answers)
    asyncio.run(leave_group(coordinator, members, 60))
    return coordinator


def test_should_leave_for_all_in_one_request() -> None:
    assert leave(0).sent == [["a", "b"]]


def test_should_ask_nothing_for_nobody() -> None:
    assert leave(0, members=()).sent == []


def test_should_ask_again_until_the_group_is_loaded_and_found() -> None:
    coordinator = leave(CoordinatorLoadInProgressError.errno, NotCoordinatorError.errno, 0)
    assert (len(coordinator.sent), coordinator.dead) == (3, 1)


def test_should_not_mind_members_that_nobody_knows_any_more() -> None:
    assert len(leave(UnknownMemberIdError.errno, 0).sent) == 1


def test_should_give_up_where_no_coordinator_is_found() -> None:
    assert leave(CoordinatorLoadInProgressError.errno).sent == [["a", "b"]]


def test_should_say_where_nobody_answers() -> None:
    with pytest.raises(KafkaConnectionError):
        leave(KafkaConnectionError("socket disconnected"))


def test_should_stay_out_of_no_group_whose_broker_does_not_answer() -> None:
    assert leave(KafkaTimeoutError("no answer")).sent == [["a", "b"]]
