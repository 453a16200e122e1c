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
from penstock.spark.driver import lane_jobs as module
from penstock.spark.driver import state_updaters
from penstock.spark.driver.lane_jobs import LaneJobs
from penstock.spark.driver.placement import Executors, NoExecutorsError, SessionStoppedError
from penstock.spark.messages import Application, TaskStart, ThreadReport
from tests.harness.waiting import LIMIT

TASK = TaskId(0, 0)


class Lane:
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
    """A lane_jobs of two lanes on one executor, with settings of the session and of the application."""
    monkeypatch.setattr(module, "Lane", Lane)
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
        return LaneJobs(
            session._spark if session else context, Application("key", config, plan, None, "p", "client"), ["t1", "t2"]
        )

    return made


def reside(lane_jobs: LaneJobs, thread: int, tasks: dict[TaskId, TaskStart], seconds: float = 0.0) -> Future[ThreadReport]:
    limits = {"idle_seconds": 10.0, "commit_seconds": 0.1}
    return lane_jobs.reside(thread, 1, tasks, b"", seconds=seconds, max_records=1_000, **limits)


def open_all(lane_jobs: LaneJobs, *tasks: dict[TaskId, TaskStart]) -> None:
    for thread, owned in enumerate(tasks):
        lane_jobs.answer(reside(lane_jobs, thread, owned))


def test_should_ask_nothing_of_lanes_that_have_nothing_with_dynamic_allocation(make: Any) -> None:
    lane_jobs = make({"spark.dynamicAllocation.enabled": "true"})
    for tasks in ({}, {}, {TASK: TaskStart()}):
        open_all(lane_jobs, tasks, {})
    assert lane_jobs.lanes[1].asked == ["open nothing"], "its producer is opened once: that ends what a crash has left open"
    open_all(lane_jobs, {}, {TASK: TaskStart()})
    open_all(lane_jobs, {}, {})
    assert lane_jobs.lanes[0].asked == ["open nothing", "open 0_0", "open nothing"]
    assert lane_jobs.lanes[1].asked == ["open nothing", "open 0_0", "open nothing"]


def test_should_ask_again_of_a_lane_that_has_failed(make: Any) -> None:
    lane_jobs = make({"spark.dynamicAllocation.enabled": "true"})
    lane_jobs.lanes[1].error = RuntimeError("executor lost")
    assert lane_jobs.answer(reside(lane_jobs, 1, {})).lost
    open_all(lane_jobs, {}, {})
    assert [len(lane.asked) for lane in lane_jobs.lanes.values()] == [1, 2]


def test_should_keep_all_workers_alive_without_dynamic_allocation(make: Any) -> None:
    lane_jobs = make({})
    open_all(lane_jobs, {}, {})
    open_all(lane_jobs, {}, {})
    assert [len(lane.asked) for lane in lane_jobs.lanes.values()] == [2, 2]


def test_should_wait_for_no_lane(make: Any) -> None:
    lane_jobs = make({})
    waiting: Future[Any] = Future()
    lane_jobs.lanes[1].answer = waiting
    opening, resident = reside(lane_jobs, 1, {TASK: TaskStart()}), reside(lane_jobs, 1, {TASK: TaskStart()}, 60.0)
    assert not opening.done()
    assert not resident.done()
    assert lane_jobs.lanes[1].asked == ["open 0_0", "process 0_0"]
    assert reside(lane_jobs, 0, {}).done()


