from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pytest

from penstock import TaskId, TopicPartition
from penstock.client.rates import REPORT_DELAY
from penstock.client.web.history import BUCKET_SECONDS, SERIES, History
from penstock.dead_letters import DeadLetter
from penstock.log_lines import LogLine, tell_again
from penstock.runtime.flow import Flow
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(clock: Clock) -> History:
    made = History(clock)
    made.log.close()
    return made


def batch(history: History, records: int, report: ThreadReport | None = None, seconds: float = 0.1) -> None:
    batches = (BatchReport(0.0, seconds, {"in": records}),)
    history.reported({0: replace(report or ThreadReport("worker"), batches=batches)})


def series(history: History, name: str) -> list[float | None]:
    return [point[SERIES.index(name)] for _, point in sorted(history.points().items())]


def test_should_not_show_seconds_that_are_not_over(history: History, clock: Clock) -> None:
    clock.now += 1
    batch(history, 500)
    assert history.points() == {}, "half of five seconds would look like a fall to zero"
    clock.now += BUCKET_SECONDS
    assert history.points() == {}, "what was done in the last two seconds may not be reported yet"
    clock.now += REPORT_DELAY
    batch(history, 10)
    assert series(history, "records_in") == [100.0]
    clock.now += BUCKET_SECONDS
    assert series(history, "records_in") == [100.0, 2.0]


def test_should_keep_an_hour_and_no_more(history: History, clock: Clock) -> None:
    for _ in range(800):
        history.sample(1, {})
        clock.now += BUCKET_SECONDS
    clock.now += REPORT_DELAY
    points = history.points()
    assert len(points) == 3600 // BUCKET_SECONDS
    assert min(map(int, points)) >= clock.now - REPORT_DELAY - 3600 - BUCKET_SECONDS


def test_should_tell_what_nobody_has_measured_apart_from_zero(history: History, clock: Clock) -> None:
    history.sample(None, {"driver": (0.25, 1000)})
    clock.now += BUCKET_SECONDS + REPORT_DELAY
    assert series(history, "records_in") == [0.0]
    for name in ("age_p50", "lag", "turn_mean", "commit_mean", "cpu_jvm", "memory_workers"):
        assert series(history, name) == [None]
    assert (series(history, "cpu_driver"), series(history, "memory_driver")) == ([0.25], [1000])


def test_should_tell_how_old_records_are_when_their_results_are_committed(history: History, clock: Clock) -> None:
    batch(history, 150, ThreadReport("worker", flow=Flow(ages=[100] * 98 + [4000] * 2)))
    clock.now += BUCKET_SECONDS + REPORT_DELAY
    (half,), (most,) = series(history, "age_p50"), series(history, "age_p99")
    assert half == pytest.approx(100, rel=0.1)
    assert most == pytest.approx(4000, rel=0.1)


def test_should_tell_which_nodes_fail(history: History) -> None:
    batch(history, 1, ThreadReport("worker", flow=Flow(failed=Counter({"map": 3}))))
    batch(history, 1, ThreadReport("worker", flow=Flow(failed=Counter({"map": 1}))))
    assert history.failed() == {"map": 4}


def test_should_group_dead_letters_by_cause(history: History) -> None:
    letters = [DeadLetter("dead", n, "ValueError", f"no number: {n}\nmore {n}", "in", 0, n) for n in range(5)]
    letters.append(DeadLetter("dead", 9, "KeyError", "customer", "in", 0, 9))
    batch(history, 6, ThreadReport("worker", flow=Flow(dead=6, dead_letters=letters)))
    assert [(c["exception"], c["message"], c["count"], c["first"], c["last"]) for c in history.causes()] == [
        ("KeyError", "customer", 1, 9, 9),
        ("ValueError", "no number: #", 5, 0, 4),
    ]
    many = [DeadLetter("dead", n, f"Error{n}", None, "in", 0, n) for n in range(300)]
    batch(history, 300, ThreadReport("worker", flow=Flow(dead=300, dead_letters=many)))
    assert len(history.causes()) == 100, "the latest stay"
    assert history.causes()[0]["exception"] == "Error299"


def test_should_tell_how_long_a_restore_will_take(history: History, clock: Clock) -> None:
    def at(position: int) -> RestoreProgress:
        return RestoreProgress(TaskId(0, 1), "counts", TopicPartition("changelog", 1), 0, position, 1000, position)

    history.restore(at(100), "batch")
    assert history.restoring()[0]["seconds_left"] is None
    clock.now += 10
    history.restore(at(300), "batch")
    (found,) = history.restoring()
    assert (found["position"], found["seconds_left"], found["since"]) == (300, 35.0, 1_000_000_000)
    history.restore(at(1000), "end")
    assert history.restoring() == []


def test_should_keep_the_log_of_driver_and_workers() -> None:
    history = History()
    try:
        logging.getLogger("penstock.client").warning("the driver says %s", "this")
        tell_again("stream-thread [app-StreamThread-2]", [LogLine(7, "ERROR", "penstock.spark", "a worker fails\nTraceback")])
        logging.getLogger("penstock.dead_letters").warning("has a place of its own")
        first, second = history.log.lines()
        assert (first["who"], first["level"], first["text"]) == ("driver", "WARNING", "the driver says this")
        assert (second["who"], second["time"], second["text"]) == ("app-StreamThread-2", 7, "a worker fails\nTraceback")
        assert second["number"] > first["number"]
        for number in range(2000):
            logging.getLogger("penstock").error("line %d", number)
        assert len(history.log.lines()) == 500
        assert len(history.errors()) == 50
        assert history.log.lines()[-1]["text"] == "line 1999"
    finally:
        history.close()
    logging.getLogger("penstock").error("nobody listens any more")
    assert history.log.lines()[-1]["text"] == "line 1999"
