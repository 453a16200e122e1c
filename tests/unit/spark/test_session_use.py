"""Who ends a session; sessions are played."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark import session_use
from penstock.spark.session_use import SessionUse, take_session


class Session:
    """A session with settings, which can be stopped."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.stops = 0
        self.sparkContext = SimpleNamespace(getConf=lambda: SimpleNamespace(getAll=lambda: list((settings or {}).items())))

    def stop(self) -> None:
        self.stops += 1


class Process:
    """A process with at most one session."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.active: Session | None = None
        self.made: list[tuple[str, dict[str, str]]] = []
        monkeypatch.setattr(session_use, "_made", None)
        monkeypatch.setattr(session_use, "_users", 0)
        monkeypatch.setattr(session_use, "make_session", self._make)
        monkeypatch.setattr(session_use, "active_session", lambda: self.active if self.active and not self.active.stops else None)
        monkeypatch.setattr(session_use, "has_ended", lambda context: self.active is None or bool(self.active.stops))

    def _make(self, application_id: str, settings: dict[str, str]) -> Session:
        self.made.append((application_id, settings))
        self.active = Session(settings)
        return self.active


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def take(settings: dict[str, str] | None = None, given: Any = None) -> tuple[SessionUse, Any]:
    use = take_session("app", settings or {}, given)
    return use, use.session


def test_should_end_a_session_that_was_made_for_the_application(process: Process) -> None:
    use, session = take({"spark.master": "local[2]", "spark.scheduler.pool": "lanes"})
    assert process.made == [("app", {"spark.master": "local[2]"})]
    use.release()
    use.release()
    assert session.stops == 1


@pytest.mark.parametrize("is_given", [True, False])
def test_should_leave_a_session_of_the_users_running(process: Process, is_given: bool) -> None:
    process.active = Session()
    use, session = take(given=process.active if is_given else None)
    assert session is process.active
    use.release()
    assert (session.stops, process.made) == (0, [])


def test_should_end_a_session_that_applications_share_with_the_last_of_them(process: Process) -> None:
    (first, session), (second, same) = take(), take()
    assert same is session
    first.release()
    first.release()
    assert session.stops == 0
    third, _ = take()
    second.release()
    assert session.stops == 0
    third.release()
    assert session.stops == 1


def test_should_make_a_new_session_where_the_last_one_was_stopped_by_others(process: Process) -> None:
    first, session = take()
    session.stop()
    second, other = take()
    assert other is not session
    first.release()
    assert (session.stops, other.stops) == (1, 0)
    second.release()
    assert other.stops == 1


@pytest.mark.parametrize("is_given", [True, False])
def test_should_tell_once_which_settings_a_session_that_is_there_does_not_take(
    process: Process, is_given: bool, caplog: pytest.LogCaptureFixture
) -> None:
    process.active = Session({"spark.master": "local[2]", "spark.ui.enabled": "true"})
    wanted = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.new": "1", "spark.scheduler.pool": "lanes"}
    with caplog.at_level(logging.WARNING):
        take(wanted, process.active if is_given else None)
    (line,) = (record.getMessage() for record in caplog.records)
    assert "spark.new, spark.ui.enabled of its config have no effect" in line
    assert "pool" not in line


def test_should_say_nothing_where_all_settings_are_as_wanted(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.active = Session({"spark.master": "local[2]"})
    with caplog.at_level(logging.WARNING):
        take({"spark.master": "local[2]"})
    assert not caplog.records
