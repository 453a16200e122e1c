"""Window stores that keep several values of one key and one start, as joins use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.builders import WindowStoreBuilder
from penstock.state.restore import StoreRestorer
from penstock.state.stores import Stores
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.windows import TimeWindow, Windowed
from tests.unit.state.contexts import FakeStoreContext
from tests.unit.state.window_model import read

CHANGELOG = TopicPartition("app-joined-changelog", 0)
SUPPLIERS = {
    "rocksdb": Stores.persistent_window_store("joined", 1000, 10, retain_duplicates=True),
    "in-memory": Stores.in_memory_window_store("joined", 1000, 10, retain_duplicates=True),
}
suppliers = pytest.mark.parametrize("supplier", SUPPLIERS.values(), ids=SUPPLIERS.keys())


def opened(supplier: Any, context: FakeStoreContext) -> Any:
    store = WindowStoreBuilder(supplier, Serdes.string(), Serdes.string()).build()
    store.init(context, store)
    return store


@suppliers
def test_should_keep_all_values_in_the_order_they_came(supplier: Any, tmp_path: Path) -> None:
    store = opened(supplier, FakeStoreContext(tmp_path))
    for value in ("c", "a", "a", "b"):
        store.put("k", value, 5)
    store.put("k", "z", 4)
    store.put("kk", "other", 5)
    assert read(store.fetch_range("k", 0, 10)) == [(4, "z"), (5, "c"), (5, "a"), (5, "a"), (5, "b")]
    assert read(store.backward_fetch_range("k", 0, 5)) == [(5, "b"), (5, "a"), (5, "a"), (5, "c"), (4, "z")]
    windowed = Windowed("k", TimeWindow(5, 15))
    # RocksDB gives segments in the order of keys, memory in the order of time.
    assert [value for key, value in read(store.fetch_key_range("k", "k", 0, 10)) if key == windowed] == ["c", "a", "a", "b"]
    assert len(read(store.all())) == 6


@suppliers
def test_should_ignore_deletions(supplier: Any, tmp_path: Path) -> None:
    store = opened(supplier, FakeStoreContext(tmp_path))
    store.put("k", "v", 5)
    store.put("k", None, 5)
    assert read(store.fetch_range("k", 0, 10)) == [(5, "v")]


@suppliers
def test_should_log_each_value_under_a_sequence_number(supplier: Any, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = opened(supplier, context)
    for value in ("a", "b", None, "c"):
        store.put("k", value, 5)
    assert [(change.key.hex()[2:], change.value) for change in context.changes] == [
        ("000000000000000500000001", b"a"),
        ("000000000000000500000002", b"b"),
        ("000000000000000500000003", None),
        ("000000000000000500000004", b"c"),
    ]


@suppliers
def test_should_count_on_where_single_values_and_many_at_once_alternate(supplier: Any, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store: Any = Stores.timestamped_window_store_with_headers_builder(supplier, Serdes.string(), Serdes.string()).build()
    store.init(context, store)
    assert store.takes_duplicates
    store.put("k", ValueTimestampHeaders("a", 5, ()), 5)
    store.put_duplicates([b"k", b"k", b"l"], [b"b", None, b"c"], [5, 6, 2000], None)
    store.put("k", None, 2000)
    store.put_duplicates([b"l", b"k"], [b"d", b"late"], [2000, 5], [(("h", b"1"),), ()])
    store.put("l", ValueTimestampHeaders("e", 2001, ()), 2001)
    numbers = [int.from_bytes(change.key[-4:], "big") for change in context.changes]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [change.value for change in context.changes] == [b"a", b"b", None, b"c", None, b"d", b"late", b"e"]
    assert context.changes[5].headers == (("h", b"1"),)
    assert store.fetch_duplicates([b"k", b"l", b"m"], 0, 3000) == {b"l": [(2000, b"c"), (2000, b"d"), (2001, b"e")]}
    with store.fetch("l", 2000, 2001) as found:
        assert [(time, value.value, value.headers) for time, value in found] == [
            (2000, "c", ()),
            (2000, "d", (("h", b"1"),) if supplier is SUPPLIERS["in-memory"] else ()),
            (2001, "e", ()),
        ]


@suppliers
def test_should_turn_caching_off(supplier: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = WindowStoreBuilder(supplier, Serdes.string(), Serdes.string()).with_caching_enabled()
    store = builder.build()
    assert "Disabling caching for joined since store was configured to retain duplicates" in caplog.text
    assert not builder.caching_enabled
    assert type(store.wrapped).__name__ == "ChangeLoggingWindowStore"
    assert builder.log_config == {"cleanup.policy": "delete"}


@suppliers
def test_should_not_overwrite_values_of_the_changelog_after_a_restore(supplier: Any, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path / "live")
    store = opened(supplier, context)
    for value in ("a", "b", None):
        store.put("k", value, 5)
    fresh = FakeStoreContext(tmp_path / "copy")
    copy = opened(supplier, fresh)
    restorer = StoreRestorer(copy, fresh.restore_callbacks["joined"], CHANGELOG)
    restorer.restore(context.changelog_records("joined"))
    copy.put("k", "c", 5)
    assert read(copy.fetch_range("k", 0, 10)) == [(5, "a"), (5, "b"), (5, "c")]
    assert fresh.changes[0].key == b"k" + bytes.fromhex("0000000000000005 00000004")


def test_should_go_on_counting_after_it_was_reopened(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = opened(SUPPLIERS["rocksdb"], context)
    for value in ("a", "b", None):
        store.put("k", value, 5)
    store.commit({CHANGELOG: 2})
    store.put("k", "discarded", 5)
    store.close()
    again = opened(SUPPLIERS["rocksdb"], context)
    again.put("k", "c", 5)
    assert read(again.fetch_range("k", 0, 10)) == [(5, "a"), (5, "b"), (5, "c")]
    assert context.changes[-1].key == b"k" + bytes.fromhex("0000000000000005 00000004")


def test_should_order_duplicates_of_different_keys_as_kafka_streams_does(tmp_path: Path) -> None:
    store = SUPPLIERS["in-memory"].get()
    store.init(FakeStoreContext(tmp_path), store)
    for key in (b"b", b"a", b"b", b"a"):
        store.put(key, b"v", 5)
    assert [windowed.key for windowed, _ in read(store.fetch_all(0, 10))] == [b"a", b"a", b"b", b"b"]
    assert [windowed.key for windowed, _ in read(store.backward_fetch_key_range(b"a", b"b", 0, 10))] == [b"b", b"b", b"a", b"a"]
