from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.batches.record_batch import RawBatch, UnreadableBatch
from penstock.errors import ProcessorStateError, StreamsError, TaskCorruptedError
from penstock.ids import TaskId, TopicPartition
from penstock.log_bounds import LogBounds
from penstock.metrics.registry import Metrics
from penstock.record import RawRecord
from penstock.runtime.processor_topology import ProcessorTopology
from penstock.runtime.standby_task import StandbyTask
from penstock.runtime.state_manager import ProcessorStateManager
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.cache import RecordCache
from penstock.state.store import StateStore
from penstock.state.suppliers import RocksDBKeyValueBytesStoreSupplier

from .harness import STRING, Forwarder, config, pipeline

TASK = TaskId(0, 2)
CHANGELOG = TopicPartition("app-store-changelog", 2)


class FakeStore(StateStore):
    def __init__(self, name: str = "store", persistent: bool = True, offset: int | None = None) -> None:
        self._name = name
        self._persistent = persistent
        self.offset = offset
        self.restored: list[RawRecord] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.log: list[str] = []
        self.error: Exception | None = None

    @property
    def name(self) -> str:
        return self._name

    def init(self, context: Any, root: StateStore) -> None:
        if self.error is not None:
            raise self.error
        context.register(root, self.restored.extend)

    def flush_cache(self) -> None:
        self._do("flush")

    def close(self) -> None:
        self._do("close")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        self.commits.append(dict(changelog_offsets))
        self._do("commit")

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self.offset

    @property
    def persistent(self) -> bool:
        return self._persistent

    @property
    def is_open(self) -> bool:
        return True

    def _do(self, what: str) -> None:
        self.log.append(what)
        if self.error is not None:
            raise self.error


def manager(*stores: FakeStore, changelogs: dict[str, str] | None = None) -> ProcessorStateManager:
    found = {store.name: f"app-{store.name}-changelog" for store in stores} if changelogs is None else changelogs
    state = ProcessorStateManager(TASK, Path("folder"), found)
    context: Any = SimpleNamespace(register=state.register_store)
    state.initialize_stores(stores, context)
    return state


def raw(offset: int, key: bytes | None = b"k") -> RawRecord:
    return RawRecord("app-store-changelog", 2, offset, 0, key, b"v")


def test_should_go_on_restoring_where_the_store_has_got_to() -> None:
    store = FakeStore(offset=4)
    state = manager(store)
    assert state.changelog_offsets == {CHANGELOG: 5}
    assert state.restore(CHANGELOG, [raw(4), raw(5), raw(6)]) == 2
    assert [record.offset for record in store.restored] == [5, 6]
    assert state.changelog_offsets == {CHANGELOG: 7}
    state.restore(CHANGELOG, [], position=10)
    assert state.changelog_offsets == {CHANGELOG: 10}


def damaged() -> RawBatch:
    found = RawBatch(*CHANGELOG, [9], [0], [b"k"], [b"v"])
    found.unreadable = (UnreadableBatch(5, 9, "Decompression failed"),)
    return found


def test_should_refuse_to_restore_a_store_without_a_part_of_its_changelog() -> None:
    store = FakeStore()
    told = r"store cannot be restored: .* app-store-changelog-2 at offsets 5 to 8 cannot be read: .*penstock reset"
    with pytest.raises(ProcessorStateError, match=told):
        manager(store).restore(CHANGELOG, damaged())
    assert not store.restored


