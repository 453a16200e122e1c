"""What stream threads are asked; Spark is played."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId
from penstock.spark.driver import spark_threads as module
from penstock.spark.driver import state_updaters
from penstock.spark.driver.placement import Executors, NoExecutorsError, SessionStoppedError
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.messages import Application, TaskStart, ThreadReport
from tests.harness.waiting import LIMIT

TASK = TaskId(0, 0)


class FakeWorker:
    """Answers at once; fails where it is told to."""

    def __init__(self, spark: Any, name: str, executor: str | None, worker_name: str, pool: str | None) -> None:
        self.name, self.executor, self.worker_name, self.pool = name, executor, worker_name, pool
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.spark, self.forsaken = spark, 0
        self.answer: Future[Any] | None = None
        self.cancelled: list[str] = []

    def forsake(self) -> None:
        self.forsaken += 1

    def submit(self, function: Any, description: str, read: Any) -> Future[Any]:
        self.asked.append(description.partition(": ")[2])
        if self.answer is not None:
            return self.answer
        answered: Future[Any] = Future()
        if self.error is None:
            answered.set_result(ThreadReport("w"))
        else:
            answered.set_exception(self.error)
        return answered

    def move(self, executor: str | None) -> None:
        self.executor = executor

    def cancel(self, reason: str) -> None:
        self.cancelled.append(reason)

    def close(self) -> Future[None]:
        self.asked.append("end")
        ended: Future[None] = Future()
        ended.set_result(None)
        return ended


def stand(monkeypatch: pytest.MonkeyPatch, *usable: str, refused: Mapping[str, str] = MappingProxyType({})) -> None:
    """These are the executors from now on."""
    monkeypatch.setattr(module, "executors", lambda spark: list(usable))
    monkeypatch.setattr(module, "known_places", lambda spark: Executors(list(usable), refused))


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A spark_threads of two threads on one executor, with settings of the session and of the application."""
    monkeypatch.setattr(module, "ThreadWorker", FakeWorker)
    monkeypatch.setattr(module, "packed", lambda application: b"")
    stand(monkeypatch, "executor_host_0")
    monkeypatch.setattr(module, "has_ended", lambda spark: False)

    monkeypatch.setattr(module, "wait_for_executors", lambda spark, timeout, check: ["executor_host_7"])

    def made(settings: dict[str, str], session: Any = None, **own: str) -> Any:
        master = {"spark.master": "spark://host:7077"}
        context: Any = SimpleNamespace(
            master=master["spark.master"],
            pythonExec="python3",
            getConf=lambda: SimpleNamespace(getAll=lambda: [*known.items()]),
        )
        known = {**master, **settings}
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1", **own})
        plan: Any = SimpleNamespace()
        return SparkThreads(
            session._spark if session else context, Application("key", config, plan, None, "p", "client"), ["t1", "t2"]
        )

    return made


def reside(
    spark_threads: SparkThreads, thread: int, tasks: dict[TaskId, TaskStart], seconds: float = 0.0
) -> Future[ThreadReport]:
    limits = {"idle_seconds": 10.0, "commit_seconds": 0.1}
    return spark_threads.reside(thread, 1, tasks, b"", seconds=seconds, max_records=1_000, **limits)


def open_all(spark_threads: SparkThreads, *tasks: dict[TaskId, TaskStart]) -> None:
    for thread, owned in enumerate(tasks):
        spark_threads.answer(reside(spark_threads, thread, owned))


def test_should_ask_nothing_of_threads_that_have_nothing_with_dynamic_allocation(make: Any) -> None:
    spark_threads = make({"spark.dynamicAllocation.enabled": "true"})
    for tasks in ({}, {}, {TASK: TaskStart()}):
        open_all(spark_threads, tasks, {})
    assert spark_threads.workers[1].asked == ["open nothing"], "its producer is opened once: that ends what a crash has left open"
    open_all(spark_threads, {}, {TASK: TaskStart()})
    open_all(spark_threads, {}, {})
    assert spark_threads.workers[0].asked == ["open nothing", "open 0_0", "open nothing"]
    assert spark_threads.workers[1].asked == ["open nothing", "open 0_0", "open nothing"]


