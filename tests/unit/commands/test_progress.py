import io
import logging
import sys

import pytest
from rich.console import Console

from penstock.commands.progress import RestoreBars, StandardErrorHandler, busy
from penstock.ids import TopicPartition

CHANGELOG = TopicPartition("shop-counts-changelog", 2)


def test_should_show_a_bar_while_a_store_is_restored_and_leave_nothing_behind() -> None:
    screen = io.StringIO()
    bars = RestoreBars(Console(file=screen, force_terminal=True, width=120))
    bars.on_restore_start(CHANGELOG, "counts", 100, 300)
    bars.on_batch_restored(CHANGELOG, "counts", 200, 90)
    assert bars._progress is not None
    (bar,) = bars._progress.tasks
    assert (bar.description, bar.completed, bar.total) == ("restoring counts 2", 100, 200)
    bars.on_restore_end(CHANGELOG, "counts", 190)
    assert bars._progress is None
    assert "restoring counts 2" in screen.getvalue()
    bars.on_restore_end(CHANGELOG, "counts", 190)  # again, or without a start: nothing happens
    bars.on_batch_restored(CHANGELOG, "other", 1, 1)
    bars.close()


def test_should_keep_quiet_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with busy("working"):
        pass
    assert capsys.readouterr() == ("", "")


def test_should_log_to_what_standard_error_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = StandardErrorHandler()
    now = io.StringIO()
    monkeypatch.setattr(sys, "stderr", now)
    handler.emit(logging.makeLogRecord({"msg": "hello"}))
    assert now.getvalue() == "hello\n"
