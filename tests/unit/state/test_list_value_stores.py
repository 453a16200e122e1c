"""Stores that keep all values put under a key, as outer joins use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.builders import ListValueStoreBuilder
from penstock.state.layers.list_value import appended
from penstock.state.restore import StoreRestorer
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier, RocksDBKeyValueBytesStoreSupplier
from tests.unit.state.contexts import FakeStoreContext
from tests.unit.state.window_model import read

SUPPLIERS = [RocksDBKeyValueBytesStoreSupplier("list"), InMemoryKeyValueBytesStoreSupplier("list")]
suppliers = pytest.mark.parametrize("supplier", SUPPLIERS, ids=["rocksdb", "in-memory"])


def opened(supplier: Any, folder: Path) -> tuple[Any, FakeStoreContext]:
    context = FakeStoreContext(folder)
    store = ListValueStoreBuilder(supplier, Serdes.string(), Serdes.string()).build()
    store.init(context, store)
    return store, context


@suppliers
def test_should_add_every_value_to_the_list_of_its_key(supplier: Any, tmp_path: Path) -> None:
    store, _ = opened(supplier, tmp_path)
    for key, value in (("b", "1"), ("a", "2"), ("b", "3"), ("a", "2")):
        store.put(key, value)
    assert read(store.all()) == [("a", "2"), ("a", "2"), ("b", "1"), ("b", "3")]


@suppliers
def test_should_delete_the_whole_list(supplier: Any, tmp_path: Path) -> None:
    store, _ = opened(supplier, tmp_path)
    for key, value in (("a", "1"), ("a", "2"), ("b", "3")):
        store.put(key, value)
    store.put("a", None)
    assert read(store.all()) == [("b", "3")]
    store.put_if_absent("b", None)
    store.put_if_absent("nobody", None)
    store.put_if_absent("nobody", "x")
    assert read(store.all()) == []


@suppliers
def test_should_delete_while_it_is_read(supplier: Any, tmp_path: Path) -> None:
    store, _ = opened(supplier, tmp_path)
    for key, value in (("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")):
        store.put(key, value)
    seen = []
    with store.all() as entries:
        for key, value in entries:
            seen.append((key, value))
            if key != "c":
                store.put(key, None)
    assert seen == [("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")]
    assert read(store.all()) == [("c", "4")]


@suppliers
def test_should_log_the_whole_list_in_the_format_of_kafka_streams(supplier: Any, tmp_path: Path) -> None:
    store, context = opened(supplier, tmp_path)
    context.at(42)
    store.put("a", "1")
    store.put("a", "22")
    store.put_if_absent("a", None)
    store.put_if_absent("nobody", None)
    assert [(change.key, change.value, change.timestamp) for change in context.changes] == [
        (b"a", bytes.fromhex("01 00000001 00000001 31"), 42),
        (b"a", bytes.fromhex("01 00000002 00000001 31 00000002 3232"), 42),
        (b"a", None, 42),
    ]


@suppliers
def test_should_be_the_same_after_a_restore(supplier: Any, tmp_path: Path) -> None:
    store, context = opened(supplier, tmp_path / "live")
    for key, value in (("a", "1"), ("a", "2"), ("b", "3"), ("b", None)):
        store.put(key, value)
    copy, fresh = opened(supplier, tmp_path / "copy")
    StoreRestorer(copy, fresh.restore_callbacks["list"], TopicPartition("app-list-changelog", 0)).restore(
        context.changelog_records("list")
    )
    assert read(copy.all()) == read(store.all()) == [("a", "1"), ("a", "2")]
    copy.put("a", "3")
    assert read(copy.all()) == [("a", "1"), ("a", "2"), ("a", "3")]


@suppliers
def test_should_refuse_what_makes_no_sense_for_lists(supplier: Any, tmp_path: Path) -> None:
    store, _ = opened(supplier, tmp_path)
    for call in (lambda: store.delete("a"), lambda: store.range("a", "b"), lambda: store.put_all([("a", "b")])):
        with pytest.raises(NotImplementedError, match="it keeps a list under each key"):
            call()


@suppliers
def test_should_read_and_write_the_lists_of_many_keys_as_single_puts_would(supplier: Any, tmp_path: Path) -> None:
    store, context = opened(supplier, tmp_path / "many")
    single, logged = opened(supplier, tmp_path / "single")
    logged.at(42)
    for value in ("1", "22"):
        single.put("a", value)
    single.put("a", None)
    single.put("b", "3")

    assert store.takes_rows
    a, b = store.raw_keys(["a", "b"])
    assert store.lists_of([a, b]) == [None, None]
    first = appended(None, store.raw_value("1"))
    store.write_lists([a, a, a, b], [first, appended(first, b"22"), None, appended(None, b"3")], [42] * 4)

    assert read(store.all()) == read(single.all()) == [("b", "3")]
    assert store.lists_of([a, b]) == single.lists_of([a, b])
    assert context.changes == logged.changes
