"""What happens to a record that cannot be read, processed or written: the handlers a user can plug in.

Three places, three handlers. Each is asked with an `ErrorHandlerContext`, the record and the exception, and answers
with a `Response`: go on without the record, fail, or (when writing) try again; with it come the records for a dead
letter topic. `errors.dead.letter.queue.topic.name` makes the built-in handlers write the failed input record there.
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
    """What the task does with the record that failed."""

    RESUME = "RESUME"
    FAIL = "FAIL"
    RETRY = "RETRY"


class SerializationExceptionOrigin(enum.Enum):
    """Which part of an output record could not be serialized."""

    KEY = "KEY"
    VALUE = "VALUE"


@dataclass(frozen=True)
class Response:
    """A handler's answer, with the records it wants written to a dead letter topic.

    >>> Response.resume().result
    <Result.RESUME: 'RESUME'>
    """

    result: Result
    dead_letter_queue_records: tuple[ProducedRecord, ...] = ()

    @classmethod
    def resume(cls, dead_letter_queue_records: Iterable[ProducedRecord] | None = None) -> Response:
        """Go on without the record."""
        return cls(Result.RESUME, tuple(dead_letter_queue_records or ()))

    @classmethod
    def fail(cls, dead_letter_queue_records: Iterable[ProducedRecord] | None = None) -> Response:
        """Stop the task with an error."""
        return cls(Result.FAIL, tuple(dead_letter_queue_records or ()))

    @classmethod
    def retry(cls) -> Response:
        """Try the write again; only a production handler may say so, and only for errors that pass."""
        return cls(Result.RETRY)


def as_response(answer: Any, handler: Any, method: str = "handle_error") -> Response:
    """What a handler has answered: a `Response`, or its result alone.

    >>> as_response(Result.RESUME, object())
    Response(result=<Result.RESUME: 'RESUME'>, dead_letter_queue_records=())
    """
    if isinstance(answer, Result):
        return Response(answer)
    # Other objects with the same two attributes will do.
    if answer is None or not isinstance(getattr(answer, "result", None), Result):
        raise TypeError(
            f"{type(handler).__name__}.{method}() returned {answer!r}: "
            "it must return Response.resume(), Response.fail() or Response.retry()"
        )
    for record in answer.dead_letter_queue_records:
        _check_dead_letter(record, handler, method)
    return answer  # type: ignore[no-any-return]


def _check_dead_letter(record: Any, handler: Any, method: str) -> None:
    """The order of Java's ProducerRecord is another: what was shifted would be written as it is."""
    if (
        isinstance(record, ProducedRecord)
        and isinstance(record.topic, str)
        and (record.partition is None or isinstance(record.partition, int))
        and all(part is None or isinstance(part, bytes) for part in (record.key, record.value))
        and isinstance(record.timestamp, int)
    ):
        return
    raise TypeError(
        f"{type(handler).__name__}.{method}() has answered with the dead letter {record!r}: write "
        "ProducedRecord(topic, partition or None, key bytes, value bytes, timestamp, headers)"
    )


