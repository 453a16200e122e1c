"""Turns that could not read or write all they were to: what the next one does without. Lanes and brokers are played."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client import conductor as conductor_module
from penstock.client.conductor import Conductor
from penstock.client.events import Events
from penstock.client.failures import LaneLostError, error_of
from penstock.client.pace import Pace
from penstock.client.positions import OffsetOutOfRangeError
from penstock.client.stuck import StuckPartitions
from penstock.client.turns import Turn
from penstock.config import StreamsConfig
from penstock.errors import BrokerError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange, Short, StuckPartitionsError
from penstock.spark.messages import LaneAnswer, TaskWork, UpstreamWork
from penstock.spark.plan import Plan
from penstock.spark.worker import _failure

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
TASKS = (TaskId(0, 0), TaskId(0, 1))
ENDS = {A: 10, B: 20}


class Positions:
    """Two tasks that read a partition each, from the start."""

    def __init__(self) -> None:
        self.fetched = {A: 0, B: 0}
        self.vectors: dict[TopicPartition, Any] = {}
        self.committed: dict[TopicPartition, Any] = {}
        self.draining: dict[TopicPartition, int] = {}
        self.is_drained = False

    def sources(self) -> list[TopicPartition]:
        return list(self.fetched)

    def inputs(self, task: TaskId) -> list[TopicPartition]:
        return [TopicPartition("orders", task.partition)]

    def check(self, ends: Any) -> None:
        pass


class Admin:
    """Tells the ends of logs, except of partitions whose leader is away."""

    def __init__(self) -> None:
        self.away: set[TopicPartition] = set()
        self.asked: list[tuple[list[TopicPartition], bool]] = []

    def reachable_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        self.asked.append((list(partitions), committed_only))
        return {p: ENDS[p] for p in self.asked[-1][0] if p not in self.away}


class Fleet:
    """Lanes that can be removed."""

    def __init__(self) -> None:
        self.lanes = {0: SimpleNamespace(name="t1"), 1: SimpleNamespace(name="t2")}
        self.application = SimpleNamespace(client_id="app", transactional_id=lambda lane: f"app-process-{lane + 1}")
        self.updaters = SimpleNamespace(is_local=False, hosts=lambda: [""])

    def remove_lane(self, index: int) -> None:
        del self.lanes[index]

    def add_lane(self, index: int, name: str) -> None:
        self.lanes[index] = SimpleNamespace(name=name)


def make(**settings: Any) -> Conductor:
    given = {"application.id": "app", "bootstrap.servers": "b:1", "processing.guarantee": "exactly_once_v2", **settings}
    subtopology: Any = SimpleNamespace(id=0, source_topics=("orders",), repartition_source_topics={}, store_to_changelog={})
    fakes: Any = (Fleet(), Admin(), Positions())
    plan = Plan({0: subtopology}, {"orders": 2}, {})
    found = Conductor(StreamsConfig(given), plan, *fakes, {str(task): (task,) for task in TASKS}, Events())
    found.tasks.owners = dict.fromkeys(TASKS, 0)
    return found


def ranges(conductor: Conductor) -> list[str]:
    turn = conductor._poll()
    return [] if turn is None else list(map(str, turn.ranges))


def test_should_try_a_partition_again_less_and_less_often() -> None:
    now = [0.0]
    stuck, waits = StuckPartitions(clock=lambda: now[0]), []
    for _ in range(9):
        stuck.note(A, 5, "its leader is away")
        started = now[0]
        while stuck.without([A, B]) == [B]:
            now[0] += 0.25
        waits.append(now[0] - started)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    stuck.moved([A])
    stuck.note(A, 5, "its leader is away")
    now[0] += 0.5
    assert stuck.without([A, B]) == [A, B]


@pytest.mark.parametrize(
    ("settings", "committed_only"),
    [
        ({}, True),
        ({"processing.guarantee": "at_least_once"}, False),
        ({"processing.guarantee": "at_least_once", "consumer.isolation.level": "read_committed"}, True),
        ({"processing.guarantee": "at_least_once", "main.consumer.isolation.level": "read_committed"}, True),
        ({"processing.guarantee": "at_least_once", "isolation.level": "read_committed"}, True),
        ({"processing.guarantee": "at_least_once", "global.consumer.isolation.level": "read_committed"}, False),
    ],
)
def test_should_ask_for_the_ends_that_its_consumers_can_reach(settings: dict[str, str], committed_only: bool) -> None:
    conductor = make(**settings)
    conductor._poll()
    assert conductor._admin.asked == [([A, B], committed_only)]  # type: ignore[attr-defined]


def test_should_go_on_with_the_others_where_a_leader_is_away(caplog: pytest.LogCaptureFixture) -> None:
    conductor = make()
    conductor._admin.away = {A}  # type: ignore[attr-defined]
    conductor.tasks.positions.fetched[A] = 4
    assert ranges(conductor) == ["orders-1[0..20)"]
    assert "orders-0 cannot be read from offset 4 on" in caplog.text
    assert ranges(conductor) == ["orders-1[0..20)"]
    assert conductor._admin.asked[-1][0] == [B]  # type: ignore[attr-defined]


def test_should_account_only_what_could_be_read_and_leave_the_rest_alone_for_a_while() -> None:
    conductor = make()
    turn = conductor._poll()
    assert turn is not None
    conductor._account(turn, {0: LaneAnswer("w", short={A: Short(3, "nothing came")})})
    assert conductor.tasks.positions.fetched == {A: 3, B: 20}
    assert ranges(conductor) == []
    conductor._stuck.moved([A])
    assert ranges(conductor) == ["orders-0[3..10)"]


def test_should_account_for_each_task_behind_a_shuffle_what_its_lane_has_read() -> None:
    conductor = make()
    words = [TopicPartition("words", 0), TopicPartition("words", 1)]
    positions = conductor.tasks.positions
    positions.vectors.update({words[0]: {A: 0, B: 0}, words[1]: {A: 5, B: 0}})
    fed = {task: TaskWork(fed=(words[task.partition],)) for task in TASKS}
    planned = [FetchRange("orders", 0, 0, 10), FetchRange("orders", 1, 0, 20)]
    turn = Turn({0: fed}, [UpstreamWork(0, r.partition, (r,)) for r in planned], planned)
    conductor._account(turn, {0: LaneAnswer("w", short={A: Short(3, "nothing came")})})
    assert positions.vectors == {words[0]: {A: 3, B: 20}, words[1]: {A: 5, B: 20}}


def test_should_load_positions_anew_where_the_log_does_not_have_them_any_more() -> None:
    conductor = make()
    turn = conductor._poll()
    assert turn is not None
    with pytest.raises(OffsetOutOfRangeError, match="orders-0 at offset 0"):
        conductor._account(turn, {0: LaneAnswer("w", short={A: Short(0, "gone", out_of_range=True)})})
    assert conductor.tasks.positions.fetched == {A: 0, B: 20}
    assert conductor._survives(OffsetOutOfRangeError("out of range"))


def test_should_do_without_the_partitions_that_a_stage_could_not_read() -> None:
    conductor = make()
    error = error_of(_failure(StuckPartitionsError("not all could be read", {A: Short(3, "nothing came")})))
    assert isinstance(error, StuckPartitionsError)
    assert conductor._survives(error)
    assert ranges(conductor) == ["orders-1[0..20)"]


@pytest.mark.parametrize(
    ("error", "seconds", "next_turn"),
    [
        (TaskMigratedError("fenced"), 11, 15),
        (BrokerError("away"), 11, 15),
        (LaneLostError("gone"), 1, 15),
        (TaskMigratedError("fenced"), 1, 30),
    ],
    ids=["longer than its transaction", "longer than its transaction", "its worker died", "something else"],
)
def test_should_make_a_turn_smaller_that_was_too_much(error: Exception, seconds: float, next_turn: int) -> None:
    conductor = make()
    turn = conductor._poll()
    assert turn is not None
    turn.started = time.monotonic() - seconds
    conductor._turn = turn
    conductor._survives(error)
    assert sum(r.end - r.start for r in conductor._poll().ranges) == next_turn  # type: ignore[union-attr]


def test_should_get_back_to_larger_turns_slowly() -> None:
    pace, turns = Pace(), 0
    for _ in range(3):
        pace.failed(pace.max_records(1_000_000, backlog=1_000_000))
    assert pace.ceiling == 1_250
    while pace.max_records(1_000_000, backlog=1_000_000) < 10_000:
        pace.account(pace.max_records(1_000_000, backlog=1_000_000), 0.1)
        turns += 1
    assert 20 < turns < 40
    for _ in range(30):
        pace.failed(pace.max_records(1_000_000, backlog=1_000_000))
    assert pace.max_records(1_000_000, backlog=1_000_000) == 1


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_end_what_a_lane_may_have_left_open_that_does_not_come_back(
    guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fenced: list[str] = []
    monkeypatch.setattr(conductor_module, "fence", lambda settings, transactional_id: fenced.append(transactional_id))
    conductor = make(**{"processing.guarantee": guarantee})
    conductor._remove_lane(1)  # not opened: its worker died before
    conductor.replace_lane(0, 2, "t3")
    assert fenced == (["app-process-2", "app-process-1"] if guarantee == "exactly_once_v2" else [])
