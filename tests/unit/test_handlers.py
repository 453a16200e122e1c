from __future__ import annotations

from typing import Any

import pytest

from penstock import handlers
from penstock.dead_letters import ErrorHandlerContext, build_dead_letter_queue_record
from penstock.errors import ConfigError
from penstock.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndContinueProductionExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
    ProcessingExceptionHandler,
    Response,
    Result,
    SerializationExceptionOrigin,
)
from penstock.ids import TaskId
from penstock.record import ProducedRecord, RawRecord, Record

CONTEXT = ErrorHandlerContext("orders", 2, 41, (("h", b"1"),), "parse", TaskId(0, 2), 7, b"raw key", b"raw value")
RAW = RawRecord("orders", 2, 41, 7, b"raw key", b"raw value")
PRODUCED = ProducedRecord("out", None, b"k", b"v", 7)


class Mine(DeserializationExceptionHandler):
    configured: Any = None

    def configure(self, configs: Any) -> None:
        self.configured = configs

    def handle_error(self, context: ErrorHandlerContext, record: RawRecord, exception: Exception) -> Response:
        return Response.resume()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, LogAndFailExceptionHandler),
        ("log_and_fail", LogAndFailExceptionHandler),
        ("log_and_continue", LogAndContinueExceptionHandler),
        ("LogAndContinueExceptionHandler", LogAndContinueExceptionHandler),
        ("org.apache.kafka.streams.errors.LogAndContinueExceptionHandler", LogAndContinueExceptionHandler),
        ("penstock.handlers.LogAndContinueExceptionHandler", LogAndContinueExceptionHandler),
        ("penstock.handlers:LogAndFailExceptionHandler", LogAndFailExceptionHandler),
        (LogAndContinueExceptionHandler, LogAndContinueExceptionHandler),
        (LogAndContinueExceptionHandler(), LogAndContinueExceptionHandler),
        (Mine, Mine),
        (Mine(), Mine),
    ],
)
def test_should_find_the_handler_a_value_stands_for(value: Any, expected: type) -> None:
    configs = {"deserialization.exception.handler": value, "user": 1}
    handler = handlers.deserialization_exception_handler(configs)
    assert type(handler) is expected
    if isinstance(handler, Mine):
        assert handler.configured is configs


