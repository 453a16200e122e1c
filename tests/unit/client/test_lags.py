from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.client.scheduling.owned_tasks import OwnedTasks
from penstock.ids import TaskId
from penstock.runtime.carry_over import OffsetAndMetadata
from tests.unit.client.test_positions import LINES, WORDS, positions


def test_should_count_what_all_tasks_behind_a_shuffle_have_to_read_once() -> None:
    found = positions({WORDS[0]: OffsetAndMetadata(0, "|7|3,4"), WORDS[1]: OffsetAndMetadata(0, "|9|5,6")})
    tasks: Any = SimpleNamespace(positions=found, owners={TaskId(1, 0): 0, TaskId(1, 1): 0})
    lags = OwnedTasks.lags(tasks, lambda partitions: {LINES[0]: 13, LINES[1]: 4})
    assert lags.tasks == {TaskId(1, 0): 10, TaskId(1, 1): 8}
    assert lags.partitions == {LINES[0]: 10, LINES[1]: 0}
    assert lags.total == 10
