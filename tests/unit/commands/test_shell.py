"""`penstock topics`, `produce` and `consume` as far as they need no broker."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.commands import brokers

NOBODY = ("-c", "bootstrap.servers=127.0.0.1:1")


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list"),
        ("topics", "create", "t"),
        ("topics", "delete", "t"),
        ("produce", "t"),
        ("consume", "t"),
        ("status", "-c", "application.id=a"),
        ("reset", "-c", "application.id=a"),
    ],
    ids=" ".join,
)
def test_should_say_in_one_sentence_that_no_broker_answers(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "_PATIENCE", 0.05)
    ended = CliRunner().invoke(app, [*command, *NOBODY])
    assert ended.exit_code == 1
    assert ended.stderr.startswith("penstock: the brokers at 127.0.0.1:1 do not answer (")
    assert ended.stderr.count("\n") == 1


def test_should_wait_a_few_seconds_at_most_for_the_brokers() -> None:
    assert brokers._PATIENCE <= 5


def test_should_ask_the_usual_brokers_of_this_machine_where_none_are_named() -> None:
    assert brokers.broker_config(None, None, "c")["bootstrap.servers"] == ("localhost:9092",)


@pytest.mark.parametrize("command", ["produce", "consume"])
@pytest.mark.parametrize("option", ["--key", "--value"])
def test_should_name_the_serdes_there_are(command: str, option: str) -> None:
    ended = CliRunner().invoke(app, [command, "t", option, "text", *NOBODY])
    assert ended.exit_code == 2
    assert f"There is no serde 'text' for {option}. Use one of string, json, long," in ended.stderr