def test_should_ask_again_of_a_thread_that_has_failed(make: Any) -> None:
    spark_threads = make({"spark.dynamicAllocation.enabled": "true"})
    spark_threads.workers[1].error = RuntimeError("executor lost")
    assert spark_threads.answer(reside(spark_threads, 1, {})).lost
    open_all(spark_threads, {}, {})
    assert [len(worker.asked) for worker in spark_threads.workers.values()] == [1, 2]


def test_should_keep_all_workers_alive_without_dynamic_allocation(make: Any) -> None:
    spark_threads = make({})
    open_all(spark_threads, {}, {})
    open_all(spark_threads, {}, {})
    assert [len(worker.asked) for worker in spark_threads.workers.values()] == [2, 2]


def test_should_wait_for_no_thread(make: Any) -> None:
    spark_threads = make({})
    waiting: Future[Any] = Future()
    spark_threads.workers[1].answer = waiting
    opening, resident = reside(spark_threads, 1, {TASK: TaskStart()}), reside(spark_threads, 1, {TASK: TaskStart()}, 60.0)
    assert not opening.done()
    assert not resident.done()
    assert spark_threads.workers[1].asked == ["open 0_0", "process 0_0"]
    assert reside(spark_threads, 0, {}).done()


def test_should_take_a_thread_out_before_it_is_ended(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(module, "close_workers", lambda workers, timeout: ended.extend(worker.name for worker in workers))
    spark_threads = make({})
    taken = spark_threads.take_thread(0)
    assert list(spark_threads.workers) == [1]
    assert not ended
    taken.error = RuntimeError("its worker is gone")
    spark_threads.end_thread(0, taken)
    assert taken.asked == ["close"]
    assert ended == ["t1"]


def test_should_have_a_new_thread_take_over_the_worker_of_one_that_failed(make: Any) -> None:
    spark_threads = make({})
    worker = spark_threads.workers[0]
    assert spark_threads.pass_on(0, 2, "t3").result(0) is not None
    assert spark_threads.workers == {1: spark_threads.workers[1], 2: worker}
    assert (worker.name, worker.asked) == ("t3", ["close"])
    assert spark_threads.query_address(2) is None


def test_should_move_a_thread_whose_executor_is_gone(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    assert not spark_threads.place_thread(0)
    assert spark_threads.is_alive(0)
    stand(monkeypatch, "executor_host_1")
    assert not spark_threads.is_alive(0)
    assert spark_threads.better_places() == {0: "executor_host_1", 1: "executor_host_1"}
    assert spark_threads.place_thread(0)
    assert [worker.executor for worker in spark_threads.workers.values()] == ["executor_host_1", "executor_host_0"]
    stand(monkeypatch)
    assert spark_threads.better_places() == {}
    with pytest.raises(NoExecutorsError, match="t1"):
        spark_threads.place_thread(0)


DECOMMISSIONED = {"executor_host_0": "is being decommissioned, or about to end"}


def test_should_take_threads_away_from_an_executor_that_gets_no_more_tasks(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    stand(monkeypatch, "executor_host_1", "executor_host_2", refused=DECOMMISSIONED)
    assert spark_threads.better_places() == {0: "executor_host_1", 1: "executor_host_2"}
    assert spark_threads.refusals == dict.fromkeys((0, 1), DECOMMISSIONED["executor_host_0"])
    assert not spark_threads.is_alive(0)
    spark_threads.move_thread(0, "executor_host_1")
    assert spark_threads.refusals == {1: DECOMMISSIONED["executor_host_0"]}
    assert spark_threads.workers[0].asked == [], "the executor gets no task that closes what is open there"


def test_should_say_why_there_is_no_executor_to_run_on(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    stand(monkeypatch, refused={"executor_host_0": "is excluded after failures (spark.excludeOnFailure)"})
    with pytest.raises(NoExecutorsError, match=r"executor_host_0 is excluded after failures"):
        spark_threads.place_thread(0)
    assert spark_threads.better_places() == {}
    assert spark_threads.refusals.keys() == {0, 1}


def test_should_choose_executors_where_other_applications_of_the_session_do_not_work(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand(monkeypatch, *(f"executor_host_{n}" for n in range(4)))
    first = make({})
    second = make({}, session=first)
    assert [worker.executor for worker in first.workers.values()] == ["executor_host_0", "executor_host_1"]
    assert [worker.executor for worker in second.workers.values()] == ["executor_host_2", "executor_host_3"]
    third = make({}, session=first)
    third.working = frozenset({1})
    assert [worker.executor for worker in third.workers.values()] == ["executor_host_0", "executor_host_1"]
    assert dict(first.neighbours) == {0: 0, 1: 1}
    assert dict(make({}).neighbours) == {0: 0, 1: 0}, "an application of another session"
    third.forsake()
    assert dict(first.neighbours) == {0: 0, 1: 0}


def test_should_tell_which_threads_have_lost_their_executors(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    monkeypatch.setattr(module, "executor_ids", lambda spark: frozenset({"0"}))
    assert spark_threads.lost_threads() == {}
    monkeypatch.setattr(module, "executor_ids", lambda spark: frozenset({"1"}))
    assert spark_threads.lost_threads() == dict.fromkeys((0, 1), "executor_host_0")


def test_should_lose_no_thread_to_a_session_that_does_not_answer(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its JVM was killed while it was asked: that it is gone is noticed elsewhere, and is nothing that an application ends of."""

    def unanswered(_: Any) -> Any:
        raise Py4JError("An error occurred while calling o55.sc")

    spark_threads = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    monkeypatch.setattr(module, "executor_ids", unanswered)
    monkeypatch.setattr(module, "executors", unanswered)
    monkeypatch.setattr(module, "known_places", unanswered)
    assert spark_threads.lost_threads() == {}
    assert spark_threads.better_places() == {}
    assert spark_threads.is_alive(0)
    with pytest.raises(SessionStoppedError):  # who is about to open a thread has to know
        spark_threads.place_thread(0)


def test_should_not_have_spark_try_elsewhere_what_ran_on_a_lost_executor(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_updaters, "ThreadWorker", FakeWorker)
    monkeypatch.setattr(state_updaters, "executors", lambda spark: ["executor_host_0", "executor_other_1"])
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    monkeypatch.setattr(module, "executor_ids", lambda spark: frozenset({"1"}))
    spark_threads = make({})
    spark_threads.workers[1].move("executor_other_1")
    for host in ("host", "other"):
        spark_threads.updaters.update(host, [TASK])
    spark_threads.lost_threads()
    assert [worker.cancelled for worker in spark_threads.workers.values()] == [["executor_host_0 is gone"], []]
    assert [worker.cancelled for worker in spark_threads.updaters._workers.values()] == [["executor_host_0 is gone"], []]


def test_should_wait_for_no_thread_whose_executor_is_gone_when_it_closes(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_updaters, "ThreadWorker", FakeWorker)
    monkeypatch.setattr(state_updaters, "executors", lambda spark: ["executor_host_0", "executor_other_1"])
    spark_threads = make({})
    lost, left = spark_threads.workers.values()
    left.move("executor_other_1")
    for host in ("host", "other"):
        spark_threads.updaters.update(host, [TASK])
    copies = list(spark_threads.updaters._workers.values())
    lost.answer = copies[0].answer = Future()  # never answered
    stand(monkeypatch, "executor_other_1")
    spark_threads.close(LIMIT)
    assert [(worker.asked, worker.forsaken) for worker in (lost, left)] == [([], 1), (["close", "end"], 0)]
    assert [(worker.asked[1:], worker.forsaken) for worker in copies] == [([], 1), (["close", "end"], 0)]


def test_should_wait_for_all_threads_together_when_it_closes(make: Any) -> None:
    spark_threads = make({})
    for worker in spark_threads.workers.values():
        worker.answer = Future()
    spark_threads.close(0.2)
    assert all(worker.asked == ["close", "end"] for worker in spark_threads.workers.values())


def test_should_put_all_threads_into_the_pool_under_names_that_last(make: Any) -> None:
    spark_threads = make({}, **{"spark.scheduler.pool": "threads"})
    spark_threads.add_thread(2, "t3")
    assert [worker.pool for worker in spark_threads.workers.values()] == ["threads"] * 3
    assert [worker.worker_name for worker in spark_threads.workers.values()] == ["app-1", "app-2", "app-3"]


def test_should_say_that_the_session_was_stopped(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    monkeypatch.setattr(module, "has_ended", lambda spark: True)
    spark_threads.workers[1].error = RuntimeError("Cannot call methods on a stopped SparkContext")
    failure = spark_threads.answer(reside(spark_threads, 1, {})).failure
    assert failure is not None
    assert failure.kind == "SessionStopped"
    with pytest.raises(SessionStoppedError):
        spark_threads.place_thread(0)
    with pytest.raises(SessionStoppedError):
        spark_threads.better_places()


def test_should_go_on_on_another_session_with_threads_of_the_same_numbers_and_names(make: Any) -> None:
    spark_threads = make({"spark.dynamicAllocation.enabled": "true"}, **{"spark.scheduler.pool": "threads"})
    spark_threads.add_thread(4, "t5")
    for worker in spark_threads.workers:
        reside(spark_threads, worker, {TASK: TaskStart()} if worker == 0 else {})
    before, session = dict(spark_threads.workers), SimpleNamespace()
    spark_threads.renew(session)
    assert [worker.forsaken for worker in before.values()] == [1, 1, 1]
    assert {index: (worker.name, worker.worker_name, worker.pool) for index, worker in spark_threads.workers.items()} == {
        index: (worker.name, worker.worker_name, worker.pool) for index, worker in before.items()
    }
    assert all(worker.spark is session for worker in spark_threads.workers.values())
    assert {worker.executor for worker in spark_threads.workers.values()} == {"executor_host_7"}
    assert spark_threads.query_address(0) is None
    for worker in spark_threads.workers:
        reside(spark_threads, worker, {})
    assert [worker.asked for worker in spark_threads.workers.values()] == [["open nothing"]] * 3, (
        "their producers end what is still open"
    )


def test_should_be_renewed_again_where_threads_could_not_be_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    made: list[FakeWorker] = []

    def fails_once(*arguments: Any) -> FakeWorker:
        if len(made) == 1:
            made.append(made[0])
            raise RuntimeError("the JVM has died again")
        made.append(FakeWorker(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "ThreadWorker", fails_once)
    with pytest.raises(RuntimeError, match="died again"):
        spark_threads.renew(SimpleNamespace())
    assert made[0].forsaken == 1
    second = SimpleNamespace()
    spark_threads.renew(second)
    assert [(worker.name, worker.spark) for worker in spark_threads.workers.values()] == [(f"t{n}", second) for n in (1, 2)]


def test_should_end_waiting_for_executors_of_another_session(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    before = spark_threads.workers
    monkeypatch.setattr(module, "wait_for_executors", lambda spark, timeout, check: check())

    def no_longer() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        spark_threads.renew(SimpleNamespace(), no_longer)
    assert spark_threads.workers is before


def test_should_see_that_the_session_is_gone_without_asking_it(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_threads = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    spark_threads.check_session()
    monkeypatch.setattr(module, "is_cut_off", lambda spark: True)
    with pytest.raises(SessionStoppedError):
        spark_threads.check_session()
    assert spark_threads.workers[0].asked == []