def test_should_import_a_handler_by_its_path(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_handlers.py").write_text(
        "from penstock.handlers import *\nclass Mine(ProcessingExceptionHandler):\n"
        "    def handle_error(self, context, record, exception): return Response.resume()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    handler = handlers.processing_exception_handler({"processing.exception.handler": "my_handlers.Mine"})
    assert isinstance(handler, ProcessingExceptionHandler)
    assert type(handler).__name__ == "Mine"


def test_should_take_the_old_key_where_the_new_one_is_not_set() -> None:
    handler = handlers.production_exception_handler({"default.production.exception.handler": "log_and_continue"})
    assert type(handler) is LogAndContinueProductionExceptionHandler
    assert type(handlers.production_exception_handler({})) is DefaultProductionExceptionHandler
    assert type(handlers.processing_exception_handler({})) is LogAndFailProcessingExceptionHandler


@pytest.mark.parametrize("value", ["no.such.module.Handler", "os.path.join", "nonsense", 5, object()])
def test_should_refuse_what_is_no_handler(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"processing\.exception\.handler.*log_and_continue"):
        handlers.processing_exception_handler({"processing.exception.handler": value})


def test_should_fail_or_resume_without_dead_letters_by_default() -> None:
    error = ValueError("bad")
    assert LogAndFailExceptionHandler().handle_error(CONTEXT, RAW, error) == Response(Result.FAIL)
    assert LogAndContinueExceptionHandler().handle_error(CONTEXT, RAW, error) == Response(Result.RESUME)
    record = Record("k", "v", 0)
    assert LogAndFailProcessingExceptionHandler().handle_error(CONTEXT, record, error) == Response(Result.FAIL)
    assert LogAndContinueProcessingExceptionHandler().handle_error(CONTEXT, None, error) == Response(Result.RESUME)
    for origin in SerializationExceptionOrigin:
        default = DefaultProductionExceptionHandler().handle_serialization_error(CONTEXT, PRODUCED, error, origin)
        resuming = LogAndContinueProductionExceptionHandler().handle_serialization_error(CONTEXT, PRODUCED, error, origin)
        assert (default.result, resuming.result) == (Result.FAIL, Result.RESUME)


class Passing(Exception):
    def __init__(self, retriable: Any) -> None:
        super().__init__("passes")
        self.retriable = retriable


@pytest.mark.parametrize("retriable", [True, lambda: True])
def test_should_retry_writes_that_can_pass(retriable: Any) -> None:
    for handler in (DefaultProductionExceptionHandler(), LogAndContinueProductionExceptionHandler()):
        assert handler.handle_error(CONTEXT, PRODUCED, Passing(retriable)).result is Result.RETRY
    assert DefaultProductionExceptionHandler().handle_error(CONTEXT, PRODUCED, Passing(False)).result is Result.FAIL
    assert LogAndContinueProductionExceptionHandler().handle_error(CONTEXT, PRODUCED, OSError()).result is Result.RESUME


@pytest.mark.parametrize(
    "handle",
    [
        handlers.deserialization_exception_handler,
        handlers.processing_exception_handler,
        handlers.production_exception_handler,
    ],
)
def test_should_write_dead_letters_to_the_configured_topic(handle: Any) -> None:
    handler = handle({"errors.dead.letter.queue.topic.name": "dead"})
    (record,) = handler.handle_error(CONTEXT, RAW, ValueError("bad")).dead_letter_queue_records
    assert (record.topic, record.partition, record.key, record.value, record.timestamp) == (
        "dead",
        None,
        b"raw key",
        b"raw value",
        7,
    )


def test_should_describe_the_error_in_kafka_streams_headers() -> None:
    try:
        raise ConfigError("schlecht: ü")
    except ConfigError as exc:
        record = build_dead_letter_queue_record("dead", None, b"v", CONTEXT, exc)
    names = [name for name, _ in record.headers]
    assert names == [
        "h",
        "__streams.errors.exception",
        "__streams.errors.message",
        "__streams.errors.stacktrace",
        "__streams.errors.topic",
        "__streams.errors.partition",
        "__streams.errors.offset",
    ]
    headers = dict(record.headers)
    assert headers["__streams.errors.exception"] == b"penstock.errors.ConfigError"
    assert headers["__streams.errors.message"] == "schlecht: ü".encode()
    assert b"raise ConfigError" in (headers["__streams.errors.stacktrace"] or b"")


def test_should_have_no_topic_in_a_dead_letter_of_a_punctuator() -> None:
    context = ErrorHandlerContext(None, -1, -1, (), "node", TaskId(0, 0), 5)
    headers = dict(build_dead_letter_queue_record("dead", None, None, context, ValueError()).headers)
    assert headers["__streams.errors.topic"] is None
    assert headers["__streams.errors.offset"] == b"-1"


def test_should_keep_user_data_out_of_the_log_text() -> None:
    assert "raw" not in str(CONTEXT)
    assert "orders" in str(CONTEXT)


class Bare(ProcessingExceptionHandler):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def handle_error(self, context: Any, record: Any, exception: Exception) -> Any:
        return self.answer


@pytest.mark.parametrize("result", [Result.RESUME, Result.FAIL])
def test_should_take_a_result_alone_for_a_response(result: Result) -> None:
    assert handlers.as_response(result, Bare(result)) == Response(result)


@pytest.mark.parametrize("answer", [None, True, "RESUME"])
def test_should_say_what_a_handler_must_return(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"Bare.handle_error\(\) returned .*Response.resume\(\)"):
        handlers.as_response(answer, Bare(answer))


@pytest.mark.parametrize(
    "letter",
    [
        ProducedRecord("dead", 0, 7, b"k", b"v"),  # type: ignore[arg-type]
        ProducedRecord("dead", b"k", b"v", 7, ()),  # type: ignore[arg-type]
        ProducedRecord("dead", None, "k", "v", 7),  # type: ignore[arg-type]
        RAW,
    ],
    ids=["Java's order", "without a partition", "text", "another record"],
)
def test_should_refuse_a_dead_letter_with_shifted_arguments(letter: Any) -> None:
    with pytest.raises(TypeError, match=r"expected ProducedRecord\(topic, partition or None, key bytes, value bytes, timestamp"):
        handlers.as_response(Response.resume([letter]), Bare(None))
    assert handlers.as_response(Response.resume([PRODUCED]), Bare(None)).dead_letter_queue_records == (PRODUCED,)


def test_should_refuse_a_handler_without_its_method_before_anything_fails() -> None:
    class Named(ProcessingExceptionHandler):
        def handle(self, context: Any, record: Any, exception: Exception) -> Response:
            return Response.resume()

    with pytest.raises(ConfigError, match=r"Named lacks its method handle_error\(context, record, exception\)"):
        handlers.processing_exception_handler({"processing.exception.handler": Named})
