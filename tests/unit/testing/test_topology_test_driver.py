from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Grouped, Materialized, Produced, StreamsBuilder, TestRecord
from penstock.errors import (
    DeserializationError,
    NoSuchElementError,
    PenstockError,
    ProcessingError,
    ProcessorStateError,
    StreamsError,
    TopologyError,
)
from penstock.processor import Processor, PunctuationType
from penstock.record import Record
from penstock.serdes.serde import Serdes
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.testing import TestInputTopic, TestOutputTopic, TopologyTestDriver
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.topology.topology import Topology
from penstock.windows import TimeWindows

STRING = Serdes.string()
LONG = Serdes.long()
DEFAULTS = {"default.key.serde": STRING, "default.value.serde": STRING}
APPLICATION = "dummy-topology-test-driver-app-id"


class Forwarder(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Upper(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(record.value.upper()))


class Count(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("counts")

    def process(self, record: Any) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(str(count)))


def copy() -> Topology:
    return Topology().add_source("source", "in").add_sink("sink", "out", "source")


def counting(persistent: bool = False) -> Topology:
    supplier = Stores.persistent_key_value_store("counts") if persistent else Stores.in_memory_key_value_store("counts")
    topology = Topology().add_source("source", "in").add_processor("count", Count, "source").add_sink("sink", "out", "count")
    return topology.add_state_store(Stores.key_value_store_builder(supplier, STRING, LONG), "count")


def topics(driver: TopologyTestDriver) -> tuple[TestInputTopic[Any, Any], TestOutputTopic[Any, Any]]:
    return driver.create_input_topic("in", STRING, STRING), driver.create_output_topic("out", STRING, STRING)


def test_should_process_a_record_before_the_call_returns() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        source, sink = topics(driver)
        source.pipe_input("k", "v", timestamp=7, headers=[("h", b"1")])
        assert (sink.queue_size, sink.is_empty) == (1, False)
        assert sink.read_record() == Record("k", "v", 7, (("h", b"1"),))
        assert (sink.queue_size, sink.is_empty) == (0, True)
        assert driver.produced_topic_names() == {"out"}


def test_should_take_input_in_every_form() -> None:
    with TopologyTestDriver(copy(), DEFAULTS, initial_wall_clock_time=100) as driver:
        source, sink = topics(driver)
        source.pipe_input("k", "1")
        source.pipe_input("2")
        source.pipe_value("3", timestamp=5)
        source.pipe_input(Record("k", "4", 6, (("h", None),)))
        source.pipe_key_values([("a", "5"), ("b", "6")])
        source.pipe_key_values([("a", "7"), ("b", None)], start_timestamp=10, advance=timedelta(seconds=1))
        source.pipe_values(["8", "9"], start_timestamp=20, advance=5)
        source.pipe_records([Record("k", "10", 30)])
        source.pipe_input("k", "11", timestamp=datetime.fromtimestamp(0.04, tz=timezone.utc))
        source.pipe_input(None, None)

        assert [(r.key, r.value, r.timestamp) for r in sink.read_records()] == [
            ("k", "1", 100),
            (None, "2", 100),
            (None, "3", 5),
            ("k", "4", 6),
            ("a", "5", 100),
            ("b", "6", 100),
            ("a", "7", 10),
            ("b", None, 1010),
            (None, "8", 20),
            (None, "9", 25),
            ("k", "10", 30),
            ("k", "11", 40),
            (None, None, 100),
        ]


def test_should_start_now_unless_told_otherwise() -> None:
    before = time.time_ns() // 1_000_000
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        after = time.time_ns() // 1_000_000
        driver.advance_wall_clock_time(timedelta(days=1))
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "1")
        day = 86_400_000
        assert before + day <= driver.create_output_topic("out", STRING, STRING).read_record().timestamp <= after + day


