"""`StandbyUpdateListener`: notifications about this instance's standbys."""

from __future__ import annotations

import enum
from collections.abc import Callable
from operator import methodcaller

from penstock.client.callbacks import Callbacks
from penstock.client.replicas.local_replicas import StandbyEvents
from penstock.ids import TaskId, TopicPartition
from penstock.spark.worker.standby_worker import Loaded


class SuspendReason(enum.Enum):
    """The reason why a standby ends: another instance keeps it, or the task itself runs here now."""

    MIGRATED = "MIGRATED"
    PROMOTED = "PROMOTED"


class StandbyUpdateListener:
    """Receives updates of standbys. Override the methods that you need.

    It is called on a separate thread. A slow listener delays the next report, not the standbys. Its exceptions go to the
    uncaught exception handler.

        class Progress(StandbyUpdateListener):
            def on_batch_loaded(self, topic_partition, store_name, task_id, batch_end_offset, batch_size, current_end_offset):
                print(store_name, current_end_offset - batch_end_offset, "records behind")
    """

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        """Called when a standby begins to follow its changelog at this offset."""

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """Called when a batch of records was added to a standby; `batch_end_offset` is the offset of the last one."""

    def on_update_suspended(
        self, topic_partition: TopicPartition, store_name: str, store_offset: int, current_end_offset: int, reason: SuspendReason
    ) -> None:
        """Called when a standby is no longer updated; `store_offset` is its last offset."""


def standby_events(
    callbacks: Callbacks,
    listener: Callable[[], StandbyUpdateListener | None],
    on_loaded: Callable[[Loaded], None] = lambda loaded: None,
    on_work: Callable[[float], None] = lambda seconds: None,
) -> StandbyEvents:
    """Return callbacks that notify the listener. The metrics are updated by `on_loaded` and `on_work`."""

    def tell(loaded: Loaded, method: str, *arguments: object) -> None:
        heard = listener()
        if heard is not None:
            name = f"{method} of the standby update listener, called for store {loaded.store} and {loaded.partition},"
            call = methodcaller(method, loaded.partition, loaded.store, *arguments)
            callbacks.call(name, call, heard, task=loaded.task_id)

    def batch(loaded: Loaded) -> None:
        on_loaded(loaded)
        last, end = loaded.offset - 1, loaded.end
        tell(loaded, "on_batch_loaded", loaded.task_id, last, loaded.records, end)

    def suspended(loaded: Loaded, reason: str) -> None:
        tell(loaded, "on_update_suspended", loaded.offset - 1, loaded.end, SuspendReason(reason))

    return StandbyEvents(
        on_start=lambda loaded: tell(loaded, "on_update_start", loaded.start),
        on_batch=batch,
        on_suspended=suspended,
        on_work=on_work,
    )


StandbyUpdateListener.SuspendReason = SuspendReason  # type: ignore[attr-defined]  # Kafka Streams' name
