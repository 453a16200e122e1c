"""The stores of one task: opened, filled from their changelogs, flushed and committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock.batches.record_batch import RawBatch, UnreadableBatch
from penstock.errors import ConfigError, PenstockError, ProcessorStateError, StreamsError, TaskCorruptedError
from penstock.ids import TaskId, TopicPartition
from penstock.log_bounds import LogBounds
from penstock.query.position import Position
from penstock.record import RawRecord
from penstock.runtime.nodes import FailedProcessingError
from penstock.state.capabilities import rocksdb_of
from penstock.state.restore import StoreRestorer
from penstock.state.store import RestoreCallback, StateStore, StateStoreContext

_log = logging.getLogger(__name__)


class StoreMetadata:
    """A registered store; where it has a changelog, what brings it up to that, and knows how far it has got."""

    __slots__ = ("changelog_partition", "restore_callback", "restorer", "store")

    def __init__(self, store: StateStore, changelog_partition: TopicPartition | None, restore: RestoreCallback) -> None:
        self.store = store
        self.changelog_partition = changelog_partition
        self.restore_callback = restore
        self.restorer: StoreRestorer | None = None

    @property
    def offset(self) -> int | None:
        """The offset of the last changelog record that the store contains."""
        return None if self.restorer is None else self.restorer.offset


class ProcessorStateManager:
    """Keeps the stores of an active or a standby task, in the order of the topology.

    The order of the calls: `initialize_stores`, `restore` until `changelog_offsets` reach the changelogs' ends, then (active
    task) `flush_cache`, `update_changelog_offsets` and `commit` for every commit of the task, at last `close`.
    """

    def __init__(
        self,
        task_id: TaskId,
        base_dir: Path,
        store_to_changelog: Mapping[str, str],
        source_partitions: Iterable[TopicPartition] = (),
        global_stores: Mapping[str, StateStore] | None = None,
    ) -> None:
        self.task_id = task_id
        self.base_dir = base_dir
        self._store_to_changelog = dict(store_to_changelog)
        self._source_partitions = frozenset(source_partitions)
        self._global_stores = global_stores if global_stores is not None else {}
        self._stores: dict[str, StoreMetadata] = {}
        self._logged: dict[str, TopicPartition] = {}

    def initialize_stores(self, stores: Iterable[StateStore], context: StateStoreContext) -> None:
        """Open the stores; each registers itself, and those on disk know how far they have got."""
        for store in stores:
            if store.name not in self._stores:
                try:
                    store.init(context, store)
                except ConfigError as exc:
                    raise StreamsError(f"task {self.task_id}: failed to initialize store {store.name}: {exc}") from exc
                except PenstockError:
                    raise
                except Exception as exc:
                    raise ProcessorStateError(
                        f"task {self.task_id}: cannot open state store {store.name} in {self.base_dir}: {exc}"
                    ) from exc
        for metadata in self._stores.values():
            if metadata.changelog_partition is not None:
                metadata.restorer = StoreRestorer(metadata.store, metadata.restore_callback, metadata.changelog_partition)

    def register_store(self, store: StateStore, restore: RestoreCallback) -> None:
        """Called by a store's `init`, with its outermost layer."""
        if store.name in self._stores:
            raise StreamsError(f"task {self.task_id}: store {store.name} has already been registered")
        changelog = self.changelog_for(store.name)
        partition = None if changelog is None else TopicPartition(changelog, self.task_id.partition)
        if partition is not None and restore is None:
            raise StreamsError(f"task {self.task_id}: store {store.name} has a changelog but gave no restore callback")
        self._stores[store.name] = StoreMetadata(store, partition, restore)
        if partition is not None:
            self._logged[store.name] = partition

    def store(self, name: str) -> Any:
        """The store of that name; None where there is none."""
        metadata = self._stores.get(name)
        return None if metadata is None else metadata.store

    def global_store(self, name: str) -> Any:
        """The global store of that name; None where there is none."""
        return self._global_stores.get(name)

    @property
    def store_names(self) -> tuple[str, ...]:
        """The names of the task's own stores."""
        return tuple(self._stores)

    def changelog_for(self, store_name: str) -> str | None:
        """The changelog topic of a store; None where it has none."""
        return self._store_to_changelog.get(store_name)

    def registered_changelog_partition_for(self, store_name: str) -> TopicPartition:
        """The changelog partition of a registered store."""
        try:
            return self._logged[store_name]
        except KeyError:
            raise StreamsError(
                f"task {self.task_id}: store {store_name} is not registered, or logging is disabled for it"
            ) from None

    @property
    def changelog_offsets(self) -> dict[TopicPartition, int]:
        """For each changelog partition the offset to go on reading from: 0 where the store knows none."""
        return {
            metadata.changelog_partition: 0 if metadata.offset is None else metadata.offset + 1
            for metadata in self._stores.values()
            if metadata.changelog_partition is not None
        }

    def misfits(
        self, logs: Mapping[TopicPartition, LogBounds], committed: Mapping[TopicPartition, int] = MappingProxyType({})
    ) -> dict[TopicPartition, Path]:
        """The changelogs that stores on disk do not belong to (any more), with the folder to delete before they are restored.

        Told in the log with the reason. To be asked before anything is restored: a store goes on from its position, which
        is one of another log where the changelog was made anew. `committed` is up to where the input is, where stores are
        written after that: one that has more than that has what was taken back.
        """
        found: dict[TopicPartition, Path] = {}
        for metadata in self._stores.values():
            partition, offset, db = metadata.changelog_partition, metadata.offset, rocksdb_of(metadata.store)
            if partition is None or offset is None or partition not in logs:
                continue
            reason = logs[partition].misfit(offset + 1, 0 if db is None else db.log_of(partition))
            if reason is None and committed and db is not None and db.position is not None:
                reason = _ahead_of(committed, Position.from_json(db.position))
            if reason is None:
                continue
            store = metadata.store.name
            if db is None:
                raise TaskCorruptedError(
                    f"task {self.task_id}: store {store} is at offset {offset + 1} of its changelog {partition}, but {reason}; "
                    f"delete {self.base_dir}, and the store is restored from the start",
                    [self.task_id],
                )
            _log.warning(
                "task %s: the local state of store %s is deleted and restored from the start of its changelog %s: it is at "
                "offset %d, but %s",
                *(self.task_id, store, partition, offset + 1, reason),
            )
            found[partition] = db.folder
        return found

    def note_logs(self, logs: Mapping[TopicPartition, LogBounds]) -> None:
        """Keep with the stores which logs their positions belong to."""
        for metadata in self._stores.values():
            partition, db = metadata.changelog_partition, rocksdb_of(metadata.store)
            if db is not None and partition is not None and partition in logs:
                db.note_log(partition, logs[partition].topic_id)

    def changelog_as_source(self, partition: TopicPartition) -> bool:
        """Whether a changelog is one of the task's own input topics (which is then read only up to the committed offset)."""
        return partition in self._source_partitions

    def restore(self, partition: TopicPartition, records: Sequence[RawRecord] | RawBatch, position: int | None = None) -> int:
        """Put a batch of changelog records into its store, durably; returns how many went in.

        `position` is the offset to go on from where that is more than the last record's (control records at the end).
        """
        metadata = self._by_changelog(partition)
        if metadata is None or metadata.restorer is None:
            raise StreamsError(f"task {self.task_id}: {partition} is not the changelog of any of its stores")
        if isinstance(records, RawBatch):
            self._judge_unreadable(partition, metadata.store.name, records.unreadable)
        try:
            restored = metadata.restorer.restore(records)
            if position is not None:
                metadata.restorer.skip_to(position)
        except StreamsError:
            raise
        except Exception as exc:
            offsets = f"offsets {records[0].offset} to {records[-1].offset}" if len(records) else f"position {position}"
            raise ProcessorStateError(
                f"task {self.task_id}: cannot restore store {metadata.store.name} from {partition}, {offsets}: {exc}"
            ) from exc
        return restored

    def _judge_unreadable(self, partition: TopicPartition, store: str, batches: Iterable[UnreadableBatch]) -> None:
        """Refuse to restore a store without a part of its changelog.

        An input topic is different: its records are committed, so the deserialization exception handler has let the batch go.
        """
        for batch in batches:
            error = batch.error(*partition)
            if not self.changelog_as_source(partition):
                raise ProcessorStateError(
                    f"task {self.task_id}: the store {store} cannot be restored: {error} Reset the application (penstock reset), "
                    "or copy the changelog topic without these records."
                ) from error
            _log.warning("task %s: the store %s is restored without a part of its topic. %s", self.task_id, store, error)

    def restores_headers(self, partition: TopicPartition) -> bool:
        """Whether the store of a changelog keeps headers of its records, or reads something in them."""
        metadata = self._by_changelog(partition)
        return metadata is None or metadata.restorer is None or metadata.restorer.reads_headers

    def update_changelog_offsets(self, written_offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the offset of the last record that was written to each changelog partition."""
        for metadata in self._stores.values():
            if metadata.changelog_partition is not None and metadata.restorer is not None:
                offset = written_offsets.get(metadata.changelog_partition)
                if offset is not None:
                    metadata.restorer.offset = offset

    def set_position(self, position: bytes) -> None:
        """Tell what of the input the next commit reflects; stores on disk keep it with their changes, for queries."""
        for metadata in self._stores.values():
            db = rocksdb_of(metadata.store)
            if db is not None:
                db.position = position

    def flush_cache(self) -> None:
        """Let caches and buffers write and forward what they hold, in the order of the topology."""
        self._for_each("flush cache of", lambda metadata: metadata.store.flush_cache())
        self._for_each("flush", lambda metadata: metadata.store.flush())

    def commit(self) -> None:
        """Make the stores' changes durable, each in one step with its changelog position."""
        self._for_each("commit", _commit)

    def close(self) -> None:
        """Close all stores; what was not committed is gone."""
        try:
            self._for_each("close", lambda metadata: metadata.store.close())
        finally:
            self._stores.clear()
            self._logged.clear()

    def _by_changelog(self, partition: TopicPartition) -> StoreMetadata | None:
        return next((metadata for metadata in self._stores.values() if metadata.changelog_partition == partition), None)

    def _for_each(self, action: str, do: Callable[[StoreMetadata], None]) -> None:
        """Do something to every store, even when one fails; the first error is raised at the end."""
        first: Exception | None = None
        for metadata in list(self._stores.values()):
            try:
                do(metadata)
            except Exception as exc:  # noqa: BLE001  (raised below, when every store has had its turn)
                first = first or self._wrapped(action, metadata.store.name, exc)
                _log.error("task %s: failed to %s state store %s", self.task_id, action, metadata.store.name, exc_info=exc)
        if first is not None:
            raise first

    def _wrapped(self, action: str, store: str, exc: Exception) -> Exception:
        if isinstance(exc, StreamsError) and not isinstance(exc, FailedProcessingError):
            return exc
        reason, cause = str(exc), exc
        if isinstance(exc, FailedProcessingError) and isinstance(exc.__cause__, Exception):
            reason, cause = f"{exc}: {exc.__cause__}", exc.__cause__
        error = ProcessorStateError(f"task {self.task_id}: failed to {action} state store {store}: {reason}")
        error.__cause__ = cause
        return error


def _commit(metadata: StoreMetadata) -> None:
    if metadata.changelog_partition is None or metadata.offset is None or not metadata.store.persistent:
        metadata.store.commit({})
    else:
        metadata.store.commit({metadata.changelog_partition: metadata.offset})


def _ahead_of(committed: Mapping[TopicPartition, int], reflected: Position) -> str | None:
    """What a store reflects of the input that is not committed; None where that is nothing."""
    for topic, partition, offset in reflected:
        source = TopicPartition(topic, partition)
        if offset >= committed.get(source, offset + 1):
            return (
                f"it reflects {source} up to offset {offset}, of which only what is before {committed[source]} is committed: "
                "brokers have taken back a transaction that they had called committed, or offsets were moved back"
            )
    return None
