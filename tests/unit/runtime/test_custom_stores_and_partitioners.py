"""What people extend: a store that holds writes back, a partitioner that looks at headers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Consumed,
    KeyValueBytesStoreSupplier,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    StateStore,
    StateStoreContext,
    StoreBuilder,
    Stores,
    StreamPartitioner,
    StreamsBuilder,
    TaskId,
    TopicPartition,
    TopologyError,
    TopologyTestDriver,
)
from penstock.handlers import LogAndFailExceptionHandler
from penstock.runtime.collector import RecordCollector
from penstock.runtime.sink_format import SinkFormat
from penstock.state.engines.memory import InMemoryKeyValueStore

TEXT = Serdes.string()
EVENTS: list[str] = []


class Buffered(StateStore):
    """A store of one's own that tells what is asked of it."""

    name = "buffered"
    persistent = False
    is_open = True

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        context.register(root, lambda record: None)

    def put(self, key: str) -> None:
        EVENTS.append(f"put {key}")

    def flush(self) -> None:
        EVENTS.append("flush")

    def commit(self, changelog_offsets: Any) -> None:
        EVENTS.append("commit")

    def close(self) -> None:
        EVENTS.append("close")


class BufferedBuilder(StoreBuilder[Buffered]):
    name = "buffered"
    logging_enabled = False
    caching_enabled = False
    log_config: Any = {}  # noqa: RUF012

    def build(self) -> Buffered:
        return Buffered()

    def with_logging_enabled(self, config: Any) -> BufferedBuilder:
        return self

    def with_logging_disabled(self) -> BufferedBuilder:
        return self

    def with_caching_enabled(self) -> BufferedBuilder:
        return self

    def with_caching_disabled(self) -> BufferedBuilder:
        return self


class Writer(Processor[str, str, str, str]):
    def __init__(self, store: str) -> None:
        self.name = store

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.store = context.get_state_store(self.name)

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key) if self.name == "buffered" else self.store.put(record.key, record.value)


def test_should_flush_a_store_of_ones_own_before_the_commit() -> None:
    EVENTS.clear()
    builder = StreamsBuilder().add_state_store(BufferedBuilder())
    builder.stream("in", Consumed(TEXT, TEXT)).process(lambda: Writer("buffered"), "buffered")
    with TopologyTestDriver(builder.build()) as driver:
        EVENTS.clear()
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x")
        assert EVENTS == ["put a", "flush", "commit"]


class Telling(InMemoryKeyValueStore):
    def flush(self) -> None:
        EVENTS.append(f"flush {self.name}")


class TellingSupplier(KeyValueBytesStoreSupplier):
    name = "bytes"
    metrics_scope = "telling"

    def get(self) -> KeyValueStore[bytes, bytes]:
        return Telling(self.name)


def test_should_flush_a_store_of_bytes_below_its_layers() -> None:
    EVENTS.clear()
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(TellingSupplier(), TEXT, TEXT).with_caching_enabled())
    builder.stream("in", Consumed(TEXT, TEXT)).process(lambda: Writer("bytes"), "bytes")
    with TopologyTestDriver(builder.build()) as driver:
        EVENTS.clear()
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x")
        assert EVENTS == ["flush bytes"]


class ByHeader(StreamPartitioner[str, str]):
    def partitions(self, topic: str, key: str, value: str, headers: Any, number_of_partitions: int) -> int:  # type: ignore[override]
        return int(dict(headers)["to"]) % number_of_partitions


class ByKey(StreamPartitioner[str, str]):
    def partitions(self, topic: str, key: str, value: str, number_of_partitions: int) -> int:  # type: ignore[override]
        return len(key) % number_of_partitions


@pytest.mark.parametrize(
    ("partitioner", "partition"),
    [
        (ByHeader(), 3),
        (ByKey(), 1),
        (lambda topic, key, value, headers, count: int(dict(headers)["to"]), 3),
        (lambda topic, key, value, count: count - 1, 4),
    ],
    ids=["class with headers", "class", "function with headers", "function"],
)
def test_should_give_headers_to_a_partitioner_that_takes_them(partitioner: Any, partition: int) -> None:
    task = TaskId(0, 0)
    collector = RecordCollector(task, LogAndFailExceptionHandler(), None, lambda topic: 5)  # type: ignore[arg-type]
    serialize = TEXT.serializer
    record = Record("k", "v", 7, (("to", b"3"),))
    collector.send("out", record, SinkFormat(serialize, serialize, "sink", None, partitioner))
    ((written,), _) = collector.drain()
    assert TopicPartition(written.topic, written.partition) == TopicPartition("out", partition)  # type: ignore[union-attr,arg-type]


def test_should_write_through_a_partitioner_of_a_class() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).to("out", Produced(TEXT, TEXT, ByHeader()))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", headers=[("to", b"0")])
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_value() == ("a", "x")


class NoStore:
    name = "buffered"


class NoStoreBuilder(BufferedBuilder):
    def build(self) -> Any:
        return NoStore()


def test_should_say_what_a_builder_gave_that_is_no_store() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(NoStoreBuilder())
    builder.stream("in", Consumed(TEXT, TEXT)).process(lambda: Writer("buffered"), "buffered")
    with pytest.raises(TopologyError, match=r"store buffered \(NoStoreBuilder\) gave a NoStore, .* subclass of StateStore"):
        TopologyTestDriver(builder.build())
