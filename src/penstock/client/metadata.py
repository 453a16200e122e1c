"""Metadata of an application's threads, tasks and stores: snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.stream_threads import StreamThread
from penstock.ids import TaskId, TopicPartition


@dataclass(frozen=True)
class TaskMetadata:
    """A task with its input partitions, their committed offsets and their ends; -1 while unknown."""

    task_id: TaskId
    topic_partitions: frozenset[TopicPartition]
    committed_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, hash=False)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, hash=False)
    time_current_idling_started: int | None = None


@dataclass(frozen=True)
class ThreadMetadata:
    """A stream thread with its name, state and tasks, and the ids of its Kafka clients."""

    thread_name: str
    thread_state: str
    consumer_client_id: str
    restore_consumer_client_id: str
    producer_client_ids: frozenset[str]
    admin_client_id: str
    active_tasks: frozenset[TaskMetadata] = frozenset()
    standby_tasks: frozenset[TaskMetadata] = frozenset()
    waiting_for_core_since: int | None = None
    """The time since which the thread waits for a core of Spark, in milliseconds since the epoch; None if it does not wait."""


@dataclass(frozen=True)
class LagInfo:
    """The lag of a local store partition on its changelog.

    >>> LagInfo(7, 10).offset_lag
    3
    """

    current_offset_position: int
    end_offset_position: int

    @property
    def offset_lag(self) -> int:
        """The number of missing offsets."""
        return max(0, self.end_offset_position - self.current_offset_position)


def thread_metadata(
    client_id: str,
    thread: StreamThread,
    active: Iterable[TaskMetadata] = (),
    standby: Iterable[TaskMetadata] = (),
    waiting_since: int | None = None,
) -> ThreadMetadata:
    """Return the metadata of a thread with Kafka Streams' names of its clients."""
    return ThreadMetadata(
        thread.name,
        thread.state.name,
        f"{thread.name}-consumer",
        f"{thread.name}-restore-consumer",
        frozenset({f"{thread.name}-producer"}),
        f"{client_id}-admin",
        frozenset(active),
        frozenset(standby),
        waiting_since,
    )


def store_lags(
    stores: Mapping[TopicPartition, str], positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, dict[int, LagInfo]]:
    """Return the lag of each store partition. `stores` has the store of each changelog, `positions` those that lag.

    >>> changelog = TopicPartition("app-counts-changelog", 1)
    >>> store_lags({changelog: "counts"}, {}, {changelog: 10})
    {'counts': {1: LagInfo(current_offset_position=10, end_offset_position=10)}}
    """
    lags: dict[str, dict[int, LagInfo]] = {}
    for changelog, store in sorted(stores.items()):
        end = ends[changelog]
        lags.setdefault(store, {})[changelog.partition] = LagInfo(positions.get(changelog, end), end)
    return lags
