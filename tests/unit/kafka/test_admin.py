from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock import BrokerAccessError, BrokerError
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


NO_TOKEN = KafkaError(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: HTTP error 503")


class Client:
    """An admin client that tells of an error, where it has one, and otherwise answers."""

    def __init__(self, settings: dict[str, Any], error: KafkaError | None) -> None:
        self._error, self._tell = error, settings["error_cb"]

    def list_topics(self, timeout: float) -> Any:
        if self._error is not None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={})

    def poll(self, timeout: float) -> None:
        if self._error is not None:
            self._tell(self._error)


def opened(monkeypatch: pytest.MonkeyPatch, *errors: KafkaError | None) -> Admin:
    """An Admin whose clients, one after the other, have these errors."""
    left = iter(errors)
    monkeypatch.setattr(admin, "open_client", lambda what, kind, settings: Client(settings, next(left)))
    return Admin({"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("error", [NO_TOKEN, KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: expired")])
def test_should_go_on_where_it_was_refused_only_once(error: KafkaError, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, error, None).partition_counts() == {}


def test_should_say_that_librdkafka_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerAccessError, match="Failed to acquire SASL OAUTHBEARER token"):
        opened(monkeypatch, NO_TOKEN, NO_TOKEN).partition_counts()
