"""A test driver whose task moves to another machine again and again: its folder is gone, its changelogs are not."""

from __future__ import annotations

import shutil
from typing import Any

from penstock import TopologyTestDriver
from penstock.ids import TopicPartition
from penstock.record import RawRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.runtime.task import StreamTask, TaskCommit

_STEPS_BETWEEN_MOVES = 3


def dropped_records(driver: TopologyTestDriver) -> int:
    """How many records the driver's task has dropped; what it dropped before a move is not among them."""
    return int(sum(metric.metric_value for name, metric in driver.metrics().items() if name.name == "dropped-records-total"))


class MovingDriver(TopologyTestDriver):
    """After every third input the task is closed, its state deleted, and a new task opened from what was committed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._logs: dict[TopicPartition, list[RawRecord]] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._steps = 0
        self.dropped_before = 0
        super().__init__(*args, **kwargs)

    def pipe_record(self, *args: Any, **kwargs: Any) -> None:
        super().pipe_record(*args, **kwargs)
        self._step()

    def advance_wall_clock_time(self, advance: Any) -> None:
        super().advance_wall_clock_time(advance)
        self._step()

    def _step(self) -> None:
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_MOVES == 0 and self._task is not None and not self._task.has_records_queued:
            self.dropped_before += dropped_records(self)
            self._task.suspend()
            self._commit(self._task)
            self._task.close_clean()
            shutil.rmtree(self._state_dir / str(self._task.task_id), ignore_errors=True)
            self._task = self._open_task(self._plan)

    def _keep(self, commit: TaskCommit) -> None:
        self._committed.update(commit.offsets)
        for record in commit.changelogs:
            self._append(TopicPartition(record.topic, record.partition or 0), record)
        super()._keep(commit)

    def _enqueue(self, partition: TopicPartition, record: RawRecord) -> None:
        # With optimization, a table's source topic is its changelog.
        self._append(partition, record)
        super()._enqueue(partition, record)

    def _append(self, partition: TopicPartition, record: Any) -> None:
        log = self._logs.setdefault(partition, [])
        read = RawRecord(
            partition.topic, partition.partition, len(log), record.timestamp, record.key, record.value, record.headers
        )
        log.append(read)

    def _prepare(self, task: StreamTask) -> None:
        for partition, offset in task.state_manager.changelog_offsets.items():
            task.state_manager.restore(partition, self._logs.get(partition, [])[offset:])
        task.complete_restoration(self._committed)