class ExceptionHandler:
    """What the three kinds of handlers share: they are given the application's configuration once, before use."""

    Response = Response
    Result = Result

    dead_letter_queue_topic: str | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take what is needed from the configuration."""
        topic = configs.get(DEAD_LETTER_TOPIC_CONFIG)
        if topic is not None:
            self.dead_letter_queue_topic = str(topic)

    def dead_letter_queue_records(self, context: ErrorHandlerContext, exception: Exception) -> tuple[ProducedRecord, ...]:
        """The failed input record for the configured dead letter topic; nothing where none is configured."""
        if self.dead_letter_queue_topic is None:
            return ()
        record = build_dead_letter_queue_record(
            self.dead_letter_queue_topic, context.source_raw_key, context.source_raw_value, context, exception
        )
        return (record,)


class DeserializationExceptionHandler(ExceptionHandler):
    """Decides on input records whose bytes cannot be read."""

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        """What to do with `record`, which failed with `exception`."""
        raise TypeError(f"{type(self).__name__} must implement handle_error(context, record, exception)")


class ProcessingExceptionHandler(ExceptionHandler):
    """Decides on records (None: a punctuator) during which a processor raised."""

    def handle_error(
        self, context: ErrorHandlerContext, record: FixedKeyRecord[Any, Any] | None, exception: Exception
    ) -> Response:
        """What to do with `record`, which failed with `exception`."""
        raise TypeError(f"{type(self).__name__} must implement handle_error(context, record, exception)")


class ProductionExceptionHandler(ExceptionHandler):
    """Decides on output records that cannot be serialized or written."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        """What to do with `record`, which the brokers did not take."""
        raise TypeError(f"{type(self).__name__} must implement handle_error(context, record, exception)")

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        """What to do with a record (here with key and value as objects) that a serializer refused."""
        return Response.fail()


class LogAndFailExceptionHandler(DeserializationExceptionHandler):
    """Logs the record that cannot be read, and fails: the default."""

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        """Fail."""
        _log_deserialization(logging.ERROR, context, record, exception)
        return Response.fail(self.dead_letter_queue_records(context, exception))


class LogAndContinueExceptionHandler(DeserializationExceptionHandler):
    """Logs the record that cannot be read, and goes on with the next."""

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        """Resume."""
        _log_deserialization(logging.WARNING, context, record, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))


class LogAndFailProcessingExceptionHandler(ProcessingExceptionHandler):
    """Logs the record that made a processor raise, and fails: the default."""

    def handle_error(
        self, context: ErrorHandlerContext, record: FixedKeyRecord[Any, Any] | None, exception: Exception
    ) -> Response:
        """Fail."""
        _log_processing(logging.ERROR, context, exception)
        return Response.fail(self.dead_letter_queue_records(context, exception))


class LogAndContinueProcessingExceptionHandler(ProcessingExceptionHandler):
    """Logs the record that made a processor raise, and goes on with the next."""

    def handle_error(
        self, context: ErrorHandlerContext, record: FixedKeyRecord[Any, Any] | None, exception: Exception
    ) -> Response:
        """Resume."""
        _log_processing(logging.WARNING, context, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))


class DefaultProductionExceptionHandler(ProductionExceptionHandler):
    """Fails, after a retry of what can pass (an error with a true `retriable` attribute): the default."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        """Retry what can pass, fail otherwise."""
        if is_retriable(exception):
            return Response.retry()
        return Response.fail(self.dead_letter_queue_records(context, exception))

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        """Fail."""
        return Response.fail(self.dead_letter_queue_records(context, exception))


class LogAndContinueProductionExceptionHandler(ProductionExceptionHandler):
    """Logs the record that cannot be written, and goes on without it."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        """Retry what can pass, resume otherwise."""
        if is_retriable(exception):
            return Response.retry()
        _log_production(context, record, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        """Resume."""
        _log_production(context, record, exception)
        return Response.resume(self.dead_letter_queue_records(context, exception))


def is_retriable(exception: BaseException) -> bool:
    """Whether the same write may succeed later.

    An error says so itself with a true `retriable` attribute, or a `retriable()` method as librdkafka's errors have.
    """
    retriable = getattr(exception, "retriable", False)
    return bool(retriable()) if callable(retriable) else bool(retriable)


def deserialization_exception_handler(configs: Mapping[str, Any]) -> DeserializationExceptionHandler:
    """The configured handler of input records that cannot be read, ready to use."""
    keys = ("deserialization.exception.handler", "default.deserialization.exception.handler")
    found = _configured(keys, configs, LogAndFailExceptionHandler, LogAndContinueExceptionHandler)
    return cast(DeserializationExceptionHandler, found)


def processing_exception_handler(configs: Mapping[str, Any]) -> ProcessingExceptionHandler:
    """The configured handler of errors in processors, ready to use."""
    keys = ("processing.exception.handler",)
    found = _configured(keys, configs, LogAndFailProcessingExceptionHandler, LogAndContinueProcessingExceptionHandler)
    return cast(ProcessingExceptionHandler, found)


def production_exception_handler(configs: Mapping[str, Any]) -> ProductionExceptionHandler:
    """The configured handler of output records that cannot be written, ready to use."""
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
    """The handler a configuration value stands for: an object, a class, an import path, or one of the short names."""
    allowed = f"allowed: log_and_fail, log_and_continue, an object with handle_error(), its class, or its import path {_PATH}"
    if value is None:
        return fail()
    if isinstance(value, str):
        # The class names are also Kafka's own, so a Java application's properties keep working.
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
