from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from penstock.log_lines import LogKeeper, LogLine, kept_lines, tell_again

AT = 1_700_000_000_123


@pytest.fixture
def keeper() -> Iterator[LogKeeper]:
    keeper = LogKeeper()
    logging.getLogger("penstock").addHandler(keeper)
    yield keeper
    logging.getLogger("penstock").removeHandler(keeper)


def test_should_keep_warnings_and_errors_with_time_level_and_what_was_raised(keeper: LogKeeper) -> None:
    logging.getLogger("penstock.runtime.task").info("nothing")
    logging.getLogger("elsewhere").error("not ours")
    try:
        raise ValueError("no number")
    except ValueError:
        logging.getLogger("penstock.runtime.task").exception("task %s failed", "0_1")
    (line,) = keeper.take()
    assert (line.level, line.logger) == ("ERROR", "penstock.runtime.task")
    assert line.text.startswith("task 0_1 failed\nTraceback")
    assert line.text.endswith("ValueError: no number")
    assert line.time > AT
    assert keeper.take() == ()


def test_should_keep_so_many_and_tell_how_many_more_there_were(keeper: LogKeeper) -> None:
    for number in range(1_000):
        logging.getLogger("penstock.handlers").warning("%d %s", number, "x" * 100_000)
    logging.getLogger("penstock.dead_letters").warning("a dead letter")
    lines = keeper.take()
    assert len(lines) == 22
    assert [line.text for line in lines[-2:]] == ["a dead letter", "980 more lines were left out"]
    assert max(len(line.text) for line in lines) <= 4_000
    logging.getLogger("penstock.handlers").warning("and again")
    assert len(keeper.take()) == 1


def test_should_tell_again_with_time_level_and_who_said_it(keeper: LogKeeper, caplog: pytest.LogCaptureFixture) -> None:
    lines = [LogLine(AT, "ERROR", "penstock.runtime", "100% wrong"), LogLine(AT, "NONSENSE", "someone.elses", "odd")]
    tell_again("stream-thread [app-StreamThread-1]", lines)
    first, second = caplog.records
    assert (first.levelname, first.name, first.created) == ("ERROR", "penstock.runtime", AT / 1000)
    assert first.getMessage() == "stream-thread [app-StreamThread-1]: 100% wrong"
    assert (second.levelname, second.getMessage()) == ("WARNING", "stream-thread [app-StreamThread-1]: odd")
    assert "someone.elses" not in logging.Logger.manager.loggerDict
    assert keeper.take() == (), "what was told again is not kept again"


def test_should_not_tell_what_nobody_wants_to_hear(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "penstock.quiet")
    tell_again("somebody", [LogLine(AT, "ERROR", "penstock.quiet", "text")])
    assert not caplog.records


def test_should_leave_what_nobody_takes_on_standard_error(keeper: LogKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(shown))
    logging.getLogger("penstock.runtime").warning("a store failed to close")
    keeper.spill()
    assert shown.getvalue() == "penstock.runtime: a store failed to close\n"


def test_should_have_one_keeper_in_a_process() -> None:
    keeper = kept_lines()
    assert kept_lines() is keeper
    assert logging.getLogger("penstock").handlers.count(keeper) == 1
