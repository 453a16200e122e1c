"""Exception handlers for records that cannot be deserialized, processed or produced.

Each of the three handlers gets an `ErrorHandlerContext`, the record and the exception, and returns a `Response`: skip the
record, fail, or (in production) retry. The response may contain records for a dead letter topic. With
`errors.dead.letter.queue.topic.name` the built-in handlers write the failed input record there.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from penstock.dead_letters import ErrorHandlerContext, build_dead_letter_queue_record
from penstock.errors import ConfigError
from penstock.import_paths import imported_for, instance_for
from penstock.record import FixedKeyRecord, ProducedRecord, RawRecord

_log = logging.getLogger(__name__)

DEAD_LETTER_TOPIC_CONFIG = "errors.dead.letter.queue.topic.name"


class Result(enum.Enum):
    """The reaction to a failed record."""

    RESUME = "RESUME"
    FAIL = "FAIL"
    RETRY = "RETRY"


class SerializationExceptionOrigin(enum.Enum):
    """The part of an output record that could not be serialized."""

    KEY = "KEY"
    VALUE = "VALUE"


@dataclass(frozen=True)
class Response:
    """A handler's response, with records for a dead letter topic.

    >>> Response.resume().result
    <Result.RESUME: 'RESUME'>
    """

    result: Result
    dead_letter_queue_records: tuple[ProducedRecord, ...] = ()

    @classmethod
    def resume(cls, dead_letter_queue_records: Iterable[ProducedRecord] | None = None) -> Response:
        """Skip the record."""
        return cls(Result.RESUME, tuple(dead_letter_queue_records or ()))

    @classmethod
    def fail(cls, dead_letter_queue_records: Iterable[ProducedRecord] | None = None) -> Response:
        """Fail the task."""
        return cls(Result.FAIL, tuple(dead_letter_queue_records or ()))

    @classmethod
    def retry(cls) -> Response:
        """Retry the write. Only for production handlers and retriable errors."""
        return cls(Result.RETRY)


def as_response(answer: Any, handler: Any, method: str = "handle_error") -> Response:
    """Return a handler's answer as a `Response`. A `Result` alone is accepted too.

    >>> as_response(Result.RESUME, object())
    Response(result=<Result.RESUME: 'RESUME'>, dead_letter_queue_records=())
    """
    if isinstance(answer, Result):
        return Response(answer)
    # Other objects with these two attributes are accepted.
    if answer is None or not isinstance(getattr(answer, "result", None), Result):
        raise TypeError(
            f"{type(handler).__name__}.{method}() returned {answer!r}: "
            "it must return Response.resume(), Response.fail() or Response.retry()"
        )
    for record in answer.dead_letter_queue_records:
        _check_dead_letter(record, handler, method)
    return answer  # type: ignore[no-any-return]


def _check_dead_letter(record: Any, handler: Any, method: str) -> None:
    """Check a dead letter's types: a record with the argument order of Java's ProducerRecord would be written wrongly."""
    if (
        isinstance(record, ProducedRecord)
        and isinstance(record.topic, str)
        and (record.partition is None or isinstance(record.partition, int))
        and all(part is None or isinstance(part, bytes) for part in (record.key, record.value))
        and isinstance(record.timestamp, int)
    ):
        return
    raise TypeError(
        f"{type(handler).__name__}.{method}() returned the dead letter {record!r}: expected "
        "ProducedRecord(topic, partition or None, key bytes, value bytes, timestamp, headers)"
    )


class ExceptionHandler:
    """The base class of the three handlers. `configure` is called once with the application's configuration."""

    Response = Response
    Result = Result

    dead_letter_queue_topic: str | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the configuration."""
        topic = configs.get(DEAD_LETTER_TOPIC_CONFIG)
        if topic is not None:
            self.dead_letter_queue_topic = str(topic)

    def dead_letter_queue_records(self, context: ErrorHandlerContext, exception: Exception) -> tuple[ProducedRecord, ...]:
        """Return the failed input record for the configured dead letter topic. Empty without a topic."""
        if self.dead_letter_queue_topic is None:
            return ()
        record = build_dead_letter_queue_record(
            self.dead_letter_queue_topic, context.source_raw_key, context.source_raw_value, context, exception
        )
        return (record,)


class DeserializationExceptionHandler(ExceptionHandler):
    """Decides on input records that cannot be deserialized."""

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        """Return the reaction to a record that failed with an exception."""
        raise TypeError(f"{type(self).__name__} must implement handle_error(context, record, exception)")


class ProcessingExceptionHandler(ExceptionHandler):
    """Decides on records (None for a punctuator) with an exception in a processor."""

    def handle_error(
        self, context: ErrorHandlerContext, record: FixedKeyRecord[Any, Any] | None, exception: Exception
    ) -> Response:
        """Return the reaction to a record that failed with an exception."""
        raise TypeError(f"{type(self).__name__} must implement handle_error(context, record, exception)")


class ProductionExceptionHandler(ExceptionHandler):
    """Decides on output records that cannot be serialized or written."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        """Return the reaction to a record that the brokers refused."""
        raise TypeError(f"{type(self).__name__} must implement handle_error(context, record, exception)")

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        """Return the reaction to a record that a serializer refused. Its key and value are objects."""
        return Response.fail()


class LogAndFailExceptionHandler(DeserializationExceptionHandler):
    """Logs a record that cannot be deserialized, and fails. The default."""

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        _log_deserialization(logging.ERROR, context, record, exception)
        return Response.fail(self.dead_letter_queue_records(context, exception))


class LogAndContinueExceptionHandler(DeserializationExceptionHandler):
    """Logs a record that cannot be deserialized, and skips it."""

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        _log_deserialization(logging.WARNING, context, record, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))


class LogAndFailProcessingExceptionHandler(ProcessingExceptionHandler):
    """Logs a record that failed in a processor, and fails. The default."""

    def handle_error(
        self, context: ErrorHandlerContext, record: FixedKeyRecord[Any, Any] | None, exception: Exception
    ) -> Response:
        _log_processing(logging.ERROR, context, exception)
        return Response.fail(self.dead_letter_queue_records(context, exception))


class LogAndContinueProcessingExceptionHandler(ProcessingExceptionHandler):
    """Logs a record that failed in a processor, and skips it."""

    def handle_error(
        self, context: ErrorHandlerContext, record: FixedKeyRecord[Any, Any] | None, exception: Exception
    ) -> Response:
        _log_processing(logging.WARNING, context, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))


class DefaultProductionExceptionHandler(ProductionExceptionHandler):
    """Retries retriable errors (with a true `retriable` attribute), and fails otherwise. The default."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        """Retry retriable errors, fail otherwise."""
        if is_retriable(exception):
            return Response.retry()
        return Response.fail(self.dead_letter_queue_records(context, exception))

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        return Response.fail(self.dead_letter_queue_records(context, exception))


class LogAndContinueProductionExceptionHandler(ProductionExceptionHandler):
    """Logs a record that cannot be written, and skips it."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        """Retry retriable errors, skip the record otherwise."""
        if is_retriable(exception):
            return Response.retry()
        _log_production(context, record, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        _log_production(context, record, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))


def is_retriable(exception: BaseException) -> bool:
    """Return True if the same write may succeed later.

    An error declares this by a true `retriable` attribute, or by a `retriable()` method, as librdkafka's errors do.
    """
    retriable = getattr(exception, "retriable", False)
    return bool(retriable()) if callable(retriable) else bool(retriable)


def deserialization_exception_handler(configs: Mapping[str, Any]) -> DeserializationExceptionHandler:
    """Return the configured handler for deserialization."""
    keys = ("deserialization.exception.handler", "default.deserialization.exception.handler")
    found = _configured(keys, configs, LogAndFailExceptionHandler, LogAndContinueExceptionHandler)
    return cast(DeserializationExceptionHandler, found)


def processing_exception_handler(configs: Mapping[str, Any]) -> ProcessingExceptionHandler:
    """Return the configured handler for processing."""
    keys = ("processing.exception.handler",)
    found = _configured(keys, configs, LogAndFailProcessingExceptionHandler, LogAndContinueProcessingExceptionHandler)
    return cast(ProcessingExceptionHandler, found)


def production_exception_handler(configs: Mapping[str, Any]) -> ProductionExceptionHandler:
    """Return the configured handler for production."""
    keys = ("production.exception.handler", "default.production.exception.handler")
    found = _configured(keys, configs, DefaultProductionExceptionHandler, LogAndContinueProductionExceptionHandler)
    return cast(ProductionExceptionHandler, found)


def _configured(
    keys: tuple[str, ...], configs: Mapping[str, Any], fail: type[ExceptionHandler], resume: type[ExceptionHandler]
) -> Any:
    key, value = next(((key, configs.get(key)) for key in keys if configs.get(key) is not None), (keys[0], None))
    handler = _resolve(key, value, fail, resume)
    configure = getattr(handler, "configure", None)
    if configure is not None:
        configure(configs)
    return handler


def _resolve(key: str, value: Any, fail: type[ExceptionHandler], resume: type[ExceptionHandler]) -> Any:
    """Return the handler for a configured value: an object, a class, an import path, or a short name."""
    allowed = f"allowed: log_and_fail, log_and_continue, an object with handle_error(), its class, or its import path {_PATH}"
    if value is None:
        return fail()
    if isinstance(value, str):
        # The class names are Kafka's, so a Java application's properties work.
        by_name = {"log_and_fail": fail, "log_and_continue": resume, fail.__name__: fail, resume.__name__: resume}
        short = value if value in by_name else value.rpartition(".")[2]
        value = by_name[short] if short in by_name else imported_for(key, value, allowed)
    value = instance_for(key, value, allowed)
    method = getattr(type(value), "handle_error", None)
    if not callable(getattr(value, "handle_error", None)):
        raise ConfigError(f"{key}: {value!r} is not an exception handler; {allowed}")
    if method in _WITHOUT_METHOD and "handle_error" not in vars(value):
        raise ConfigError(f"{key}: {type(value).__name__} lacks its method handle_error(context, record, exception)")
    return value


_WITHOUT_METHOD = tuple(
    base.handle_error
    for base in (DeserializationExceptionHandler, ProcessingExceptionHandler, ProductionExceptionHandler)  # they only raise
)
_PATH = "('package.module.Class' or 'package.module:Class')"


def _log_deserialization(level: int, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> None:
    _log.log(
        level,
        "Exception caught during Deserialization, taskId: %s, topic: %s, partition: %d, offset: %d",
        context.task_id,
        record.topic,
        record.partition,
        record.offset,
        exc_info=exception,
    )


def _log_processing(level: int, context: ErrorHandlerContext, exception: Exception) -> None:
    _log.log(
        level,
        "Exception caught during message processing, processor node: %s, taskId: %s, source topic: %s, source partition: %d, "
        "source offset: %d",
        context.processor_node_id,
        context.task_id,
        context.topic,
        context.partition,
        context.offset,
        exc_info=exception,
    )


def _log_production(context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> None:
    _log.warning(
        "Exception caught during production, processor node: %s, taskId: %s, topic: %s, source topic: %s, source offset: %d",
        context.processor_node_id,
        context.task_id,
        record.topic,
        context.topic,
        context.offset,
        exc_info=exception,
    )
