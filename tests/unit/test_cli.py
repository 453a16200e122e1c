from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app

APP = """
import random

from penstock import Consumed, Grouped, Produced, Serdes
from penstock.dsl.builder import StreamsBuilder


builder = StreamsBuilder()
builder.stream("orders").filter(lambda k, v: v).to("big")
topology = StreamsBuilder().build()
number = 3


class nested:
    builder = builder


def make():
    builder = StreamsBuilder()
    text = Serdes.string()
    builder.table("users", Consumed(text, text)).to_stream().to("out", Produced(text, text))
    return builder


def broken():
    builder = StreamsBuilder()
    builder.stream("a").process(dict, "missing")
    return builder


def salted():
    builder = StreamsBuilder()
    words = builder.stream("lines").map_values(with_salt).group_by(lambda _, word: word, Grouped("words"))
    words.count()
    builder.stream("others").group_by(lambda _, word: word, Grouped("others")).count()
    return builder


def with_salt(value):
    return f"{value}{random.random()}"


def crash():
    raise RuntimeError("the user's own")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "shop_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_app", raising=False)
    return "shop_app"


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["describe", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("attribute", ["builder", "make", "nested.builder"])
def test_should_print_the_description(module: str, attribute: str) -> None:
    code, output, _ = run(f"{module}:{attribute}")
    assert (code, output.splitlines()[:2]) == (0, ["Topologies:", "   Sub-topology: 0"])


def test_should_take_a_file(module: str) -> None:
    code, output, _ = run(f"{module}.py:make")
    assert code == 0
    assert "topics: [users]" in output


def test_should_take_a_topology(module: str) -> None:
    assert run(f"{module}:topology")[0] == 0


def test_should_draw_a_picture(module: str, tmp_path: Path) -> None:
    code, output, _ = run(f"{module}:builder", "--svg", str(tmp_path / "picture.svg"))
    assert (code, output) == (0, f"wrote {tmp_path / 'picture.svg'}\n")
    assert (tmp_path / "picture.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("shop_app", "module:attribute"),
        (":x", "module:attribute"),
        ("shop_app:nothing", "has no 'nothing'; it has broken, builder, crash, make, nested, salted, topology"),
        ("shop_app:number", "is an int, not a topology"),
        ("no_such_module:x", "no module 'no_such_module'"),
        ("no_such_file.py:x", "no file no_such_file.py"),
    ],
)
def test_should_say_what_is_wrong_with_a_reference(module: str, reference: str, message: str) -> None:
    code, _, errors = run(reference)
    assert code == 2
    assert message in errors


def test_should_say_what_is_wrong_with_a_topology(module: str) -> None:
    code, _, errors = run(f"{module}:broken")
    assert code == 1
    assert "missing" in errors


def test_should_not_hide_the_users_own_exception(module: str) -> None:
    result = CliRunner().invoke(app, ["describe", f"{module}:crash"])
    assert isinstance(result.exception, RuntimeError)


def test_should_say_where_it_cannot_write(module: str) -> None:
    code, _, errors = run(f"{module}:builder", "--svg", "/no/such/folder/x.svg")
    assert code == 1
    assert "/no/such/folder/x.svg" in errors


def test_should_apply_settings(module: str) -> None:
    assert run(f"{module}:make", "-c", "topology.optimization=all")[0] == 0
    code, _, errors = run(f"{module}:make", "-c", "topology.optimization=fast")
    assert (code, "'fast' is not an optimisation" in errors) == (1, True)
    assert run(f"{module}:make", "-c", "nonsense")[0] == 2


COMMANDS = ["run", "describe", "status", "reset", "broker", "demo", "topics", "produce", "consume"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_should_explain_each_command(command: str, flag: str) -> None:
    result = CliRunner().invoke(app, [command, flag], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0
    assert f"Usage: penstock {command}" in result.stdout
    assert len(result.stdout.splitlines()) > 8


def test_should_list_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"NO_COLOR": "1"})
    assert result.exit_code == 0
    assert [command for command in COMMANDS if command not in result.stdout] == []


BASE = "-c application.id=a -c bootstrap.servers=b:1"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run {module}:make", "application.id"),
        ("run {module}:make -c nonsense", "key=value"),
        (f"run {{module}}:make {BASE} -c poll.ms=soon", "poll.ms = 'soon'"),
        (f"run {{module}}:make {BASE} -c ssl.truststore.location=t.jks", "JKS"),
        (f"run {{module}}:make {BASE} --log-level LOUD", "LOUD"),
        ("run {module}:make --config /no/such/file.toml", "/no/such/file.toml"),
        ("status -c application.id=a", "bootstrap.servers"),
        (f"reset {BASE} --to-earliest --to-latest", "choose one of"),
    ],
)
def test_should_end_with_2_where_it_is_used_wrongly(module: str, command: str, message: str) -> None:
    result = CliRunner().invoke(app, command.format(module=module).split())
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_should_not_show_a_secret_in_an_error(module: str) -> None:
    settings = f"{BASE} -c security.protocol=SASL_SSL -c sasl.mechanism=PLAIN -c sasl.password=s3cret"
    result = CliRunner().invoke(app, f"run {module}:make {settings}".split())
    assert (result.exit_code, "sasl.username" in result.stderr) == (2, True)
    assert "s3cret" not in result.output
