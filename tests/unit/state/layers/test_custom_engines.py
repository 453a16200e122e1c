"""Byte stores of the user's own, which implement the public interfaces and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import SessionWindow, Windowed
from penstock.serdes.serde import Serdes
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.store import KeyValueStore, SessionStore, ValueAndTimestamp, WindowStore
from penstock.state.stores import Stores
from tests.unit.state.contexts import FakeStoreContext


def own_store(interface: Any, inner: Any) -> Any:
    """A store with the methods of a public interface alone; another store answers them."""

    def delegate(name: str) -> Any:
        if name in ("name", "persistent", "is_open"):
            return property(lambda self: getattr(inner, name))
        return lambda self, *args: getattr(inner, name)(*args)

    return type("Own", (interface,), {name: delegate(name) for name in interface.__abstractmethods__})()


class Supplier:
    name = "store"
    metrics_scope = "custom"
    retention_period = 1_000
    window_size = 10
    segment_interval_ms = 1
    retain_duplicates = False

    def __init__(self, interface: Any, inner: Any) -> None:
        self.get = lambda: own_store(interface, inner)


def opened(tmp_path: Path, builder: Any) -> Any:
    store = builder.build()
    store.init(FakeStoreContext(tmp_path), store)
    return store


def test_should_read_a_key_value_store_of_ones_own_in_both_directions(tmp_path: Path) -> None:
    supplier: Any = Supplier(KeyValueStore, InMemoryKeyValueStore("store"))
    for caching in (False, True):
        builder = Stores.timestamped_key_value_store_builder(supplier, Serdes.string(), Serdes.string())
        store = opened(tmp_path, builder.with_caching_enabled() if caching else builder)
        for key in "abc":
            store.put(key, ValueAndTimestamp(key.upper(), 5))

        assert list(store.range("b", None)) == [("b", ValueAndTimestamp("B", 5)), ("c", ValueAndTimestamp("C", 5))]
        assert [key for key, _ in store.reverse_range("a", "b")] == ["b", "a"]
        assert [key for key, _ in store.all()] == ["a", "b", "c"]
        assert [key for key, _ in store.reverse_all()] == ["c", "b", "a"]
        store.close()


def test_should_read_a_window_store_of_ones_own_in_both_directions(tmp_path: Path) -> None:
    supplier: Any = Supplier(WindowStore, InMemoryWindowStore("store", 1_000, 10, False))
    store = opened(tmp_path, Stores.window_store_builder(supplier, Serdes.string(), Serdes.string()))
    for start in (10, 20):
        for key in "ab":
            store.put(key, f"{key}{start}", start)

    assert list(store.fetch_range("a", 0, 100)) == [(10, "a10"), (20, "a20")]
    assert list(store.backward_fetch_range("a", 0, 100)) == [(20, "a20"), (10, "a10")]
    for forward, backward in (
        (store.all(), store.backward_all()),
        (store.fetch_all(0, 100), store.backward_fetch_all(0, 100)),
        (store.fetch_key_range("a", "b", 0, 100), store.backward_fetch_key_range("a", "b", 0, 100)),
    ):
        assert [value for _, value in forward] == ["a10", "b10", "a20", "b20"]
        assert [value for _, value in backward] == ["b20", "a20", "b10", "a10"]
    store.close()


def test_should_read_a_session_store_of_ones_own_in_both_directions(tmp_path: Path) -> None:
    supplier: Any = Supplier(SessionStore, InMemorySessionStore("store", 1_000))
    store = opened(tmp_path, Stores.session_store_builder(supplier, Serdes.string(), Serdes.string()))
    for end in (10, 20):
        store.put(Windowed("a", SessionWindow(end - 5, end)), str(end))

    for forward, backward in (
        (store.fetch("a"), store.backward_fetch("a")),
        (store.find_sessions("a", 0, 100), store.backward_find_sessions("a", 0, 100)),
        (store.fetch_key_range("a", "b"), store.backward_fetch_key_range("a", "b")),
    ):
        assert [value for _, value in forward] == ["10", "20"]
        assert [value for _, value in backward] == ["20", "10"]
    store.close()
