"""The nodes of a task's own copy of the topology: sources, processors, sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.batches.batch_processor import BatchSupport
from penstock.batches.record_batch import RawBatch, RecordBatch
from penstock.batches.serdes import deserialize_column
from penstock.dead_letters import ErrorHandlerContext
from penstock.errors import StreamsError, TaskCorruptedError, TaskMigratedError
from penstock.handlers import ProcessingExceptionHandler, Result, as_response
from penstock.ids import TaskId
from penstock.partitioner import ColumnPartitioner
from penstock.processor import FixedKeyProcessor
from penstock.record import FixedKeyRecord, RawRecord, Record, RecordContext
from penstock.runtime.node_serdes import sink_serializer, source_deserializer
from penstock.runtime.sink_format import SinkFormat
from penstock.serdes.contract import call_with_headers, wants_headers
from penstock.serdes.windowed import WindowedStreamPartitioner
from penstock.topology.execution_plan import ExecutionPlan
from penstock.topology.specs import Deserializer, ProcessorSpec, Serializer, SinkSpec, SourceSpec, TimestampExtractor
from penstock.user_code import added_at

_log = logging.getLogger(__name__)

FAIL_HINT = (
    "Processing exception handler is set to fail upon a processing error. If you would rather have the streaming pipeline "
    "continue after a processing error, please set the processing.exception.handler appropriately."
)


class FailedProcessingError(StreamsError):
    """Travels from the node that failed up to the task, which wraps its cause; no handler on the way sees it again."""

    def __init__(self, node: str | None, message: str | None = None) -> None:
        super().__init__(message or f"processor {node} failed")
        self.node = node
        self.message = message


class Node:
    """What every node has: a name, children, and `run`, which the context calls with a record.

    An exception out of `run` goes to `on_error` of the same node; True means that it has been dealt with. `run_batch` takes
    many records at once and deals with the failures of single rows itself; where the task's plan does not let the node have them
    as they are, it is `run` for each row.
    """

    __slots__ = (
        "_context",
        "_open",
        "added_at",
        "child_by_name",
        "children",
        "failed",
        "forwarded",
        "forwarded_to",
        "name",
        "run",
        "run_batch",
        "state_stores",
    )

    run: Callable[[Record[Any, Any]], None]
    run_batch: Callable[[RecordBatch], None]

    def __init__(self, name: str, state_stores: tuple[str, ...] = (), added_at: str = "") -> None:
        self.name = name
        self.added_at = added_at
        self.state_stores = frozenset(state_stores)
        self.children: tuple[Node, ...] = ()
        self.child_by_name: dict[str, Node] = {}
        self.forwarded = 0
        """How many records went to all children since this was last asked; `forwarded_to`: to one of them only."""
        self.forwarded_to: dict[str, int] = {}
        self.failed = 0
        """How many records a handler was asked about since this was last asked."""
        self._open = False

    def add_child(self, child: Node) -> None:
        """Connect a node that gets what this one forwards."""
        self.children += (child,)
        self.child_by_name[child.name] = child

    @property
    def _shown_name(self) -> str:
        return f"{self.name}{added_at(self.added_at)}"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing comes after this node."""
        return not self.children

    def init(self, context: Any, processing_handler: ProcessingExceptionHandler | None = None) -> None:
        """Make the node ready for records."""
        if self._open:
            raise StreamsError(f"node {self.name} has been initialized already")
        self._open = True
        self._context = context
        self.run_batch = self._run_rows

    @property
    def batch_support(self) -> BatchSupport | None:
        """What the node declares about batches when it is initialized; None where it has only ever single records."""
        return None

    def follow(self, plan: ExecutionPlan) -> None:
        """Take batches as the task's plan says."""

    def _run_rows(self, batch: RecordBatch) -> None:
        """Run each row of a batch as a record."""
        context = self._context
        before = context.record_context
        for row in range(len(batch)):
            record = batch.record(row)
            context.record_context = batch.context(row)
            context.current_node = self
            try:
                self.run(record)
            except Exception as exc:
                if not self.on_error(exc, record):
                    raise
        context.record_context = before

    def on_error(self, exception: Exception, record: Record[Any, Any]) -> bool:
        """Whether the exception of a record is dealt with here; sources and sinks leave it to the node before them."""
        return False

    def close(self) -> None:
        """Release what `init` took."""
        self._open = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class SourceNode(Node):
    """Where records of topics enter: it knows how to read their bytes, and hands them on."""

    __slots__ = ("_spec", "deserialize_key", "deserialize_value", "timestamp_extractor", "wants_headers")

    deserialize_key: Deserializer
    deserialize_value: Deserializer

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec.name, added_at=spec.added_at)
        self._spec = spec
        self.timestamp_extractor: TimestampExtractor | None = spec.timestamp_extractor
        self.wants_headers = False
        """Whether one of the deserializers takes headers: then `read` calls it."""

    def init(self, context: Any, processing_handler: ProcessingExceptionHandler | None = None) -> None:
        """Take the deserializers of the source, or the configured default ones."""
        super().init(context, processing_handler)
        self.prepare(context)
        self.run = context.forward

    def read_batch(self, raw: RawBatch) -> RecordBatch:
        """Raw records as typed ones; raises what the deserializers raise."""
        keys = deserialize_column(self.deserialize_key, raw.topic, raw.keys, raw.headers)
        values = deserialize_column(self.deserialize_value, raw.topic, raw.values, raw.headers)
        return RecordBatch(keys, values, raw.timestamps, raw.headers, raw)

    def read_keys(self, raw: RawBatch) -> RecordBatch:
        """Raw records whose keys alone are typed, for somebody who only counts them; raises what the deserializer raises."""
        keys = deserialize_column(self.deserialize_key, raw.topic, raw.keys, raw.headers)
        return RecordBatch(keys, raw.values, raw.timestamps, raw.headers, raw)

    def read(self, raw: RawRecord) -> tuple[Any, Any]:
        """Key and value of a raw record; raises what the deserializers raise."""
        if not self.wants_headers:
            return self.deserialize_key(raw.topic, raw.key), self.deserialize_value(raw.topic, raw.value)
        return self.read_key(raw), call_with_headers(self.deserialize_value, raw.topic, raw.value, raw.headers)

    def read_key(self, raw: RawRecord) -> Any:
        """The key of a raw record; raises what the deserializer raises."""
        return call_with_headers(self.deserialize_key, raw.topic, raw.key, raw.headers)

    def prepare(self, context: Any) -> None:
        """Take the deserializers; queues need them before the nodes are initialized."""
        spec = self._spec
        self.deserialize_key = source_deserializer(spec.key_deserializer, context, "key", self._shown_name)
        self.deserialize_value = source_deserializer(spec.value_deserializer, context, "value", self._shown_name)
        self.wants_headers = wants_headers(self.deserialize_key) or wants_headers(self.deserialize_value)


