"""Who hears of a restore, and what."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import StateRestoreListener
from penstock.client.callbacks import Callbacks
from penstock.client.restore_events import RestoreEvents
from penstock.client.scheduling.supervised_thread import ThreadPhase
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import RestoreProgress, ThreadReport
from tests.unit.client.simulated import World

CHANGELOG = TopicPartition("app-counts-changelog", 1)
GUARD = Callbacks(pytest.fail)


class Heard(StateRestoreListener):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_restore_start(self, topic_partition: Any, store_name: str, starting_offset: int, ending_offset: int) -> None:
        self.events.append(("start", starting_offset, ending_offset))

    def on_batch_restored(self, topic_partition: Any, store_name: str, batch_end_offset: int, num_restored: int) -> None:
        self.events.append(("batch", batch_end_offset, num_restored))

    def on_restore_end(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
        self.events.append(("end", total_restored))


def progress(position: int, restored: int) -> RestoreProgress:
    return RestoreProgress(TaskId(0, 1), "counts", CHANGELOG, 0, position, 100, restored)


@pytest.mark.parametrize(
    ("steps", "heard"),
    [
        ([(60, 60, "batch"), (100, 40, "end")], [("batch", 60, 60), ("batch", 100, 40), ("end", 100)]),
        ([(60, 60, "batch"), (100, 40, "batch"), (100, 100, "done")], [("batch", 60, 60), ("batch", 100, 40), ("end", 100)]),
        ([(100, 0, "end")], [("end", 0)]),
    ],
    ids=["in a thread", "first", "nothing to do"],
)
def test_should_tell_a_listener_of_every_batch_and_of_all_of_them_at_the_end(
    steps: list[tuple[int, int, str]], heard: list[tuple[Any, ...]]
) -> None:
    listener, others = Heard(), list[str]()
    events = RestoreEvents(GUARD, lambda: listener, lambda task: "thread", lambda progress, what: others.append(what))
    events(progress(0, 0), "start")
    for position, restored, what in steps:
        events(progress(position, restored), what)
    assert listener.events == [("start", 0, 100), *heard]
    assert others == ["start", *(what for _, _, what in steps)]


def test_should_do_without_a_listener() -> None:
    events = RestoreEvents(GUARD, lambda: None, lambda task: None)
    for what in ("start", "batch", "end"):
        events(progress(100, 50), what)


def test_should_tell_of_a_restore_that_ends_before_the_store_is_complete() -> None:
    class Suspended(Heard):
        def on_restore_suspended(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
            self.events.append(("suspended", topic_partition, store_name, total_restored))

    listener = Suspended()
    events = RestoreEvents(GUARD, lambda: listener, lambda task: "thread")
    events(progress(0, 0), "start")
    events(progress(60, 60), "batch")
    events(progress(60, 0), "suspended")
    assert listener.events[-1] == ("suspended", CHANGELOG, "counts", 60)


@pytest.mark.parametrize("fails", [True, False], ids=["a thread fails", "all is restored"])
def test_should_suspend_what_is_not_restored_when_a_thread_fails(clock: list[float], fails: bool) -> None:
    world = World(clock, threads=1)
    told: list[str] = []
    world.events.on_restore = lambda progress, what: told.append(f"{what} {progress.position}")
    world.assign(TaskId(0, 1))
    world.settle(20)
    manager, thread = world.loop.tasks, world.loop.tasks.threads[0]
    assert thread.phase is ThreadPhase.RUNNING
    manager.reported(thread, ThreadReport(restoring=(progress(60, 60),)))
    if fails:
        manager.failed(thread)
        manager.release(thread.index)
        manager.release(thread.index)
        assert told == ["start 60", "batch 60", "suspended 60"]
    else:
        manager.reported(thread, ThreadReport(restored=(progress(100, 40),)))
        manager.failed(thread)
        manager.release(thread.index)
        assert told == ["start 60", "batch 60", "end 100"]
