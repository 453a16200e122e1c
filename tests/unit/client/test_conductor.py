"""How the conductor puts tasks on lanes that come and go; lanes, brokers and group are played."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.conductor import Conductor
from penstock.client.events import Events
from penstock.client.lane_changes import LaneChange
from penstock.config import StreamsConfig
from penstock.errors import ProcessingError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import SHUTDOWN_REQUESTED, Membership
from penstock.spark.messages import Failure, LaneAnswer

TASKS = [TaskId(0, p) for p in range(4)]


class Fleet:
    """Remembers which lane has which tasks open, and refuses a task that another lane still has."""

    def __init__(self, lanes: int) -> None:
        self.lanes: dict[int, Any] = {lane: SimpleNamespace(name=f"t{lane + 1}", last_used=math.inf) for lane in range(lanes)}
        self.open_tasks: dict[int, set[TaskId]] = {}
        self.failing: dict[int, Failure] = {}
        self.is_well_placed = True
        self.application = SimpleNamespace(client_id="app")
        self.updaters = SimpleNamespace(is_local=False, hosts=lambda: [""])

    @property
    def hosts(self) -> dict[int, str]:
        return dict.fromkeys(self.lanes, "")

    def place(self) -> None:
        pass

    def add_lane(self, index: int, name: str) -> None:
        self.lanes[index] = SimpleNamespace(name=name, last_used=math.inf)

    def remove_lane(self, index: int) -> None:
        self.open_tasks.pop(index, None)
        del self.lanes[index]

    def open(self, owned: Mapping[int, Mapping[TaskId, Any]]) -> dict[int, LaneAnswer]:
        for lane, tasks in owned.items():
            assert lane in self.lanes
            self.open_tasks[lane] = self.open_tasks.get(lane, set()) & set(tasks)
        answers = {lane: LaneAnswer("w", failure=self.failing.pop(lane, None)) for lane in owned}
        for lane, tasks in owned.items():
            for other, held in self.open_tasks.items():
                assert other == lane or not held & set(tasks), "a task is open in two lanes"
            self.open_tasks[lane] = set(tasks)
        return answers


class Positions:
    """Positions of an application that has nothing to read."""

    def __init__(self) -> None:
        self.fetched: dict[TopicPartition, int] = {}
        self.vectors: dict[TopicPartition, Any] = {}
        self.committed: dict[TopicPartition, Any] = {}
        self.draining: dict[TopicPartition, int] = {}
        self.is_drained = False

    def load(self, tasks: Any) -> None:
        pass

    def add(self, tasks: Any) -> None:
        pass

    def drop(self, tasks: Any) -> None:
        pass

    def forget_fetched(self, task: TaskId) -> None:
        pass

    def sources(self) -> list[TopicPartition]:
        return []

    def check(self, ends: Any) -> None:
        pass

    def of_task(self, task: TaskId) -> dict[Any, Any]:
        return {}


class Played:
    """A conductor that runs on a thread of its own."""

    def __init__(self, lanes: int) -> None:
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1", "poll.ms": 5})
        stateless = SimpleNamespace(store_to_changelog={}, repartition_source_topics={}, source_topics=())
        plan: Any = SimpleNamespace(upstream=[], shuffled={}, subtopologies={0: stateless}, changelogs_of=lambda task: {})
        admin: Any = SimpleNamespace(log_ends=lambda partitions, committed: {}, reachable_ends=lambda partitions, committed: {})
        self.fleet, positions = Fleet(lanes), Positions()
        self.told: list[str] = []
        self.failures: list[tuple[BaseException, int | None]] = []
        self.on_failure: Callable[[BaseException, int | None], bool] = lambda error, lane: False
        events = Events(lambda: self.told.append("running"), lambda: self.told.append("rebalancing"), on_failure=self._failed)
        units = {str(task): (task,) for task in TASKS}
        self.conductor = Conductor(config, plan, self.fleet, admin, positions, units, events)  # type: ignore[arg-type]
        self.thread = threading.Thread(target=self.conductor.run, daemon=True)
        self.thread.start()

    def _failed(self, error: BaseException, lane: int | None) -> bool:
        self.failures.append((error, lane))
        return self.on_failure(error, lane)

    def assign(self, *units: str, error_code: int = 0) -> None:
        self.conductor.assigned(Membership(1, b"", units, error_code=error_code))

    def change(self, index: int, name: str | None = None) -> None:
        done = threading.Event()
        self.conductor.change_lanes(LaneChange(index, name, done.set))
        assert done.wait(30)

    def owned(self) -> dict[int, int]:
        """How many tasks each lane has open."""
        return {lane: len(tasks) for lane, tasks in sorted(self.fleet.open_tasks.items())}


@pytest.fixture
def played() -> Iterator[Callable[[int], Played]]:
    all_played: list[Played] = []

    def play(lanes: int) -> Played:
        all_played.append(Played(lanes))
        return all_played[-1]

    yield play
    for one in all_played:
        one.conductor.stop()
        one.thread.join(30)
        assert not one.thread.is_alive()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def all_units() -> list[str]:
    return [str(task) for task in TASKS]


def test_should_move_the_tasks_of_a_lane_that_goes(played: Callable[[int], Played]) -> None:
    one = played(2)
    one.assign(*all_units())
    until(lambda: one.told == ["running"])
    assert one.owned() == {0: 4, 1: 0}
    one.change(0)
    assert one.owned() == {1: 4}
    until(lambda: one.told == ["running", "rebalancing", "running"])
    assert one.conductor._spread.wants(backlog=1_000_000)
    one.change(0, "t1")
    until(lambda: one.told[3:] == ["rebalancing", "running"])
    one.conductor.tasks.follow_load(0)
    assert one.owned() == {0: 2, 1: 2}


def test_should_wait_without_lanes_and_open_everything_in_a_new_one(played: Callable[[int], Played]) -> None:
    one = played(1)
    one.assign(*all_units())
    until(lambda: one.told == ["running"])
    one.change(0)
    assert one.owned() == {}
    one.change(0, "t1")
    until(lambda: one.owned() == {0: 4})


def test_should_change_lanes_between_generations_and_while_paused(played: Callable[[int], Played]) -> None:
    one = played(1)
    one.change(1, "t2")
    one.assign(*all_units())
    until(lambda: one.told == ["running"])
    assert one.owned() == {0: 4, 1: 0}
    one.conductor.pause(True)
    one.change(0)
    assert one.owned() == {1: 4}
    one.conductor.pause(False)
    assert one.conductor.revoked().wait(30)
    until(lambda: one.told[-1] == "rebalancing")
    one.change(1)
    one.change(0, "t1")
    one.assign("0_0")
    until(lambda: one.owned() == {0: 1})


def test_should_say_which_lane_failed_and_go_on_in_the_one_that_replaces_it(played: Callable[[int], Played]) -> None:
    one = played(2)
    one.on_failure = lambda error, lane: one.conductor.replace_lane(lane or 0, 2, "t3") is None
    one.fleet.failing = {1: Failure("ProcessingError", "boom", "traceback")}
    one.assign(*all_units())
    until(lambda: one.told[-1:] == ["running"])
    ((error, lane),) = one.failures
    assert isinstance(error, ProcessingError)
    assert lane == 1
    assert set(one.fleet.lanes) == {0, 2}


def test_should_end_when_a_member_wants_the_application_to_stop(played: Callable[[int], Played]) -> None:
    one = played(1)
    one.assign(*all_units())
    until(lambda: one.told == ["running"])
    one.assign(error_code=SHUTDOWN_REQUESTED)
    one.thread.join(30)
    assert not one.thread.is_alive()


def test_should_start_nothing_once_halted(played: Callable[[int], Played]) -> None:
    one = played(1)
    one.conductor.halt()
    one.assign(*all_units())
    one.conductor.end()
    one.thread.join(30)
    assert one.told == []
    assert one.owned() == {}
