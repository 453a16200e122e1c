"""What is shown of restores and copies, under Kafka Streams' names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.client.metrics.state_updater_metrics import STANDBY_GROUP, UPDATER_GROUP, StateUpdaterMetrics
from penstock.clock import ManualClock
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import TASK_GROUP, Metrics
from penstock.spark.messages import RestoreProgress
from penstock.spark.worker.standby_worker import Loaded

TASK, OTHER = TaskId(0, 1), TaskId(0, 2)
CHANGELOG = TopicPartition("app-counts-changelog", 1)


class Kept:
    def __init__(self) -> None:
        self.standing_by: Iterable[TaskId] = []
        self.loaded: list[Loaded] = []

    def copies(self) -> list[Loaded]:
        return self.loaded


class Updater:
    """The metrics of one client, with a clock that is moved by hand."""

    def __init__(self, level: str) -> None:
        self.kept, self.tasks, self.clock = Kept(), dict[TaskId, str](), ManualClock(0)
        self.unrestored: list[TaskId] = []
        self._registry = Metrics(level, clock=self.clock)
        seconds = lambda: self.clock.now_ms() / 1000  # noqa: E731
        self.metrics = StateUpdaterMetrics(
            self._registry, "client", lambda: self.kept, lambda: self.tasks, seconds, unrestored=lambda: self.unrestored
        )

    def shown(self, group: str) -> dict[tuple[str, ...], Any]:
        self.metrics.follow()
        found = {**self._registry.metrics(), **self.metrics.metrics()}
        return {
            (name.name, *(name.tags[tag] for tag in ("thread-id", "task-id", "store") if tag in name.tags)): metric.metric_value
            for name, metric in found.items()
            if name.group == group
        }


@pytest.fixture
def updater(request: pytest.FixtureRequest) -> Updater:
    return Updater(getattr(request, "param", "INFO"))


def progress(position: int, restored: int) -> RestoreProgress:
    return RestoreProgress(TASK, "counts", CHANGELOG, 0, position, 100, restored)


def test_should_have_javas_metrics_of_the_state_updater(updater: Updater) -> None:
    shown = updater.shown(UPDATER_GROUP)
    assert {thread for _, thread in shown} == {"client-StateUpdater-1"}
    assert {name for name, _ in shown} == {
        "active-restoring-tasks",
        "standby-updating-tasks",
        "active-paused-tasks",
        "standby-paused-tasks",
        "idle-ratio",
        "active-restore-ratio",
        "standby-update-ratio",
        "checkpoint-ratio",
        "restore-records-rate",
        "restore-call-rate",
    }


def test_should_show_what_is_left_to_restore_and_how_long_it_took(updater: Updater) -> None:
    updater.tasks = {TASK: "client-StreamThread-1", OTHER: "client-StreamThread-1"}
    updater.metrics.restored(progress(0, 0), "start")
    remaining = ("restore-remaining-records-total", "client-StreamThread-1")
    assert updater.shown(TASK_GROUP) == {(*remaining, "0_1"): 100, (*remaining, "0_2"): 0}
    updater.clock.advance(1_000)
    updater.metrics.restored(progress(60, 60), "batch")
    assert updater.shown(TASK_GROUP)[(*remaining, "0_1")] == 40
    assert updater.shown(UPDATER_GROUP)["active-restoring-tasks", "client-StateUpdater-1"] == 1
    updater.clock.advance(1_000)
    updater.metrics.restored(progress(100, 40), "end")
    assert updater.shown(TASK_GROUP)[(*remaining, "0_1")] == 0
    updater.clock.advance(2_000)
    shown = {name: value for (name, _), value in updater.shown(UPDATER_GROUP).items()}
    assert shown["active-restoring-tasks"] == 0
    assert (shown["active-restore-ratio"], shown["idle-ratio"]) == (0.5, 0.5)
    assert (shown["restore-records-rate"], shown["restore-call-rate"]) == (25, 0.5)


def test_should_show_a_task_that_is_restored_aside(updater: Updater) -> None:
    updater.metrics.restored(progress(10, 10), "batch")
    assert updater.shown(TASK_GROUP) == {("restore-remaining-records-total", "client-StateUpdater-1", "0_1"): 90}


@pytest.mark.parametrize("updater", ["DEBUG"], indirect=True)
def test_should_show_how_far_copies_are_behind_and_forget_those_that_go(updater: Updater) -> None:
    updater.kept.standing_by = [TASK]
    updater.kept.loaded = [Loaded(TASK, "counts", CHANGELOG, 0, 70, 100), Loaded(OTHER, "counts", CHANGELOG, 0, 0, 9)]
    updater.metrics.updated(Loaded(TASK, "counts", CHANGELOG, 0, 70, 100, 70))
    updater.metrics.worked(0.5)
    updater.clock.advance(2_000)
    assert updater.shown(STANDBY_GROUP) == {("records-lag", "0_1", "counts"): 30}
    assert updater.shown(TASK_GROUP) == {
        ("update-rate", "client-StateUpdater-1", "0_1"): 35,
        ("update-total", "client-StateUpdater-1", "0_1"): 70,
    }
    shown = {name: value for (name, _), value in updater.shown(UPDATER_GROUP).items()}
    assert (shown["standby-updating-tasks"], shown["standby-update-ratio"], shown["idle-ratio"]) == (1, 0.25, 0.75)
    updater.kept.standing_by, updater.kept.loaded = [], []
    assert updater.shown(STANDBY_GROUP) == updater.shown(TASK_GROUP) == {}


def test_should_count_updates_at_debug_only(updater: Updater) -> None:
    updater.kept.standing_by = [TASK]
    updater.metrics.updated(Loaded(TASK, "counts", CHANGELOG, 0, 70, 100, 70))
    assert updater.shown(TASK_GROUP) == {}


def test_should_count_what_is_paused_and_nothing_twice(updater: Updater) -> None:
    def counts() -> list[Any]:
        shown = {name: value for (name, _), value in updater.shown(UPDATER_GROUP).items()}
        names = ("active-restoring-tasks", "active-paused-tasks", "standby-updating-tasks", "standby-paused-tasks")
        return [shown[name] for name in names]

    updater.kept.standing_by = [TaskId(1, 0), TaskId(1, 1), TaskId(1, 2)]
    updater.metrics.restored(progress(10, 10), "batch")
    updater.unrestored = [TASK, OTHER]  # one that is being restored, and one that waits for it
    assert counts() == [1, 0, 3, 0]
    updater.metrics.paused(True)
    assert counts() == [0, 2, 0, 3]
    updater.metrics.restored(progress(100, 0), "end")
    updater.unrestored = []
    assert counts() == [0, 0, 0, 3]  # what is restored is not paused in this sense, as in Kafka Streams
    updater.metrics.paused(False)
    assert counts() == [0, 0, 3, 0]


def test_should_not_count_a_pause_as_time_spent_on_restoring(updater: Updater) -> None:
    updater.metrics.restored(progress(10, 10), "batch")
    updater.clock.advance(1_000)
    updater.metrics.paused(True)
    updater.clock.advance(2_000)
    updater.metrics.paused(False)
    updater.clock.advance(1_000)
    updater.metrics.restored(progress(100, 90), "end")
    shown = {name: value for (name, _), value in updater.shown(UPDATER_GROUP).items()}
    assert (shown["active-restore-ratio"], shown["idle-ratio"]) == (0.5, 0.5)
