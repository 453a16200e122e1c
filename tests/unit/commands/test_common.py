from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import app
from penstock.commands.common import read_settings, report_errors, show_table, streams_config
from penstock.errors import BrokerError, ConfigError


def test_should_read_dotted_keys_of_a_file_with_the_command_line_over_them(tmp_path: Path) -> None:
    file = tmp_path / "app.toml"
    file.write_text('application.id = "shop"\npoll.ms = 50\n"commit.interval.ms" = 10\n[spark]\nmaster = "local[1]"\n')
    assert read_settings(file, ["poll.ms=70"]) == {
        "application.id": "shop",
        "poll.ms": "70",
        "commit.interval.ms": 10,
        "spark.master": "local[1]",
    }


def test_should_read_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("# the shop\napplication.id=shop\nbootstrap.servers = a:9092,\\\n  b:9092\npoll.ms: 50\n")
    assert read_settings(file, ["poll.ms=70"]) == {
        "application.id": "shop",
        "bootstrap.servers": "a:9092,b:9092",
        "poll.ms": "70",
    }


def test_should_refuse_a_malformed_properties_file(tmp_path: Path) -> None:
    (tmp_path / "app.properties").write_text("a=\\u12")
    result = CliRunner().invoke(app, ["status", "--config", str(tmp_path / "app.properties")])
    assert (result.exit_code, "is not a properties file: an escape" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "x:y", "--config", "/no/such.toml"], "cannot read /no/such.toml"),
        (["run", "x:y", "-c", "nonsense"], "not of the form key=value"),
        (["run", "x:y"], "missing configuration application.id and bootstrap.servers"),
        (["run", "no_such_module:y", "-c", "application.id=a", "-c", "bootstrap.servers=b:1"], "no module 'no_such_module'"),
        (["run", "x:y", "-c", "application.id=a", "-c", "bootstrap.servers=b:1", "-c", "poll.ms=soon"], "poll.ms = 'soon'"),
        (["run", "x:y", "--log-level", "loud"], "loud is not one of DEBUG"),
        (["status", "-c", "application.id=a"], "missing configuration bootstrap.servers"),
        (["reset", "--to-earliest", "--to-latest"], "choose one of --to-earliest"),
        (["reset", "--by-duration", "soon"], "is not a duration"),
        (["demo", "nothing"], "There is no demo 'nothing'"),
    ],
)
def test_should_say_what_is_wrong_in_one_sentence(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_should_refuse_a_file_that_is_not_toml(tmp_path: Path) -> None:
    (tmp_path / "app.toml").write_text("application.id: shop")
    result = CliRunner().invoke(app, ["status", "--config", str(tmp_path / "app.toml")])
    assert result.exit_code == 2
    assert "is not TOML" in result.stderr


def test_should_refuse_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = CliRunner().invoke(app, ["broker", "--port", str(port)])
    assert result.exit_code == 1
    assert f"Port {port} is in use" in result.stderr


@pytest.mark.parametrize("command", ["demo", "broker", "run", "describe", "status", "reset"])
def test_should_explain_every_command(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"penstock {command}" in result.stdout.replace("root ", "penstock ")


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("bad"), 2), (BrokerError("away"), 1), (KeyboardInterrupt(), 130)],
    ids=["use", "run", "interrupt"],
)
def test_should_end_with_a_code_that_tells_why(error: BaseException, code: int) -> None:
    with pytest.raises(typer.Exit) as ended, report_errors():
        raise error
    assert ended.value.exit_code == code


def test_should_print_plain_columns_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("Offsets", ("TOPIC", "TO"), [("lines", 10), ("a", None)])
    assert capsys.readouterr().out == "TOPIC  TO\nlines  10\na\n"


def test_should_import_classes_of_settings_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "handlers_of_this_folder.py").write_text("class Lenient:\n    def handle_error(self, *_): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    settings = ["application.id=a", "bootstrap.servers=b:1", "processing.exception.handler=handlers_of_this_folder:Lenient"]
    assert streams_config(None, settings)["processing.exception.handler"] == "handlers_of_this_folder:Lenient"
