"""A test driver that takes records as threads do: many in a turn, as columns, with one commit behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock import TopologyTestDriver
from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.record import Headers, RawRecord
from penstock.runtime.task import StreamTask
from penstock.topology.execution_plan import BatchThreshold, ExecutionPlan

FROM_THE_FIRST = BatchThreshold(1, 1)
"""One record is worth columns."""


class BatchDriver(TopologyTestDriver):
    """Records wait until something else comes, as in the original's driver in turns (`DriverAccess.java`)."""

    threshold = BatchThreshold()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._waiting: dict[TopicPartition, list[RawRecord]] = {}
        self._one_by_one = False
        super().__init__(*args, **kwargs)

    @property
    def execution_plan(self) -> ExecutionPlan:
        """Which way the task's records go."""
        return ExecutionPlan() if self._task is None else self._task.execution_plan

    @property
    def processed_in_batches(self) -> int:
        """How many records were processed as columns."""
        return 0 if self._task is None else self._task.processed_in_batches

    def own_stores(self) -> list[Any]:
        """The stores of the task, without global ones."""
        return [] if self._task is None else list(self._task.topology.state_stores)

    def pipe_record(self, topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        partition = self._input_partition(topic)
        if partition is None or self._is_global(topic):
            self.complete_turn()
            with self._processing_one_by_one():
                super().pipe_record(topic, timestamp, key, value, headers)
        else:
            self._enqueue(partition, RawRecord(topic, 0, 0, timestamp, key, value, headers))

    def advance_wall_clock_time(self, advance: Any) -> None:
        self.complete_turn()
        with self._processing_one_by_one():
            super().advance_wall_clock_time(advance)

    def complete_turn(self) -> None:
        """Process what waits and commit it, and then what goes in again, until there is nothing more to do."""
        task = self._task
        if task is None or not self._waiting:
            return
        with self._keeping_outputs():
            while self._waiting:
                self._hand_over(task)
                if task.process_all():
                    self._commit(task)

    def _hand_over(self, task: StreamTask) -> None:
        for partition, records in self._waiting.items():
            task.add_records(partition, RawBatch.of(*partition, records))
        self._waiting = {}
        task.update_lags(dict.fromkeys(self._partitions.values(), 0))

    @contextmanager
    def _processing_one_by_one(self) -> Iterator[None]:
        """What the clock and global topics bring about, the original's driver processes by itself."""
        self._one_by_one = True
        yield
        self._one_by_one = False

    def _enqueue(self, partition: TopicPartition, record: RawRecord) -> None:
        if self._one_by_one:
            super()._enqueue(partition, record)
        else:
            self._waiting.setdefault(partition, []).append(record._replace(offset=self._next_offset(partition)))

    def _open_task(self, plan: Any) -> StreamTask | None:
        task = super()._open_task(plan)
        if task is not None:
            task.execution_plan = replace(task.execution_plan, threshold=self.threshold)
        return task


class EagerBatchDriver(BatchDriver):
    """The same, with columns from the first record on."""

    threshold = FROM_THE_FIRST
