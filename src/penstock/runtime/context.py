"""The context of an active task: what processors and operators are given in `init`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.batches.record_batch import RecordBatch
from penstock.dead_letters import ErrorHandlerContext
from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.operators.joins.lookup_table import LookupTables
from penstock.processor import (
    Cancellable,
    Duration,
    FixedKeyProcessorContext,
    ProcessorContext,
    PunctuationType,
    Punctuator,
)
from penstock.query.position import Position
from penstock.record import Headers, ProducedRecord, Record, RecordContext
from penstock.runtime.read_only_store import ReadOnlyStore
from penstock.runtime.store_context import AbstractTaskContext
from penstock.runtime.task_metrics import TaskMetrics
from penstock.serdes.record_headers import AddedHeaders
from penstock.state.cache import RecordCache
from penstock.windows import to_ms

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig
    from penstock.operators.context import CommitHooks
    from penstock.runtime.collector import RecordCollector
    from penstock.runtime.nodes import Node
    from penstock.runtime.state_manager import ProcessorStateManager
    from penstock.runtime.task import StreamTask


class InternalProcessorContext(AbstractTaskContext, ProcessorContext[Any, Any], FixedKeyProcessorContext[Any, Any]):
    """One per task, shared by its nodes: `current_node` tells whose children a forwarded record goes to."""

    state_manager: ProcessorStateManager

    def __init__(
        self,
        task_id: TaskId,
        config: StreamsConfig,
        state_manager: ProcessorStateManager,
        metrics: TaskMetrics,
        cache: RecordCache,
        record_collector: RecordCollector,
    ) -> None:
        super().__init__(task_id, config, state_manager, metrics, cache)
        self.record_collector = record_collector
        self.is_only_run = True
        self.holds_changes = False
        self.lookup_tables = LookupTables()
        self.commit_hooks: list[tuple[Node, CommitHooks]] = []
        """Who takes part in commits, with its node."""
        self._task: StreamTask | None = None

    def take_part_in_commits(self, hooks: CommitHooks) -> None:
        """Call the hooks of the current node's processor at each commit of the task from now on."""
        assert self.current_node is not None
        self.commit_hooks.append((self.current_node, hooks))

    def attach(self, task: StreamTask) -> None:
        """Tell the context which task it belongs to."""
        self._task = task

    @property
    def position(self) -> Position:
        """The offset of the last record of each input partition that the task has processed or is processing."""
        position = Position.of({} if self._task is None else self._task.reflected_offsets())
        current = self.record_context
        if current is not None and current.topic is not None and current.offset >= 0:
            position.with_component(current.topic, current.partition, current.offset)
        return position

    def forward(self, record: Any, child: str | None = None) -> None:
        """Hand a record to all children of the current node, or to the one named.

        Timestamp and headers of the record become those of the record context while the children work, so sinks and
        stores below see them; the context of the caller is back when this returns. A record that has the headers of the one being
        processed gets what serializers of stores have added to those.
        """
        node = self.current_node
        if node is None:
            raise StreamsError(
                "Current node is unknown. This can happen if 'forward()' is called in an illegal scope. The root cause could be "
                "that a 'Processor' instance is shared. To avoid this error, make sure that your suppliers return new instances "
                "each time they are called and do not return the same object multiple times."
            )
        if type(record) is not Record:
            record = Record(record.key, record.value, record.timestamp, record.headers)
        context = self.record_context
        if context is not None and (record.timestamp != context.timestamp or record.headers is not context.headers):
            if type(context.headers) is AddedHeaders and record.headers is context.headers.before:
                record = Record(record.key, record.value, record.timestamp, tuple(context.headers))
            self.record_context = RecordContext(
                record.timestamp,
                context.offset,
                context.partition,
                context.topic,
                record.headers,
                context.source_raw_key,
                context.source_raw_value,
            )
        if child is None:
            node.forwarded += 1
            receivers = node.children
        else:
            receivers = (self._child(child),)
            node.forwarded_to[child] = node.forwarded_to.get(child, 0) + 1
        try:
            for receiver in receivers:
                self.current_node = receiver
                try:
                    receiver.run(record)
                except Exception as exc:
                    if not receiver.on_error(exc, record):
                        raise
        finally:
            self.record_context = context
            self.current_node = node

    def forward_batch(self, batch: RecordBatch, child: str | None = None) -> None:
        """Hand many records to all children of the current node, one child after the other, or to the one named."""
        node = self.current_node
        if node is None:
            raise StreamsError("Current node is unknown: batch can only be forwarded while the node before them works")
        if not len(batch):
            return
        if child is None:
            node.forwarded += len(batch)
            receivers = node.children
        else:
            receivers = (self._child(child),)
            node.forwarded_to[child] = node.forwarded_to.get(child, 0) + len(batch)
        for receiver in receivers:
            self.current_node = receiver
            receiver.run_batch(batch)
        self.current_node = node

    def row_failed(self, batch: RecordBatch, row: int, exception: Exception, at: Node | None = None) -> None:
        """Ask the processing exception handler about one row; returns where it is to be left out, raises otherwise."""
        self.enter_row(batch, row)
        node = self.current_node = at or self.current_node
        if node is None or not node.on_error(exception, batch.record(row)):
            raise exception

    def rows_dropped(self, batch: RecordBatch, rows: Iterable[int], reason: str) -> None:
        """Count and log rows that an operator leaves out."""
        for row in rows:
            self.enter_row(batch, row)
            self.record_dropped(reason)

    def log_columns(
        self,
        store_name: str,
        keys: list[bytes],
        values: list[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None = None,
    ) -> None:
        """Write many changes to the store's changelog partition."""
        changelog = self.state_manager.registered_changelog_partition_for(store_name)
        self.record_collector.send_changelog_batch(changelog, keys, values, timestamps, headers)

    def _child(self, name: str) -> Any:
        node = self.current_node
        found = None if node is None else node.child_by_name.get(name)
        if node is None or found is None:
            children = ", ".join(node.child_by_name) if node is not None else ""
            raise StreamsError(
                f"Unknown downstream node: {name} either does not exist or is not connected to this processor "
                f"({self.current_node_name}, whose children are: {children or 'none'})."
            )
        return found

    def get_state_store(self, name: str) -> Any:
        """The store of that name; it must be connected to the current processor, or be a global one."""
        node = self.current_node
        if node is None:
            raise StreamsError(f"Accessing store {name} from an unknown node: ask for it in the processor's init()")
        global_store = self.state_manager.global_store(name)
        if global_store is not None:
            return ReadOnlyStore(global_store)
        if name not in node.state_stores:
            raise StreamsError(
                f"Processor {node.name} has no access to StateStore {name} as the store is not connected to the processor. "
                "If you add stores manually via '.add_state_store()' make sure to connect the added store to the processor by "
                "providing the processor name to '.add_state_store()' or connect them via "
                "'.connect_processor_and_state_stores()'. DSL users need to provide the store name to '.process()', "
                "'.process_values()', or '.transform_values()' to connect the store to the corresponding operator, or they can "
                "give the supplier a 'stores' attribute with the store's builder."
            )
        return self.state_manager.store(name)

    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        start_time: int | datetime | None = None,
    ) -> Cancellable:
        """Call `callback(timestamp)` every `interval` of the given time.

        Stream-time punctuators are due at multiples of the interval, wall-clock ones an interval from now, both at
        `start_time` plus multiples of the interval where it is given.
        """
        interval_ms = to_ms(interval, "interval")
        if interval_ms < 1:
            raise ValueError(f"The minimum supported scheduling interval is 1 millisecond, got {interval!r}")
        start_ms = round(start_time.timestamp() * 1000) if isinstance(start_time, datetime) else start_time
        if start_ms is not None and start_ms < 0:
            raise ValueError(f"The minimum supported start time is the epoch, got {start_time!r}")
        return self._active_task("schedule").schedule(interval_ms, punctuation_type, callback, start_ms)

    def commit(self) -> None:
        """Ask for a commit as soon as possible."""
        self._active_task("commit").request_commit()

    def current_stream_time_ms(self) -> int:
        """The highest timestamp this task has seen; -1 before the first record."""
        return self._active_task("current_stream_time_ms").stream_time

    def log_change(self, store_name: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Write one change to the store's changelog partition."""
        changelog = self.state_manager.registered_changelog_partition_for(store_name)
        self.record_collector.send_changelog(changelog, key, value, timestamp, headers)

    def send_dead_letters(self, records: Iterable[ProducedRecord], error_context: ErrorHandlerContext | None = None) -> None:
        """Write a handler's dead letter records with the task's outputs."""
        for record in records:
            self.record_collector.send_raw(record, error_context)

    def _active_task(self, operation: str) -> StreamTask:
        if self._task is None:
            self._unsupported(operation)
        return self._task
