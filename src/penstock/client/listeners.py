"""What an application tells those who listen; override what you want to know."""

from __future__ import annotations

from collections.abc import Callable

from penstock.client.state import State
from penstock.ids import TopicPartition

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

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The store's task goes elsewhere, or is closed, before the store is complete."""
