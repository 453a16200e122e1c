from __future__ import annotations

import logging

import pytest

from penstock.spark.driver.core_sharing import CoreWaits


class Waiting:
    """A scheduler whose waiting groups the test names, and a clock that it moves."""

    def __init__(self) -> None:
        self.now, self.groups, self.asked = 100.0, {"user's"}, 0
        self.waits = CoreWaits(self._ask, lambda: self.now)

    def _ask(self) -> set[str]:
        self.asked += 1
        return self.groups

    def after(self, seconds: float, *waiting: str, pending: tuple[str, ...] = ("t1", "t2")) -> dict[str, float]:
        self.now += seconds
        self.groups = {"user's", *waiting}
        self.waits.look(pending)
        return dict(self.waits.seconds)


def test_should_tell_since_when_a_thread_waits() -> None:
    waiting = Waiting()
    assert waiting.after(1) == {}
    assert waiting.after(1, "t1") == {"t1": 0}
    assert waiting.after(2, "t1", "t2") == {"t1": 2, "t2": 0}
    assert waiting.after(1, "t2") == {"t2": 1}


def test_should_forget_threads_that_have_answered_and_ask_nothing_for_them() -> None:
    waiting = Waiting()
    waiting.after(1, "t1")
    assert waiting.after(1, "t1", pending=()) == {}
    assert waiting.asked == 1


def test_should_log_a_long_wait_and_again_a_minute_later(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    with caplog.at_level(logging.WARNING):
        for seconds in (1, 4, 1, 1, 58, 1):
            waiting.after(seconds, "t1")
    first, second = (record.getMessage() for record in caplog.records)
    assert "[t1] has waited 5 s for a core of Spark" in first
    assert "spark.scheduler.pool" in first
    assert "has waited 65 s" in second


def test_should_name_the_reason_if_an_executor_gets_no_more_tasks(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    waits = CoreWaits(lambda: {"t1"}, lambda: now[0], refusal=lambda thread: f"of {thread} is excluded after failures")
    for _ in range(2):
        waits.look(["t1"])
        now[0] += 6
    assert "its executor of t1 is excluded after failures" in caplog.text
    assert "all are taken" not in caplog.text


def test_should_know_nothing_of_a_scheduler_that_does_not_answer() -> None:
    waits = CoreWaits(lambda: {}["gone"])  # type: ignore[misc]
    waits.look(["t1"])
    assert waits.seconds == {}
