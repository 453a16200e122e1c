"""Threads whose session has ended: nothing is asked of Spark, which would raise here, and their names are free again."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config.streams_config import StreamsConfig
from penstock.spark.driver import thread_worker
from penstock.spark.driver.state_updaters import HERE, StateUpdaters
from penstock.spark.driver.thread_worker import ThreadWorker
from penstock.spark.messages import Application
from penstock.spark.worker.worker_process import WorkerProcess
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
def ended(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, WorkerProcess]]:
    """What was ended of threads' workers."""
    found: list[tuple[str, WorkerProcess]] = []
    monkeypatch.setattr(thread_worker, "worker_environment", lambda spark, own: own)
    monkeypatch.setattr(thread_worker, "end_left", lambda worker, left: found.append((worker, left)))
    return found


def thread_on(context: Any) -> Any:
    return ThreadWorker(context, "thread-1", None, "forsaken-1")


def test_should_end_the_worker_and_give_the_name_back_once(ended: list[tuple[str, WorkerProcess]]) -> None:
    context, left = Context(), WorkerProcess("here", 7, 6)
    worker = thread_on(context)
    worker._process, context.lives = left, False
    worker.forsake()
    new = thread_on(Context())
    worker.forsake()
    other = thread_on(Context())
    assert ended == [("forsaken-1", left)]
    assert (new._worker_name, other._worker_name) == ("forsaken-1", "forsaken-1~2")
    new.forsake()
    other.forsake()


def test_should_leave_its_name_free_where_it_cannot_be_made(ended: list[tuple[str, WorkerProcess]]) -> None:
    context = Context()
    context.lives = False
    with pytest.raises(ConnectionRefusedError):
        thread_on(context)
    worker = thread_on(Context())
    assert worker._worker_name == "forsaken-1"
    worker.forsake()


def test_should_not_wait_for_jobs(ended: list[tuple[str, WorkerProcess]], monkeypatch: pytest.MonkeyPatch) -> None:
    worker, runs, goes_on = thread_on(Context()), threading.Event(), threading.Event()

    def run(*_: Any) -> bytes:
        runs.set()
        goes_on.wait(LIMIT)
        raise ConnectionRefusedError

    monkeypatch.setattr(worker, "_run", run)
    running, waiting = (worker.submit(lambda rows: [], "turn", bytes) for _ in range(2))
    assert runs.wait(LIMIT)
    worker.forsake()
    with pytest.raises(CancelledError):
        waiting.result(LIMIT)
    goes_on.set()
    with pytest.raises(ConnectionRefusedError):
        running.result(LIMIT)
    with pytest.raises(RuntimeError):
        worker.submit(lambda rows: [], "turn", bytes)


def test_should_keep_copies_in_a_new_worker_of_the_same_name(ended: list[tuple[str, WorkerProcess]]) -> None:
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})
    plan: Any = SimpleNamespace(shuffled={})
    first, second = Context(), Context()
    updaters = StateUpdaters(first, Application("key", config, plan, None, "p", "client"), b"")  # type: ignore[arg-type]
    before = updaters._worker(HERE)
    first.lives = False
    updaters.renew(second)  # type: ignore[arg-type]
    after = updaters._worker(HERE)
    assert after is not before
    assert (after.name, after._worker_name, after._spark) == (before.name, before._worker_name, second)
    updaters.forsake()
    updaters.close(1)