def test_should_move_the_topics_time() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        source = driver.create_input_topic("in", STRING, STRING, start_timestamp=50, auto_advance=timedelta(milliseconds=10))
        sink = driver.create_output_topic("out", STRING, STRING)
        source.pipe_values(["a", "b"])
        source.advance_time(1000)
        source.pipe_value("c")
        source.pipe_value("own", timestamp=1)
        source.pipe_value("d")
        assert [record.timestamp for record in sink.read_records()] == [50, 60, 1070, 1, 1080]
        with pytest.raises(ValueError, match="advance must not be negative"):
            source.advance_time(-1)
        with pytest.raises(ValueError, match="auto_advance must not be negative"):
            driver.create_input_topic("in", STRING, STRING, auto_advance=-1)


def test_should_read_output_in_every_form() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        source, sink = topics(driver)
        source.pipe_key_values([("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("c", "5")])
        assert sink.read_value() == "1"
        assert sink.read_key_value() == ("b", "2")
        assert sink.read_key_values_to_map() == {"a": "3", "c": "5"}
        source.pipe_key_values([("a", "1"), ("b", "2")])
        assert sink.read_key_values() == [("a", "1"), ("b", "2")]
        source.pipe_values(["1", "2"])
        assert sink.read_values() == ["1", "2"]
        source.pipe_value("1")
        with pytest.raises(ValueError, match="without a key"):
            sink.read_key_values_to_map()


def test_should_say_that_there_is_nothing_to_read() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        source, sink = topics(driver)
        with pytest.raises(NoSuchElementError, match="Uninitialized topic: out"):
            sink.read_value()
        source.pipe_value("x")
        sink.read_value()
        with pytest.raises(LookupError, match="Empty topic: out"):
            sink.read_record()
        assert sink.read_records() == []


def test_should_refuse_an_unknown_input_topic() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver, pytest.raises(TopologyError, match=r"Unknown topic: other.*reads: in"):
        driver.create_input_topic("other", STRING, STRING).pipe_value("x")


def test_should_refuse_topics_without_serdes() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        with pytest.raises(ValueError, match="topic in needs a value_serde"):
            driver.create_input_topic("in", STRING, None)
        with pytest.raises(ValueError, match="topic out needs a key_serde and a value_serde"):
            driver.create_output_topic("out", None, STRING)


def test_should_not_be_collected_by_pytest() -> None:
    for kind in (TopologyTestDriver, TestInputTopic, TestOutputTopic):
        assert kind.__test__ is False


def test_should_go_through_repartition_topics_to_the_end() -> None:
    topology = Topology().add_source("source", "in").add_processor("upper", Upper, "source")
    topology.internal_topology_builder.add_internal_topic("again-repartition", InternalTopicProperties(None))
    topology.add_sink("repartition-sink", "again-repartition", "upper")
    topology.add_source("repartition-source", "again-repartition").add_sink("sink", "out", "repartition-source")
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        source, sink = topics(driver)
        source.pipe_input("k", "v")
        assert sink.read_key_value() == ("k", "V")
        internal = driver.create_output_topic(f"{APPLICATION}-again-repartition", Serdes.bytes(), Serdes.bytes())
        assert internal.read_key_value() == (b"k", b"V")


def test_should_process_records_of_a_repartition_topic_by_time() -> None:
    class Split(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            for timestamp in (30, 10, 20):
                child = "to-a" if timestamp == 10 else "to-b"
                self.context.forward(record.with_timestamp(timestamp), child)

    topology = Topology().add_source("source", "in").add_processor("split", Split, "source")
    topology.add_sink("to-a", "a", "split").add_sink("to-b", "b", "split")
    topology.add_source("from-a", "a").add_source("from-b", "b").add_sink("sink", "out", "from-a", "from-b")
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        source, sink = topics(driver)
        source.pipe_input("k", "v")
        assert [record.timestamp for record in sink.read_records()] == [10, 30, 20]


def test_should_match_patterns_when_records_are_piped() -> None:
    import re

    seen: list[Any] = []

    class Origin(Forwarder):
        def process(self, record: Any) -> None:
            seen.append(self.context.record_metadata)
            super().process(record)

    topology = Topology().add_source("source", re.compile("topic-[0-9]+")).add_processor("p", Origin, "source")
    topology.add_sink("sink", "out", "p")
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        for topic in ("topic-1", "topic-22", "topic-1"):
            driver.create_input_topic(topic, STRING, STRING).pipe_value("x")
        assert [(metadata.topic, metadata.partition, metadata.offset) for metadata in seen] == [
            ("topic-1", 0, 0),
            ("topic-22", 0, 1),
            ("topic-1", 0, 2),
        ]
        with pytest.raises(TopologyError, match="Unknown topic: topic-x"):
            driver.create_input_topic("topic-x", STRING, STRING).pipe_value("x")


def test_should_write_changelogs_with_kafka_streams_names() -> None:
    with TopologyTestDriver(counting(), {**DEFAULTS, "application.id": "mine"}) as driver:
        source, _ = topics(driver)
        source.pipe_key_values([("a", "x"), ("a", "x")], start_timestamp=5, advance=1)
        changelog = driver.create_output_topic("mine-counts-changelog", STRING, LONG)
        assert [(r.key, r.value, r.timestamp) for r in changelog.read_records()] == [("a", 1, 5), ("a", 2, 6)]
        assert driver.produced_topic_names() == {"out", "mine-counts-changelog"}


@pytest.mark.parametrize("persistent", [True, False])
def test_should_show_and_fill_stores(persistent: bool) -> None:
    with TopologyTestDriver(counting(persistent), DEFAULTS) as driver:
        source, sink = topics(driver)
        source.pipe_input("a", "x")
        store = driver.get_key_value_store("counts")
        assert store.get("a") == 1
        store.put("a", 41)
        source.pipe_input("a", "x")
        assert sink.read_values() == ["1", "42"]
        assert list(driver.get_all_state_stores()) == ["counts"]


def test_should_give_stores_by_their_kind() -> None:
    builders = {
        "kv": Stores.key_value_store_builder(Stores.in_memory_key_value_store("kv"), STRING, LONG),
        "tkv": Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("tkv"), STRING, LONG),
        "vkv": Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("vkv", timedelta(hours=1)), STRING, LONG
        ),
        "w": Stores.window_store_builder(Stores.in_memory_window_store("w", 100_000, 10, False), STRING, LONG),
        "tw": Stores.timestamped_window_store_builder(
            Stores.persistent_timestamped_window_store("tw", 100_000, 10, False), STRING, LONG
        ),
        "s": Stores.session_store_builder(Stores.in_memory_session_store("s", 100_000), STRING, LONG),
    }
    topology = Topology().add_source("source", "in").add_processor("p", Forwarder, "source")
    for builder in builders.values():
        topology.add_state_store(builder, "p")
    getters = {
        "get_key_value_store": {"kv", "tkv"},
        "get_timestamped_key_value_store": {"tkv"},
        "get_versioned_key_value_store": {"vkv"},
        "get_window_store": {"w", "tw"},
        "get_timestamped_window_store": {"tw"},
        "get_session_store": {"s"},
    }
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        for getter, names in getters.items():
            assert {name for name in builders if getattr(driver, getter)(name) is not None} == names, getter
            assert getattr(driver, getter)("no-such-store") is None
        for name in builders:
            with pytest.raises(ValueError, match=f"Store {name} is a built-in store .* should be accessed via get_"):
                driver.get_state_store(name)
        assert driver.get_state_store("no-such-store") is None

        stamped, plain = driver.get_timestamped_key_value_store("tkv"), driver.get_key_value_store("tkv")
        stamped.put("a", ValueAndTimestamp(1, 50))
        plain.put("b", 2)
        assert (plain.get("a"), plain.name, plain.is_open, plain.persistent) == (1, "tkv", True, True)
        assert stamped.get("b") == ValueAndTimestamp(2, -1)
        assert plain.put_if_absent("a", 9) == 1
        plain.put_all([("c", 3), ("d", 4)])
        assert plain.delete("d") == 4
        with plain.all() as entries:
            assert list(entries) == [("a", 1), ("b", 2), ("c", 3)]
        assert list(plain.range("b", None)) == [("b", 2), ("c", 3)]
        assert next(plain.reverse_all()) == ("c", 3)
        assert list(plain.reverse_range(None, "b")) == [("b", 2), ("a", 1)]
        assert list(plain.prefix_scan("a", STRING)) == [("a", 1)]
        assert plain.approximate_num_entries() > 0

        window = driver.get_window_store("tw")
        window.put("a", 7, 100)
        assert window.fetch("a", 100) == 7
        assert list(window.fetch_range("a", 0, 200)) == [(100, 7)]
        assert [(key.key, key.window.start, value) for key, value in window.all()] == [("a", 100, 7)]
        assert driver.get_timestamped_window_store("tw").fetch("a", 100) == ValueAndTimestamp(7, -1)


def test_should_give_a_users_own_store() -> None:
    from penstock.state.store import StateStore, StoreBuilder

    class Own(StateStore):
        name = "own"
        persistent = False
        is_open = True

        def init(self, context: Any, root: StateStore) -> None:
            context.register(root, lambda records: None)

        def close(self) -> None:
            pass

    class OwnBuilder(StoreBuilder[Any]):
        name = "own"
        logging_enabled = False
        caching_enabled = False
        log_config: dict[str, str] = {}  # noqa: RUF012

        def with_logging_enabled(self, topic_config: Any = None) -> Any:
            return self

        def with_logging_disabled(self) -> Any:
            return self

        def with_caching_enabled(self) -> Any:
            return self

        def with_caching_disabled(self) -> Any:
            return self

        def build(self) -> Any:
            return Own()

    topology = Topology().add_source("source", "in").add_processor("p", Forwarder, "source")
    topology.add_state_store(OwnBuilder(), "p")
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        assert isinstance(driver.get_state_store("own"), Own)


class FillGlobal(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("global")

    def process(self, record: Any) -> None:
        self.store.put(record.key, record.value)


class Lookup(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("global")

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(f"{record.value}+{self.store.get(record.key)}"))


def with_global(topology: Topology) -> Topology:
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("global"), STRING, STRING)
    return topology.add_global_store(builder, "global-source", "global-topic", "global-fill", FillGlobal)


def test_should_fill_global_stores_that_any_processor_reads() -> None:
    topology = with_global(Topology().add_source("source", "in").add_processor("lookup", Lookup, "source"))
    topology.add_sink("sink", "out", "lookup")
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        source, sink = topics(driver)
        source.pipe_input("a", "x")
        driver.create_input_topic("global-topic", STRING, STRING).pipe_input("a", "g")
        source.pipe_input("a", "x")
        assert sink.read_values() == ["x+None", "x+g"]
        assert driver.get_key_value_store("global").get("a") == "g"


def test_should_refuse_to_write_to_a_global_store_from_a_processor() -> None:
    class Write(Lookup):
        def process(self, record: Any) -> None:
            self.store.put(record.key, record.value)

    topology = with_global(Topology().add_source("source", "in").add_processor("write", Write, "source"))
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        with pytest.raises(ProcessingError) as caught:
            driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")
        assert "Global store global is read-only" in str(caught.value.__cause__)


def test_should_run_a_topology_of_global_stores_alone() -> None:
    with TopologyTestDriver(with_global(Topology()), DEFAULTS) as driver:
        driver.create_input_topic("global-topic", STRING, STRING).pipe_input("a", "g")
        assert driver.get_key_value_store("global").get("a") == "g"
        driver.advance_wall_clock_time(10)


def test_should_feed_a_global_topic_that_the_topology_writes() -> None:
    topology = with_global(Topology().add_source("source", "in").add_sink("sink", "global-topic", "source"))
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")
        assert driver.get_key_value_store("global").get("a") == "x"


def test_should_punctuate_by_stream_time_and_by_the_wall_clock() -> None:
    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(timedelta(seconds=10), PunctuationType.WALL_CLOCK_TIME, lambda time: self.tell("wall", time))
            context.schedule(100, PunctuationType.STREAM_TIME, lambda time: self.tell("stream", time))

        def tell(self, kind: str, time: int) -> None:
            self.context.forward(Record(kind, str(self.context.current_system_time_ms()), time))

    topology = Topology().add_source("source", "in").add_processor("timed", Timed, "source").add_sink("sink", "out", "timed")
    with TopologyTestDriver(topology, DEFAULTS, datetime.fromtimestamp(1, tz=timezone.utc)) as driver:
        source, sink = topics(driver)
        driver.advance_wall_clock_time(timedelta(seconds=9))
        assert sink.is_empty
        driver.advance_wall_clock_time(1000)
        driver.advance_wall_clock_time(20_000)
        assert [(r.key, r.value, r.timestamp) for r in sink.read_records()] == [
            ("wall", "11000", 11000),
            ("wall", "31000", 31000),
        ]
        source.pipe_input("a", "x", timestamp=50)
        source.pipe_input("a", "x", timestamp=250)
        source.pipe_input("a", "x", timestamp=299)
        assert [(r.key, r.timestamp) for r in sink.read_records()] == [
            ("a", 50),
            ("stream", 50),
            ("a", 250),
            ("stream", 250),
            ("a", 299),
        ]


def test_should_feed_back_what_a_punctuator_writes_to_an_input_topic() -> None:
    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda time: context.forward(Record("t", "x", time)))

    topology = Topology().add_source("source", "in").add_processor("timed", Timed, "source").add_sink("s", "again", "timed")
    topology.add_source("source-2", "again").add_sink("sink", "out", "source-2")
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        driver.advance_wall_clock_time(10)
        assert driver.create_output_topic("out", STRING, STRING).read_key_value() == ("t", "x")


def test_should_wait_for_an_empty_topic_as_long_as_max_task_idle_says() -> None:
    topology = Topology().add_source("source", "in", "other").add_sink("sink", "out", "source")
    with TopologyTestDriver(topology, {**DEFAULTS, "max.task.idle.ms": 1000}) as driver:
        source, sink = topics(driver)
        source.pipe_input("a", "late", timestamp=20)
        assert sink.is_empty
        driver.create_input_topic("other", STRING, STRING).pipe_input("a", "early", timestamp=10)
        assert sink.read_values() == ["early"]
        driver.advance_wall_clock_time(999)
        assert sink.is_empty
        driver.advance_wall_clock_time(1)
        assert sink.read_values() == ["late"]


def test_should_raise_with_the_users_error_and_go_on_with_the_next_record() -> None:
    class Failing(Forwarder):
        def process(self, record: Any) -> None:
            if record.value == "bad":
                raise ZeroDivisionError("mine")
            super().process(record)

    topology = Topology().add_source("source", "in").add_processor("p", Failing, "source").add_sink("sink", "out", "p")
    with TopologyTestDriver(topology, {**DEFAULTS, "errors.dead.letter.queue.topic.name": "dead"}) as driver:
        source, sink = topics(driver)
        with pytest.raises(StreamsError) as caught:
            source.pipe_input("a", "bad")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert driver.create_output_topic("dead", STRING, STRING).read_key_value() == ("a", "bad")
        source.pipe_input("a", "good")
        assert sink.read_values() == ["good"]


def test_should_handle_bytes_that_cannot_be_read() -> None:
    configured = {"default.key.serde": STRING, "default.value.serde": LONG}
    with TopologyTestDriver(copy(), configured) as driver, pytest.raises(DeserializationError):
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "not a long")

    handled = {
        **configured,
        "deserialization.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": "dead",
    }
    with TopologyTestDriver(copy(), handled) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "not a long")
        driver.create_input_topic("in", STRING, LONG).pipe_input("a", 5)
        assert driver.create_output_topic("out", STRING, LONG).read_values() == [5]
        assert driver.create_output_topic("dead", STRING, STRING).read_values() == ["not a long"]
        dropped = [metric for name, metric in driver.metrics().items() if name.name == "dropped-records-total"]
        assert [metric.metric_value for metric in dropped] == [1]


