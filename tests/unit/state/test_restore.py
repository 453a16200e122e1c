from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ids import TopicPartition
from penstock.record import RawRecord
from penstock.serdes.serde import Serdes
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.restore import StoreRestorer, converter_for_store
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.suppliers import (
    InMemoryKeyValueBytesStoreSupplier,
    LruMapBytesStoreSupplier,
    RocksDBKeyValueBytesStoreSupplier,
)
from penstock.state.value_formats import TIMESTAMPED
from tests.unit.state.contexts import FakeStoreContext

CHANGELOG = TopicPartition("app-store-changelog", 0)


def _opened(tmp_path: Path, builder: Any) -> tuple[Any, FakeStoreContext]:
    context = FakeStoreContext(tmp_path)
    store = builder.build()
    store.init(context, store)
    return store, context


def _timestamped_builder() -> KeyValueStoreBuilder:
    return Stores.timestamped_key_value_store_builder(
        RocksDBKeyValueBytesStoreSupplier("store", TIMESTAMPED), Serdes.string(), Serdes.string()
    )


def _restorer(store: Any, context: FakeStoreContext) -> StoreRestorer:
    return StoreRestorer(store, context.restore_callbacks["store"], CHANGELOG)


def _record(offset: int, key: bytes | None, value: bytes | None, timestamp: int = 0) -> RawRecord:
    return RawRecord(CHANGELOG.topic, CHANGELOG.partition, offset, timestamp, key, value)


def test_should_rebuild_a_store_from_what_it_logged(tmp_path: Path) -> None:
    store, context = _opened(tmp_path / "first", _timestamped_builder())
    context.at(5)
    store.put("a", ValueAndTimestamp("1", 3))
    store.put("b", ValueAndTimestamp("2", 4))
    store.put("a", ValueAndTimestamp("3", 7))
    store.delete("b")
    expected = list(store.all())
    store.close()

    rebuilt, other_context = _opened(tmp_path / "second", _timestamped_builder())
    restorer = _restorer(rebuilt, other_context)
    assert restorer.next_offset is None
    assert restorer.restore(context.changelog_records("store")) == 4

    assert list(rebuilt.all()) == expected == [("a", ValueAndTimestamp("3", 7))]
    assert restorer.offset == 3
    assert restorer.restored_records == 4
    assert other_context.changes == []
    rebuilt.close()


def test_should_go_on_where_the_last_commit_was(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _timestamped_builder())
    _restorer(store, context).restore([_record(0, b"a", b"1"), _record(4, b"b", b"2")])
    store.close()

    store, context = _opened(tmp_path, _timestamped_builder())
    restorer = _restorer(store, context)

    assert restorer.next_offset == 5
    # a record the store has already changes nothing, even if it comes again
    assert restorer.restore([_record(4, b"b", b"old"), _record(5, b"c", b"3")]) == 1
    assert restorer.restore([_record(5, b"c", b"old")]) == 0
    assert [(key, value.value) for key, value in store.all()] == [("a", "1"), ("b", "2"), ("c", "3")]
    assert store.committed_offset(CHANGELOG) == 5
    store.close()


def test_should_move_past_offsets_without_records(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _timestamped_builder())
    restorer = _restorer(store, context)

    restorer.skip_to(0)
    assert restorer.offset is None
    restorer.restore([_record(0, b"a", b"1")])
    restorer.skip_to(3)
    restorer.skip_to(2)

    assert restorer.next_offset == 3
    assert store.committed_offset(CHANGELOG) == 2
    assert restorer.restore([]) == 0
    store.close()


def test_should_skip_records_without_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, context = _opened(tmp_path, _timestamped_builder())
    restorer = _restorer(store, context)

    assert restorer.restore([_record(0, b"a", b"1"), _record(1, None, b"1")]) == 1
    assert restorer.restore([_record(2, None, b"1")]) == 0

    assert restorer.offset == 2
    assert "null key from changelog app-store-changelog-0 at offset 2" in caplog.text
    store.close()


def test_should_begin_again_with_a_store_in_memory(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string())
    for _ in range(2):
        store, context = _opened(tmp_path, builder)
        restorer = _restorer(store, context)
        assert restorer.next_offset is None
        restorer.restore([_record(0, b"a", b"1"), _record(1, b"b", b"1")])
        restorer.restore([_record(2, b"b", None)])
        assert list(store.all()) == [("a", "1")]
        assert restorer.next_offset == 3
        store.close()


def test_should_not_log_what_an_lru_map_evicts_while_it_is_restored(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(LruMapBytesStoreSupplier("store", 2), Serdes.string(), Serdes.string())
    store, context = _opened(tmp_path, builder)

    _restorer(store, context).restore([_record(offset, b"%d" % offset, b"x") for offset in range(5)])
    assert list(store.all()) == [("3", "x"), ("4", "x")]
    assert context.changes == []

    store.put("5", "y")
    assert [(change.key, change.value) for change in context.changes] == [(b"3", None), (b"5", b"y")]
    store.close()


def test_should_convert_for_timestamped_engines_only(tmp_path: Path) -> None:
    def converted(builder: Any, value: bytes | None) -> bytes | None:
        convert = converter_for_store(builder.build())
        record = _record(0, b"a", value, timestamp=50)
        return (record if convert is None else convert(record)).value

    memory = InMemoryKeyValueBytesStoreSupplier("store")
    in_memory = Stores.timestamped_key_value_store_builder(memory, None, None).with_caching_enabled()
    lru = Stores.timestamped_key_value_store_builder(LruMapBytesStoreSupplier("store", 3), None, None)
    adapted = Stores.timestamped_key_value_store_builder(RocksDBKeyValueBytesStoreSupplier("store"), None, None)
    plain = KeyValueStoreBuilder(memory, None, None)
    for timestamped in (_timestamped_builder(), in_memory, lru):
        assert converted(timestamped, b"v") == bytes.fromhex("000000000000003276")
        assert converted(timestamped, None) is None
    assert converted(adapted, b"v") == b"v"
    assert converted(plain, b"v") == b"v"


def test_should_look_at_headers_only_where_a_store_keeps_them(tmp_path: Path) -> None:
    def reads_headers(name: str, builder: Any) -> bool:
        store, context = _opened(tmp_path / name, builder)
        return _restorer(store, context).reads_headers

    text = Serdes.string()
    assert not reads_headers("timestamped", _timestamped_builder())
    assert not reads_headers("plain", KeyValueStoreBuilder(RocksDBKeyValueBytesStoreSupplier("store"), text, text))
    assert reads_headers("memory", KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), text, text))
