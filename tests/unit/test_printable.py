from __future__ import annotations

import io
import json
import logging
import re
from functools import partial
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import penstock
from penstock import ValueAndTimestamp
from penstock.commands import common, progress
from penstock.commands.top import overview
from penstock.dead_letters import DeadLetter
from penstock.log_lines import LogKeeper, LogLine, tell_again
from penstock.operators.print import PrintForeachAction
from penstock.printable import printable, printable_lines
from tests.unit.client.web.served import Served

EVIL = "\x1b]52;c;Y3VybCBldmlsfHNo\x1b\\\x1b[2K\x1b[1Aok\x9b2K\u202e\r"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@given(st.text(st.characters(codec=None)))
def test_should_leave_nothing_that_a_terminal_acts_on(text: str) -> None:
    assert not UNSAFE.search(printable(text))
    assert not UNSAFE.search(printable_lines(text))
    assert "\n" not in printable(text)
    assert printable_lines(text).count("\n") == text.count("\n")


@given(st.text())
def test_should_mean_the_same_in_json(text: str) -> None:
    assert json.loads(printable_lines(json.dumps({text: text}, ensure_ascii=False))) == {text: text}


def test_should_keep_ordinary_text() -> None:
    assert printable("Ä 漢字 😀 a/b [red] \\u001b") == "Ä 漢字 😀 a/b [red] \\u001b"


def test_should_print_in_commands_through_one_function() -> None:
    """What commands print may come from a record: `say` and `show_table` escape it."""
    root = Path(penstock.__file__).parent
    files = [*(root / "commands").glob("*.py"), root / "cli.py"]
    found = [file.name for file in files if re.search(r"typer\.echo\(|(?<!\.)\bprint\(", file.read_text(encoding="utf-8"))]
    assert found == ["common.py"]


@pytest.mark.parametrize("terminal", [True, False])
def test_should_escape_cells_of_tables(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "Console", partial(Console, force_terminal=terminal, width=200, no_color=True))
    common.show_table(EVIL, ("KEY",), [(EVIL,)])
    shown = capsys.readouterr().out
    assert "\\u001b]52;c;Y3VybCBldmlsfHNo" in shown
    assert "\x1b]52" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown


def test_should_escape_what_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    common.say(EVIL)
    with pytest.raises(typer.Exit):
        common.fail(EVIL)
    out, err = capsys.readouterr()
    assert not UNSAFE.search(out + err)


def test_should_escape_what_top_shows(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    try:
        served.world.home_of("counts", "k").put("k", ValueAndTimestamp(1, 1))
        application = served.get("/api/app")[1]
    finally:
        served.close()
    application["failure"] = application["threads"][0]["name"] = application["tasks"][0]["stores"][0] = EVIL
    application["errors"] = [{"time": 1, "level": "ERROR", "message": EVIL}]
    written = io.StringIO()
    Console(file=written, width=300, no_color=True).print(overview(application, rows=None))
    assert not UNSAFE.search(written.getvalue())
    assert "\\u001b]52" in written.getvalue()


def test_should_escape_lines_of_the_log(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    record = logging.LogRecord("penstock.x", logging.WARNING, "", 0, "failed: %s", (EVIL,), None)
    progress.StandardErrorHandler().emit(record)
    assert not UNSAFE.search(capsys.readouterr().err)
    keeper = LogKeeper()
    keeper.emit(record)
    assert not UNSAFE.search(keeper.take()[0].text)
    tell_again(EVIL, [LogLine(1, "WARNING", "penstock.x", EVIL)])
    assert not UNSAFE.search(caplog.messages[-1])
    assert not UNSAFE.search(str(DeadLetter("dead", 1, "ValueError", EVIL, "in", 0, 4)))


def test_should_print_records_escaped_to_standard_output_and_as_they_are_to_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    PrintForeachAction(None, None, "words")(EVIL, "a\nb")
    assert capsys.readouterr().out == f"[words]: {printable_lines(EVIL)}, a\nb\n"
    written = io.StringIO()
    PrintForeachAction(written, None, "words")(EVIL, 1)
    assert written.getvalue() == f"[words]: {EVIL}, 1\n"
