"""What an application tells those who listen; override what you want to know."""

from __future__ import annotations

import enum
from collections.abc import Callable

from penstock.client.state import State
from penstock.ids import TaskId, TopicPartition

StateListener = Callable[[State, State], None]


class StateRestoreListener:
    """Hears how stores are brought back from their changelogs; override what you want to know."""

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """A store begins to be restored."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """A part of the changelog is in the store."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The store is complete."""


class SuspendReason(enum.Enum):
    """Why a standby stopped: its task went elsewhere, or became active here."""

    MIGRATED = 0
    PROMOTED = 1


class StandbyUpdateListener:
    """Hears how standby copies of stores follow their changelogs; override what you want to know."""

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        """A standby begins to follow a changelog."""

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """A part of the changelog is in the standby."""

    def on_update_suspended(
        self, topic_partition: TopicPartition, store_name: str, store_offset: int, current_end_offset: int, reason: SuspendReason
    ) -> None:
        """The standby has stopped, for this reason."""
