"""What of kafka-python's log an operator sees."""

import logging

import pytest

from penstock.kafka.client_logs import demote_client_logs


@pytest.fixture(autouse=True)
def _as_python_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever others in this process have set for the logs of all libraries."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    for name in ("kafka", "kafka.net", "kafka.net.connection"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "filters", [])  # one keeps logins out of the log, where there was one


def test_should_show_chatter_only_to_who_asks_for_it(caplog: pytest.LogCaptureFixture) -> None:
    demote_client_logs()
    demote_client_logs()
    log = logging.getLogger("kafka.net.connection")
    assert len([f for f in log.filters if type(f).__name__ == "_Demote"]) == 1
    caplog.set_level(logging.INFO, "kafka.net.connection")  # whatever the command line set for all of kafka-python
    log.error("%s: Connection lost: %s", "node 1", "reset")
    log.warning("Bootstrap connection to %s failed", "node 1")
    assert caplog.messages == []
    log.error("SaslHandshake failed: %s", "UnsupportedSaslMechanismError")
    log.info("Connected")
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    caplog.clear()
    caplog.set_level(logging.DEBUG, "kafka.net.connection")
    log.error("Connection lost")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("DEBUG", "Connection lost")]


def test_should_not_show_again_and_again_that_the_group_is_of_another_kind(caplog: pytest.LogCaptureFixture) -> None:
    demote_client_logs()
    log = logging.getLogger("kafka.coordinator")
    caplog.set_level(logging.INFO, "kafka.coordinator")
    log.error("Attempt to join group %s failed due to fatal error: %s", "shop", "InconsistentGroupProtocolError")
    assert caplog.messages == []
    log.error("Attempt to join group %s failed due to fatal error: %s", "shop", "InvalidGroupIdError")
    assert len(caplog.messages) == 1
