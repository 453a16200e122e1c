"""What lanes are asked; Spark is played."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config import StreamsConfig
from penstock.ids import TaskId
from penstock.spark import fleet as module
from penstock.spark.fleet import Fleet
from penstock.spark.messages import Application, LaneAnswer
from penstock.spark.placement import SessionStoppedError

TASK = TaskId(0, 0)


class Lane:
    """Answers at once; fails where it is told to."""

    def __init__(self, spark: Any, name: str, executor: str | None, worker_name: str, pool: str | None) -> None:
        self.name, self.executor, self.worker_name, self.pool = name, executor, worker_name, pool
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.spark, self.forsaken = spark, 0

    def forsake(self) -> None:
        self.forsaken += 1

    def submit(self, function: Any, description: str, read: Any) -> Future[Any]:
        self.asked.append(description.partition(": ")[2])
        answered: Future[Any] = Future()
        if self.error is None:
            answered.set_result(LaneAnswer("w"))
        else:
            answered.set_exception(self.error)
        return answered

    def move(self, executor: str | None) -> None:
        self.executor = executor


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fleet of two lanes on one executor, with settings of the session and of the application."""
    monkeypatch.setattr(module, "Lane", Lane)
    monkeypatch.setattr(module, "packed", lambda application: b"")
    monkeypatch.setattr(module, "executors", lambda spark: ["executor_host_0"])
    monkeypatch.setattr(module, "has_ended", lambda spark: False)

    monkeypatch.setattr(module, "wait_for_executors", lambda spark, timeout: ["executor_host_7"])

    def made(settings: dict[str, str], **own: str) -> Any:
        master = {"spark.master": "spark://host:7077"}
        context = SimpleNamespace(master=master["spark.master"], getConf=lambda: SimpleNamespace(getAll=lambda: [*known.items()]))
        known = {**master, **settings}
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1", **own})
        plan: Any = SimpleNamespace(shuffled={})
        session: Any = SimpleNamespace(sparkContext=context)
        return Fleet(session, Application("key", config, plan, None, "p", "client"), ["t1", "t2"])

    return made


def test_should_ask_nothing_of_lanes_that_have_nothing_with_dynamic_allocation(make: Any) -> None:
    fleet = make({"spark.dynamicAllocation.enabled": "true"})
    for tasks in ({}, {}, {TASK: {}}):
        fleet.open({0: tasks, 1: {}})
    assert fleet.lanes[1].asked == ["open nothing"], "its producer is opened once: that ends what a crash has left open"
    fleet.open({0: {}, 1: {TASK: {}}})
    fleet.open({0: {}, 1: {}})
    assert fleet.lanes[0].asked == ["open nothing", "open 0_0", "open nothing"]
    assert fleet.lanes[1].asked == ["open nothing", "open 0_0", "open nothing"]


def test_should_ask_again_of_a_lane_that_has_failed(make: Any) -> None:
    fleet = make({"spark.dynamicAllocation.enabled": "true"})
    fleet.lanes[1].error = RuntimeError("executor lost")
    fleet.open({0: {}, 1: {}})
    fleet.open({0: {}, 1: {}})
    assert [len(lane.asked) for lane in fleet.lanes.values()] == [1, 2]


def test_should_keep_all_workers_alive_without_dynamic_allocation(make: Any) -> None:
    fleet = make({})
    fleet.open({0: {}, 1: {}})
    fleet.open({0: {}, 1: {}})
    assert [len(lane.asked) for lane in fleet.lanes.values()] == [2, 2]


def test_should_put_all_lanes_into_the_pool_under_names_that_last(make: Any) -> None:
    fleet = make({}, **{"spark.scheduler.pool": "lanes"})
    fleet.add_lane(2, "t3")
    assert [lane.pool for lane in fleet.lanes.values()] == ["lanes"] * 3
    assert [lane.worker_name for lane in fleet.lanes.values()] == ["app-1", "app-2", "app-3"]


def test_should_say_that_the_session_was_stopped(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = make({})
    monkeypatch.setattr(module, "has_ended", lambda spark: True)
    fleet.lanes[1].error = RuntimeError("Cannot call methods on a stopped SparkContext")
    failure = fleet.open({0: {}, 1: {}})[1].failure
    assert failure is not None
    assert failure.kind == "SessionStopped"
    with pytest.raises(SessionStoppedError):
        fleet.place()
    with pytest.raises(SessionStoppedError):
        fleet.is_well_placed  # noqa: B018 - asked now and then


def test_should_go_on_on_another_session_with_lanes_of_the_same_numbers_and_names(make: Any) -> None:
    fleet = make({"spark.dynamicAllocation.enabled": "true"}, **{"spark.scheduler.pool": "lanes"})
    fleet.add_lane(4, "t5")
    fleet.open({0: {TASK: {}}, 1: {}, 4: {}})
    before, session = dict(fleet.lanes), SimpleNamespace(sparkContext=SimpleNamespace())
    fleet.renew(session)
    assert [lane.forsaken for lane in before.values()] == [1, 1, 1]
    assert {index: (lane.name, lane.worker_name, lane.pool) for index, lane in fleet.lanes.items()} == {
        index: (lane.name, lane.worker_name, lane.pool) for index, lane in before.items()
    }
    assert all(lane.spark is session.sparkContext for lane in fleet.lanes.values())
    assert {lane.executor for lane in fleet.lanes.values()} == {"executor_host_7"}
    assert fleet.query_address(0) is None
    fleet.open({0: {}, 1: {}, 4: {}})
    assert [lane.asked for lane in fleet.lanes.values()] == [["open nothing"]] * 3, "their producers end what is still open"


def test_should_be_renewed_again_where_lanes_could_not_be_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = make({})
    made: list[Lane] = []

    def fails_once(*arguments: Any) -> Lane:
        if len(made) == 1:
            made.append(made[0])
            raise RuntimeError("the JVM has died again")
        made.append(Lane(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "Lane", fails_once)
    with pytest.raises(RuntimeError, match="died again"):
        fleet.renew(SimpleNamespace(sparkContext=SimpleNamespace()))
    assert made[0].forsaken == 1
    second = SimpleNamespace(sparkContext=SimpleNamespace())
    fleet.renew(second)
    assert [(lane.name, lane.spark) for lane in fleet.lanes.values()] == [(f"t{n}", second.sparkContext) for n in (1, 2)]


def test_should_see_that_the_session_is_gone_without_asking_it(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = make({})
    monkeypatch.setattr(module, "is_cut_off", lambda spark: False)
    fleet.check_session()
    monkeypatch.setattr(module, "is_cut_off", lambda spark: True)
    with pytest.raises(SessionStoppedError):
        fleet.check_session()
    assert fleet.lanes[0].asked == []
