from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.serdes.serde import Serdes
from penstock.state.store import KeyValueStore, SessionStore, ValueAndTimestamp, VersionedKeyValueStore, WindowStore
from penstock.state.stores import Stores
from tests.unit.state.contexts import FakeStoreContext

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

KEY_VALUE = {
    "rocksdb": Stores.persistent_key_value_store("store"),
    "rocksdb-timestamped": Stores.persistent_timestamped_key_value_store("store"),
    "in-memory": Stores.in_memory_key_value_store("store"),
    "lru": Stores.lru_map("store", 3),
}


def _opened(tmp_path: Path, builder: Any) -> Any:
    store = builder.build()
    store.init(FakeStoreContext(tmp_path), store)
    return store


@pytest.mark.parametrize("kind", KEY_VALUE)
def test_should_build_key_value_stores(tmp_path: Path, kind: str) -> None:
    supplier = KEY_VALUE[kind]
    assert supplier.name == "store"
    store = _opened(tmp_path, Stores.timestamped_key_value_store_builder(supplier, Serdes.string(), Serdes.long()))
    assert isinstance(store, KeyValueStore)
    assert store.persistent is kind.startswith("rocksdb")

    store.put("a", ValueAndTimestamp(1, 2))

    found = store.get("a")
    assert found.value == 1
    assert found.timestamp == (-1 if kind == "rocksdb" else 2)
    store.close()


def test_should_name_the_scopes_of_metrics() -> None:
    assert KEY_VALUE["rocksdb"].metrics_scope == "rocksdb"
    assert KEY_VALUE["in-memory"].metrics_scope == "in-memory"
    assert KEY_VALUE["lru"].metrics_scope == "in-memory-lru"
    assert Stores.persistent_window_store("store", HOUR, MINUTE).metrics_scope == "rocksdb-window"
    assert Stores.persistent_session_store("store", HOUR).metrics_scope == "rocksdb-session"


@pytest.mark.parametrize(
    "supplier",
    [
        Stores.persistent_window_store("store", HOUR, MINUTE),
        Stores.persistent_timestamped_window_store("store", HOUR, MINUTE),
        Stores.in_memory_window_store("store", HOUR, MINUTE, retain_duplicates=True),
    ],
)
def test_should_build_window_stores(tmp_path: Path, supplier: Any) -> None:
    store = _opened(tmp_path, Stores.timestamped_window_store_builder(supplier, Serdes.string(), Serdes.long()))
    assert isinstance(store, WindowStore)
    assert supplier.window_size == 60_000
    assert supplier.retention_period == 3_600_000

    store.put("a", ValueAndTimestamp(1, 2), 60_000)

    assert [value.value for _, value in store.all()] == [1]
    store.close()


def test_should_build_the_other_stores(tmp_path: Path) -> None:
    window = Stores.window_store_builder(Stores.in_memory_window_store("window", 10, 10), Serdes.string(), Serdes.long())
    session = Stores.session_store_builder(Stores.persistent_session_store("session", 10), Serdes.string(), Serdes.long())
    memory = Stores.session_store_builder(Stores.in_memory_session_store("memory", 10), Serdes.string(), Serdes.long())
    versioned = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("versioned", HOUR, MINUTE), Serdes.string(), Serdes.long()
    )
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), Serdes.string(), Serdes.long())
    kinds = [(window, WindowStore), (session, SessionStore), (memory, SessionStore), (versioned, VersionedKeyValueStore)]
    for builder, kind in [*kinds, (plain, KeyValueStore)]:
        store = _opened(tmp_path, builder)
        assert isinstance(store, kind)
        assert store.name == builder.name
        store.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stores.persistent_key_value_store(None),  # type: ignore[arg-type]
        lambda: Stores.persistent_timestamped_key_value_store(None),  # type: ignore[arg-type]
        lambda: Stores.in_memory_key_value_store(None),  # type: ignore[arg-type]
        lambda: Stores.lru_map(None, 1),  # type: ignore[arg-type]
        lambda: Stores.persistent_versioned_key_value_store(None, 1),  # type: ignore[arg-type]
        lambda: Stores.persistent_window_store(None, 1, 1),  # type: ignore[arg-type]
        lambda: Stores.persistent_timestamped_window_store(None, 1, 1),  # type: ignore[arg-type]
        lambda: Stores.in_memory_window_store(None, 1, 1),  # type: ignore[arg-type]
        lambda: Stores.persistent_session_store(None, 1),  # type: ignore[arg-type]
        lambda: Stores.in_memory_session_store(None, 1),  # type: ignore[arg-type]
    ],
)
def test_should_ask_for_a_name(make: Any) -> None:
    with pytest.raises(ValueError, match="name cannot be None"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stores.lru_map("store", -1),
        lambda: Stores.persistent_versioned_key_value_store("store", -1),
        lambda: Stores.persistent_window_store("store", -1, 0),
        lambda: Stores.persistent_window_store("store", 1, -1),
        lambda: Stores.persistent_timestamped_window_store("store", timedelta(seconds=-1), 0),
        lambda: Stores.in_memory_window_store("store", -1, 0),
        lambda: Stores.persistent_session_store("store", -1),
        lambda: Stores.in_memory_session_store("store", -1),
    ],
)
def test_should_refuse_negative_sizes(make: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        make()


def test_should_refuse_a_retention_shorter_than_the_window() -> None:
    for make in (Stores.persistent_window_store, Stores.persistent_timestamped_window_store, Stores.in_memory_window_store):
        with pytest.raises(ValueError, match="must be no smaller than its window size"):
            make("store", 1, 5)
    with pytest.raises(ValueError, match="cannot be zero or negative"):
        Stores.persistent_versioned_key_value_store("store", 1, 0)


@pytest.mark.parametrize(
    "build",
    [
        Stores.key_value_store_builder,
        Stores.timestamped_key_value_store_builder,
        Stores.window_store_builder,
        Stores.timestamped_window_store_builder,
        Stores.session_store_builder,
        Stores.versioned_key_value_store_builder,
    ],
)
def test_should_ask_for_a_supplier(build: Any) -> None:
    with pytest.raises(ValueError, match="supplier cannot be None"):
        build(None, Serdes.string(), Serdes.string())
