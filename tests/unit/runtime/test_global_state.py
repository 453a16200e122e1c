from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.batches.record_batch import UnreadableBatch
from penstock.clock import ManualClock
from penstock.errors import DeserializationError, ProcessingError, StreamsError
from penstock.ids import TopicPartition
from penstock.log_bounds import LogBounds
from penstock.metrics.registry import Metrics
from penstock.processor import Processor
from penstock.record import RawRecord
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.global_state import GlobalStateUpdateTask
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.cache import RecordCache
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier, RocksDBKeyValueBytesStoreSupplier
from penstock.topology.topology import Topology

from .harness import LONG, STRING, config

PARTITION = TopicPartition("global-topic", 0)


class Fill(Processor[Any, Any, Any, Any]):
    """Keeps values in capitals, so that one can see who filled the store."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("global-store")

    def process(self, record: Any) -> None:
        if record.value == "bad":
            raise ValueError("bad")
        self.store.put(record.key, record.value.upper())


def raw(offset: int, key: str | None, value: str, timestamp: int = 5) -> RawRecord:
    return RawRecord("global-topic", 0, offset, timestamp, None if key is None else key.encode(), value.encode())


def open_task(folder: Path, persistent: bool = True, reprocess: bool = True, **settings: Any) -> GlobalStateUpdateTask:
    supplier: Any = (
        RocksDBKeyValueBytesStoreSupplier("global-store") if persistent else InMemoryKeyValueBytesStoreSupplier("global-store")
    )
    topology = Topology()
    topology.internal_topology_builder.add_global_store(
        KeyValueStoreBuilder(supplier, STRING, STRING), "source", None, None, None, "global-topic", "fill", Fill, reprocess
    )
    configuration = config(**settings)
    plan = topology.internal_topology_builder.rewrite_topology(configuration).global_topology()
    assert plan is not None
    metrics = TaskMetrics(Metrics(), GLOBAL_TASK_ID)
    return GlobalStateUpdateTask(plan, configuration, folder, ManualClock(0), metrics, RecordCache(0))


def test_should_reprocess_what_a_users_processor_filled(tmp_path: Path) -> None:
    task = open_task(tmp_path)
    assert task.initialize([PARTITION]) == {PARTITION: 0}
    task.restore(PARTITION, [raw(0, "a", "x"), raw(1, None, "y"), raw(2, "b", "z")], position=4)
    task.complete_restoration()

    assert list(task.state_manager.store("global-store").all()) == [("a", "X"), ("b", "Z")]
    assert task.state_manager.changelog_offsets == {PARTITION: 4}


def test_should_put_records_as_they_are_where_no_user_processor_is_in_between(tmp_path: Path) -> None:
    task = open_task(tmp_path, reprocess=False)
    task.initialize([PARTITION])
    task.restore(PARTITION, [raw(0, "a", "x"), raw(1, None, "y")])
    task.complete_restoration()

    assert list(task.state_manager.store("global-store").all()) == [("a", "x")]
    assert task.state_manager.changelog_offsets == {PARTITION: 2}


def test_should_put_timestamps_into_timestamped_stores(tmp_path: Path) -> None:
    topology = Topology()
    builder = Stores.timestamped_key_value_store_builder(InMemoryKeyValueBytesStoreSupplier("global-store"), STRING, STRING)
    topology.internal_topology_builder.add_global_store(builder, "source", None, None, None, "global-topic", "fill", Fill, False)
    plan = topology.internal_topology_builder.rewrite_topology(config()).global_topology()
    assert plan is not None
    metrics = TaskMetrics(Metrics(), GLOBAL_TASK_ID)
    task = GlobalStateUpdateTask(plan, config(), tmp_path, ManualClock(0), metrics, RecordCache(0))
    task.initialize([PARTITION])
    task.restore(PARTITION, [raw(0, "a", "x", timestamp=77)])
    assert task.state_manager.store("global-store").get("a") == ValueAndTimestamp("x", 77)


@pytest.mark.parametrize(("persistent", "expected"), [(True, 3), (False, 0)])
def test_should_go_on_where_a_store_on_disk_has_got_to(tmp_path: Path, persistent: bool, expected: int) -> None:
    task = open_task(tmp_path, persistent)
    task.initialize([PARTITION])
    task.complete_restoration()
    for record in (raw(0, "a", "x"), raw(1, "b", "y"), raw(2, "a", "z")):
        task.update(record)
    assert task.state_manager.store("global-store").get("a") == "Z"
    task.close()

    task = open_task(tmp_path, persistent)
    assert task.initialize([PARTITION]) == {PARTITION: expected}
    assert task.state_manager.store("global-store").get("b") == ("Y" if persistent else None)


def test_should_fail_with_the_users_error_by_default(tmp_path: Path) -> None:
    task = open_task(tmp_path)
    task.initialize([PARTITION])
    with pytest.raises(ProcessingError, match="topic=global-topic, partition=0, offset=3") as caught:
        task.restore(PARTITION, [raw(3, "a", "bad")])
    assert isinstance(caught.value.__cause__, ValueError)
    task.complete_restoration()
    with pytest.raises(ProcessingError, match="topic=global-topic, partition=0, offset=4") as caught:
        task.update(raw(4, "a", "bad"))
    assert isinstance(caught.value.__cause__, ValueError)


def test_should_ask_the_processing_handler_where_that_is_enabled(tmp_path: Path) -> None:
    settings: Any = {"processing_exception_handler_global_enabled": True}
    task = open_task(tmp_path / "1", **settings, processing_exception_handler="log_and_continue")
    task.initialize([PARTITION])
    task.restore(PARTITION, [raw(0, "a", "bad"), raw(1, "b", "x")])
    task.complete_restoration()
    task.update(raw(2, "a", "bad"))
    assert list(task.state_manager.store("global-store").all()) == [("b", "X")]

    task = open_task(tmp_path / "2", **settings)
    task.initialize([PARTITION])
    task.complete_restoration()
    with pytest.raises(ProcessingError, match="processor=fill, topic=global-topic, partition=0, offset=2"):
        task.update(raw(2, "a", "bad"))


def test_should_skip_what_cannot_be_read_where_told_to(tmp_path: Path) -> None:
    settings: Any = {"default_value_serde": LONG, "deserialization_exception_handler": "log_and_continue"}
    task = open_task(tmp_path, **settings)
    task.initialize([PARTITION])
    task.complete_restoration()
    task.update(raw(0, "a", "not a long"))
    task.flush_state()
    assert task.state_manager.changelog_offsets == {PARTITION: 1}


def test_should_ask_the_handler_about_a_batch_that_cannot_be_read(tmp_path: Path) -> None:
    batch = UnreadableBatch(3, 7, "Decompression failed")
    task = open_task(tmp_path / "1", deserialization_exception_handler="log_and_continue")
    task.initialize([PARTITION])
    task.skip(PARTITION, batch)
    task = open_task(tmp_path / "2")
    task.initialize([PARTITION])
    with pytest.raises(DeserializationError, match="topic global-topic, partition 0, offset 3"):
        task.skip(PARTITION, batch)


def test_should_refuse_what_a_global_processor_cannot_do(tmp_path: Path) -> None:
    task = open_task(tmp_path)
    task.initialize([PARTITION])
    task.complete_restoration()
    context: Any = task.context
    for call in (
        lambda: context.schedule(1, None, None),
        context.current_stream_time_ms,
        lambda: context.forward(None, "child"),
        lambda: context.get_state_store("other"),
        lambda: context.log_change("global-store", b"", b"", 0),
    ):
        with pytest.raises(StreamsError):
            call()
    context.commit()


@pytest.mark.parametrize(
    ("log", "fits"),
    [
        (LogBounds(0, 9, 9, topic_id=7), True),
        (LogBounds(0, 9, 9, topic_id=8), False),
        (LogBounds(0, 1, 1, topic_id=7), False),
        (LogBounds(5, 9, 9, topic_id=7), False),
        (LogBounds(0, 9, 9), True),
    ],
    ids=["the same log", "another log", "it ends earlier", "it starts later", "brokers that have no ids"],
)
def test_should_know_whether_a_store_on_disk_belongs_to_its_topic(tmp_path: Path, log: LogBounds, fits: bool) -> None:
    task = open_task(tmp_path, reprocess=False)
    task.initialize([PARTITION])
    assert task.state_manager.misfits({PARTITION: log}) == {}  # it has read nothing yet
    task.state_manager.note_logs({PARTITION: LogBounds(0, 3, 3, topic_id=7)})
    task.restore(PARTITION, [raw(0, "a", "x"), raw(1, "b", "y"), raw(2, "c", "z")])
    task.state_manager.close()
    task = open_task(tmp_path, reprocess=False)
    task.initialize([PARTITION])
    folders = task.state_manager.misfits({PARTITION: log})
    assert folders == ({} if fits else {"global-store": tmp_path / "rocksdb" / "global-store"})
    task.state_manager.close()
