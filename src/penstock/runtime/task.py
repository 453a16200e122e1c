"""StreamTask: one partition of one sub-topology at work. Knows neither Spark nor Kafka.

The order of the calls, by whoever runs it (a stream thread, the test driver):

1. `initialize`             open the stores; then `state_manager.restore(...)` until they have caught up
2. `complete_restoration`   bring back what was committed with the offsets; initialize the processors
3. `add_records`            records of the input partitions, as bytes
4. `process_all`            or `process` and `maybe_punctuate_stream_time`, record by record
5. `maybe_punctuate_system_time`
6. `prepare_commit`         flush caches; hand out what is to be written, and the offsets
7. `post_commit`            when Kafka has it: make the stores' changes durable
8. `suspend`, then `close_clean` after a commit, or `close_dirty`, which forgets everything since the last one
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.batches.record_batch import RawBatch, RecordBatch, RecordOrBatch
from penstock.clock import Clock, monotonic
from penstock.errors import ProcessingError, StreamsError, TaskMigratedError
from penstock.handlers import deserialization_exception_handler, processing_exception_handler, production_exception_handler
from penstock.ids import TaskId, TopicPartition
from penstock.operators.context import OperatorContext
from penstock.operators.joins.batch_join import StreamStreamBatchJoin
from penstock.operators.joins.lookup_table import LookupTables
from penstock.processor import Cancellable, PunctuationType, Punctuator
from penstock.record import RawRecord, Record, RecordContext
from penstock.runtime.cached_tables import CachedTables
from penstock.runtime.collector import PartitionsFor, RecordCollector
from penstock.runtime.context import InternalProcessorContext
from penstock.runtime.nodes import FailedProcessingError, Node, SourceNode
from penstock.runtime.offset_metadata import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from penstock.runtime.pace import Pace
from penstock.runtime.partition_group import MergedRows, PartitionGroup, RowsOfRuns, Run, Taken, TakenRows
from penstock.runtime.processor_topology import ProcessorTopology
from penstock.runtime.punctuation import NEVER
from penstock.runtime.record_queue import UNKNOWN, RecordQueue, largest_record
from penstock.runtime.state_manager import ProcessorStateManager
from penstock.runtime.task_errors import names_task
from penstock.runtime.task_metrics import TaskMetrics
from penstock.runtime.task_state import TaskState, check_transition
from penstock.runtime.timers import Timers
from penstock.state.cache import RecordCache
from penstock.state.store import StateStore
from penstock.topology.execution_plan import ExecutionMode, ExecutionPlan, Input, plan_execution
from penstock.topology.specs import Subtopology

if TYPE_CHECKING:
    from penstock.config.streams_config import StreamsConfig

_log = logging.getLogger(__name__)

# What a task without stores makes of so many records stays in the processor's caches: 100,000 at once take half as long again.
_PART = 4_000


class TaskEnvironment(NamedTuple):
    """What a task is given by whoever runs it."""

    config: StreamsConfig
    clock: Clock
    metrics: TaskMetrics
    cache: RecordCache
    partitions_for: PartitionsFor | None = None
    """How many partitions a topic has."""
    global_stores: Mapping[str, StateStore] | None = None
    lookup_tables: LookupTables | None = None


class TaskCommit(NamedTuple):
    """What a task wants to be written and committed together.

    `offsets` are the next offsets to consume, with what the task wants back when it is opened again; `next_timer` is when the
    wall clock next has something to do for it.
    """

    task_id: TaskId
    outputs: list[RecordOrBatch]
    changelogs: list[RecordOrBatch]
    offsets: dict[TopicPartition, OffsetAndMetadata]
    next_timer: int | None


Stamped = tuple[RecordQueue, Node, "Record[Any, Any] | None", RecordContext]
"""A record with its queue, the node that gets it, and where it came from."""

SourceBatch = tuple[SourceNode, RecordBatch, list[int]]
"""A batch of a source, with the places of its rows in the common order of all inputs, if they have one."""


class StreamTask:
    """Takes records in, runs them through its nodes and stores, hands back outputs, changes, offsets and timers."""

    @classmethod
    def create(
        cls,
        task_id: TaskId,
        subtopology: Subtopology,
        inputs: Iterable[TopicPartition],
        folder: Path,
        environment: TaskEnvironment,
        collects: Callable[..., RecordCollector] = RecordCollector,
    ) -> StreamTask:
        """Put a task of a sub-topology together, with its state in a folder; `collects` makes what takes its output."""
        inputs = tuple(inputs)
        state = ProcessorStateManager(task_id, folder, subtopology.store_to_changelog, inputs, environment.global_stores)
        handler = production_exception_handler(environment.config)
        collector = collects(task_id, handler, environment.metrics, environment.partitions_for)
        return cls(task_id, ProcessorTopology.of(subtopology), inputs, state, collector, environment)

    def __init__(
        self,
        task_id: TaskId,
        topology: ProcessorTopology,
        input_partitions: Iterable[TopicPartition],
        state_manager: ProcessorStateManager,
        collector: RecordCollector,
        environment: TaskEnvironment,
    ) -> None:
        config, clock, metrics = environment.config, environment.clock, environment.metrics
        self.task_id = task_id
        self.state = TaskState.CREATED
        self.topology = topology
        self.input_partitions = tuple(input_partitions)
        self.state_manager = state_manager
        self.collector = collector
        self.metrics = metrics
        self.context = InternalProcessorContext(task_id, config, state_manager, metrics, environment.cache, collector)
        self.context.attach(self)
        self.context.lookup_tables = environment.lookup_tables or LookupTables()
        self._clock = clock
        self._processing_handler = processing_exception_handler(config)
        self.timers = Timers(self.context, self._processing_handler, clock, metrics)
        self.partition_group = PartitionGroup(
            self._create_queues(config), config["max.task.idle.ms"], metrics.record_lateness, metrics.enforced_processing
        )
        self._largest_record = largest_record(config)
        self.execution_plan = ExecutionPlan()
        self.processed_in_batches = 0
        self._pace = Pace()
        self._in_caches: set[str] = set()
        """Sources whose rows may lie in caches since the last commit: until then nothing of them goes past those."""
        self._run_batches: Callable[[OperatorContext, list[SourceBatch]], None] = self._run_sources
        self._next_offsets: dict[TopicPartition, int] = {}
        self._brought_back: dict[TopicPartition, int] = {}
        """The last offset of each input partition that was committed before the task was opened."""
        self._without_records: set[TopicPartition] = set()
        """Partitions that were read on without a record: there was nothing but the ends of transactions, or aborted ones."""
        self._commit_needed = False
        self.commit_requested = False
        self._is_cut = False
        self.was_cut_short = False
        """Whether there was no time for all records the last time: those that are left come first the next time."""

    # 1. and 2.: open

    @names_task
    def initialize(self) -> None:
        """Open the stores; what they miss of their changelogs is `state_manager.changelog_offsets`."""
        if self.state is TaskState.CREATED:
            self.state_manager.initialize_stores(self.topology.state_stores, self.context)
            self._transition_to(TaskState.RESTORING)

    @names_task
    def complete_restoration(self, committed: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Go to work: bring back the times that were committed, then initialize the processors."""
        if self.state is TaskState.RUNNING:
            return
        if self.state is not TaskState.RESTORING:
            raise StreamsError(f"task {self.task_id}: cannot complete restoration while {self.state.value}")
        # What was restored is in Kafka already; written now, it is not restored again.
        self.state_manager.commit()
        self._bring_back(committed or {})
        self._initialize_nodes()
        self._transition_to(TaskState.RUNNING)

    def _bring_back(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        metadata = ProcessorMetadata()
        for partition in self.input_partitions:
            if partition in committed:
                offset, text = committed[partition]
                carried = TopicPartitionMetadata.decode(text)
                self.partition_group.set_partition_time(partition, carried.partition_time)
                metadata.update(carried.processor_metadata)
                self._next_offsets[partition] = offset
                if offset > 0:
                    self._brought_back[partition] = offset - 1
        self.context.set_processor_metadata(metadata)

    def _initialize_nodes(self) -> None:
        now = self._clock.now_ms()
        self.context.system_time_ms = now
        for node in self.topology.nodes:
            with self.context.at(node, RecordContext(now, -1, -1, None)):
                node.init(self.context, self._processing_handler)
                self.metrics.watch_node(node, self._clock, node in self.topology.sources)
        self.context.system_time_ms = UNKNOWN
        self.context.processor_metadata.drop_unclaimed()
        self.context.processor_metadata.check_length(self.task_id)
        self._plan_execution()

    def _plan_execution(self) -> None:
        """Decide how records are processed, and tell the nodes."""
        topology = self.topology
        queues = [self.partition_group.queue(partition) for partition in self.input_partitions]
        inputs = [Input(queue.source.name, queue.trusts_record) for queue in queues]
        faces = {node.name: face for node in topology.nodes if (face := node.batch_support) is not None}
        plan = self.execution_plan = plan_execution(topology.specs, inputs, faces, self.metrics.record_lateness is not None)
        for node in topology.nodes:
            node.follow(plan)
        if plan.join is not None:
            left, right = (topology.join_side(side.window, side.join) for side in plan.join)
            self._run_batches = StreamStreamBatchJoin(left, right).run
        elif plan.mode is ExecutionMode.TABLES:
            self._run_batches = CachedTables(plan.flushes_batches).run
        _log.debug("task %s: records go %s%s", self.task_id, plan.mode.value, plan.why_not and f", since {plan.why_not}")

    @property
    def takes_batches(self) -> bool:
        """Whether records may be processed many at a time."""
        return self.execution_plan.mode.is_batched

    # 3. to 5.: work

    @names_task
    def add_records(self, partition: TopicPartition, records: Iterable[RawRecord], next_offset: int | None = None) -> int:
        """Queue records of an input partition; returns how many of it are waiting.

        `next_offset` is the consumer's position behind them, where that is more than the last offset plus one.
        """
        records = records if isinstance(records, (list, tuple, RawBatch)) else list(records)
        if len(records):
            self._next_offsets[partition] = records[-1].offset + 1
        if next_offset is not None:
            self._next_offsets[partition] = next_offset
            if not len(records):
                self._without_records.add(partition)
                self._commit_needed = True
        queue = self.partition_group.queue(partition)
        if isinstance(records, RawBatch):
            for batch in records.unreadable:
                queue.skip(batch)
        if self.metrics.consumed(partition, queue.source.name, records) > self._largest_record:
            records = queue.without_bombs(records, self._largest_record)
        return self.partition_group.add_raw_records(partition, records)

    def withdraw(self, partition: TopicPartition, offset: int) -> RawBatch | None:
        """Take back the records of a partition that wait from an offset on; None if there are none."""
        if self.partition_group.queue(partition).head is None:
            return None
        taken = self.partition_group.withdraw(partition, offset)
        return taken if len(taken) else None

    def update_next_offset(self, partition: TopicPartition, offset: int) -> None:
        """Tell the consumer's position of a partition; it may be ahead of the last record (control records)."""
        if offset != self._next_offsets.get(partition):
            self._next_offsets[partition] = offset
            consumed = self.partition_group.queue(partition).consumed_offset
            if consumed is not None and offset > consumed + 1:
                self._commit_needed = True

    def update_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Tell how many records the brokers still have of each input partition, for `max.task.idle.ms`."""
        self.partition_group.update_lags(lags)

    def is_processable(self, now: int) -> bool:
        """Whether the task may process a record now, or waits for an empty partition."""
        if self.state is not TaskState.RUNNING:
            return False
        ready = self.partition_group.ready_to_process(now)
        if not ready.is_ready:
            _log.debug("task %s is not ready to process: %s", self.task_id, ready.reason)
        return ready.is_ready

    @names_task
    def process(self, now: int | None = None) -> bool:
        """Process one record; False where there is none, or the task has to wait."""
        if now is None:
            now = self._clock.now_ms()
        if not self.is_processable(now):
            return False
        return self._process_records(islice(self._records(now), 1), now, math.inf) > 0

    @names_task
    def process_all(self, max_records: int | None = None, *, until: float = math.inf) -> int:
        """Process what is ready, with the stream-time punctuators that come due; returns the number of records.

        Wall-clock time stands still meanwhile, as it does in an iteration of a Kafka Streams thread. It stops at about the moment
        `until` (of `time.monotonic`), after one record or one part of a batch at least: the others stay in their queues.
        """
        now = self._clock.now_ms()
        self.was_cut_short = False
        if not self.is_processable(now):
            return 0
        in_batches = 0
        if max_records is None:
            mode = self.execution_plan.mode_of(self.partition_group.num_buffered, self.timers.stream_time.next_due != NEVER)
            if mode.is_batched:
                in_batches, is_done = self._process_batches(self._take(mode, now), now, until)
                if is_done:
                    return in_batches
            elif mode is ExecutionMode.ROWS and (rows := self._take_readable(now)) is not None:
                runs, batches = rows
                with self.collector.gathering():
                    processed = self._process_records(self._rows(runs, batches), now, until)
                if self._is_cut:
                    self.partition_group.put_back(runs, processed)
                    self.was_cut_short = self.has_records_queued
                return processed
        limit = self.partition_group.num_buffered if max_records is None else max_records
        processed = self._process_records(islice(self._records(now), limit), now, until)
        self.was_cut_short = self._is_cut and self.has_records_queued
        return in_batches + processed

    def process_counted(self, partition: TopicPartition, raw: RawBatch, weights: list[int], next_offset: int) -> int:
        """Take rows that stand for `weights` records each into the count that reads this partition; returns how many these are.

        Their values are not deserialized: a row may stand for many, and has none of them. They were serialized just before,
        by the serde that would read them here; so all that a count asks of them, whether there is one, is known without.
        """
        now = self._clock.now_ms()
        queue, context = self.partition_group.queue(partition), self.context
        self.metrics.consumed(partition, queue.source.name, raw, sum(weights))
        batch, weights = self._read_counted(queue, raw, weights)
        node = queue.source.children[0]
        context.system_time_ms, context.current_node, context.is_only_run = now, node, True
        with self._failures_of_batch():
            node.processor.process_counts(batch, weights)  # type: ignore[attr-defined]
        self._next_offsets[partition] = next_offset
        self.partition_group.consumed(queue, raw)
        self._commit_needed = True
        records = sum(weights)
        queue.source.forwarded += records
        self.metrics.process.record(records)
        return records

    def _read_counted(self, queue: RecordQueue, raw: RawBatch, weights: list[int]) -> tuple[RecordBatch, list[int]]:
        try:
            return queue.source.read_keys(raw), weights
        except Exception:  # noqa: BLE001  (row by row, the handler judges whatever a deserializer raises)
            rows = [row for row, record in enumerate(raw) if queue.can_read_key(record)]
            readable = RawBatch.of(raw.topic, raw.partition, [raw[row] for row in rows])
            return queue.source.read_keys(readable), [weights[row] for row in rows]

    @contextmanager
    def _failures_of_batch(self) -> Iterator[None]:
        try:
            with self._failures():
                yield
        finally:
            self.context.record_context = None

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Tell what fails with the node, and with the record that the context is at."""
        context = self.context
        try:
            yield
        except FailedProcessingError as exc:
            cause = exc.__cause__ or exc
            raise self._failure(exc.node, context.record_context, cause, exc.message) from cause
        except StreamsError:
            raise
        except Exception as exc:
            raise self._failure(context.current_node_name, context.record_context, exc) from exc
        finally:
            context.current_node = None

    # The two loops: record by record, and batch by batch.

    def _process_records(self, records: Iterable[Stamped], now: int, until: float) -> int:
        """Process records one by one until about the moment `until`, with the stream-time punctuators that come due.

        Returns how many; `_is_cut` tells whether time has run out.
        """
        group, context, timers = self.partition_group, self.context, self.timers.stream_time
        processed, self._is_cut = 0, False
        context.system_time_ms = now
        try:
            with self._failures():
                for queue, node, record, origin in records:
                    if record is not None:
                        context.record_context = origin
                        context.current_node = node
                        source = queue.source
                        if node is source:
                            node.run(record)
                        else:  # its only child: what `context.forward` would do for the source, in a third of the time
                            source.forwarded += 1
                            try:
                                node.run(record)
                            except Exception as exc:
                                if not node.on_error(exc, record):
                                    context.current_node = source
                                    raise
                    queue.consumed_offset = origin.offset
                    processed += 1
                    if timers.next_due <= group.stream_time:
                        context.current_node = None
                        self.maybe_punctuate_stream_time()
                        context.system_time_ms = now
                    if monotonic() >= until:
                        self._is_cut = True
                        break
        finally:
            if processed:
                self._commit_needed = True
        self.metrics.process.record(processed)
        return processed

    def _records(self, now: int) -> Iterator[Stamped]:
        """The records that may be processed, in their order; None in place of one that marks skipped records."""
        group = self.partition_group
        next_record, is_ready = group.next_record, group.ready_to_process
        while (following := next_record()) is not None:
            (record, raw), queue = following
            topic, partition, offset, timestamp, key, value, headers = raw
            if record is not None:
                timestamp = record.timestamp
            origin = RecordContext(timestamp, offset, partition, topic, headers, key, value)
            yield queue, queue.source, record, origin
            # Whether the task has to wait can only change when a partition runs empty.
            if queue.head is None and not is_ready(now).is_ready:
                return

    def _rows(self, runs: list[Run], batches: list[RecordBatch]) -> Iterator[Stamped]:
        """The records of runs that were deserialized together; times advance with each, as with `_records`."""
        group = self.partition_group
        for (queue, raw), batch in zip(runs, batches):
            source, topic, partition = queue.source, raw.topic, raw.partition
            node: Node = source.children[0] if len(source.children) == 1 else source
            headers_of = [()] * len(raw) if raw.headers is None else raw.headers
            rows = zip(batch.keys, batch.values, raw.timestamps, headers_of, raw.offsets, raw.keys, raw.values)
            for key, value, timestamp, headers, offset, raw_key, raw_value in rows:
                if timestamp > queue.partition_time:
                    queue.partition_time = timestamp
                if timestamp > group.stream_time:
                    group.stream_time = timestamp
                origin = RecordContext(timestamp, offset, partition, topic, headers, raw_key, raw_value)
                yield queue, node, Record(key, value, timestamp, headers), origin

    def _process_batches(self, taken: TakenRows | None, now: int, until: float) -> tuple[int, bool]:
        """Process what was taken in batches until about the moment `until`; what is left goes back into its queues.

        Returns how many records were processed, and whether that is all for now: False if records have to go one by one.
        """
        if taken is None:
            return 0, False
        # Records of several partitions are deserialized before the first is processed: which partition goes on may depend on the
        # record behind one that cannot be read.
        in_parts = not self.topology.state_stores and len(taken.runs) == 1
        batches = [] if in_parts else _batches_of(taken.runs)
        if not (in_parts or batches):
            self.partition_group.put_back(taken.runs)
            return 0, False
        whole = {id(raw): batch for (_, raw), batch in zip(taken.runs, batches or ())}
        processed, is_readable = 0, True
        while taken.left and is_readable:
            if processed and monotonic() >= until:
                self.partition_group.put_back(taken.runs, processed)
                self.was_cut_short = True
                break
            count = self._pace.next_part(taken.left, until)
            part = taken.first(min(count, _PART) if in_parts else count)
            if in_parts:
                read = _batches_of([(queue, raw) for queue, raw, _ in part])
            else:
                read = [whole.get(id(raw)) or queue.source.read_batch(raw) for queue, raw, _ in part]
            if read is None:
                self.partition_group.put_back(taken.runs, processed)
                is_readable = False
            else:
                processed += self._process_part(taken, part, read, now)
        self.processed_in_batches += processed
        self.metrics.process.record(processed)
        return processed, is_readable

    def _process_part(self, taken: TakenRows, part: list[Taken], batches: list[RecordBatch], now: int) -> int:
        context = self.context
        context.system_time_ms, context.is_only_run = now, True
        with self._failures_of_batch():
            self._run_batches(context, [(queue.source, batch, places) for (queue, _, places), batch in zip(part, batches)])
        for queue, raw, _ in part:
            self.partition_group.consumed(queue, raw)
        self._commit_needed = True
        records = taken.done(part)
        self._pace.done(records)
        return records

    def _take(self, mode: ExecutionMode, now: int) -> TakenRows | None:
        """Take what may be processed in batches; None if runs of records are too short for it."""
        group = self.partition_group
        if mode in (ExecutionMode.JOIN, ExecutionMode.TABLES):
            return MergedRows(group.take_merged(now))
        runs = self._take_runs(now)
        if runs is None:
            return None
        runs_of = Counter(queue.source.name for queue, _ in runs)
        self._in_caches.update(name for name, count in runs_of.items() if count > 1)
        return RowsOfRuns(runs)

    def _take_runs(self, now: int) -> list[Run] | None:
        group = self.partition_group
        runs = group.take_runs(now)
        if self.execution_plan.is_worth(len(runs), sum(len(raw) for _, raw in runs)):
            return runs
        group.put_back(runs)
        return None

    def _take_readable(self, now: int) -> tuple[list[Run], list[RecordBatch]] | None:
        """Take runs of records and deserialize them together; None, with nothing taken, if that cannot be done."""
        runs = self._take_runs(now)
        if runs is None:
            return None
        batches = _batches_of(runs)
        if batches is None:
            self.partition_group.put_back(runs)
            return None
        return runs, batches

    def _run_sources(self, context: OperatorContext, arrivals: list[SourceBatch]) -> None:
        """Forward the batches of sources, one after the other."""
        for source, batch, _ in arrivals:
            context.is_only_run = self.execution_plan.mode is ExecutionMode.RUNS and source.name not in self._in_caches
            context.current_node = source
            context.forward_batch(batch)

    def _failure(
        self, node: str | None, raw: RawRecord | RecordContext | None, cause: BaseException, message: str | None = None
    ) -> ProcessingError:
        where = "" if raw is None else f", topic={raw.topic}, partition={raw.partition}, offset={raw.offset}"
        return ProcessingError(
            f"{message or 'Exception caught in process'}. taskId={self.task_id}, "
            f"processor={node}{self.topology.added_at(node)}{where}: {cause!r}"
        )

    @names_task
    def maybe_punctuate_stream_time(self) -> bool:
        """Call the stream-time punctuators that are due."""
        punctuated = self.stream_time != UNKNOWN and self.timers.punctuate_stream_time(self.stream_time)
        self._commit_needed |= punctuated
        return punctuated

    @names_task
    def maybe_punctuate_system_time(self) -> bool:
        """Call the wall-clock punctuators that are due."""
        punctuated = self.timers.punctuate_system_time(self._clock.now_ms())
        self._commit_needed |= punctuated
        return punctuated

    def schedule(self, interval: int, kind: PunctuationType, punctuator: Punctuator, start: int | None = None) -> Cancellable:
        """Add a punctuator for the current node."""
        return self.timers.schedule(interval, kind, punctuator, start, self.stream_time)

    def request_commit(self) -> None:
        """A processor asks for a commit as soon as possible."""
        self.commit_requested = True

    # 6. and 7.: commit

    @names_task
    def prepare_commit(self) -> TaskCommit:
        """Flush the caches; hand out what is to be written, and the offsets to commit with it."""
        if self.state is TaskState.CLOSED:
            raise StreamsError(f"task {self.task_id}: cannot commit, it is closed")
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        if self.state in (TaskState.RUNNING, TaskState.SUSPENDED) and self.commit_needed:
            self.state_manager.flush_cache()
            for node, hooks in self.context.commit_hooks:
                with self.context.at(node, None):
                    if hooks.before_commit():
                        self.context.processor_metadata.needs_commit = True
            offsets = self._committable_offsets()
        return self.prepare_outputs()._replace(offsets=offsets)

    def prepare_outputs(self) -> TaskCommit:
        """Hand out what has been written so far, without flushing or committing anything."""
        outputs, changelogs = self.collector.drain()
        self.metrics.produced(outputs)
        return TaskCommit(self.task_id, outputs, changelogs, {}, self.next_timer())

    def next_timer(self) -> int | None:
        """When the wall clock next has something to do: a punctuator, or the end of the wait for an empty partition.

        At once where records are left that there was no time for; and where a stream-time punctuator is due without a record: the
        task has just been opened, and its stream time was committed. Kafka Streams calls them as it starts, too.
        """
        if self.was_cut_short:
            return 0
        if self.stream_time != UNKNOWN and self.timers.stream_time.next_due <= self.stream_time and not self.has_records_queued:
            return 0
        waits = (self.timers.next_system_time(), self.partition_group.idle_deadline() if self.has_records_queued else None)
        return min((wait for wait in waits if wait is not None), default=None)

    def _committable_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        metadata = self.context.processor_metadata
        # What processors keep belongs to the task, not to a partition: it goes with the offset of every input partition.
        consumed = dict.fromkeys((*self._consumed_offsets(), *self._without_records))
        partitions: Iterable[TopicPartition] = self.input_partitions if metadata.needs_commit else consumed
        offsets = {}
        for partition in partitions:
            queue = self.partition_group.queue(partition)
            offset = queue.head_offset
            if offset is None:
                offset = self._next_offsets.get(partition)
            if offset is not None:
                offsets[partition] = OffsetAndMetadata(offset, TopicPartitionMetadata(queue.partition_time, metadata).encode())
        return offsets

    def reflected_offsets(self) -> dict[TopicPartition, int]:
        """The last offset of each input partition that the stores reflect: processed, or committed before the task was opened."""
        return {**self._brought_back, **self._consumed_offsets()}

    def _consumed_offsets(self) -> dict[TopicPartition, int]:
        """The last offset processed of each partition that had any."""
        queues = ((partition, self.partition_group.queue(partition)) for partition in self.input_partitions)
        return {partition: queue.consumed_offset for partition, queue in queues if queue.consumed_offset is not None}

    @names_task
    def post_commit(self, changelog_offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Kafka has it: write the stores' changes, with the offset of the last record of each changelog partition."""
        if self.state is TaskState.CLOSED:
            raise StreamsError(f"task {self.task_id}: cannot commit, it is closed")
        if self.state is not TaskState.CREATED:
            # Where the changelog is the source topic itself, what was consumed is what the store contains.
            self.state_manager.update_changelog_offsets({**self._consumed_offsets(), **(changelog_offsets or {})})
            self.state_manager.commit()
        self._clear_commit_statuses()
        if self.state in (TaskState.RUNNING, TaskState.SUSPENDED):
            for node, hooks in self.context.commit_hooks:
                with self.context.at(node, None):
                    hooks.after_commit()

    @property
    def commit_needed(self) -> bool:
        """Whether something has happened since the last commit."""
        return self._commit_needed or self.context.processor_metadata.needs_commit

    def _clear_commit_statuses(self) -> None:
        self._in_caches.clear()
        self._commit_needed = False
        self._without_records.clear()
        self.commit_requested = False
        self.context.processor_metadata.needs_commit = False

    # 8.: close

    def suspend(self) -> None:
        """Close the processors; a commit is still possible after this."""
        if self.state in (TaskState.SUSPENDED, TaskState.CLOSED):
            return
        try:
            if self.state is TaskState.RUNNING:
                self._close_nodes()
        finally:
            self._transition_to(TaskState.SUSPENDED)

    def close_clean(self) -> None:
        """Close after a commit; refuses where something has not been committed."""
        if self._commit_needed:
            raise TaskMigratedError(f"task {self.task_id}: tried to close a task clean that has uncommitted work")
        self._close()

    def close_dirty(self) -> None:
        """Close and forget what was not committed; errors on the way are logged."""
        try:
            self.suspend()
        except StreamsError:
            _log.warning("task %s: a processor failed to close", self.task_id, exc_info=True)
        self.collector.clear()
        try:
            self._close()
        except StreamsError:
            _log.warning("task %s: a store failed to close", self.task_id, exc_info=True)

    def _close(self) -> None:
        if self.state is TaskState.CLOSED:
            return
        if self.state is not TaskState.SUSPENDED:
            raise StreamsError(f"task {self.task_id}: cannot close while {self.state.value}; suspend it first")
        self._clear_commit_statuses()
        try:
            self.state_manager.close()
        finally:
            self.partition_group.clear()
            self.timers.close()
            self.metrics.close()
            self._transition_to(TaskState.CLOSED)

    def _close_nodes(self) -> None:
        first: StreamsError | None = None
        for node in self.topology.nodes:
            try:
                with self.context.at(node, self.context.record_context):
                    node.close()
            except StreamsError as exc:
                first = first or exc
        if first is not None:
            raise first

    # What others ask

    @property
    def stream_time(self) -> int:
        """The highest timestamp processed; -1 before the first record."""
        return self.partition_group.stream_time

    @property
    def has_records_queued(self) -> bool:
        """Whether records wait for their turn."""
        return self.partition_group.has_records

    def _create_queues(self, config: StreamsConfig) -> dict[TopicPartition, RecordQueue]:
        handler = deserialization_exception_handler(config)
        default_extractor = config.default_timestamp_extractor
        queues = {}
        for partition in self.input_partitions:
            source = self.topology.source(partition.topic)
            source.prepare(self.context)
            extractor = source.timestamp_extractor or default_extractor
            queues[partition] = RecordQueue(partition, source, extractor, handler, self.context)
        return queues

    def _transition_to(self, state: TaskState) -> None:
        self.state = check_transition(self.task_id, self.state, state)


def _batches_of(runs: list[tuple[RecordQueue, RawBatch]]) -> list[RecordBatch] | None:
    """Keys and values of all runs; None where a record cannot be read, or has no time.

    Such a record is judged, and skipped, when it is next in its partition. Which partition goes on then depends on the record
    behind it, so that no run may be processed before all are known to be readable.
    """
    if any(min(raw.timestamps) < 0 for _, raw in runs):
        return None
    try:
        return [queue.source.read_batch(raw) for queue, raw in runs]
    except Exception:  # noqa: BLE001  (record by record, the handler judges whatever a deserializer raises)
        return None
