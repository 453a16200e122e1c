"""Callbacks of the user in workers: what each raises, at its first call and at later ones, reaches the driver as the user's own.

One topology calls all of them. The task is real; the error travels from the worker to the driver as it does from a thread.
`tests/unit/client/test_callbacks.py` has the callbacks in the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Branched,
    Consumed,
    FixedKeyProcessor,
    Grouped,
    KeyValueBytesStoreSupplier,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Response,
    Serde,
    Serdes,
    SessionWindows,
    StoreBuilder,
    StreamsBuilder,
    TimeWindows,
)
from penstock.client.scheduling.failures import error_of, is_transient
from penstock.config.keys import KEYS, Type
from penstock.errors import StreamsError
from penstock.handlers import DeserializationExceptionHandler, ProcessingExceptionHandler, ProductionExceptionHandler
from penstock.spark.messages import Failure
from penstock.spark.raised import Raised
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.rocksdb_options import RocksDBConfigSetter
from penstock.state.store import StateStore
from penstock.wire import Codec
from tests.unit.runtime.harness import Harness, config, set_threshold

RECORDS = 480
TEXT = Serdes.string()
CALLS: Counter[str] = Counter()
RAISES: dict[str, int] = {}


class Away(Exception):
    """What a callback raises."""


def called(name: str, value: Any = None) -> Any:
    """Count the call of a callback; raise where it is the one that is to."""
    CALLS[name] += 1
    if RAISES.get(name) == CALLS[name]:
        raise Away(name)
    return value


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def is_of_callback(error: BaseException) -> bool:
    """Whether an error is not one of the bad records."""
    return any(isinstance(cause, Away) for cause in causes(error))


class OwnSerde(Serde[str]):
    """Text; `bad bytes` cannot be read, `bad value` cannot be written."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def serialize(self, topic: str, value: str) -> bytes:
        if value == "bad value":
            raise ValueError(value)
        return called(f"{self.name} serializer", value.encode())

    def deserialize(self, topic: str, data: bytes) -> str:
        if data == b"bad bytes":
            raise ValueError("bad bytes")
        return called(f"{self.name} deserializer", data.decode())


class OwnStore(StateStore):
    name, persistent, is_open = "own", False, True

    def init(self, context: Any, root: StateStore) -> None:
        called("store init")
        context.register(root, lambda record: None)

    def put(self, key: Any) -> None:
        called("store method")

    def flush(self) -> None:
        called("store flush")

    def commit(self, changelog_offsets: Any) -> None:
        called("store commit")

    def close(self) -> None:
        called("store close")


class OwnBuilder(StoreBuilder[OwnStore]):
    name, logging_enabled, caching_enabled = "own", False, False
    log_config: Any = {}  # noqa: RUF012

    def build(self) -> OwnStore:
        return called("store builder", OwnStore())

    def with_logging_enabled(self, config: Any) -> OwnBuilder:
        return self

    def with_logging_disabled(self) -> OwnBuilder:
        return self

    def with_caching_enabled(self) -> OwnBuilder:
        return self

    def with_caching_disabled(self) -> OwnBuilder:
        return self


