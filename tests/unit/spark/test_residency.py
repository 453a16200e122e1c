"""What Spark runs in the worker of a stream thread: it keeps the thread between residencies, and drops it after a failure."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import StreamsConfig, TaskId
from penstock.errors import BrokerError
from penstock.spark.messages import Application, Residency, TaskStart, ThreadReport
from penstock.spark.reports import read_report
from penstock.spark.worker import residency as module

TASKS = {TaskId(0, 0): TaskStart()}


class Recorded:
    """Stands for a stream thread, whose loop is tested in test_stream_thread."""

    made: list[Recorded]
    error: BaseException | None = None

    def __init__(self, application: Application, index: int, host: str | None) -> None:
        self.made.append(self)
        self.key, self.index = application.key, index
        self.ran: list[int] = []
        self.closed: list[str] = []
        self.is_closed = False
        self.queries: Any = type("Queries", (), {"address": "socket"})
        self.tasks: Any = type("Tasks", (), {"close_dirty": lambda: self.closed.append("dirty")})

    def run(self, residency: Residency) -> None:
        self.ran.append(residency.number)
        if self.error is not None:
            raise self.error

    def take_report(self) -> ThreadReport:
        return ThreadReport(iterations=len(self.ran))

    def close(self) -> None:
        self.closed.append("closed")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    monkeypatch.setattr(module, "StreamThread", Recorded)
    monkeypatch.setattr(Recorded, "made", [], raising=False)
    monkeypatch.setattr(module, "_THREADS", {})
    return Recorded.made


def packed(key: str) -> bytes:
    plan: Any = None
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})
    return module.packed(Application(key, config, plan, None, "p", "client"))


def run(number: int, tasks: Any = None, *, key: str = "app#1", thread: int = 0) -> ThreadReport:
    residency = Residency(key, thread, number, tasks or {}, application=packed(key))
    [report] = map(read_report, module.run_residency(residency, iter([0])))
    return report


def test_should_keep_the_thread_from_residency_to_residency(threads: list[Recorded]) -> None:
    assert run(1).iterations == 1
    report = run(2, TASKS)
    assert (report.iterations, report.lost, report.failure, report.query_address) == (2, False, None, "socket")
    assert [thread.ran for thread in threads] == [[1, 2]]


def test_should_open_no_task_in_a_process_that_is_new(threads: list[Recorded]) -> None:
    """Offsets were read before its producer was opened: they may be old."""
    report = run(1, TASKS)
    assert report.lost
    assert report.failure is None
    assert not threads
    assert not run(2).lost
    assert not run(3, TASKS).lost


@pytest.mark.parametrize("error", [BrokerError("the brokers are gone"), ValueError("odd"), SystemExit(3)])
def test_should_keep_nothing_after_a_failure(
    threads: list[Recorded], error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(1)
    monkeypatch.setattr(Recorded, "error", error)
    report = run(2, TASKS)
    assert report.failure is not None
    assert report.iterations == 2, "what was done before is reported"
    assert threads[0].closed == ["dirty", "closed"]
    monkeypatch.setattr(Recorded, "error", None)
    assert run(3, TASKS).lost
    run(4)
    assert len(threads) == 2


def test_should_begin_anew_in_a_process_whose_thread_was_closed(threads: list[Recorded]) -> None:
    """Its executor was to get no more tasks, and gets some after all."""
    run(1)
    threads[0].is_closed = True
    assert run(2, TASKS).lost
    assert threads[0].closed == ["closed"]
    run(3)
    assert run(4, TASKS).iterations == 2
    assert [thread.ran for thread in threads] == [[1], [3, 4]]


def test_should_name_the_memory_that_a_worker_has_used_up(threads: list[Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup fails too then."""
    run(1)
    monkeypatch.setattr(Recorded, "error", LookupError("unknown encoding: idna"))
    monkeypatch.setattr(module.resource, "getrlimit", lambda which: (700 << 20, 700 << 20))
    for used, words in ((650, "limited to 700 MB by spark.executor.pyspark.memory"), (100, "unknown encoding: idna")):
        monkeypatch.setattr(module, "_address_space", lambda used=used: used << 20)
        failure = run(2).failure
        assert failure is not None
        assert failure.message.count(words) == 1
        assert ("memory" in failure.message) == (used == 650)


def test_should_not_take_ctrl_c_for_a_failure(threads: list[Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorded, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(1)


def test_should_close_the_thread_of_an_earlier_start_of_the_application(threads: list[Recorded]) -> None:
    for key, thread in (("app#1", 0), ("app#1", 1), ("other#1", 0), ("app#2", 0)):
        run(1, key=key, thread=thread)
    assert [(thread.key, thread.index, thread.closed) for thread in threads] == [
        ("app#1", 0, ["closed"]),
        ("app#1", 1, []),
        ("other#1", 0, []),
        ("app#2", 0, []),
    ]


def test_should_close_what_a_thread_has_open(threads: list[Recorded]) -> None:
    run(1)
    for _ in range(2):
        assert list(module.close_thread("app#1", 0, iter([0]))) == [b""]
    assert threads[0].closed == ["closed"]
    assert run(2, TASKS).lost


def test_should_say_so_if_the_application_is_missing(threads: list[Recorded]) -> None:
    [report] = map(read_report, module.run_residency(Residency("app#1", 0, 1), iter([0])))
    assert report.failure is not None
    assert "without its application" in report.failure.message
