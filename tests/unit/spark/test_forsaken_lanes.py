"""Lanes whose session has ended: nothing is asked of Spark, which would raise here, and their names are free again."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config.streams_config import StreamsConfig
from penstock.spark.driver import lanes
from penstock.spark.driver.lanes import Lane
from penstock.spark.driver.state_updaters import HERE, StateUpdaters
from penstock.spark.messages import Application
from penstock.spark.worker.lane_process import LaneProcess
from tests.harness.waiting import LIMIT


class Context:
    """A local session that can make RDDs as long as it lives."""

    master = "local[2]"

    def __init__(self) -> None:
        self.lives = True

    def parallelize(self, rows: Any, partitions: int) -> Any:
        if not self.lives:
            raise ConnectionRefusedError
        return rows


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, LaneProcess]]:
    """What was ended of lanes' workers."""
    found: list[tuple[str, LaneProcess]] = []
    monkeypatch.setattr(lanes, "worker_environment", lambda spark, own: own)
    monkeypatch.setattr(lanes, "end_left", lambda lane, left: found.append((lane, left)))
    return found


def lane_on(context: Any) -> Any:
    return Lane(context, "thread-1", None, "forsaken-1")


def test_should_end_the_worker_and_give_the_name_back_once(ended: list[tuple[str, LaneProcess]]) -> None:
    context, left = Context(), LaneProcess("here", 7, 6)
    lane = lane_on(context)
    lane._process, context.lives = left, False
    lane.forsake()
    new = lane_on(Context())
    lane.forsake()
    other = lane_on(Context())
    assert ended == [("forsaken-1", left)]
    assert (new._worker_name, other._worker_name) == ("forsaken-1", "forsaken-1~2")
    new.forsake()
    other.forsake()


def test_should_leave_its_name_free_where_it_cannot_be_made(ended: list[tuple[str, LaneProcess]]) -> None:
    context = Context()
    context.lives = False
    with pytest.raises(ConnectionRefusedError):
        lane_on(context)
    lane = lane_on(Context())
    assert lane._worker_name == "forsaken-1"
    lane.forsake()


def test_should_not_wait_for_jobs(ended: list[tuple[str, LaneProcess]], monkeypatch: pytest.MonkeyPatch) -> None:
    lane, runs, goes_on = lane_on(Context()), threading.Event(), threading.Event()

    def run(*_: Any) -> bytes:
        runs.set()
        goes_on.wait(LIMIT)
        raise ConnectionRefusedError

    monkeypatch.setattr(lane, "_run", run)
    running, waiting = (lane.submit(lambda rows: [], "turn", bytes) for _ in range(2))
    assert runs.wait(LIMIT)
    lane.forsake()
    with pytest.raises(CancelledError):
        waiting.result(LIMIT)
    goes_on.set()
    with pytest.raises(ConnectionRefusedError):
        running.result(LIMIT)
    with pytest.raises(RuntimeError):
        lane.submit(lambda rows: [], "turn", bytes)


def test_should_keep_copies_in_a_new_worker_of_the_same_name(ended: list[tuple[str, LaneProcess]]) -> None:
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})
    plan: Any = SimpleNamespace(shuffled={})
    first, second = Context(), Context()
    updaters = StateUpdaters(first, Application("key", config, plan, None, "p", "client"), b"")  # type: ignore[arg-type]
    before = updaters._lane(HERE)
    first.lives = False
    updaters.renew(second)  # type: ignore[arg-type]
    after = updaters._lane(HERE)
    assert after is not before
    assert (after.name, after._worker_name, after._spark) == (before.name, before._worker_name, second)
    updaters.forsake()
    updaters.close(1)