def test_should_remove_its_state_and_close_processors_once() -> None:
    closed: list[int] = []

    class Closing(Count):
        def close(self) -> None:
            closed.append(1)

    topology = Topology().add_source("source", "in").add_processor("count", Closing, "source")
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), STRING, LONG)
    topology.add_state_store(builder, "count")
    driver = TopologyTestDriver(topology, DEFAULTS)
    folder = Path(driver._config["state.dir"])
    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")
    assert os.listdir(folder)
    driver.close()
    driver.close()
    assert closed == [1]
    assert not folder.exists()


def test_should_take_a_config_object_and_check_plain_values() -> None:
    from penstock.config.streams_config import StreamsConfig

    config = StreamsConfig({**DEFAULTS, "application.id": "mine", "bootstrap.servers": "x:1"})
    with TopologyTestDriver(counting(), config) as driver:
        topics(driver)[0].pipe_input("a", "x")
        assert "mine-counts-changelog" in driver.produced_topic_names()
    with pytest.raises(PenstockError, match=r"max\.task\.idle\.ms"):
        TopologyTestDriver(copy(), {"max.task.idle.ms": "soon"})


def test_should_run_the_same_topology_twice() -> None:
    topology = counting()
    for _ in range(2):
        with TopologyTestDriver(topology, DEFAULTS) as driver:
            source, sink = topics(driver)
            source.pipe_input("a", "x")
            assert sink.read_values() == ["1"]


