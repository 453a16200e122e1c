"""Listener types of an application."""

from __future__ import annotations

from collections.abc import Callable

from penstock.client.state import State
from penstock.ids import TopicPartition

StateListener = Callable[[State, State], None]


class StateRestoreListener:
    """Receives the steps of stores' restoration. Override the methods that you need."""

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """Called when the restoration of a store begins."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Called when a batch of the changelog is in the store."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """Called when the store is complete."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """Called when the store's task moves or is closed before the store is complete."""
