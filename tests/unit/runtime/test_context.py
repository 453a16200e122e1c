from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ProcessingError, StreamsError
from penstock.processor import FixedKeyProcessor, Processor, PunctuationType
from penstock.record import FixedKeyRecord, Record, RecordMetadata
from penstock.runtime.read_only_store import ReadOnlyStore
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier
from penstock.topology.topology import Topology

from .harness import LONG, STRING, TASK, Forwarder, Harness, config, pairs, pipeline


def store_builder(name: str = "counts") -> KeyValueStoreBuilder:
    return KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier(name), STRING, LONG)


def processor(process: Any, init: Any = None) -> Any:
    class Custom(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            if init is not None:
                init(context)

        def process(self, record: Any) -> None:
            process(self.context, record)

    return Custom


def run(topology: Topology, folder: Path, *records: tuple[Any, Any, int], **settings: Any) -> Harness:
    harness = Harness(topology, folder, config(**settings))
    harness.open()
    harness.add("in", *(records or (("k", "v", 5),)))
    harness.task.process_all()
    harness.commit()
    return harness


def test_should_forward_to_all_children_in_the_order_they_were_added(tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []

    def note(name: str) -> Any:
        return processor(lambda context, record: seen.append((name, record.value)))

    topology = Topology().add_source("source", "in")
    for name in ("b", "a", "c"):
        topology.add_processor(name, note(name), "source")
    run(topology, tmp_path)

    assert seen == [("b", "v"), ("a", "v"), ("c", "v")]


def test_should_forward_to_one_child_by_name(tmp_path: Path) -> None:
    seen: list[str] = []
    topology = Topology().add_source("source", "in")
    topology.add_processor("choose", processor(lambda context, record: context.forward(record, record.value)), "source")
    topology.add_processor("a", processor(lambda context, record: seen.append("a")), "choose")
    topology.add_processor("b", processor(lambda context, record: seen.append("b")), "choose")
    run(topology, tmp_path, ("k", "b", 0), ("k", "a", 0))

    assert seen == ["b", "a"]


def test_should_name_the_children_when_an_unknown_one_is_asked_for(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in")
    topology.add_processor("choose", processor(lambda context, record: context.forward(record, "nowhere")), "source")
    topology.add_processor("a", Forwarder, "choose")

    with pytest.raises(ProcessingError) as caught:
        run(topology, tmp_path)
    assert "Unknown downstream node: nowhere" in str(caught.value.__cause__)
    assert "choose, whose children are: a" in str(caught.value.__cause__)


def test_should_refuse_to_forward_outside_of_processing(tmp_path: Path) -> None:
    harness = run(pipeline(Forwarder), tmp_path)
    with pytest.raises(StreamsError, match="Current node is unknown"):
        harness.task.context.forward(Record("k", "v", 0))


def test_should_make_timestamp_and_headers_of_a_forwarded_record_the_context_below(tmp_path: Path) -> None:
    contexts: list[tuple[str, int, Any, Any]] = []

    def note(context: Any, name: str) -> None:
        record_context = context.record_context
        contexts.append((name, record_context.timestamp, record_context.headers, record_context.offset))

    def first(context: Any, record: Any) -> None:
        note(context, "before")
        context.forward(record.with_timestamp(99).with_headers((("h", b"1"),)))
        note(context, "after")

    def second(context: Any, record: Any) -> None:
        note(context, "below")
        context.forward(record)

    harness = run(pipeline(processor(first), processor(second)), tmp_path)

    assert contexts == [("before", 5, (), 0), ("below", 99, (("h", b"1"),), 0), ("after", 5, (), 0)]
    assert [(record.timestamp, record.headers) for record in harness.outputs] == [(99, (("h", b"1"),))]


def test_should_tell_where_the_record_came_from(tmp_path: Path) -> None:
    seen: list[Any] = []

    def process(context: Any, record: Any) -> None:
        seen.append((context.record_metadata, context.task_id, context.application_id, context.current_node_name))
        seen.append((context.current_stream_time_ms(), context.current_system_time_ms(), context.app_configs["user.key"]))

    run(pipeline(processor(process)), tmp_path, ("k", "v", 7), user_key="mine")
    assert seen == [(RecordMetadata("in", TASK.partition, 0), TASK, "app", "processor-0"), (7, 1000, "mine")]


def test_should_know_no_record_in_init(tmp_path: Path) -> None:
    seen: list[Any] = []
    topology = pipeline(processor(lambda *_: None, lambda context: seen.append(context.record_metadata)))
    run(topology, tmp_path)
    assert seen == [None]


def test_should_hand_fixed_key_processors_records_without_with_key(tmp_path: Path) -> None:
    seen: list[type] = []

    class Upper(FixedKeyProcessor[Any, Any, Any]):
        def process(self, record: Any) -> None:
            seen.append(type(record))
            self.context.forward(record.with_value(record.value.upper()))

    class Kind(Forwarder):
        def process(self, record: Any) -> None:
            seen.append(type(record))
            super().process(record)

    harness = run(pipeline(Upper, Kind), tmp_path)

    assert seen == [FixedKeyRecord, Record]
    assert pairs(harness.outputs) == [(b"k", b"V", 5)]


def test_should_give_a_connected_store(tmp_path: Path) -> None:
    def process(context: Any, record: Any) -> None:
        store = context.get_state_store("counts")
        store.put(record.key, (store.get(record.key) or 0) + 1)

    topology = pipeline(processor(process)).add_state_store(store_builder(), "processor-0")
    harness = run(topology, tmp_path, ("k", "v", 0), ("k", "v", 1))
    assert harness.task.state_manager.store("counts").get("k") == 2


def test_should_say_how_to_connect_a_store_that_is_not(tmp_path: Path) -> None:
    topology = pipeline(Forwarder, processor(lambda *_: None, lambda context: context.get_state_store("counts")))
    topology.add_state_store(store_builder(), "processor-0")

    with pytest.raises(StreamsError) as caught:
        run(topology, tmp_path)
    cause = str(caught.value.__cause__)
    assert "Processor processor-1 has no access to StateStore counts" in cause
    assert "connect_processor_and_state_stores" in cause
    assert "add_state_store" in cause


def test_should_refuse_a_store_outside_of_processing(tmp_path: Path) -> None:
    harness = run(pipeline(Forwarder), tmp_path)
    with pytest.raises(StreamsError, match="unknown node"):
        harness.task.context.get_state_store("counts")


@pytest.mark.parametrize("interval", [0, timedelta(0), timedelta(microseconds=10), -5])
def test_should_refuse_an_interval_below_a_millisecond(tmp_path: Path, interval: Any) -> None:
    topology = pipeline(
        processor(lambda *_: None, lambda context: context.schedule(interval, PunctuationType.STREAM_TIME, print))
    )
    with pytest.raises(StreamsError) as caught:
        run(topology, tmp_path)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("start", "expected"),
    [(3, [3, 13, 25]), (datetime.fromtimestamp(0.003, tz=timezone.utc), [3, 13, 25]), (None, [3, 13, 25])],
)
def test_should_align_stream_time_punctuation_to_the_start_time(tmp_path: Path, start: Any, expected: list[int]) -> None:
    fired: list[int] = []
    topology = pipeline(
        processor(lambda *_: None, lambda context: context.schedule(10, PunctuationType.STREAM_TIME, fired.append, start))
    )
    run(topology, tmp_path, ("k", "v", 3), ("k", "v", 8), ("k", "v", 13), ("k", "v", 25))
    assert fired == expected


def test_should_ask_for_a_commit(tmp_path: Path) -> None:
    harness = Harness(pipeline(processor(lambda context, record: context.commit())), tmp_path)
    harness.open()
    harness.add("in", ("k", "v", 0))
    assert not harness.task.commit_requested
    harness.task.process_all()
    assert harness.task.commit_requested
    harness.commit()
    assert not harness.task.commit_requested


def test_should_read_but_not_write_through_a_read_only_store(tmp_path: Path) -> None:
    harness = run(pipeline(Forwarder).add_state_store(store_builder(), "processor-0"), tmp_path)
    store = harness.task.state_manager.store("counts")
    store.put("k", 1)
    read_only: Any = ReadOnlyStore(store)

    assert isinstance(read_only, type(store))
    assert (read_only.get("k"), read_only.name, list(read_only.all())) == (1, "counts", [("k", 1)])
    for write in (
        lambda: read_only.put("k", 2),
        lambda: read_only.delete("k"),
        lambda: read_only.put_all([]),
        lambda: read_only.close(),
        lambda: setattr(read_only, "x", 1),
    ):
        with pytest.raises(StreamsError, match=re.escape("Global store counts is read-only")):
            write()
    assert store.get("k") == 1


def test_should_log_dropped_records_in_kafka_streams_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology = pipeline(processor(lambda context, record: context.record_dropped("null key")))
    harness = run(topology, tmp_path)

    assert "Skipping record due to null key. topic=[in] partition=[1] offset=[0]" in caplog.text
    assert harness.metrics.value("dropped-records-total", "stream-task-metrics", {"task-id": "0_1"}) == 1


def test_should_tell_the_settings_under_a_prefix(tmp_path: Path) -> None:
    seen: list[Any] = []
    topology = pipeline(processor(lambda *_: None, lambda context: seen.append(context.app_configs_with_prefix("mine."))))
    run(topology, tmp_path, mine_a=1, mine_b="2")
    assert seen == [{"a": 1, "b": "2"}]


def test_should_name_the_store_without_a_serde(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("counts"), None, LONG)
    topology = Topology().add_source("source", "in", key_deserializer=STRING, value_deserializer=STRING)
    topology.add_processor("processor", Forwarder, "source").add_state_store(builder, "processor")
    with pytest.raises(StreamsError, match="store counts"):
        run(topology, tmp_path, default_key_serde=None)
