"""What would not work on Spark is noticed in the test driver, and when an application is made."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    ConfigError,
    Consumed,
    KafkaStreams,
    ProcessingExceptionHandler,
    Processor,
    Produced,
    Record,
    Response,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from penstock.testing import SharedVariableWarning

TEXT = Serdes.string()
HERE = Path(__file__).name
APPLICATION = {"application.id": "app", "bootstrap.servers": "localhost:1"}


def lock_in_a_closure() -> Topology:
    lock = threading.Lock()

    def guarded(value: str) -> str:
        with lock:
            return value

    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).map_values(guarded).to("out", Produced(TEXT, TEXT))
    return builder.build()


def lock_in_a_processor() -> Topology:
    lock = threading.Lock()

    class Guarded(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            with lock:
                self.context.forward(record)

    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).process(lambda: Guarded()).to("out", Produced(TEXT, TEXT))
    return builder.build()


@pytest.mark.parametrize("run", [TopologyTestDriver, lambda topology: KafkaStreams(topology, APPLICATION)])
@pytest.mark.parametrize("make", [lock_in_a_closure, lock_in_a_processor])
def test_should_name_the_operator_that_cannot_travel_before_anything_starts(
    make: Callable[[], Topology], run: Callable[[Topology], Any]
) -> None:
    with pytest.raises(TopologyError, match=rf"KSTREAM-.*-0000000001 \(added at .*{HERE}:\d+\) cannot be sent.*\(lock in "):
        run(make())


def test_should_name_the_node_of_a_topology_by_hand_that_cannot_travel() -> None:
    lock = threading.Lock()
    topology = Topology().add_source("s", "in").add_sink("t", lambda *record: str(lock), "s")
    with pytest.raises(TopologyError, match=rf"Sink t \(added at .*{HERE}:\d+\) cannot be sent to Spark's workers"):
        TopologyTestDriver(topology)


def test_should_name_the_store_that_cannot_travel() -> None:
    lock = threading.Lock()
    serde = Serdes.serde(lambda topic, value: str(lock).encode(), lambda topic, data: str(lock))
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), TEXT, serde)
    topology = Topology().add_source("s", "in").add_processor("p", Processor, "s").add_state_store(store, "p")
    with pytest.raises(TopologyError, match=rf"Store kept \(added at .*{HERE}:\d+\) cannot be sent to Spark's workers"):
        TopologyTestDriver(topology)


def test_should_name_the_setting_that_cannot_travel() -> None:
    class Handler(ProcessingExceptionHandler):
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
            return Response.resume()

    topology = Topology().add_source("s", "in").add_sink("t", "out", "s")
    with pytest.raises(ConfigError, match=r"The value of processing.exception.handler cannot be sent"):
        KafkaStreams(topology, {**APPLICATION, "processing.exception.handler": Handler()})


def piped(builder: StreamsBuilder) -> None:
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("a", "x"), ("a", "y")])


def test_should_warn_once_of_a_variable_that_a_function_changes_and_still_show_it() -> None:
    seen: list[str] = []
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).peek(lambda key, value: seen.append(value)).foreach(lambda key, value: None)
    with pytest.warns(SharedVariableWarning, match=rf"^seen, which .*KSTREAM-PEEK-.*\(added at .*{HERE}:\d+\)") as warned:
        piped(builder)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert seen == ["x", "y"]


def test_should_warn_of_a_counter_and_of_what_a_processor_changes() -> None:
    total, kept = 0, {"last": ""}

    def count(key: str, value: str) -> None:
        nonlocal total
        total += 1

    class Keeper(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            kept["last"] = record.value

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT)).peek(count)
    stream.process(Keeper)
    with pytest.warns(SharedVariableWarning) as warned:
        piped(builder)
    assert sorted(str(warning.message).partition(",")[0] for warning in warned) == ["kept", "total"]
    assert (total, kept) == (2, {"last": "y"})


def test_should_not_warn_of_variables_that_are_only_read() -> None:
    names, factor = {"x": "a long name"}, [2]
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).map_values(lambda value: names.get(value, value) * factor[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        piped(builder)


MADE: list[Any] = []


class Remembered(Processor[Any, Any, Any, Any]):
    """A processor whose objects are kept in a global list."""

    def __init__(self) -> None:
        MADE.append(self)

    def process(self, record: Record[Any, Any]) -> None:
        """Take the record."""


def test_should_look_into_a_class_whose_objects_are_in_a_global_list() -> None:
    Remembered()  # pickle writes `__slotnames__` to the class of the first object that it meets
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).process(Remembered)
    with pytest.warns(SharedVariableWarning, match="MADE"):
        piped(builder)
