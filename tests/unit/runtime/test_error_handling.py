"""Errors on the way of a record, and what the handlers make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.dead_letters import ErrorHandlerContext
from penstock.errors import ProcessingError, ProcessorStateError, ProductionError, StreamsError, TaskCorruptedError
from penstock.handlers import (
    DeserializationExceptionHandler,
    ProcessingExceptionHandler,
    ProductionExceptionHandler,
    Response,
    SerializationExceptionOrigin,
)
from penstock.processor import Processor, PunctuationType
from penstock.record import ProducedRecord, Record
from penstock.topology.topology import Topology

from .harness import LONG, TASK, Forwarder, Harness, config, pairs, pipeline


class Asked(ProcessingExceptionHandler):
    """Notes what it is asked, and goes on."""

    def __init__(self, response: Any = None) -> None:
        self.asked: list[tuple[ErrorHandlerContext, Any, Exception]] = []
        self.response = response or Response.resume()

    def handle_error(self, context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        self.asked.append((context, record, exception))
        if isinstance(self.response, Exception):
            raise self.response
        answer: Response = self.response
        return answer


class FailOn(Processor[Any, Any, Any, Any]):
    value = "bad"

    def process(self, record: Any) -> None:
        if record.value == self.value:
            raise ValueError(record.value)
        self.context.forward(record)


def open_with(topology: Topology, folder: Path, **settings: Any) -> Harness:
    harness = Harness(topology, folder, config(**settings))
    harness.open()
    return harness


def dropped(harness: Harness) -> float:
    value: float = harness.metrics.value("dropped-records-total", "stream-task-metrics", {"task-id": str(TASK)})
    return value


def test_should_go_on_without_a_record_that_made_a_processor_raise(tmp_path: Path) -> None:
    handler = Asked()
    harness = open_with(pipeline(Forwarder, FailOn, Forwarder), tmp_path, processing_exception_handler=handler)
    harness.add("in", ("a", "1", 1), ("a", "bad", 2), ("a", "3", 3))
    assert harness.task.process_all() == 3

    assert pairs(harness.commit().outputs) == [(b"a", b"1", 1), (b"a", b"3", 3)]
    ((context, record, error),) = handler.asked
    assert (context.topic, context.partition, context.offset, context.timestamp) == ("in", 1, 1, 2)
    assert (context.processor_node_id, context.task_id) == ("processor-1", TASK)
    assert (context.source_raw_key, context.source_raw_value) == (b"a", b"bad")
    assert record == Record("a", "bad", 2)
    assert isinstance(error, ValueError)
    assert dropped(harness) == 1


def test_should_ask_only_for_the_innermost_node_and_let_the_others_go_on(tmp_path: Path) -> None:
    handler = Asked()
    after: list[str] = []

    class Twice(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(record)
            after.append("went on")
            self.context.forward(record.with_value("good"))

    harness = open_with(pipeline(Twice, FailOn), tmp_path, processing_exception_handler=handler)
    harness.add("in", ("a", "bad", 1))
    harness.task.process_all()

    assert [context.processor_node_id for context, _, _ in handler.asked] == ["processor-1"]
    assert after == ["went on"]
    assert pairs(harness.commit().outputs) == [(b"a", b"good", 1)]


def test_should_ask_once_and_fail_with_the_users_error_as_cause(tmp_path: Path) -> None:
    handler = Asked(Response.fail())
    harness = open_with(pipeline(Forwarder, FailOn), tmp_path, processing_exception_handler=handler)
    harness.add("in", ("a", "bad", 1))
    with pytest.raises(ProcessingError, match="processor=processor-1") as caught:
        harness.task.process_all()
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(handler.asked) == 1


def test_should_fail_when_the_handler_itself_fails(tmp_path: Path) -> None:
    for response in (OSError("handler"), Response(None)):  # type: ignore[arg-type]
        handler = Asked(response)
        harness = open_with(pipeline(FailOn), tmp_path, processing_exception_handler=handler)
        harness.add("in", ("a", "bad", 1))
        with pytest.raises(ProcessingError, match="Fatal user code error in processing error callback") as caught:
            harness.task.process_all()
        assert isinstance(caught.value.__cause__, (OSError, TypeError))


def test_should_not_ask_about_errors_that_are_the_tasks_own(tmp_path: Path) -> None:
    class Corrupt(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            raise TaskCorruptedError("state is gone")

    handler = Asked()
    harness = open_with(pipeline(Corrupt), tmp_path, processing_exception_handler=handler)
    harness.add("in", ("a", "x", 1))
    with pytest.raises(TaskCorruptedError):
        harness.task.process_all()
    assert handler.asked == []


def test_should_write_dead_letters_with_the_outputs(tmp_path: Path) -> None:
    settings = {"processing_exception_handler": "log_and_continue", "errors_dead_letter_queue_topic_name": "dead"}
    harness = open_with(pipeline(FailOn), tmp_path, **settings)
    harness.add("in", ("a", "bad", 7))
    harness.task.process_all()

    (dead,) = harness.commit().outputs
    assert (dead.topic, dead.key, dead.value, dead.timestamp) == ("dead", b"a", b"bad", 7)
    assert dict(dead.headers)["__streams.errors.message"] == b"bad"


def test_should_ask_about_punctuators_without_a_record(tmp_path: Path) -> None:
    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.punctuate)

        def punctuate(self, timestamp: int) -> None:
            raise ValueError(timestamp)

    handler = Asked()
    harness = open_with(pipeline(Timed), tmp_path, processing_exception_handler=handler)
    harness.clock.advance(10)
    assert harness.task.maybe_punctuate_system_time()
    ((context, record, _),) = handler.asked
    assert (context.topic, context.partition, context.offset, context.timestamp, record) == (None, -1, -1, 1010, None)
    assert context.processor_node_id == "processor-0"
    assert dropped(harness) == 1

    handler.response = Response.fail()
    harness.clock.advance(10)
    with pytest.raises(ProcessingError, match="punctuating processor 'processor-0'") as caught:
        harness.task.maybe_punctuate_system_time()
    assert isinstance(caught.value.__cause__, ValueError)


def test_should_blame_the_node_below_a_punctuator(tmp_path: Path) -> None:
    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.STREAM_TIME, lambda time: context.forward(Record("k", "bad", time)))

    handler = Asked()
    harness = open_with(pipeline(Timed, FailOn), tmp_path, processing_exception_handler=handler)
    harness.add("in", ("a", "x", 1))
    harness.task.process_all()
    assert [context.processor_node_id for context, _, _ in handler.asked] == ["processor-1"]


class Writing(ProductionExceptionHandler):
    def __init__(self, response: Response) -> None:
        self.response = response
        self.asked: list[Any] = []

    def handle_error(self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception) -> Response:
        self.asked.append((record, exception))
        return self.response

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: ProducedRecord, exception: Exception, origin: SerializationExceptionOrigin
    ) -> Response:
        self.asked.append((context.processor_node_id, record.key, record.value, origin))
        return self.response


def typed_sink(part: str) -> Topology:
    serializers: Any = {f"{part}_serializer": LONG}
    return Topology().add_source("source", "in").add_sink("sink", "out", "source", **serializers)


@pytest.mark.parametrize("origin", list(SerializationExceptionOrigin))
def test_should_ask_about_records_that_cannot_be_serialized(tmp_path: Path, origin: SerializationExceptionOrigin) -> None:
    handler = Writing(Response.resume([ProducedRecord("dead", None, b"k", b"v", 0)]))
    harness = open_with(typed_sink(origin.value.lower()), tmp_path, production_exception_handler=handler)
    harness.add("in", ("a", "x", 1))
    harness.task.process_all()

    assert handler.asked == [("sink", "a", "x", origin)]
    assert [record.topic for record in harness.commit().outputs] == ["dead"]
    assert dropped(harness) == 1


@pytest.mark.parametrize("response", [Response.fail(), Response.retry()])
def test_should_fail_on_records_that_cannot_be_serialized(tmp_path: Path, response: Response) -> None:
    harness = open_with(typed_sink("value"), tmp_path, production_exception_handler=Writing(response))
    harness.add("in", ("a", "x", 1))
    with pytest.raises(ProductionError, match=r"serialize the value.*task 0_1, node sink.*topic=\[out\]"):
        harness.task.process_all()


def test_should_leave_the_error_of_a_sink_to_the_processor_before_it(tmp_path: Path) -> None:
    handler = Asked()
    topology = Topology().add_source("source", "in").add_processor("before", Forwarder, "source")
    topology.add_sink("sink", "out", "before", value_serializer=LONG)
    harness = open_with(topology, tmp_path, processing_exception_handler=handler)
    harness.add("in", ("a", "x", 1))
    harness.task.process_all()
    ((context, _, error),) = handler.asked
    assert context.processor_node_id == "before"
    assert isinstance(error, ProductionError)


def test_should_decide_on_records_the_brokers_refused(tmp_path: Path) -> None:
    class Passing(Exception):
        retriable = True

    record = ProducedRecord("out", None, b"k", b"v", 0)
    harness = open_with(pipeline(Forwarder), tmp_path, production_exception_handler=Writing(Response.resume()))
    harness.task.collector.handle_send_error(record, OSError("too large"))
    assert dropped(harness) == 1

    harness = open_with(pipeline(Forwarder), tmp_path)
    with pytest.raises(ProductionError, match="sending record to topic out for task 0_1"):
        harness.task.collector.handle_send_error(record, OSError("too large"))
    with pytest.raises(TaskCorruptedError):
        harness.task.collector.handle_send_error(record, Passing())


def test_should_fail_when_the_deserialization_handler_itself_fails(tmp_path: Path) -> None:
    class Broken(DeserializationExceptionHandler):
        def handle_error(self, context: Any, record: Any, exception: Exception) -> Any:
            raise KeyError("mine")

    harness = open_with(pipeline(Forwarder), tmp_path, default_value_serde=LONG, deserialization_exception_handler=Broken)
    with pytest.raises(StreamsError, match="Fatal user code error in deserialization error callback"):
        harness.add("in", ("a", "bad", 1))


def test_should_keep_the_users_error_of_a_flush(tmp_path: Path) -> None:
    from penstock.change import Change
    from penstock.state.builders import KeyValueStoreBuilder
    from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier

    from .harness import STRING

    class Table(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.get_state_store("table")
            node = context.current_node

            def forward(record: Record[Any, Change[Any]]) -> None:
                with context.at(node, context.record_context):
                    context.forward(Record(record.key, record.value.new_value, record.timestamp))

            self.store.set_flush_listener(forward, False)

        def process(self, record: Any) -> None:
            self.store.put(record.key, record.value)

    builder = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("table"), STRING, STRING).with_caching_enabled()
    topology = pipeline(Table, FailOn).add_state_store(builder, "processor-0")
    harness = open_with(topology, tmp_path)
    harness.add("in", ("a", "bad", 1))
    harness.task.process_all()
    with pytest.raises(ProcessorStateError, match="flush cache of state store table") as caught:
        harness.task.prepare_commit()
    assert isinstance(caught.value.__cause__, ValueError)