class ProcessorNode(Node):
    """Runs a user's or an operator's processor; its exceptions go to the processing exception handler."""

    __slots__ = ("_handler", "processor")

    def __init__(self, spec: ProcessorSpec) -> None:
        super().__init__(spec.name, spec.stores, spec.added_at)
        self.processor = spec.supplier()
        if self.processor is None:
            raise StreamsError(f"the supplier of processor {spec.name} returned None: it must return a new processor each time")
        self._handler: ProcessingExceptionHandler | None = None

    def init(self, context: Any, processing_handler: ProcessingExceptionHandler | None = None) -> None:
        """Initialize the processor with the task's context."""
        super().init(context, processing_handler)
        self._handler = processing_handler
        try:
            self.processor.init(context)
        except Exception as exc:
            raise StreamsError(f"failed to initialize processor {self.name}{added_at(self.added_at)}: {exc}") from exc
        # Bound after init, where some processors choose their process method.
        process = self.processor.process
        self.run = _with_fixed_key(process) if isinstance(self.processor, FixedKeyProcessor) else process

    @property
    def batch_support(self) -> BatchSupport | None:
        """What the processor declares; nothing where a store's serde takes headers, which are those of a single record."""
        if not isinstance(self.processor, BatchSupport):
            return None
        stores = map(self._context.state_manager.store, self.state_stores)
        return None if any(getattr(store, "serdes_take_headers", False) for store in stores) else self.processor

    def follow(self, plan: ExecutionPlan) -> None:
        """Hand batches to the processor, or their rows one by one."""
        self.run_batch = self.processor.process_batch if self.name in plan.batch_nodes else self._run_rows

    def close(self) -> None:
        """Close the processor."""
        if not self._open:
            return
        self._open = False
        try:
            self.processor.close()
        except Exception as exc:
            raise StreamsError(f"failed to close processor {self.name}: {exc}") from exc

    def on_error(self, exception: Exception, record: Record[Any, Any]) -> bool:
        """Ask the handler about an exception of this processor; the innermost node that fails asks, and only once."""
        if isinstance(exception, (FailedProcessingError, TaskCorruptedError, TaskMigratedError)) or self._handler is None:
            return False
        self.failed += 1
        handle_processing_failure(self._handler, self._context, self.name, record, exception)
        return True


