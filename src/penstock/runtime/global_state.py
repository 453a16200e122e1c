"""The global stores of a host: filled from their topics at the start, kept up to date record by record.

The order of the calls: `GlobalStateUpdateTask.initialize` opens the stores; `restore` brings each topic partition up to its
end; `complete_restoration` initializes the processors; then `update` for each new record and `flush_state` now and then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.batches.record_batch import UnreadableBatch
from penstock.clock import Clock
from penstock.errors import ConfigError, PenstockError, ProcessingError, ProcessorStateError, StreamsError
from penstock.handlers import (
    DeserializationExceptionHandler,
    ProcessingExceptionHandler,
    deserialization_exception_handler,
    processing_exception_handler,
)
from penstock.ids import TopicPartition
from penstock.log_bounds import LogBounds
from penstock.record import RawRecord, Record, RecordContext
from penstock.runtime.global_context import GLOBAL_TASK_ID, GlobalProcessorContext
from penstock.runtime.nodes import FailedProcessingError, ProcessorNode
from penstock.runtime.processor_topology import ProcessorTopology
from penstock.runtime.record_deserializer import RecordDeserializer
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.cache import RecordCache
from penstock.state.capabilities import rocksdb_of
from penstock.state.restore import StoreRestorer
from penstock.state.store import RestoreCallback, StateStore
from penstock.topology.specs import GlobalTopology, ProcessorSpec

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig

_log = logging.getLogger(__name__)


class GlobalStateManager:
    """Keeps the global stores, and the offset of the last record of each topic partition that they contain."""

    def __init__(self, base_dir: Path, store_to_topic: Mapping[str, str]) -> None:
        self.base_dir = base_dir
        self.stores: dict[str, StateStore] = {}
        self.store_to_topic = dict(store_to_topic)
        self.restorers: dict[TopicPartition, list[StoreRestorer]] = {}
        self._callbacks: dict[str, RestoreCallback] = {}

    def initialize(self, stores: Iterable[StateStore], context: Any, partitions: Iterable[TopicPartition]) -> None:
        """Open the stores; those on disk know how far they have got."""
        for store in stores:
            try:
                store.init(context, store)
            except ConfigError as exc:
                raise StreamsError(f"failed to initialize global store {store.name}: {exc}") from exc
            except PenstockError:
                raise
            except Exception as exc:
                raise ProcessorStateError(f"cannot open global store {store.name} in {self.base_dir}: {exc}") from exc
        for partition in partitions:
            self.restorers[partition] = [
                StoreRestorer(store, self._callbacks[name], partition)
                for name, store in self.stores.items()
                if self.store_to_topic[name] == partition.topic
            ]

    def register_store(self, store: StateStore, restore: RestoreCallback) -> None:
        """Called by a store's `init`, with its outermost layer."""
        if store.name in self.stores:
            raise StreamsError(f"global store {store.name} has already been registered")
        if store.name not in self.store_to_topic:
            raise StreamsError(f"store {store.name} is not one of the global stores")
        self.stores[store.name] = store
        self._callbacks[store.name] = restore

    def store(self, name: str) -> Any:
        """The global store of that name; None where there is none."""
        return self.stores.get(name)

    def changelog_for(self, store_name: str) -> str | None:
        """The topic a store is filled from."""
        return self.store_to_topic.get(store_name)

    @property
    def changelog_offsets(self) -> dict[TopicPartition, int]:
        """The next offset to read of each topic partition."""
        return {
            partition: min((restorer.next_offset or 0 for restorer in restorers), default=0)
            for partition, restorers in self.restorers.items()
        }

    def misfits(self, logs: Mapping[TopicPartition, LogBounds]) -> dict[str, Path]:
        """The stores on disk that do not belong to their topics (any more), with the folder to delete before they are filled."""
        found: dict[str, Path] = {}
        for partition, restorers in self.restorers.items():
            for restorer in restorers:
                db = rocksdb_of(restorer.store)
                if db is None or restorer.offset is None or partition not in logs:
                    continue
                reason = logs[partition].misfit(restorer.offset + 1, db.log_of(partition))
                if reason is not None:
                    name = restorer.store.name
                    _log.warning(
                        "the local copy of global store %s is deleted and filled from the start of %s: it is at offset %d of "
                        "partition %d, but %s",
                        *(name, partition.topic, restorer.offset + 1, partition.partition, reason),
                    )
                    found[name] = db.folder
        return found

    def note_logs(self, logs: Mapping[TopicPartition, LogBounds]) -> None:
        """Keep with the stores which logs their positions belong to."""
        for partition, restorers in self.restorers.items():
            for restorer in restorers:
                db = rocksdb_of(restorer.store)
                if db is not None and partition in logs:
                    db.note_log(partition, logs[partition].topic_id)

    def update_changelog_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the offset of the last record of topic partitions that the stores contain."""
        for partition, offset in offsets.items():
            for restorer in self.restorers[partition]:
                restorer.offset = offset

    def commit(self) -> None:
        """Make the stores' changes durable with the positions in their topics."""
        for name, store in self.stores.items():
            known = {
                restorer.partition: restorer.offset
                for restorers in self.restorers.values()
                for restorer in restorers
                if restorer.store is store and restorer.offset is not None
            }
            try:
                store.flush()
                store.commit(known if store.persistent else {})
            except PenstockError:
                raise
            except Exception as exc:
                raise ProcessorStateError(f"failed to commit global store {name}: {exc}") from exc

    def close(self) -> None:
        """Close all stores."""
        failed: list[str] = []
        cause: Exception | None = None
        for name, store in self.stores.items():
            try:
                store.close()
            except Exception as exc:  # noqa: BLE001  (raised below, when every store has had its turn)
                failed.append(f"{name}: {exc}")
                cause = cause or exc
        self.stores.clear()
        self.restorers.clear()
        if cause is not None:
            raise ProcessorStateError(f"failed to close global stores: {'; '.join(failed)}") from cause


