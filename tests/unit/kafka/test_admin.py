from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka import admin
from penstock.kafka.admin import Admin


def test_should_take_a_request_that_nobody_answers_for_one_that_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 0.01)
    monkeypatch.setattr(admin, "_STEP", 0.01)
    unanswered: Future[Any] = Future()
    with pytest.raises(KafkaException) as caught:
        admin._result(unanswered)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT


def test_should_say_that_brokers_are_away_while_it_asks_for_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 0.2)
    monkeypatch.setattr(admin, "_STEP", 0.1)
    client = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        client.log_ends([TopicPartition("topic", 0)], True)
