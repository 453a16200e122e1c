"""Offsets that a member commits under the generation they are of, or not at all."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotCoordinatorError,
)

from penstock.kafka.fenced_commit import commit_under

OFFSETS: Any = {"in-0": 7}


class Coordinator:
    """A client that answers commits with what it was told to, one after the other."""

    def __init__(self, *answers: Exception | None) -> None:
        self._generation = SimpleNamespace(generation_id=3)
        self.config = {"retry_backoff_ms": 1}
        self._net = SimpleNamespace(sleep=self._sleep)
        self._answers = list(answers)
        self.sent: list[int] = []
        self.moves = False

    async def ensure_coordinator_ready_async(self, timeout_ms: int) -> None:
        """It is."""

    async def _sleep(self, seconds: float) -> None:
        if self.moves:
            self._generation = SimpleNamespace(generation_id=4)

    async def _send_offset_commit_request(self, offsets: Any) -> None:
        self.sent.append(self._generation.generation_id)
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            raise answer


def commit(coordinator: Coordinator, generation: int = 3, *, once: bool = False, seconds: float = 5.0) -> list[int]:
    asyncio.run(commit_under(coordinator, generation, OFFSETS, seconds, once=once))
    return coordinator.sent


def test_should_commit_as_a_member_of_its_generation() -> None:
    assert commit(Coordinator()) == [3]


def test_should_send_nothing_where_the_member_is_of_another_generation() -> None:
    coordinator = Coordinator()
    with pytest.raises(IllegalGenerationError):
        commit(coordinator, 2)
    assert coordinator.sent == []


@pytest.mark.parametrize("error", [NotCoordinatorError(), KafkaConnectionError()])
def test_should_try_again_what_fails_in_passing(error: Exception) -> None:
    assert commit(Coordinator(error)) == [3, 3]


def test_should_not_try_again_when_the_group_has_moved_on_meanwhile() -> None:
    coordinator = Coordinator(NotCoordinatorError())
    coordinator.moves = True
    with pytest.raises(IllegalGenerationError):
        commit(coordinator)
    assert coordinator.sent == [3]


def test_should_send_once_what_may_have_been_taken() -> None:
    assert commit(Coordinator(NotCoordinatorError()), once=True) == [3, 3]
    coordinator = Coordinator(KafkaConnectionError())
    with pytest.raises(KafkaConnectionError):
        commit(coordinator, once=True)
    assert coordinator.sent == [3]


def test_should_say_what_no_retry_cures() -> None:
    with pytest.raises(CommitFailedError):
        commit(Coordinator(CommitFailedError("gone")))
    with pytest.raises(KafkaTimeoutError):
        commit(Coordinator(*[NotCoordinatorError()] * 10_000), seconds=0.01)
