"""What the development broker says, in its log and where it cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import DevBroker
from penstock.errors import BrokerError

pytestmark = pytest.mark.integration


def test_should_write_a_log(tmp_path: Path) -> None:
    with DevBroker(data_dir=tmp_path):
        assert "QuorumController" in (tmp_path / "broker.log").read_text()
    assert (tmp_path / "broker.out").read_text() == ""


def test_should_name_the_setting_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"could not format .*Invalid value 0 for configuration num\.io\.threads"):
        DevBroker(data_dir=tmp_path, overrides={"num.io.threads": "0"}).start()


def test_should_say_why_it_has_not_started(tmp_path: Path) -> None:
    with DevBroker(data_dir=tmp_path):
        pass
    with pytest.raises(BrokerError, match=r"does not answer (?s:.*)Stored node id 1 doesn't match"):
        DevBroker(data_dir=tmp_path, overrides={"node.id": "2", "controller.quorum.voters": "2@127.0.0.1:{controller}"}).start()
