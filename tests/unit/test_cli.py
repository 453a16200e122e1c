from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app

APP = """
from penstock.dsl.builder import StreamsBuilder

builder = StreamsBuilder()
builder.stream("orders").filter(lambda k, v: v).to("big")
topology = StreamsBuilder().build()
number = 3


class nested:
    builder = builder


def make():
    builder = StreamsBuilder()
    builder.table("users").to_stream().to("out")
    return builder


def broken():
    builder = StreamsBuilder()
    builder.stream("a").process(dict, "missing")
    return builder


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
        ("shop_app:nothing", "has no 'nothing'; it has broken, builder, crash, make, nested, topology"),
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