class GlobalStateUpdateTask:
    """Runs the records of global topics through their source and processor."""

    def __init__(
        self,
        topology: GlobalTopology,
        config: StreamsConfig,
        base_dir: Path,
        clock: Clock,
        metrics: TaskMetrics,
        cache: RecordCache,
        deserialization_handler: DeserializationExceptionHandler | None = None,
    ) -> None:
        self._plan = topology
        self.topology = ProcessorTopology.of_global(topology)
        self.state_manager = GlobalStateManager(base_dir, topology.store_to_topic)
        self.context = GlobalProcessorContext(config, self.state_manager, metrics, cache, clock)
        self._deserialization_handler = deserialization_handler or deserialization_exception_handler(config)
        self._processing_handler: ProcessingExceptionHandler | None = (
            processing_exception_handler(config) if config.get("processing.exception.handler.global.enabled") else None
        )
        self._deserializers: dict[str, RecordDeserializer] = {}
        self._reprocessors = {
            self.state_manager.store_to_topic[name]: self._spec_of(name) for name in topology.reprocess_on_restore
        }
        self._reprocessing: dict[str, ProcessorNode] = {}
        self._offsets: dict[TopicPartition, int] = {}

    def initialize(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Open the stores; returns the offset to read each of the topics' partitions from."""
        self.state_manager.initialize(self.topology.state_stores, self.context, partitions)
        for topic in dict.fromkeys(self.state_manager.store_to_topic.values()):
            source = self.topology.source(topic)
            source.prepare(self.context)
            self._deserializers[topic] = RecordDeserializer(source, self._deserialization_handler, self.context)
        return self.state_manager.changelog_offsets

    def restore(self, partition: TopicPartition, records: Sequence[RawRecord], position: int | None = None) -> None:
        """Bring a batch of a topic partition into its store.

        Where the user's processor fills the store, the records go through a processor of their own; otherwise they are
        put as they are. Records without a key are left out.
        """
        manager = self.state_manager
        if partition.topic in self._reprocessors:
            for record in records:
                if record.key is not None:
                    self._reprocess(record)
            last = position - 1 if position is not None else (records[-1].offset if records else -1)
            if last >= 0:
                manager.update_changelog_offsets({partition: last})
                manager.commit()
            return
        for restorer in manager.restorers[partition]:
            restorer.restore(records)
            if position is not None:
                restorer.skip_to(position)

    def complete_restoration(self) -> None:
        """Initialize the processors, and commit what was restored."""
        for reprocessor in self._reprocessing.values():
            reprocessor.close()
        self._reprocessing.clear()
        for node in self.topology.nodes:
            with self.context.at(node, None):
                node.init(self.context, self._processing_handler)
        self.flush_state()

    def update(self, raw: RawRecord) -> None:
        """Process one new record of a global topic."""
        pair = self._deserializers[raw.topic].deserialize(raw)
        if pair is not None:
            key, value = pair
            source = self.topology.source(raw.topic)
            self._run(source, Record(key, value, raw.timestamp, raw.headers), raw)
        self._offsets[TopicPartition(raw.topic, raw.partition)] = raw.offset

    def skip(self, partition: TopicPartition, batch: UnreadableBatch) -> None:
        """Go on without a batch of a global topic that cannot be read, if the deserialization exception handler says so."""
        self._deserializers[partition.topic].skip(*partition, batch)

    def flush_state(self) -> None:
        """Commit the stores with how far their topics have been read."""
        self.state_manager.update_changelog_offsets(self._offsets)
        self.state_manager.commit()

    def close(self) -> None:
        """Commit and close the stores; processors are closed first."""
        for node in self.topology.nodes:
            node.close()
        self.flush_state()
        self.state_manager.close()

    def _run(self, node: Any, record: Record[Any, Any], raw: RawRecord) -> None:
        context = self.context
        origin = RecordContext(record.timestamp, raw.offset, raw.partition, raw.topic, raw.headers, raw.key, raw.value)
        with context.at(node, origin):
            try:
                try:
                    node.run(record)
                except Exception as exc:
                    if not node.on_error(exc, record):
                        raise
            except FailedProcessingError as exc:
                raise _failure(exc.node, raw, exc.__cause__ or exc, exc.message) from (exc.__cause__ or exc)
            except StreamsError:
                raise
            except Exception as exc:
                raise _failure(context.current_node_name, raw, exc) from exc

    def _reprocess(self, raw: RawRecord) -> None:
        node = self._reprocessing.get(raw.topic)
        if node is None:
            node = self._reprocessing[raw.topic] = ProcessorNode(self._reprocessors[raw.topic])
            with self.context.at(node, None):
                node.init(self.context, self._processing_handler)
        pair = self._deserializers[raw.topic].deserialize(raw)
        if pair is not None:
            self._run(node, Record(pair[0], pair[1], raw.timestamp, raw.headers), raw)

    def _spec_of(self, store_name: str) -> ProcessorSpec:
        for spec in self._plan.nodes:
            if isinstance(spec, ProcessorSpec) and store_name in spec.stores:
                return spec
        raise StreamsError(f"no processor of the topology fills global store {store_name}")


def _failure(node: str | None, raw: RawRecord, cause: BaseException, message: str | None = None) -> ProcessingError:
    return ProcessingError(
        f"{message or 'Exception caught in process of a global store'}. processor={node}, topic={raw.topic}, "
        f"partition={raw.partition}, offset={raw.offset}: {cause!r}"
    )


__all__ = ["GLOBAL_TASK_ID", "GlobalStateManager", "GlobalStateUpdateTask"]
