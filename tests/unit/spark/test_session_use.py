"""Who ends a session; sessions are played."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.driver import session_use
from penstock.spark.driver.session_use import SessionUse, take_session


class Session:
    """A session with settings, which can be stopped."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.stops = 0
        self.is_lost = False
        self.sparkContext = SimpleNamespace(
            getConf=lambda: SimpleNamespace(getAll=lambda: list((settings or {}).items())), session=self, stop=self.stop
        )

    @property
    def has_ended(self) -> bool:
        return self.is_lost or bool(self.stops)

    def stop(self) -> None:
        self.stops += 1


class Process:
    """A process with at most one session."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.active: Session | None = None
        self.made: list[tuple[str, dict[str, str]]] = []
        self.forgotten = 0
        self.error: Exception | None = None
        monkeypatch.setattr(session_use, "_made", None)
        monkeypatch.setattr(session_use, "make_context", self._make)
        monkeypatch.setattr(session_use, "session_of", lambda context: context.session)
        monkeypatch.setattr(
            session_use, "active_session", lambda: self.active if self.active and not self.active.has_ended else None
        )
        monkeypatch.setattr(session_use, "has_ended", lambda context: context.session.has_ended)
        monkeypatch.setattr(session_use, "was_stopped", lambda context: bool(context.session.stops))
        monkeypatch.setattr(session_use, "forget_lost_jvm", self._forget)
        monkeypatch.setattr(session_use, "running_gateway", lambda: None)
        monkeypatch.setattr(session_use, "can_start_jvm", lambda: self.can_start)
        self.can_start = True

    def _forget(self) -> bool:
        is_lost = self.active is not None and self.active.is_lost
        self.forgotten += is_lost
        return is_lost

    def _make(self, application_id: str, settings: dict[str, str], threads: int = 0) -> Any:
        if self.error is not None:
            raise self.error
        self.made.append((application_id, settings))
        self.active = Session(settings)
        return self.active.sparkContext


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def take(settings: dict[str, str] | None = None, given: Any = None) -> tuple[SessionUse, Any]:
    use = take_session("app", settings or {}, given)
    return use, use.session


def test_should_end_a_session_that_was_made_for_the_application(process: Process) -> None:
    use, session = take({"spark.master": "local[2]", "spark.scheduler.pool": "threads"})
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
    wanted = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.new": "1", "spark.scheduler.pool": "threads"}
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


def test_should_make_a_lost_session_again_with_its_settings_once_for_all_that_share_it(process: Process) -> None:
    first, lost = take({"spark.master": "local[2]"})
    second, _ = take({"spark.master": "local[7]"})
    lost.is_lost = True
    assert second.renew()
    assert first.renew()
    assert first.session is second.session is process.active is not lost
    assert process.made == [("app", {"spark.master": "local[2]"})] * 2
    assert first.renew()  # it has not ended since
    first.release()
    assert process.active is not None
    assert process.active.stops == 0
    second.release()
    assert process.active.stops == 1


def test_should_make_a_lost_session_again_when_it_works_at_last(process: Process) -> None:
    use, lost = take()
    lost.is_lost, process.error = True, OSError("no memory")
    for _ in range(2):
        with pytest.raises(OSError, match="no memory"):
            use.renew()
    process.error = None
    assert use.renew()
    assert use.session is process.active
    use.release()
    assert use.session.stops == 1  # type: ignore[attr-defined]


def test_should_join_the_session_that_an_application_has_had_made_meanwhile(process: Process) -> None:
    use, lost = take()
    lost.is_lost = True
    other, session = take()
    assert use.renew()
    assert use.session is session
    other.release()
    assert session.stops == 0
    use.release()
    assert session.stops == 1


@pytest.mark.parametrize("is_given", [True, False])
def test_should_not_make_a_session_of_the_users_again(process: Process, is_given: bool) -> None:
    process.active = Session()
    use, session = take(given=process.active if is_given else None)
    session.is_lost = True
    assert not use.is_renewable
    assert not use.renew()
    assert process.made == []


def test_should_not_make_a_session_again_that_somebody_has_stopped(process: Process) -> None:
    use, session = take()
    session.stop()
    assert not use.is_renewable
    assert not use.renew()
    assert len(process.made) == 1


def test_should_not_make_a_session_again_for_which_no_jvm_can_be_started(process: Process) -> None:
    use, session = take()
    session.is_lost, process.can_start = True, False
    assert not use.renew()
    assert len(process.made) == 1


def test_should_have_a_lost_session_forgotten_and_not_stopped(process: Process) -> None:
    use, session = take()
    session.is_lost = True
    use.release()
    assert (session.stops, process.forgotten) == (0, 1)