def test_should_take_any_partition_that_a_partitioner_chooses() -> None:
    topology = Topology().add_source("source", "in")
    topology.add_sink("sink", "out", "source", partitioner=lambda topic, key, value, count: 9 + count)
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v", timestamp=7)
        assert driver.read_record("out") == ("out", 10, b"k", b"v", 7, ())


def test_should_refuse_a_negative_partition() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source", partitioner=lambda *_: -1)
    with TopologyTestDriver(topology, DEFAULTS) as driver, pytest.raises(StreamsError, match="chose partition -1"):
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")


def test_should_refuse_a_topic_that_is_none() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        with pytest.raises(ValueError, match="topic of create_input_topic"):
            driver.create_input_topic(None, STRING, STRING)  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="topic of create_output_topic"):
            driver.create_output_topic(None, STRING, STRING)  # type: ignore[call-overload]


def test_should_name_stores_that_no_processor_is_connected_to() -> None:
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("alone"), STRING, LONG)
    with TopologyTestDriver(counting().add_state_store(builder), DEFAULTS) as driver:
        stores = driver.get_all_state_stores()
        assert set(stores) == {"counts", "alone"}
        assert stores["counts"] is not None
        assert stores["alone"] is None


def test_should_pipe_and_read_records_with_serializers() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        driver.pipe_record("in", Record("k", "v", 7, (("h", b"1"),)), STRING, STRING)
        assert driver.read_record("out", STRING, STRING) == Record("k", "v", 7, (("h", b"1"),))
        driver.pipe_record("in", TestRecord("k", "v"), STRING, STRING, time=8)
        assert driver.read_record("out", STRING.deserializer, STRING.deserializer) == TestRecord("k", "v", 8)
        driver.pipe_record("in", 9, b"k", b"v")
        assert driver.read_record("out").timestamp == 9


