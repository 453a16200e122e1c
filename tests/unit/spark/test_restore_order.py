"""Which of a thread's tasks is restored first, and which of them work meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import RestoreProgress, ThreadReport
from penstock.spark.worker.active_tasks import ActiveTasks

LEFT = {TaskId(0, 0): 9_000, TaskId(0, 1): 10, TaskId(0, 2): 0, TaskId(0, 3): 500}


@pytest.fixture
def restored() -> list[TaskId]:
    return []


@pytest.fixture
def tasks(restored: list[TaskId]) -> ActiveTasks:
    """Tasks of which so much is to be restored; in one call all but the largest come to their ends."""
    made: Any = object.__new__(ActiveTasks)

    def restore_task(task_id: TaskId, opened: Any, deadline: float, report: ThreadReport) -> list[RestoreProgress]:
        restored.append(task_id)
        if opened.left > 1_000:
            return [RestoreProgress(task_id, "counts", TopicPartition("log", task_id.partition), 0, 0, opened.left, 0)]
        return []

    made.running = {}
    made.restoring = {
        task: SimpleNamespace(left=left, committed={}, task=SimpleNamespace(complete_restoration=lambda _: None))
        for task, left in LEFT.items()
    }
    made._restore_task = restore_task
    made._restorer = SimpleNamespace(rest=lambda: None)
    made._await_decisions = made._expect_next = lambda _: None
    found: ActiveTasks = made
    return found


def test_should_restore_what_has_the_least_left_first(tasks: ActiveTasks, restored: list[TaskId]) -> None:
    tasks.restore(0.0, ThreadReport())
    assert restored == sorted(LEFT, key=lambda task: LEFT[task])


def test_should_let_those_work_that_are_restored_while_their_neighbours_are_not(tasks: ActiveTasks) -> None:
    report = ThreadReport()
    tasks.restore(0.0, report)
    assert set(tasks.running) == {task for task, left in LEFT.items() if left < 1_000}
    assert [progress.task_id for progress in report.restoring] == [TaskId(0, 0)]
    assert tasks.ids == set(LEFT)
