"""What the development broker says, in its log and where it cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from penstock import DevBroker
from penstock.errors import BrokerError
from penstock.kafka.dev_broker import free_port
from tests.harness.waiting import LIMIT

pytestmark = pytest.mark.integration


def test_should_write_a_log(tmp_path: Path) -> None:
    with DevBroker(data_dir=tmp_path):
        assert "QuorumController" in (tmp_path / "broker.log").read_text()
    assert (tmp_path / "broker.out").read_text() == ""


def test_should_wait_until_a_broker_with_further_listeners_answers(tmp_path: Path) -> None:
    further = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},FURTHER://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{{controller}}",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,FURTHER:PLAINTEXT",
    }
    with DevBroker(data_dir=tmp_path, overrides=further) as broker:
        broker.kill()
        broker.start()
        answer = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=LIMIT)
        assert list(answer.brokers) == [1]


def test_should_start_with_a_secured_listener_for_clients_beside_one_in_plain_text(tmp_path: Path) -> None:
    inner = free_port()
    secured = {
        "listeners": f"CLIENTS://127.0.0.1:{{port}},PLAINTEXT://127.0.0.1:{inner},CONTROLLER://127.0.0.1:{{controller}}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{{port}},PLAINTEXT://127.0.0.1:{inner}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_app="s3cret";'
        ),
    }
    with DevBroker(data_dir=tmp_path, overrides=secured) as broker:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "app",
            "sasl.password": "s3cret",
        }
        answer = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **login}).list_topics(timeout=LIMIT)
        assert list(answer.brokers) == [1]


def test_should_name_the_setting_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"Formatting .* failed.*Invalid value 0 for configuration num\.io\.threads"):
        DevBroker(data_dir=tmp_path, overrides={"num.io.threads": "0"}).start()


def test_should_say_why_it_has_not_started(tmp_path: Path) -> None:
    with DevBroker(data_dir=tmp_path):
        pass
    with pytest.raises(BrokerError, match=r"does not answer (?s:.*)Stored node id 1 doesn't match"):
        DevBroker(data_dir=tmp_path, overrides={"node.id": "2", "controller.quorum.voters": "2@127.0.0.1:{controller}"}).start()