def test_should_refuse_a_record_without_a_timestamp_where_no_topic_sets_one() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        with pytest.raises(ValueError, match="has no timestamp"):
            driver.pipe_record("in", TestRecord("k", "v"), STRING, STRING)
        with pytest.raises(ValueError, match="needs a value_serializer"):
            driver.pipe_record("in", TestRecord("k", "v", 1), STRING, None)


def test_should_give_records_without_a_timestamp_the_time_of_the_topic() -> None:
    with TopologyTestDriver(copy(), DEFAULTS) as driver:
        source = driver.create_input_topic("in", STRING, STRING, start_timestamp=100, auto_advance=10)
        source.pipe_input(TestRecord("a", "1"))
        source.pipe_records([TestRecord("b", "2", 5), TestRecord("3")])
        read = driver.create_output_topic("out", STRING, STRING).read_records()
        assert read == [TestRecord("a", "1", 100), TestRecord("b", "2", 5), TestRecord(None, "3", 110)]


def test_should_hold_updates_back_in_caches_until_a_commit() -> None:
    with TopologyTestDriver(word_counts(), commit_every_record=False) as driver:
        source, sink = driver.create_input_topic("in", STRING, STRING), driver.create_output_topic("out", STRING, LONG)
        source.pipe_key_values([("a", ""), ("a", ""), ("b", "")])
        assert sink.is_empty
        driver.commit()
        assert sink.read_key_values() == [("a", 2), ("b", 1)]
        source.pipe_input("a", "")
        driver.advance_wall_clock_time(1)
        assert sink.is_empty
        driver.commit()
        assert sink.read_key_values() == [("a", 3)]


