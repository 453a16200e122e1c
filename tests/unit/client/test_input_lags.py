from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import TaskId, TopicPartition
from penstock.client.input_lags import InputLags
from penstock.errors import BrokerError
from tests.harness.waiting import LIMIT

READ, NEW, UNKNOWN = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
IN_0, IN_1, IN_2 = (TopicPartition("in", number) for number in range(3))


class Brokers:
    """Know what is committed and where topics end, unless they are away."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.answer.set()
        self.asked = 0
        tasks: Any = SimpleNamespace(
            owners={READ: 0, NEW: 0, UNKNOWN: 0},
            plan=SimpleNamespace(inputs=lambda task: [TopicPartition("in", task.partition)]),
            positions=lambda: {IN_0: 99, IN_1: 20},
        )
        self.lags = InputLags(tasks, lambda partitions: {IN_0: 90}, self.ends)

    def ends(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked += 1
        assert self.answer.wait(LIMIT)
        return dict.fromkeys(partitions, 100)


def test_should_count_what_is_not_committed_as_the_tools_of_kafka_do() -> None:
    found = Brokers().lags()
    assert found.tasks == {READ: 10, NEW: 80}, "where nothing is committed the position counts; the third is not known yet"
    assert (found.total, found.partitions[IN_0].committed, found.partitions[IN_0].end) == (90, 90, 100)


def test_should_ask_once_for_all_who_look() -> None:
    brokers = Brokers()
    assert [brokers.lags().total for _ in range(5)] == [90] * 5
    assert brokers.asked == 1


def test_should_return_what_was_known_last_while_brokers_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.input_lags._EVERY_SECONDS", 0.0)
    monkeypatch.setattr("penstock.client.input_lags._WAIT_SECONDS", 0.01)
    brokers = Brokers()
    assert brokers.lags._asking is None
    while not brokers.lags().partitions:
        pass
    brokers.answer.clear()
    assert brokers.lags().total == 90
    brokers.answer.set()


def test_should_go_on_after_an_error() -> None:
    def away(partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        raise BrokerError("the brokers do not answer")

    tasks: Any = SimpleNamespace(owners={READ: 0}, plan=SimpleNamespace(inputs=lambda task: [IN_0]), positions=dict)
    assert InputLags(tasks, away, away)().partitions == {}
