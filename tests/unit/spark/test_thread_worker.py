"""Jobs of a thread that are cancelled; Spark is played."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.errors import StreamsError
from penstock.spark.driver import thread_worker as module
from penstock.spark.driver.placement import Executors
from penstock.spark.driver.thread_worker import JobCancelledError, ThreadWorker, close_workers
from penstock.spark.worker.worker_process import VARIABLE
from tests.harness.waiting import LIMIT

ANSWER = b"12 7 0 a.host\nsaid"


class Spark:
    """Runs one job at a time, until it is told what comes of it; a worker outlives its cancelled job until it is ended."""

    master = "local[2]"

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.answer: bytes | None = None
        self.worker_runs = False
        self.ended = 0
        self.groups: list[tuple[str, bool]] = []

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool = False) -> None:
        self.groups.append((group, interruptOnCancel))

    def setLocalProperty(self, key: str, value: str | None) -> None:
        """Nothing looks at it."""

    def cancelJobGroup(self, group: str) -> None:
        assert group == self.groups[-1][0]
        self.over.set()

    def job(self, *_: Any) -> bytes:
        assert not self.worker_runs, "a worker is still there"
        self.worker_runs = True
        self.begun.set()
        assert self.over.wait(LIMIT)
        if self.answer is None:
            raise RuntimeError("Job 3 cancelled part of cancelled job group")
        self.worker_runs = False
        return self.answer

    def end(self, *_: Any) -> int:
        self.ended += 1
        self.worker_runs = False
        return 1

    def again(self, answer: bytes) -> None:
        self.begun.clear()
        self.answer = answer
        self.over.set()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    played = Spark()
    monkeypatch.setattr(module, "worker_environment", lambda _, own: own)
    monkeypatch.setattr(module, "located", lambda *_: None)
    monkeypatch.setattr(module, "bytes_in_environment", lambda _, function, environment: environment)
    monkeypatch.setattr(module, "first_of_partition", played.job)
    monkeypatch.setattr(module, "stop_workers", played.end)
    monkeypatch.setattr(module, "group_runs", lambda *_: played.worker_runs)
    monkeypatch.setattr(module, "wait_for_end", lambda *_: None)
    return played


@pytest.fixture
def worker(spark: Spark) -> Iterator[ThreadWorker]:
    made = ThreadWorker(spark, "app-StreamThread-1", worker_name="app-1")  # type: ignore[arg-type]
    yield made
    spark.over.set()
    made.close().result(LIMIT)


def submitted(worker: ThreadWorker) -> Future[bytes]:
    return worker.submit(lambda rows: [], "a turn", bytes)


def test_should_end_a_job_with_its_reason_and_its_worker_before_the_next_begins(worker: ThreadWorker, spark: Spark) -> None:
    job = submitted(worker)
    assert spark.begun.wait(LIMIT)
    assert worker.running == "a turn"
    worker.cancel("it took longer than max.poll.interval.ms")
    worker.cancel("told twice")
    with pytest.raises(JobCancelledError, match=r"the job of app-StreamThread-1 was ended: it took longer than max\.poll"):
        job.result(LIMIT)
    assert (spark.ended, spark.worker_runs, worker.running) == (1, False, None)
    spark.again(ANSWER)
    assert submitted(worker).result(LIMIT) == b"said"
    assert spark.groups == [("app-StreamThread-1", False)] * 2, "interrupted, Spark would leave the worker running"


def test_should_end_what_runs_in_a_thread_that_does_not_close(
    worker: ThreadWorker, spark: Spark, caplog: pytest.LogCaptureFixture
) -> None:
    job = submitted(worker)
    assert spark.begun.wait(LIMIT)
    close_workers([worker], 0.01)
    with pytest.raises(JobCancelledError, match="its worker does not close"):
        job.result(LIMIT)
    assert "Its worker is killed" in caplog.text


def test_should_leave_a_thread_alone_that_runs_nothing(worker: ThreadWorker, spark: Spark) -> None:
    spark.again(ANSWER)
    assert submitted(worker).result(LIMIT) == b"said"
    worker.cancel("too late")
    assert submitted(worker).result(LIMIT) == b"said"
    assert spark.ended == 0


def test_should_keep_the_result_of_a_job_that_was_done_before_it_could_be_cancelled(worker: ThreadWorker, spark: Spark) -> None:
    job = submitted(worker)
    assert spark.begun.wait(LIMIT)
    spark.answer = ANSWER
    worker.cancel("too late")
    assert job.result(LIMIT) == b"said"
    assert spark.ended == 0


def test_should_wait_for_spark_to_end_the_worker_of_an_executor(
    worker: ThreadWorker, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.master = "spark://host:7077"
    looked: list[bool] = []

    def group_runs(*_: Any) -> bool:
        looked.append(spark.worker_runs)
        if len(looked) == 3:
            spark.worker_runs = False
        return spark.worker_runs

    monkeypatch.setattr(module, "group_runs", group_runs)
    monkeypatch.setattr(module, "known_places", lambda _: Executors([]))
    job = submitted(worker)
    assert spark.begun.wait(LIMIT)
    worker.cancel("it took too long")
    with pytest.raises(JobCancelledError):
        job.result(LIMIT)
    assert looked == [True] * 3


def test_should_end_a_worker_that_spark_does_not_end(worker: ThreadWorker, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.master = "spark://host:7077"
    ended: list[str] = []

    def run(environment: dict[str, str]) -> bytes:
        if environment == {VARIABLE: "app-1"}:
            return spark.job()
        ended.append("executor_host_0")
        spark.worker_runs = False
        return b"ended"

    monkeypatch.setattr(module, "_SPARK_ENDS_IN", 0.05)
    monkeypatch.setattr(module, "known_places", lambda _: Executors(["executor_host_0"]))
    monkeypatch.setattr(module, "first_of_partition", run)
    spark.again(ANSWER)
    assert submitted(worker).result(LIMIT) == b"said"  # by now it is known which process it is
    worker.move("executor_host_0")
    spark.answer = None
    spark.over.clear()
    spark.begun.clear()
    job = submitted(worker)
    assert spark.begun.wait(LIMIT)
    worker.cancel("it took too long")
    with pytest.raises(JobCancelledError):
        job.result(LIMIT)
    assert ended == ["executor_host_0"]


ELSEWHERE = b"elsewhere 4"


def placed(worker: ThreadWorker, spark: Spark, monkeypatch: pytest.MonkeyPatch, said: list[bytes]) -> None:
    """The thread on an executor, and what its jobs say, one after the other."""
    spark.master = "spark://host:7077"
    monkeypatch.setattr(module, "first_of_partition", lambda rows: said.pop(0))
    worker.move("executor_host_0")


def test_should_try_again_what_spark_has_tried_on_another_executor(
    worker: ThreadWorker, spark: Spark, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said = [ANSWER, ELSEWHERE, ELSEWHERE, ANSWER]
    placed(worker, spark, monkeypatch, said)
    monkeypatch.setattr(module, "known_places", lambda _: Executors(["executor_host_0", "executor_host_4"]))
    assert [submitted(worker).result(LIMIT) for _ in range(2)] == [b"said"] * 2
    assert not said
    assert caplog.text.count("came to executor 4") == 1
    assert "spark.locality.wait" in caplog.text


def test_should_fail_if_spark_gives_its_executor_no_more_tasks(
    worker: ThreadWorker, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(worker, spark, monkeypatch, [ELSEWHERE])
    refused = {"executor_host_0": "is being decommissioned, or about to end"}
    monkeypatch.setattr(module, "known_places", lambda _: Executors(["executor_host_4"], refused))
    with pytest.raises(StreamsError, match=r"executor_host_0, which is being decommissioned.*came to executor 4"):
        submitted(worker).result(LIMIT)
