"""Brokers that answer late: no question to them is asked on the conductor's thread, and all that needs no answer goes on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.replicas.state_replicas import StateReplicas
from penstock.client.scheduling.placement import Placement
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.spark.plan import Plan
from tests.unit.client.simulated import Background, Brokers, World, make_plan

QUESTIONS = ("reachable_ends", "log_ends", "log_starts", "log_bounds", "read_committed")


class AskedInBackground(Background):
    """Knows whether it does something now; what is held back is not done until it is told to be."""

    def __init__(self) -> None:
        super().__init__()
        self.works = False
        self.holds_back: Callable[[Any], bool] = lambda function: False
        self.held: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future = super().submit(function, *arguments, **named)
        if self.holds_back(getattr(function, "func", function)):
            self.held.append(self.pending.pop())
        return future

    def run_one(self, index: int = 0) -> None:
        self.works = True
        try:
            super().run_one(index)
        finally:
            self.works = False


def world_that_asks_in_background(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[World, AskedInBackground]:
    """A world whose brokers may be asked beside the loop alone."""
    beside = AskedInBackground()
    monkeypatch.setattr("tests.unit.client.simulated.Background", lambda: beside)
    plan = make_plan(3, 4, 2)
    brokers = Brokers(plan)

    def guarded(name: str) -> Callable[..., Any]:
        ask = getattr(brokers, name)

        def asked(*arguments: Any, **named: Any) -> Any:
            assert beside.works, f"{name} on the event loop's thread"
            return ask(*arguments, **named)

        return asked

    for name in QUESTIONS:
        setattr(brokers, name, guarded(name))
    return World(clock, threads=2, plan=plan, brokers=brokers, **settings), beside


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("seed", range(3))
def test_should_ask_no_broker_on_the_event_loops_thread(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, seed: int, guarantee: str
) -> None:
    world, _ = world_that_asks_in_background(clock, monkeypatch, guarantee=guarantee, **{"task.spread": "always"})
    world.on_failure = lambda error, thread: True
    world.assign()
    world.shake(random.Random(seed), 300, failures=0.1)
    world.settle()
    assert not [entry for entry in world.wants() if not world.brokers.consumed[entry]]
    assert not [error for error, _ in world.failures if isinstance(error, AssertionError)]


def test_should_process_while_a_broker_takes_20_seconds_to_tell_of_open_transactions(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, beside = world_that_asks_in_background(clock, monkeypatch)
    copies, late, others = world.loop.copies, TaskId(2, 1), TopicPartition("orders", 0)
    beside.holds_back = lambda function: getattr(function, "__name__", "") == "decided"
    world.loop.copies.to_restore_first = lambda tasks: {late} & set(tasks) - copies._taken_back  # type: ignore[method-assign]
    world.assign(*(task for task in world.plan.tasks() if task != TaskId(2, 1)))
    world.settle(30)
    world.assign()
    copies._is_back = lambda task: True  # type: ignore[method-assign]
    world.settle(30)
    assert len(beside.held) == 1
    until, consumed = clock[0] + 20, 0
    while clock[0] < until:
        world.produce("orders", 0)
        world.settle(20)
        consumed += 1
        assert sum(world.brokers.consumed[others, offset] for offset in range(consumed)) == consumed
    assert len(beside.held) == 1, "it is asked once"
    assert copies.restoring == {late}
    beside.pending.extend(beside.held)
    world.settle(50)
    assert copies.restoring == set()
    assert world.told[-1] == "running"


def test_should_place_tasks_by_the_last_look_at_their_changelogs() -> None:
    changelog = {"store": "app-store-changelog"}
    subtopology = SimpleNamespace(id=0, source_topics=("in",), repartition_source_topics={}, store_to_changelog=changelog)
    subtopology.sink_topics, subtopology.stores = (), {}
    plan = Plan({0: subtopology}, {"in": 2, "app-store-changelog": 2})  # type: ignore[dict-item]
    asked: list[Any] = []

    def ends(partitions: Any, committed_only: bool) -> dict[TopicPartition, int]:
        asked.append(list(partitions))
        return dict.fromkeys(partitions, 100)

    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})
    application = SimpleNamespace(client_id="app")
    jobs = SimpleNamespace(hosts={0: "one", 1: "other"}, neighbours=Counter(), updaters=None, application=application)
    admin: Any = SimpleNamespace(reachable_ends=ends)
    copies = StateReplicas(config, plan, jobs, admin, SimpleNamespace())  # type: ignore[arg-type]
    tasks = [TaskId(0, 0), TaskId(0, 1)]
    known: list[Any] = []

    def place(tasks: Any, hosts: Any, spread: bool, before: Any, state: Any, settings: Any) -> Placement:
        known.append(dict(state.totals))
        return Placement(dict.fromkeys(tasks, 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.client.replicas.state_replicas.place", place)
        copies.placement(tasks, True, {})
        assert asked == []
        copies.look_at_changelogs(tasks)
        copies.placement(tasks, True, {})
    assert asked == [[TopicPartition("app-store-changelog", 0), TopicPartition("app-store-changelog", 1)]]
    assert min(known[0].values()) > 10**9
    assert known[1] == dict.fromkeys(tasks, 100)
