"""Turns the bytes of an input record into a typed record, or asks the handler what to do with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.batches.record_batch import UnreadableBatch
from penstock.dead_letters import ErrorHandlerContext
from penstock.errors import DeserializationError, StreamsError
from penstock.handlers import DeserializationExceptionHandler, Result, as_response
from penstock.record import NO_TIMESTAMP, RawRecord

if TYPE_CHECKING:
    from penstock.runtime.nodes import SourceNode

_log = logging.getLogger(__name__)


class ConsumerRecord:
    """An input record with its key and value as objects: what a timestamp extractor sees."""

    __slots__ = ("headers", "key", "offset", "partition", "timestamp", "topic", "value")

    def __init__(self, raw: RawRecord, key: Any, value: Any) -> None:
        self.topic = raw.topic
        self.partition = raw.partition
        self.offset = raw.offset
        self.timestamp = raw.timestamp
        self.headers = raw.headers
        self.key = key
        self.value = value

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r})"
        )


class RecordDeserializer:
    """Deserializes the records of one source node."""

    __slots__ = ("_context", "_handler", "_source")

    def __init__(self, source: SourceNode, handler: DeserializationExceptionHandler, context: Any) -> None:
        self._source = source
        self._handler = handler
        self._context = context

    def deserialize(self, raw: RawRecord) -> tuple[Any, Any] | None:
        """Key and value as objects; None where the handler said to go on without the record."""
        source = self._source
        try:
            return source.read(raw)
        except Exception as exc:  # noqa: BLE001  (whatever a user's deserializer raises is the handler's to judge)
            self._failed(exc, raw)
            return None

    def skip(self, topic: str, partition: int, batch: UnreadableBatch) -> None:
        """Ask the handler about a batch that cannot be read; it raises, or goes on without the batch."""
        self._failed(batch.error(topic, partition), RawRecord(topic, partition, batch.start, NO_TIMESTAMP, None, None))

    def _failed(self, exc: Exception, raw: RawRecord) -> None:
        self._source.failed += 1
        handle_deserialization_failure(self._handler, self._context, exc, raw, self._source.name)


def handle_deserialization_failure(
    handler: DeserializationExceptionHandler, context: Any, exception: Exception, raw: RawRecord, source_node: str | None
) -> None:
    """Ask the handler; send its dead letters; raise if it says fail, count the record as dropped if not."""
    error_context = ErrorHandlerContext(
        raw.topic, raw.partition, raw.offset, raw.headers, source_node, context.task_id, raw.timestamp, raw.key, raw.value
    )
    try:
        response = as_response(handler.handle_error(error_context, raw, exception), handler)
    except Exception as fatal:
        _log.error("Deserialization error callback failed after deserialization error for %s", error_context, exc_info=exception)
        raise StreamsError("Fatal user code error in deserialization error callback") from fatal

    context.send_dead_letters(response.dead_letter_queue_records, error_context)

    if response.result is not Result.RESUME:
        raise DeserializationError(
            f"Deserialization exception handler is set to fail upon a deserialization error: task {context.task_id}, "
            f"topic {raw.topic}, partition {raw.partition}, offset {raw.offset}. If you would rather have the streaming "
            f"pipeline continue after a deserialization error, please set deserialization.exception.handler appropriately."
        ) from exception

    context.record_dropped(
        f"Skipping record due to deserialization error. topic=[{raw.topic}] partition=[{raw.partition}] offset=[{raw.offset}]"
    )