def test_should_take_a_lane_out_before_it_is_ended(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(module, "close_lanes", lambda lanes, timeout: ended.extend(lane.name for lane in lanes))
    lane_jobs = make({})
    taken = lane_jobs.take_lane(0)
    assert list(lane_jobs.lanes) == [1]
    assert not ended
    taken.error = RuntimeError("its worker is gone")
    lane_jobs.end_lane(0, taken)
    assert taken.asked == ["close"]
    assert ended == ["t1"]


def test_should_have_a_new_lane_take_over_the_worker_of_one_that_failed(make: Any) -> None:
    lane_jobs = make({})
    worker = lane_jobs.lanes[0]
    assert lane_jobs.pass_on(0, 2, "t3").result(0) is not None
    assert lane_jobs.lanes == {1: lane_jobs.lanes[1], 2: worker}
    assert (worker.name, worker.asked) == ("t3", ["close"])
    assert lane_jobs.query_address(2) is None


def test_should_move_a_lane_whose_executor_is_gone(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    assert not lane_jobs.place_lane(0)
    assert lane_jobs.is_alive(0)
    stand(monkeypatch, "executor_host_1")
    assert not lane_jobs.is_alive(0)
    assert lane_jobs.better_places() == {0: "executor_host_1", 1: "executor_host_1"}
    assert lane_jobs.place_lane(0)
    assert [lane.executor for lane in lane_jobs.lanes.values()] == ["executor_host_1", "executor_host_0"]
    stand(monkeypatch)
    assert lane_jobs.better_places() == {}
    with pytest.raises(NoExecutorsError, match="t1"):
        lane_jobs.place_lane(0)


DECOMMISSIONED = {"executor_host_0": "is being decommissioned, or about to end"}


def test_should_take_lanes_away_from_an_executor_that_gets_no_more_tasks(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    stand(monkeypatch, "executor_host_1", "executor_host_2", refused=DECOMMISSIONED)
    assert lane_jobs.better_places() == {0: "executor_host_1", 1: "executor_host_2"}
    assert lane_jobs.refusals == dict.fromkeys((0, 1), DECOMMISSIONED["executor_host_0"])
    assert not lane_jobs.is_alive(0)
    lane_jobs.move_lane(0, "executor_host_1")
    assert lane_jobs.refusals == {1: DECOMMISSIONED["executor_host_0"]}
    assert lane_jobs.lanes[0].asked == [], "the executor gets no task that closes what is open there"


def test_should_say_why_there_is_no_executor_to_run_on(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    stand(monkeypatch, refused={"executor_host_0": "is excluded after failures (spark.excludeOnFailure)"})
    with pytest.raises(NoExecutorsError, match=r"executor_host_0 is excluded after failures"):
        lane_jobs.place_lane(0)
    assert lane_jobs.better_places() == {}
    assert lane_jobs.refusals.keys() == {0, 1}


def test_should_choose_executors_where_other_applications_of_the_session_do_not_work(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand(monkeypatch, *(f"executor_host_{n}" for n in range(4)))
    first = make({})
    second = make({}, session=first)
    assert [lane.executor for lane in first.lanes.values()] == ["executor_host_0", "executor_host_1"]
    assert [lane.executor for lane in second.lanes.values()] == ["executor_host_2", "executor_host_3"]
    third = make({}, session=first)
    third.working = frozenset({1})
    assert [lane.executor for lane in third.lanes.values()] == ["executor_host_0", "executor_host_1"]
    assert dict(first.neighbours) == {0: 0, 1: 1}
    assert dict(make({}).neighbours) == {0: 0, 1: 0}, "an application of another session"
    third.forsake()
    assert dict(first.neighbours) == {0: 0, 1: 0}


def test_should_tell_which_lanes_have_lost_their_executors(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    monkeypatch.setattr(module, "executor_ids", lambda spark: frozenset({"0"}))
    assert lane_jobs.lost_lanes() == {}
    monkeypatch.setattr(module, "executor_ids", lambda spark: frozenset({"1"}))
    assert lane_jobs.lost_lanes() == dict.fromkeys((0, 1), "executor_host_0")


def test_should_lose_no_lane_to_a_session_that_does_not_answer(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its JVM was killed while it was asked: that it is gone is noticed elsewhere, and is nothing that an application ends of."""

    def unanswered(_: Any) -> Any:
        raise Py4JError("An error occurred while calling o55.sc")

    lane_jobs = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    monkeypatch.setattr(module, "executor_ids", unanswered)
    monkeypatch.setattr(module, "executors", unanswered)
    monkeypatch.setattr(module, "known_places", unanswered)
    assert lane_jobs.lost_lanes() == {}
    assert lane_jobs.better_places() == {}
    assert lane_jobs.is_alive(0)
    with pytest.raises(SessionStoppedError):  # who is about to open a lane has to know
        lane_jobs.place_lane(0)


def test_should_not_have_spark_try_elsewhere_what_ran_on_a_lost_executor(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_updaters, "Lane", Lane)
    monkeypatch.setattr(state_updaters, "executors", lambda spark: ["executor_host_0", "executor_other_1"])
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    monkeypatch.setattr(module, "executor_ids", lambda spark: frozenset({"1"}))
    lane_jobs = make({})
    lane_jobs.lanes[1].move("executor_other_1")
    for host in ("host", "other"):
        lane_jobs.updaters.update(host, [TASK])
    lane_jobs.lost_lanes()
    assert [lane.cancelled for lane in lane_jobs.lanes.values()] == [["executor_host_0 is gone"], []]
    assert [lane.cancelled for lane in lane_jobs.updaters._lanes.values()] == [["executor_host_0 is gone"], []]


def test_should_wait_for_no_lane_whose_executor_is_gone_when_it_closes(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_updaters, "Lane", Lane)
    monkeypatch.setattr(state_updaters, "executors", lambda spark: ["executor_host_0", "executor_other_1"])
    lane_jobs = make({})
    lost, left = lane_jobs.lanes.values()
    left.move("executor_other_1")
    for host in ("host", "other"):
        lane_jobs.updaters.update(host, [TASK])
    copies = list(lane_jobs.updaters._lanes.values())
    lost.answer = copies[0].answer = Future()  # never answered
    stand(monkeypatch, "executor_other_1")
    lane_jobs.close(LIMIT)
    assert [(lane.asked, lane.forsaken) for lane in (lost, left)] == [([], 1), (["close", "end"], 0)]
    assert [(lane.asked[1:], lane.forsaken) for lane in copies] == [([], 1), (["close", "end"], 0)]


def test_should_wait_for_all_lanes_together_when_it_closes(make: Any) -> None:
    lane_jobs = make({})
    for lane in lane_jobs.lanes.values():
        lane.answer = Future()
    lane_jobs.close(0.2)
    assert all(lane.asked == ["close", "end"] for lane in lane_jobs.lanes.values())


def test_should_put_all_lanes_into_the_pool_under_names_that_last(make: Any) -> None:
    lane_jobs = make({}, **{"spark.scheduler.pool": "lanes"})
    lane_jobs.add_lane(2, "t3")
    assert [lane.pool for lane in lane_jobs.lanes.values()] == ["lanes"] * 3
    assert [lane.worker_name for lane in lane_jobs.lanes.values()] == ["app-1", "app-2", "app-3"]


def test_should_say_that_the_session_was_stopped(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    monkeypatch.setattr(module, "has_ended", lambda spark: True)
    lane_jobs.lanes[1].error = RuntimeError("Cannot call methods on a stopped SparkContext")
    failure = lane_jobs.answer(reside(lane_jobs, 1, {})).failure
    assert failure is not None
    assert failure.kind == "SessionStopped"
    with pytest.raises(SessionStoppedError):
        lane_jobs.place_lane(0)
    with pytest.raises(SessionStoppedError):
        lane_jobs.better_places()


def test_should_go_on_on_another_session_with_lanes_of_the_same_numbers_and_names(make: Any) -> None:
    lane_jobs = make({"spark.dynamicAllocation.enabled": "true"}, **{"spark.scheduler.pool": "lanes"})
    lane_jobs.add_lane(4, "t5")
    for lane in lane_jobs.lanes:
        reside(lane_jobs, lane, {TASK: TaskStart()} if lane == 0 else {})
    before, session = dict(lane_jobs.lanes), SimpleNamespace()
    lane_jobs.renew(session)
    assert [lane.forsaken for lane in before.values()] == [1, 1, 1]
    assert {index: (lane.name, lane.worker_name, lane.pool) for index, lane in lane_jobs.lanes.items()} == {
        index: (lane.name, lane.worker_name, lane.pool) for index, lane in before.items()
    }
    assert all(lane.spark is session for lane in lane_jobs.lanes.values())
    assert {lane.executor for lane in lane_jobs.lanes.values()} == {"executor_host_7"}
    assert lane_jobs.query_address(0) is None
    for lane in lane_jobs.lanes:
        reside(lane_jobs, lane, {})
    assert [lane.asked for lane in lane_jobs.lanes.values()] == [["open nothing"]] * 3, "their producers end what is still open"


def test_should_be_renewed_again_where_lanes_could_not_be_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    made: list[Lane] = []

    def fails_once(*arguments: Any) -> Lane:
        if len(made) == 1:
            made.append(made[0])
            raise RuntimeError("the JVM has died again")
        made.append(Lane(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "Lane", fails_once)
    with pytest.raises(RuntimeError, match="died again"):
        lane_jobs.renew(SimpleNamespace())
    assert made[0].forsaken == 1
    second = SimpleNamespace()
    lane_jobs.renew(second)
    assert [(lane.name, lane.spark) for lane in lane_jobs.lanes.values()] == [(f"t{n}", second) for n in (1, 2)]


def test_should_end_waiting_for_executors_of_another_session(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    before = lane_jobs.lanes
    monkeypatch.setattr(module, "wait_for_executors", lambda spark, timeout, check: check())

    def no_longer() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        lane_jobs.renew(SimpleNamespace(), no_longer)
    assert lane_jobs.lanes is before


def test_should_see_that_the_session_is_gone_without_asking_it(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lane_jobs = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    lane_jobs.check_session()
    monkeypatch.setattr(module, "is_cut_off", lambda spark: True)
    with pytest.raises(SessionStoppedError):
        lane_jobs.check_session()
    assert lane_jobs.lanes[0].asked == []