class SinkNode(Node):
    """Where records leave for a topic."""

    __slots__ = (
        "_extract_topic",
        "_format",
        "_send",
        "_spec",
        "topic",
    )

    def __init__(self, spec: SinkSpec) -> None:
        super().__init__(spec.name, added_at=spec.added_at)
        self._spec = spec
        self.topic = spec.topic

    def add_child(self, child: Node) -> None:
        """A sink has no children."""
        raise StreamsError(f"sink {self.name} cannot have a child; {child.name} must follow the sink's parent")

    def init(self, context: Any, processing_handler: ProcessingExceptionHandler | None = None) -> None:
        """Take the serializers of the sink, or the configured default ones."""
        super().init(context, processing_handler)
        spec = self._spec
        key_serializer: Serializer = sink_serializer(spec.key_serializer, context, "key", self._shown_name)
        value_serializer: Serializer = sink_serializer(spec.value_serializer, context, "value", self._shown_name)
        self._format = SinkFormat(key_serializer, value_serializer, self.name, context, spec.partitioner)
        collector = context.record_collector
        with_headers = wants_headers(key_serializer) or wants_headers(value_serializer)
        self._send = collector.send_with_headers if with_headers else collector.send
        if spec.topic_extractor is not None:
            self._extract_topic = getattr(spec.topic_extractor, "extract", spec.topic_extractor)
            self.run = self._run_dynamic
        else:
            self.run = self._run_static

    @property
    def batch_support(self) -> BatchSupport | None:
        """A sink of a fixed topic sends batches; a partitioner of the user's own is asked for each record."""
        partitioner = self._format.partitioner
        is_known = isinstance(partitioner, WindowedStreamPartitioner | ColumnPartitioner | None)
        return BatchSupport() if self.topic is not None and is_known else None

    def follow(self, plan: ExecutionPlan) -> None:
        """Send batches, or their rows one by one."""
        self.run_batch = self._run_static_batch if self.name in plan.batch_nodes else self._run_rows

    def _run_static_batch(self, batch: RecordBatch) -> None:
        to, collector = self._format, self._context.record_collector
        if not collector.send_batch(self.topic, batch, to.key_serializer, to.value_serializer, to.partitioner):
            self._run_rows(batch)

    def _run_static(self, record: Record[Any, Any]) -> None:
        self._send(self.topic, record, self._format)

    def _run_dynamic(self, record: Record[Any, Any]) -> None:
        origin = self._context.record_context
        if origin is None:
            origin = RecordContext(record.timestamp, -1, -1, None)
        topic = self._extract_topic(
            record.key,
            record.value,
            RecordContext(record.timestamp, origin.offset, origin.partition, origin.topic, record.headers),
        )
        if not isinstance(topic, str):
            raise StreamsError(f"the topic extractor of sink {self.name} returned {topic!r}: it must return a topic's name")
        self._send(topic, record, self._format)


def handle_processing_failure(
    handler: ProcessingExceptionHandler,
    context: Any,
    node: str,
    record: Record[Any, Any] | None,
    exception: Exception,
) -> None:
    """Ask the handler; send its dead letters; raise if it says fail, count the record as dropped if not."""
    error_context = error_handler_context(context.record_context, node, context.task_id)
    try:
        response = as_response(handler.handle_error(error_context, record, exception), handler)
    except Exception as fatal:
        _log.error("Processing error callback failed after processing error for record: %s", error_context, exc_info=exception)
        raise FailedProcessingError(node, "Fatal user code error in processing error callback") from fatal

    context.send_dead_letters(response.dead_letter_queue_records, error_context)

    if response.result is not Result.RESUME:
        _log.error(FAIL_HINT)
        raise FailedProcessingError(node) from exception
    context.count_dropped()


def error_handler_context(record_context: RecordContext | None, node: str | None, task_id: TaskId) -> ErrorHandlerContext:
    """What a handler is told of the record that is being processed."""
    if record_context is None:
        return ErrorHandlerContext(None, -1, -1, (), node, task_id, -1)
    return ErrorHandlerContext(
        record_context.topic,
        record_context.partition,
        record_context.offset,
        record_context.headers,
        node,
        task_id,
        record_context.timestamp,
        record_context.source_raw_key,
        record_context.source_raw_value,
    )


def _with_fixed_key(process: Callable[[FixedKeyRecord[Any, Any]], None]) -> Callable[[Record[Any, Any]], None]:
    def run(record: Record[Any, Any]) -> None:
        process(FixedKeyRecord(record.key, record.value, record.timestamp, record.headers))

    return run