def test_should_commit_what_a_commit_sends_through_repartition_topics() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Consumed(STRING, STRING), Materialized("table"))
    counts = table.group_by(lambda k, v: (v, v), Grouped(key_serde=STRING, value_serde=STRING)).count()
    counts.to_stream().to("out", Produced(STRING, LONG))
    with TopologyTestDriver(builder.build(), commit_every_record=False) as driver:
        source, sink = driver.create_input_topic("in", STRING, STRING), driver.create_output_topic("out", STRING, LONG)
        source.pipe_key_values([("a", "x"), ("b", "x")])
        assert sink.is_empty
        driver.commit()
        assert sink.read_key_values() == [("x", 2)]


def test_should_commit_where_a_processor_asks_for_it() -> None:
    class Asking(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            if record.value == "now":
                self.context.commit()

    with TopologyTestDriver(word_counts(Asking), commit_every_record=False) as driver:
        source, sink = driver.create_input_topic("in", STRING, STRING), driver.create_output_topic("out", STRING, LONG)
        source.pipe_key_values([("a", ""), ("a", "")])
        assert sink.is_empty
        source.pipe_input("a", "now")
        assert sink.read_key_values() == [("a", 3)]


def test_should_forward_at_once_without_a_cache_also_if_it_does_not_commit() -> None:
    config = {"statestore.cache.max.bytes": 0}
    with TopologyTestDriver(word_counts(), config, commit_every_record=False) as driver:
        source, sink = driver.create_input_topic("in", STRING, STRING), driver.create_output_topic("out", STRING, LONG)
        source.pipe_key_values([("a", ""), ("a", "")])
        assert sink.read_key_values() == [("a", 1), ("a", 2)]


def word_counts(also: Any = None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, STRING))
    stream.group_by_key().count(Materialized("counts", STRING, LONG)).to_stream().to("out", Produced(STRING, LONG))
    if also is not None:
        stream.process(also)
    return builder.build()


def test_should_name_the_reason_of_a_failure_while_a_cache_is_flushed() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed(str, str)).group_by_key().windowed_by(TimeWindows(1000, grace=0)).count()
    counts.to_stream().to("out", Produced(Serdes.string(), Serdes.long()))
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 1_000_000}) as driver:
        topic = driver.create_input_topic("in", str, str)
        with pytest.raises(
            ProcessorStateError, match=r"flush cache of .*: StringSerializer cannot serialize .* Windowed for topic 'out'"
        ):
            topic.pipe_input("a", "b")