class OwnBytes(InMemoryKeyValueStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        called("bytes store put")
        super().put(key, value)


class OwnSupplier(KeyValueBytesStoreSupplier):
    name, metrics_scope = "own-bytes", "own"

    def get(self) -> OwnBytes:
        return called("store supplier", OwnBytes(self.name))


class OwnSetter(RocksDBConfigSetter):
    def set_config(self, store_name: str, options: Any, configs: Any) -> None:
        called("rocksdb config setter")


class OwnProcessor(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        super().init(context)
        called("processor init")
        self.store = context.get_state_store("own")
        context.schedule(1, PunctuationType.STREAM_TIME, lambda now: called("stream-time punctuator"))
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, lambda now: called("wall-clock punctuator"))

    def process(self, record: Any) -> None:
        self.store.put(record.key)
        called("processor process")
        self.context.forward(record)

    def close(self) -> None:
        called("processor close")


class OwnValues(FixedKeyProcessor[str, str, str]):
    def process(self, record: Any) -> None:
        self.context.forward(called("fixed-key processor", record))


class Reads(DeserializationExceptionHandler):
    def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
        if is_of_callback(exception):
            return Response.fail()
        return called("deserialization handler", Response.resume())


class Processes(ProcessingExceptionHandler):
    def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
        if is_of_callback(exception):
            return Response.fail()
        return called("processing handler", Response.resume())


class Writes(ProductionExceptionHandler):
    def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
        return Response.fail()

    def handle_serialization_error(self, context: Any, record: Any, exception: Exception, origin: Any) -> Response:
        if is_of_callback(exception):
            return Response.fail()
        return called("production handler", Response.resume())


def fail_on_bad_records(value: str) -> str:
    if value == "bad record":
        raise ValueError(value)
    return called("value mapper", value)


def build() -> Any:
    def timestamp(record: Any, partition_time: int) -> int:
        return called("timestamp extractor", record.timestamp)

    def topic(key: str, value: str, context: Any) -> str:
        return called("topic name extractor", "out")

    def partition(topic: str, key: str, value: str, count: int) -> int:
        return called("partitioner", 0)

    def adder(name: str) -> Callable[..., str]:
        return lambda key, value, total: called(name, value)

    builder = StreamsBuilder()
    builder.add_state_store(OwnBuilder())
    key, value = OwnSerde("key"), OwnSerde("value")
    stream = builder.stream("in", Consumed(key, value, timestamp_extractor=timestamp))
    stream = stream.map_values(fail_on_bad_records).filter(lambda k, v: called("predicate", True))
    stream = stream.flat_map_values(lambda v: called("flat mapper", [v])).peek(lambda k, v: called("peek"))
    stream.foreach(lambda k, v: called("foreach"))
    stream.split().branch(lambda k, v: called("branch", True), Branched(consumer=lambda s: s.foreach(lambda k, v: None)))
    stream.process(lambda: called("processor supplier", OwnProcessor()), "own").foreach(lambda k, v: None)
    stream.process_values(lambda: called("fixed-key processor supplier", OwnValues())).foreach(lambda k, v: None)
    stream.to(topic, Produced(OwnSerde("sink key"), OwnSerde("sink value"), partition))
    grouped = stream.filter_not(lambda k, v: v == "bad value").group_by_key(Grouped(key_serde=TEXT, value_serde=TEXT))
    store_serde = OwnSerde("store value")
    grouped.aggregate(
        lambda: called("initializer", ""),
        adder("aggregator"),
        Materialized(supplier=OwnSupplier(), key_serde=TEXT, value_serde=store_serde, caching=False),
    )
    grouped.reduce(lambda old, new: called("reducer", new), Materialized("reduced", key_serde=TEXT, value_serde=TEXT))
    windowed = Materialized("windowed", key_serde=TEXT, value_serde=TEXT)
    grouped.windowed_by(TimeWindows(10, grace=1000)).aggregate(lambda: "", adder("window aggregator"), windowed)
    sessions = Materialized("sessions", key_serde=TEXT, value_serde=TEXT)
    grouped.windowed_by(SessionWindows(1000, grace=1000)).aggregate(
        lambda: "", adder("session aggregator"), lambda key, one, other: called("merger", one), sessions
    )
    table = builder.table("table", Consumed(TEXT, TEXT), materialized=Materialized("table-store", caching=False))
    table.filter(lambda k, v: called("table predicate", True)).map_values(lambda v: called("table mapper", v))
    stream.join(table, lambda one, other: called("joiner", one)).foreach(lambda k, v: None)
    stream.left_join(table, lambda one, other: called("left joiner", one)).foreach(lambda k, v: None)
    return builder.build()


CONFIG = {
    "deserialization_exception_handler": Reads(),
    "processing_exception_handler": Processes(),
    "production_exception_handler": Writes(),
    "rocksdb_config_setter": OwnSetter,
}
BAD = {1: "bad bytes", 2: "bad record", 3: "bad value"}


def drive(folder: Path, *, columns: bool, openings: int = 1, count: int = RECORDS, raises: Any = ()) -> None:
    """Open the task, give it records of which some are bad, let timers fire, commit, and close it."""
    harness = Harness(build(), folder, config(**CONFIG))
    CALLS.clear()  # suppliers are tried while the topology is built, where the user's program sees what they raise
    RAISES.update(raises)
    harness.topic_partitions = {"out": 3}
    for opening in range(openings):
        harness.open()
        set_threshold(harness.task, 1 if columns else 10**9)
        first = opening * count
        harness.add("table", *((f"k{i % 7}", "t", i) for i in range(first, first + count)), first_offset=first)
        records = [(f"k{i % 7}", BAD.get(i % 4, "good"), i) for i in range(first, first + count)]
        harness.add("in", *records, first_offset=first)
        while harness.task.process_all():
            harness.task.maybe_punctuate_stream_time()
        for _ in range(120):
            harness.clock.advance(1)
            harness.task.maybe_punctuate_system_time()
        harness.commit()
        harness.task.suspend()
        harness.task.close_clean()


PER_OPENING = (
    "fixed-key processor supplier",
    "processor close",
    "processor init",
    "processor supplier",
    "rocksdb config setter",
    "store builder",
    "store close",
    "store commit",
    "store flush",
    "store init",
    "store supplier",
    "stream-time punctuator",
)
PER_RECORD = (
    "aggregator",
    "branch",
    "bytes store put",
    "deserialization handler",
    "fixed-key processor",
    "flat mapper",
    "foreach",
    "joiner",
    "key deserializer",
    "left joiner",
    "merger",
    "partitioner",
    "peek",
    "predicate",
    "processing handler",
    "processor process",
    "production handler",
    "reducer",
    "session aggregator",
    "sink key serializer",
    "sink value serializer",
    "store method",
    "store value serializer",
    "table mapper",
    "table predicate",
    "timestamp extractor",
    "topic name extractor",
    "value deserializer",
    "value mapper",
    "wall-clock punctuator",
    "window aggregator",
)
FEW = ("initializer", "store value deserializer")


@pytest.fixture(autouse=True)
def nothing_called() -> Iterator[None]:
    CALLS.clear()
    RAISES.clear()
    yield
    RAISES.clear()


def arrived(error: BaseException) -> BaseException:
    """An error as the driver has it, which a worker has met."""
    codec = Codec(Failure, Raised)
    return error_of(codec.decode(codec.encode(Failure.of(error))))


def check(folder: Path, name: str, at: int, *, columns: bool, openings: int = 1, count: int = RECORDS) -> None:
    with pytest.raises((StreamsError, Away)) as raised:
        drive(folder, columns=columns, openings=openings, count=count, raises={name: at})
    error = arrived(raised.value)
    assert not is_transient(error), "it would be tried again instead of being told"
    assert [cause.args for cause in causes(error) if isinstance(cause, Away)] == [(name,)]


COLUMNS = pytest.mark.parametrize("columns", [True, False], ids=["columns", "records"])


@COLUMNS
def test_should_call_all_callbacks(tmp_path: Path, columns: bool) -> None:
    drive(tmp_path, columns=columns)
    assert sorted(CALLS) == sorted((*PER_OPENING, *PER_RECORD, *FEW))
    assert {name: count for name, count in CALLS.items() if name in PER_RECORD and count < 100} == {}


@COLUMNS
@pytest.mark.parametrize("at", [1, 100], ids=["first", "hundredth"])
@pytest.mark.parametrize("name", PER_RECORD)
def test_should_tell_the_driver_what_a_callback_for_records_raises(tmp_path: Path, name: str, at: int, columns: bool) -> None:
    check(tmp_path, name, at, columns=columns)


@COLUMNS
@pytest.mark.parametrize("name", FEW)
def test_should_tell_the_driver_what_a_callback_for_keys_raises(tmp_path: Path, name: str, columns: bool) -> None:
    check(tmp_path, name, 1, columns=columns)


@pytest.mark.parametrize("opening", [1, 3], ids=["first", "third"])
@pytest.mark.parametrize("name", PER_OPENING)
def test_should_tell_the_driver_what_a_callback_of_an_opening_raises(tmp_path: Path, name: str, opening: int) -> None:
    drive(tmp_path / "counted", columns=True, count=8)
    at = (opening - 1) * CALLS[name] + 1
    check(tmp_path, name, at, columns=True, openings=opening, count=8)


def test_should_know_every_setting_that_names_a_callback() -> None:
    """Whoever adds a setting that takes a callback sees to it that a test lets it raise."""
    here = {"default.timestamp.extractor", "rocksdb.config.setter", "default.key.serde", "default.value.serde"}
    here |= {f"{kind}.exception.handler" for kind in ("deserialization", "processing", "production")}
    here |= {f"default.{kind}.exception.handler" for kind in ("deserialization", "production")}
    elsewhere = {
        "task.assignor.class",  # tests/unit/client/test_custom_assignment.py
        "processor.wrapper.class",  # called by KafkaStreams(…), which raises
        "dsl.store.suppliers.class",  # called by KafkaStreams(…), which raises
        "default.client.supplier",  # tests/unit/kafka/test_client_supplier.py
        "sasl.oauthbearer.token.provider",  # tests/unit/kafka/test_tokens.py
    }
    not_called = {
        *("default.list.key.serde.inner", "default.list.value.serde.inner", "windowed.inner.class.serde"),  # by serdes above
        *("default.list.key.serde.type", "default.list.value.serde.type"),  # without effect
    }
    assert {
        key.name for key in KEYS.values() if key.type in (Type.CLASS, Type.FUNCTION, Type.HANDLER)
    } == here | elsewhere | not_called
