"""Which of a lane's tasks is restored first, and which of them work meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import LaneAnswer, RestoreProgress
from penstock.spark.worker.lane_tasks import LaneTasks

LEFT = {TaskId(0, 0): 9_000, TaskId(0, 1): 10, TaskId(0, 2): 0, TaskId(0, 3): 500}


@pytest.fixture
def restored() -> list[TaskId]:
    return []


@pytest.fixture
def tasks(restored: list[TaskId]) -> LaneTasks:
    """Tasks of which so much is to be restored; in one call all but the largest come to their ends."""
    made: Any = object.__new__(LaneTasks)

    def restore_task(task_id: TaskId, opened: Any, deadline: float, answer: LaneAnswer) -> list[RestoreProgress]:
        restored.append(task_id)
        if opened.left > 1_000:
            return [RestoreProgress(task_id, "counts", TopicPartition("log", task_id.partition), 0, 0, opened.left, 0)]
        return []

    made.running = {}
    made._restoring = {
        task: SimpleNamespace(left=left, committed={}, task=SimpleNamespace(complete_restoration=lambda _: None))
        for task, left in LEFT.items()
    }
    made._restore_task = restore_task
    made._await_decisions = made._expect_next = lambda _: None
    found: LaneTasks = made
    return found


def test_should_restore_what_has_the_least_left_first(tasks: LaneTasks, restored: list[TaskId]) -> None:
    tasks.restore(0.0, LaneAnswer("w"))
    assert restored == sorted(LEFT, key=lambda task: LEFT[task])


def test_should_let_those_work_that_are_restored_while_their_neighbours_are_not(tasks: LaneTasks) -> None:
    answer = LaneAnswer("w")
    tasks.restore(0.0, answer)
    assert set(tasks.running) == {task for task, left in LEFT.items() if left < 1_000}
    assert [progress.task_id for progress in answer.restoring] == [TaskId(0, 0)]
    assert tasks.ids == set(LEFT)
