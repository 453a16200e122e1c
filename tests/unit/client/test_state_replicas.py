"""When the group is told that a task can move, and what is restored beside the tasks that run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.replicas.local_replicas import StandbyEvents
from penstock.client.replicas.state_replicas import StateReplicas
from penstock.client.scheduling.placement import Placement
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import Membership
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology

COUNTING = Subtopology(0, (), {}, (), {"counts": "app-counts-changelog"}, ("clicks",), (), {}, {})
PLAN = Plan({0: COUNTING}, {"clicks": 2, "app-counts-changelog": 2})


@pytest.fixture
def lags() -> dict[TaskId, int]:
    return {}


@pytest.fixture
def copies(lags: dict[TaskId, int]) -> StateReplicas:
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", "acceptable.recovery.lag": 5_000})
    spark_threads: Any = SimpleNamespace(updaters=None, application=SimpleNamespace(client_id="client"))
    made = StateReplicas(config, PLAN, spark_threads, None, StandbyEvents())  # type: ignore[arg-type]
    made.standbys.lag = lags.get  # type: ignore[method-assign]
    made.expect(Membership(1, b"", (), copies=(TaskId(0, 0), TaskId(0, 1))))
    return made


def test_should_give_a_copy_that_still_gains_the_time_to_catch_up(copies: StateReplicas, lags: dict[TaskId, int]) -> None:
    for lag, ready in ((90_000, False), (4_000, False), (2_000, False), (300, True)):
        lags.update({TaskId(0, 0): lag, TaskId(0, 1): 0})
        assert copies.warm_ups_are_ready() is ready, lag


def test_should_not_wait_for_a_copy_that_comes_no_closer(copies: StateReplicas, lags: dict[TaskId, int]) -> None:
    for lag, ready in ((4_000, False), (3_000, False), (3_100, True)):
        lags.update({TaskId(0, 0): lag, TaskId(0, 1): 0})
        assert copies.warm_ups_are_ready() is ready, lag


def test_should_wait_for_all_of_them(copies: StateReplicas, lags: dict[TaskId, int]) -> None:
    lags[TaskId(0, 0)] = 0
    assert not copies.warm_ups_are_ready()
    lags[TaskId(0, 1)] = 0
    assert copies.warm_ups_are_ready()


@pytest.mark.parametrize(("told", "asks"), [(9_000, True), (100, False)])
def test_should_tell_the_group_of_a_copy_that_has_caught_up_since_it_was_last_told(
    copies: StateReplicas, lags: dict[TaskId, int], told: int, asks: bool
) -> None:
    """The leader has decided by what was told before: one that was ready then is to stay a copy."""
    copies.standbys._wanted = {TaskId(0, 0): ""}
    lags[TaskId(0, 0)] = told
    copies.holdings(None, ())
    lags[TaskId(0, 0)] = 0
    copies.expect(Membership(2, b"", (), copies=(TaskId(0, 0),)))
    assert copies.warm_ups_are_ready() is asks


def test_should_restore_aside_what_has_to_wait_for_an_open_transaction(
    copies: StateReplicas, lags: dict[TaskId, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So that the tasks that run go on meanwhile."""
    monkeypatch.setattr("penstock.client.replicas.state_replicas._UNDECIDED_EVERY", 0.0)
    stable = {TopicPartition("app-counts-changelog", 0): 5, TopicPartition("app-counts-changelog", 1): 9}
    admin: Any = SimpleNamespace(log_ends=lambda asked, committed: {p: stable[p] if committed else 9 for p in asked})
    copies._admin, copies._config = admin, copies._config.with_values({"processing.guarantee": "exactly_once_v2"})
    tasks = [TaskId(0, 0), TaskId(0, 1)]
    assert copies.to_restore_first(tasks) == {TaskId(0, 0)}
    copies.restoring.add(TaskId(0, 0))
    assert "app-counts-changelog-0 at offset 5" in caplog.text
    lags[TaskId(0, 0)] = 0
    assert copies.restored() == [TaskId(0, 0)]
    assert copies.decided(copies.restored()) == set()
    stable[TopicPartition("app-counts-changelog", 0)] = 10
    copies.take_back(copies.decided(copies.restored()))
    assert copies.restoring == set()
    stable[TopicPartition("app-counts-changelog", 0)] = 5
    assert copies.to_restore_first(tasks) == set(), "what has been restored first is opened, and not restored once more"


@pytest.mark.parametrize("waits", [True, False])
def test_should_look_often_only_while_a_task_waits_for_its_copy(copies: StateReplicas, waits: bool) -> None:
    """Each look is a job: copies that only follow are looked at now and then."""
    hurried: list[bool] = []
    copies.standbys.hurry = hurried.append  # type: ignore[method-assign]
    copies.standbys.want = lambda *_: None  # type: ignore[method-assign]
    copies._spark_threads.hosts = {0: "a", 1: "b"}  # type: ignore[misc]
    task, membership = TaskId(0, 0), Membership(1, b"", (TaskId(0, 0),))
    copies.choose(Placement({task: 0}, {task: "b"}, is_waiting=waits), membership)
    copies.keep(membership, {task: 0})
    assert hurried == [waits]