def test_should_restore_from_an_input_topic_without_what_was_skipped_there(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    state = ProcessorStateManager(TASK, Path("folder"), {"store": CHANGELOG.topic}, [CHANGELOG])
    context: Any = SimpleNamespace(register=state.register_store)
    state.initialize_stores([store], context)
    assert state.restore(CHANGELOG, damaged()) == 1
    assert "at offsets 5 to 8 cannot be read: Decompression failed" in caplog.text


def test_should_commit_stores_with_the_offsets_that_were_written() -> None:
    store, memory = FakeStore(), FakeStore("memory", persistent=False)
    unlogged = FakeStore("unlogged")
    state = manager(store, memory, unlogged, changelogs={"store": "app-store-changelog", "memory": "app-memory-changelog"})
    state.commit()
    state.update_changelog_offsets({CHANGELOG: 8, TopicPartition("app-memory-changelog", 2): 3, TopicPartition("x", 2): 1})
    state.commit()
    assert store.commits == [{}, {CHANGELOG: 8}]
    assert memory.commits == [{}, {}]
    assert unlogged.commits == [{}, {}]


def test_should_refuse_a_changelog_of_nobody() -> None:
    with pytest.raises(StreamsError, match="other-0 is not the changelog"):
        manager(FakeStore()).restore(TopicPartition("other", 0), [])


def test_should_say_which_records_could_not_be_restored() -> None:
    store = FakeStore()
    state = manager(store)

    def fail(records: Any) -> None:
        raise OSError("disk full")

    state._stores["store"].restorer._restore_callback = fail  # type: ignore[union-attr]
    with pytest.raises(ProcessorStateError, match="store store from app-store-changelog-2, offsets 3 to 4: disk full"):
        state.restore(CHANGELOG, [raw(3), raw(4)])


def test_should_refuse_a_store_twice_and_one_without_a_changelog() -> None:
    state = manager(FakeStore())
    with pytest.raises(StreamsError, match="already been registered"):
        state.register_store(FakeStore(), lambda records: None)
    with pytest.raises(StreamsError, match="logging is disabled"):
        state.registered_changelog_partition_for("other")


def test_should_treat_all_stores_in_order_even_when_one_fails() -> None:
    first, second = FakeStore("first"), FakeStore("second")
    state = manager(first, second)
    first.error = OSError("disk full")
    with pytest.raises(ProcessorStateError, match="failed to flush cache of state store first: disk full"):
        state.flush_cache()
    with pytest.raises(ProcessorStateError, match="failed to commit state store first"):
        state.commit()
    with pytest.raises(ProcessorStateError, match="failed to close state store first"):
        state.close()
    assert second.log == ["flush", "commit", "close"]
    assert state.store("first") is None


def test_should_name_the_folder_of_a_store_that_does_not_open() -> None:
    store = FakeStore()
    store.error = OSError("denied")
    with pytest.raises(ProcessorStateError, match="cannot open state store store in folder: denied"):
        manager(store)


def test_should_follow_a_changelog_as_standby_and_go_on_from_there(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(RocksDBKeyValueBytesStoreSupplier("store"), STRING, STRING)
    topology = pipeline(Forwarder).add_state_store(builder, "processor-0")
    plan = topology.internal_topology_builder.rewrite_topology(config()).build_topology()

    def standby() -> StandbyTask:
        state = ProcessorStateManager(TASK, tmp_path, plan.store_to_changelog)
        metrics = TaskMetrics(Metrics(), TASK)
        return StandbyTask(TASK, ProcessorTopology.of(plan), config(), state, metrics, RecordCache(0))

    task = standby()
    assert task.initialize() == {CHANGELOG: 0}
    task.update(CHANGELOG, [raw(0, b"a"), raw(1, b"b")])
    assert task.commit() == {CHANGELOG: 2}
    task.close()
    task.close()

    task = standby()
    assert task.initialize() == {CHANGELOG: 2}
    assert list(task.state_manager.store("store").all()) == [("a", "v"), ("b", "v")]
    task.close()


def test_should_not_go_on_with_a_store_of_ones_own_that_does_not_belong_to_its_changelog() -> None:
    """What it keeps on disk, and where, only the store knows."""
    state = manager(FakeStore(offset=9))
    assert state.misfits({CHANGELOG: LogBounds(0, 10, 10)}) == {}
    with pytest.raises(
        TaskCorruptedError, match="store store is at offset 10 of its changelog app-store-changelog-2, but it lies"
    ):
        state.misfits({CHANGELOG: LogBounds(0, 5, 5)})
    assert manager(FakeStore(persistent=False)).misfits({CHANGELOG: LogBounds(0, 5, 5)}) == {}
