from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.batch_ends import BatchEnds
from penstock.kafka.log_transport import FetchAnswer, LogUnreadableError

PARTITION = TopicPartition("in", 3)


class Transport:
    """Answers every question alike."""

    def __init__(self, answer: bytes | Exception) -> None:
        self._answer = answer
        self.asked: list[tuple[TopicPartition, int]] = []
        self.is_closed = False

    def ask(self, partition: TopicPartition, position: int) -> None:
        self.asked.append((partition, position))

    def answer(self) -> FetchAnswer:
        if isinstance(self._answer, Exception):
            raise self._answer
        return FetchAnswer(self._answer, ())

    def close(self) -> None:
        self.is_closed = True


def test_should_ask_the_leader_for_the_batch_at_an_offset() -> None:
    transport = Transport(b"")
    assert BatchEnds(lambda: transport)(PARTITION, 7) == 8
    assert transport.asked == [(PARTITION, 7)]
    assert transport.is_closed


def test_should_say_which_batch_was_looked_for_if_the_leader_does_not_answer() -> None:
    transport = Transport(LogUnreadableError("the broker has closed the connection"))
    with pytest.raises(BrokerError, match="batch of in-3 at offset 7 could not be found: the broker has closed the connection"):
        BatchEnds(lambda: transport)(PARTITION, 7)
    assert transport.is_closed


def test_should_say_which_batch_was_looked_for_if_there_is_no_leader() -> None:
    def open_transport() -> Any:
        raise BrokerError("in-3 has no leader at the moment")

    with pytest.raises(BrokerError, match="batch of in-3 at offset 7 could not be found: in-3 has no leader"):
        BatchEnds(open_transport)(PARTITION, 7)
