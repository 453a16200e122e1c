"""StandbyTask: a second copy of a task's stores, kept up to date from their changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.batches.record_batch import RawBatch
from penstock.ids import TaskId, TopicPartition
from penstock.record import RawRecord
from penstock.runtime.processor_topology import ProcessorTopology
from penstock.runtime.state_manager import ProcessorStateManager
from penstock.runtime.store_context import AbstractTaskContext
from penstock.runtime.task_metrics import TaskMetrics
from penstock.runtime.task_state import TaskState, check_transition
from penstock.state.cache import RecordCache

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig


class StandbyTask:
    """Opens the stores and puts changelog records into them; processes nothing."""

    def __init__(
        self,
        task_id: TaskId,
        topology: ProcessorTopology,
        config: StreamsConfig,
        state_manager: ProcessorStateManager,
        metrics: TaskMetrics,
        cache: RecordCache,
    ) -> None:
        self.task_id = task_id
        self.state = TaskState.CREATED
        self.state_manager = state_manager
        self._topology = topology
        self._context = AbstractTaskContext(task_id, config, state_manager, metrics, cache)

    def initialize(self) -> dict[TopicPartition, int]:
        """Open the stores; returns the offset to read each changelog partition from."""
        self.state_manager.initialize_stores(self._topology.state_stores, self._context)
        self.state = check_transition(self.task_id, self.state, TaskState.RESTORING)
        self.state = check_transition(self.task_id, self.state, TaskState.RUNNING)
        return self.state_manager.changelog_offsets

    def update(self, partition: TopicPartition, records: Sequence[RawRecord] | RawBatch, position: int | None = None) -> None:
        """Put a batch of changelog records into its store."""
        self.state_manager.restore(partition, records, position)

    def commit(self) -> dict[TopicPartition, int]:
        """Make what was put durable; returns how far each changelog has been read."""
        self.state_manager.commit()
        return self.state_manager.changelog_offsets

    def close(self) -> None:
        """Close the stores; what was not committed is read again next time."""
        if self.state is not TaskState.CLOSED:
            self.state = check_transition(self.task_id, self.state, TaskState.SUSPENDED)
            self.state = check_transition(self.task_id, self.state, TaskState.CLOSED)
            self.state_manager.close()
