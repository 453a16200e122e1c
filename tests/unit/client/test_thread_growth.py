from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from penstock.client.scheduling.thread_growth import ThreadGrowth
from penstock.client.stream_threads import StreamThreads, ThreadState
from tests.harness.waiting import LIMIT
from tests.unit.client.simulated import make_plan


class Growing:
    """An application with so many threads and nine tasks, which is told how many tasks its executors run at a time."""

    def __init__(self, threads: int, is_set: bool) -> None:
        self.threads = StreamThreads("app")
        for _ in range(threads):
            self.add()
        self.growth = ThreadGrowth(self.add, self.threads, make_plan(3, 4, 2), is_set)

    def add(self) -> None:
        self.threads.add().set_state(ThreadState.STARTING)

    def after(self, *slots: int) -> int:
        for count in slots:
            self.growth.take(count)
            for thread in threading.enumerate():
                if thread.name == "penstock-thread-growth":
                    thread.join(LIMIT)
        return len(self.threads.alive())


@pytest.mark.parametrize(
    ("slots", "threads"),
    [
        ([2], 2),
        ([2, 5], 5),
        ([5], 5),
        ([2, 50], 9),  # as many as tasks
        ([2, 1, 2], 2),
        ([4, 3, 4, 0, 4], 4),  # executors come back
    ],
)
def test_should_have_a_thread_for_each_task_that_executors_run_at_a_time(slots: list[int], threads: int) -> None:
    assert Growing(2, is_set=False).after(*slots) == threads


def test_should_say_why_threads_do_not_follow_the_executors(caplog: Any) -> None:
    growing = Growing(2, is_set=True)
    with caplog.at_level(logging.INFO):
        assert growing.after(3, 3) == 2
        assert not caplog.records
        assert growing.after(5) == 2
    assert "slots for 2 more stream threads" in caplog.text
    assert "num.stream.threads is set" in caplog.text
