"""Where the output of a task gathers: serialized, with its partition where a partitioner chose one, until the commit."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.batches.record_batch import ProducedBatch, RecordBatch, RecordOrBatch
from penstock.batches.serdes import serialize_column, serialize_to_arrow, windowed_base_keys
from penstock.dead_letters import DeadLetter, ErrorHandlerContext
from penstock.errors import PenstockError, ProductionError, StreamsError, TaskCorruptedError
from penstock.handlers import (
    ProductionExceptionHandler,
    Response,
    Result,
    SerializationExceptionOrigin,
    as_response,
    is_retriable,
)
from penstock.hashing import default_partitions
from penstock.ids import TaskId, TopicPartition
from penstock.partitioner import ColumnPartitioner, chooser
from penstock.record import Headers, ProducedRecord, Record
from penstock.runtime.nodes import FailedProcessingError, error_handler_context
from penstock.runtime.sink_format import SinkFormat
from penstock.runtime.task_metrics import TaskMetrics
from penstock.serdes.contract import wants_headers
from penstock.serdes.windowed import WindowedStreamPartitioner
from penstock.topology.specs import Serializer, StreamPartitioner

_log = logging.getLogger(__name__)

_new = tuple.__new__

# How many dead letters are told of between two turns, however many there are.
_DEAD_LETTERS = 20

PartitionsFor = Callable[[str], "int | None"]


class _OpenRecord(NamedTuple):
    """A record whose headers its serializers may add to."""

    key: Any
    value: Any
    timestamp: int
    headers: Any


class RecordCollector:
    """Takes what sinks and stores write; hands it back as records of bytes.

    `partitions_for(topic)` tells how many partitions a topic has; it is asked only for records with a partitioner of
    their own. All others keep partition None: the producer chooses by murmur2 of the key's bytes, as everywhere in Kafka.
    """

    gathers: ClassVar[bool] = True
    """Whether records that are sent one by one may be kept as a batch; False for who looks at each."""

    def __init__(
        self,
        task_id: TaskId,
        production_handler: ProductionExceptionHandler,
        metrics: TaskMetrics,
        partitions_for: PartitionsFor | None = None,
    ) -> None:
        self._task_id = task_id
        self._handler = production_handler
        self._metrics = metrics
        self._partitions_for = partitions_for
        self._outputs: list[RecordOrBatch] = []
        self._changelogs: list[RecordOrBatch] = []
        self._gathered: dict[str | TopicPartition, ProducedBatch] | None = None
        self._choosers: dict[int, Callable[..., Any]] = {}  # partitioners live as long as the nodes that have them
        self.arrow_topics: frozenset[str] = frozenset()
        """Topics whose batches somebody takes as Arrow arrays."""
        self._dead = 0
        self._dead_letters: deque[ProducedRecord] = deque(maxlen=_DEAD_LETTERS)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Meanwhile plain records that are sent one by one are kept as batches, those of a topic together.

        The records of each topic keep their order, and so do those of each partition of a changelog.
        """
        self._gathered = {} if self.gathers else None
        try:
            yield
        finally:
            self._gathered = None

    def send(self, topic: str, record: Record[Any, Any] | _OpenRecord, sink: SinkFormat) -> None:
        """Serialize a record and keep it for the commit; to several partitions where the partitioner names several."""
        key, value, timestamp, headers = record.key, record.value, record.timestamp, record.headers
        try:
            key_bytes = sink.key_serializer(topic, key)
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a serializer raises)
            self._serialization_failed(SerializationExceptionOrigin.KEY, topic, record, sink, exc)
            return
        try:
            value_bytes = sink.value_serializer(topic, value)
        except Exception as exc:  # noqa: BLE001
            self._serialization_failed(SerializationExceptionOrigin.VALUE, topic, record, sink, exc)
            return
        gathered = self._gathered
        if gathered is not None:
            if not headers and sink.partitioner is None:
                batch = gathered.get(topic)
                if batch is None:
                    batch = gathered[topic] = ProducedBatch(topic, None, [], [], [])
                    self._outputs.append(batch)
                # Not by a method of theirs: for each record it would take a tenth of all that this does.
                batch.keys.append(key_bytes)  # type: ignore[attr-defined]
                batch.values.append(value_bytes)  # type: ignore[attr-defined]
                batch.timestamps.append(timestamp)
                return
            gathered.pop(topic, None)
        if type(headers) is not tuple:  # open until both serializers had it
            headers = tuple(headers)
        if sink.partitioner is None:
            # The tuple as NamedTuple would make it, in half the time.
            self._outputs.append(_new(ProducedRecord, (topic, None, key_bytes, value_bytes, timestamp, headers)))
            return
        for chosen in self._partitions(topic, key, value, headers, sink.partitioner, sink.context):
            self._outputs.append(ProducedRecord(topic, chosen, key_bytes, value_bytes, timestamp, headers))

    def send_with_headers(self, topic: str, record: Record[Any, Any], sink: SinkFormat) -> None:
        """The same where a serializer takes headers: it sees the record's, and what it appends is written with the record."""
        opened: Any = list(record.headers)
        key_serializer, value_serializer = sink.key_serializer, sink.value_serializer
        if wants_headers(key_serializer):
            key_serializer = partial(_with_headers, key_serializer, opened)
        if wants_headers(value_serializer):
            value_serializer = partial(_with_headers, value_serializer, opened)
        opening = sink._replace(key_serializer=key_serializer, value_serializer=value_serializer)
        self.send(topic, _OpenRecord(record.key, record.value, record.timestamp, opened), opening)

    def send_batch(
        self,
        topic: str,
        batch: RecordBatch,
        key_serializer: Serializer,
        value_serializer: Serializer,
        partitioner: WindowedStreamPartitioner | ColumnPartitioner | None = None,
    ) -> bool:
        """Serialize many records for one topic and keep them; False, with nothing kept, where one of them does not serialize."""
        if self._gathered is not None:
            self._gathered.pop(topic, None)
        count = None if partitioner is None or self._partitions_for is None else self._partition_count(topic)
        if partitioner is not None and not count:
            return False
        opened = None
        if wants_headers(key_serializer) or wants_headers(value_serializer):
            opened = [[] for _ in batch.timestamps] if batch.headers is None else [list(some) for some in batch.headers]
        try:
            serialize = serialize_to_arrow if topic in self.arrow_topics and partitioner is None else serialize_column
            keys = serialize(key_serializer, topic, batch.keys, opened)
            values = serialize(value_serializer, topic, batch.values, opened)
            chosen = None if partitioner is None or count is None else _chosen(partitioner, topic, batch, count)
        except Exception:  # noqa: BLE001  (record by record, the handler judges whatever a serializer raises)
            return False
        if opened is not None:
            batch = batch.with_headers([tuple(some) for some in opened] if any(opened) else None)
        produced = self._produced(topic, batch, keys, values)
        if chosen is None:
            self._outputs.append(produced)
        else:
            self._outputs += produced.by_partition(chosen)
        return True

    def _produced(self, topic: str, batch: RecordBatch, keys: Any, values: Any) -> ProducedBatch:
        return ProducedBatch(topic, None, keys, values, batch.timestamps, batch.headers)

    def send_raw(self, record: ProducedRecord, error_context: ErrorHandlerContext | None = None) -> None:
        """Keep a dead letter, which is bytes already; `error_context` says what it was made of."""
        if self._gathered is not None:
            self._gathered.pop(record.topic, None)
        self._outputs.append(record)
        self._dead += 1
        self._dead_letters.append(record)

    def take_dead_letters(self) -> tuple[int, list[DeadLetter]]:
        """How many dead letters there were since this was last asked, and the last of them."""
        dead, self._dead = self._dead, 0
        if not dead:
            return 0, []
        now = int(time.time() * 1000)
        letters = [DeadLetter.of(record, now) for record in self._dead_letters]
        self._dead_letters.clear()
        return dead, letters

    def send_changelog(
        self, changelog: TopicPartition, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> None:
        """Keep one change of a store."""
        gathered = self._gathered
        if gathered is not None:
            if not headers:
                batch = gathered.get(changelog)
                if batch is None:
                    batch = gathered[changelog] = ProducedBatch(*changelog, [], [], [])
                    self._changelogs.append(batch)
                batch.keys.append(key)  # type: ignore[attr-defined]
                batch.values.append(value)  # type: ignore[attr-defined]
                batch.timestamps.append(timestamp)
                return
            gathered.pop(changelog, None)
        self._changelogs.append(_new(ProducedRecord, (*changelog, key, value, timestamp, headers)))

    def send_changelog_batch(
        self,
        changelog: TopicPartition,
        keys: list[bytes],
        values: list[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None = None,
    ) -> None:
        """Keep many changes of a store."""
        if self._gathered is not None:
            self._gathered.pop(changelog, None)
        self._changelogs.append(ProducedBatch(*changelog, keys, values, timestamps, headers))

    def drain(self) -> tuple[list[RecordOrBatch], list[RecordOrBatch]]:
        """Outputs and changelog records since the last call, each in the order they were sent."""
        outputs, changelogs = self._outputs, self._changelogs
        self._outputs, self._changelogs = [], []
        if self._gathered is not None:
            self._gathered = {}
        return outputs, changelogs

    def clear(self) -> None:
        """Forget what was not handed out."""
        self._outputs.clear()
        self._changelogs.clear()
        if self._gathered is not None:
            self._gathered = {}

    def handle_send_error(self, record: ProducedRecord, exception: Exception) -> None:
        """Decide on a record that the brokers did not take; called by who writes the records.

        Returns where the handler says to go on without it. A retry means that the task starts again from its last commit.
        """
        message = f"Error encountered sending record to topic {record.topic} for task {self._task_id} due to: {exception!r}"
        error_context = error_handler_context(None, None, self._task_id)
        response = self._asked(lambda: self._handler.handle_error(error_context, record, exception), None, message, exception)
        for dead_letter in response.dead_letter_queue_records:
            self.send_raw(dead_letter, error_context)
        if response.result is Result.RETRY and is_retriable(exception):
            raise TaskCorruptedError(
                f"{message}. The broker is slow, in a bad state or not reachable; the task starts again from its last commit. "
                "Consider a larger delivery.timeout.ms.",
                [self._task_id],
            ) from exception
        if self._fails(response):
            raise ProductionError(f"{message}. The production exception handler chose to fail.") from exception
        _log.error("%s. The production exception handler chose to continue without the record.", message, exc_info=exception)
        self._metrics.dropped_records.record()

    def _partitions(
        self, topic: str, key: Any, value: Any, headers: Headers, partitioner: StreamPartitioner, context: Any
    ) -> Iterable[int | None]:
        count = None if self._partitions_for is None else self._partition_count(topic)
        if not count:
            raise StreamsError(
                f"Could not get partition information for topic {topic} for task {self._task_id}. "
                "This can happen if the topic does not exist."
            )
        choose = self._choosers.get(id(partitioner))
        if choose is None:
            choose = self._choosers[id(partitioner)] = chooser(partitioner)
        chosen = choose(topic, key, value, headers, count)
        if chosen is None:
            return (None,)
        partitions = (chosen,) if isinstance(chosen, int) else tuple(chosen)
        if not partitions:
            context.record_dropped(f"Skipping record as partitioner returned empty partitions. topic=[{topic}]")
        for partition in partitions:
            self._check_partition(topic, partition, count)
        return partitions

    def _check_partition(self, topic: str, partition: int, count: int) -> None:
        if not 0 <= partition < count:
            raise StreamsError(
                f"The partitioner of topic {topic} chose partition {partition}, but the topic has partitions 0 to {count - 1}"
            )

    def _partition_count(self, topic: str) -> int | None:
        assert self._partitions_for is not None
        try:
            return self._partitions_for(topic)
        except PenstockError:
            raise
        except Exception as exc:
            raise StreamsError(
                f"Could not determine the number of partitions for topic '{topic}' for task {self._task_id} due to {exc}"
            ) from exc

    def _serialization_failed(
        self,
        origin: SerializationExceptionOrigin,
        topic: str,
        unwritten: Record[Any, Any] | _OpenRecord,
        sink: SinkFormat,
        exception: Exception,
    ) -> None:
        processor_node, context = sink.node, sink.context
        record = ProducedRecord(topic, None, unwritten.key, unwritten.value, unwritten.timestamp, tuple(unwritten.headers))
        error_context = error_handler_context(context.record_context, processor_node, self._task_id)
        response = self._asked(
            lambda: self._handler.handle_serialization_error(error_context, record, exception, origin),
            processor_node,
            f"serialization error for record {origin.value.lower()}: {error_context}",
            exception,
            "handle_serialization_error",
        )
        for dead_letter in response.dead_letter_queue_records:
            self.send_raw(dead_letter, error_context)
        where = f"ProducerRecord(topic=[{record.topic}], partition=[{record.partition}], timestamp=[{record.timestamp}])"
        if self._fails(response):
            raise ProductionError(
                f"Unable to serialize the {origin.value.lower()} of a record in task {self._task_id}, node {processor_node}. "
                f"{where}: {exception}"
            ) from exception
        _log.warning("Unable to serialize record, continue processing. %s", where)
        self._metrics.dropped_records.record()

    def _asked(
        self, ask: Callable[[], Response], node: str | None, what: str, exception: Exception, method: str = "handle_error"
    ) -> Response:
        try:
            return as_response(ask(), self._handler, method)
        except Exception as fatal:
            _log.error("Production error callback failed after %s", what, exc_info=exception)
            raise FailedProcessingError(node, "Fatal user code error in production error callback") from fatal

    def _fails(self, response: Response) -> bool:
        if response.result is Result.RETRY:
            _log.warning("ProductionExceptionHandler returned RETRY for a non-retriable exception. Will treat it as FAIL.")
        return response.result is not Result.RESUME


def _chosen(partitioner: WindowedStreamPartitioner | ColumnPartitioner, topic: str, batch: RecordBatch, count: int) -> Any:
    if isinstance(partitioner, WindowedStreamPartitioner):
        base_keys = windowed_base_keys(partitioner.serializer, topic, batch.keys)
        return default_partitions(pa.array(base_keys, pa.binary()), count)
    partitions = partitioner.choose_all(batch.values, count)
    if partitions is None:
        raise ValueError("they have to be asked for one by one")
    return np.array(partitions, np.int32)


def _with_headers(serializer: Any, headers: Any, topic: str, value: Any) -> bytes | None:
    data: bytes | None = serializer(topic, value, headers)
    return data
