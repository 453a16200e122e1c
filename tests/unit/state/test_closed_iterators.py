"""Iterators of every engine and layer: they look ahead, end with `close`, end with their store, and see what comes later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Consumed,
    InvalidStateStoreError,
    Materialized,
    Serdes,
    SessionWindow,
    StoreIterator,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
    Windowed,
)
from penstock.state.store import StateStore
from tests.unit.state.contexts import FakeStoreContext

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
STRING, LONG = Serdes.string(), Serdes.long()

KEY_VALUE = {
    "in_memory": Stores.in_memory_key_value_store("store"),
    "lru": Stores.lru_map("store", 9),
    "rocksdb": Stores.persistent_key_value_store("store"),
    "rocksdb-timestamped": Stores.persistent_timestamped_key_value_store("store"),
}
WINDOWS = {
    "in_memory": Stores.in_memory_window_store("store", HOUR, MINUTE),
    "rocksdb": Stores.persistent_window_store("store", HOUR, MINUTE),
}
SESSIONS = {
    "in_memory": Stores.in_memory_session_store("store", HOUR),
    "rocksdb": Stores.persistent_session_store("store", HOUR),
}
READS: dict[str, list[Callable[[Any], StoreIterator[Any]]]] = {
    "key_value": [
        lambda store: store.all(),
        lambda store: store.reverse_all(),
        lambda store: store.range("a", "c"),
        lambda store: store.reverse_range("a", "c"),
        lambda store: store.prefix_scan("a", STRING),
    ],
    "window": [
        lambda store: store.all(),
        lambda store: store.backward_all(),
        lambda store: store.fetch_all(0, 9),
        lambda store: store.fetch("a", 0, 9),
        lambda store: store.fetch_range("a", 0, 9),
        lambda store: store.backward_fetch_range("a", 0, 9),
        lambda store: store.fetch_key_range("a", "c", 0, 9),
    ],
    "session": [
        lambda store: store.fetch("a"),
        lambda store: store.backward_fetch("a"),
        lambda store: store.find_sessions("a", 0, 99),
        lambda store: store.fetch_key_range("a", "c"),
        lambda store: store.backward_find_sessions_key_range("a", "c", 0, 99),
    ],
}


def _opened(tmp_path: Path, kind: str, engine: str, cached: bool = False) -> Any:
    builder: Any
    if kind == "key_value":
        builder = Stores.key_value_store_builder(KEY_VALUE[engine], STRING, LONG)
    elif kind == "window":
        builder = Stores.window_store_builder(WINDOWS[engine], STRING, LONG)
    else:
        builder = Stores.session_store_builder(SESSIONS[engine], STRING, LONG)
    store: StateStore = (builder.with_caching_enabled() if cached else builder).build()
    store.init(FakeStoreContext(tmp_path), store)
    return store


def _fill(store: Any, kind: str) -> None:
    for key in "abc":
        if kind == "key_value":
            store.put(key, 1)
        for time in range(3):
            if kind == "window":
                store.put(key, 1, time)
            elif kind == "session":
                store.put(Windowed(key, SessionWindow(time * 10, time * 10 + 5)), 1)


CASES = [
    (kind, engine, cached, read)
    for kind, engines in (("key_value", KEY_VALUE), ("window", WINDOWS), ("session", SESSIONS))
    for engine in engines
    for cached in (False, True)
    for read in range(len(READS[kind]))
]


@pytest.mark.parametrize(("kind", "engine", "cached", "read"), CASES)
def test_should_have_no_next_entry_after_close(tmp_path: Path, kind: str, engine: str, cached: bool, read: int) -> None:
    store = _opened(tmp_path, kind, engine, cached)
    _fill(store, kind)
    entries = READS[kind][read](store)
    assert entries.has_next()
    key = entries.peek_next_key()
    assert next(entries)[0] == key
    entries.has_next()
    entries.close()
    assert not entries.has_next()
    with pytest.raises(InvalidStateStoreError, match="Iterator for store store has already been closed"):
        next(entries)
    store.close()


@pytest.mark.parametrize(("kind", "engine", "cached", "read"), CASES)
def test_should_end_with_its_store(tmp_path: Path, kind: str, engine: str, cached: bool, read: int) -> None:
    store = _opened(tmp_path, kind, engine, cached)
    _fill(store, kind)
    entries = READS[kind][read](store)
    assert entries.has_next()
    store.close()
    if kind == "key_value" and engine.startswith("rocksdb"):
        with pytest.raises(InvalidStateStoreError):
            entries.has_next()
        with pytest.raises(InvalidStateStoreError):
            next(entries)
    else:
        assert not entries.has_next()
        assert list(entries) == []
    entries.close()


@pytest.mark.parametrize(("kind", "engine", "cached", "read"), CASES)
def test_should_end_by_itself_and_stay_ended(tmp_path: Path, kind: str, engine: str, cached: bool, read: int) -> None:
    store = _opened(tmp_path, kind, engine, cached)
    _fill(store, kind)
    entries = READS[kind][read](store)
    assert list(entries)
    assert not entries.has_next()
    assert list(entries) == []
    with pytest.raises(StopIteration):
        entries.peek_next_key()
    store.close()


@pytest.mark.parametrize("engine", WINDOWS)
def test_should_see_windows_that_are_put_before_the_first_is_read(tmp_path: Path, engine: str) -> None:
    store = _opened(tmp_path, "window", engine)
    store.put("a", 1, 0)
    store.put("a", 2, 30)
    with store.all() as entries:
        store.put("a", 3, 60)
        store.put("b", 4, 90)
        assert [value for _, value in entries] == [1, 2, 3, 4]
    store.close()


def test_should_see_windows_in_memory_that_are_put_ahead_of_the_iterator(tmp_path: Path) -> None:
    store = _opened(tmp_path, "window", "in_memory")
    for time in (0, 20):
        store.put("a", time, time)
    forward, backward, of_key = store.all(), store.backward_all(), store.fetch("a", 0, 100)
    assert [next(entries)[1] for entries in (forward, backward, of_key)] == [0, 20, 0]
    for time in (10, 30):
        store.put("a", time, time)
    assert [value for _, value in forward] == [10, 20, 30]
    assert [value for _, value in backward] == [10, 0]
    assert [value for _, value in of_key] == [20, 30]
    store.close()


def test_should_not_see_later_windows_outside_of_the_range(tmp_path: Path) -> None:
    store = _opened(tmp_path, "window", "in_memory")
    store.put("a", 1, 0)
    with store.fetch_all(0, 50) as entries, store.fetch("a", 0, 50) as of_key:
        store.put("a", 2, 51)
        assert [value for _, value in entries] == [1]
        assert [value for _, value in of_key] == [1]
    store.close()


def test_should_go_on_over_windows_in_memory_that_expire(tmp_path: Path) -> None:
    store = _opened(tmp_path, "window", "in_memory")
    for key, time in (("a", 0), ("b", 5), ("a", 10), ("b", 15)):
        store.put(key, time, time)
    of_a, of_b, of_all = store.fetch("a", 0, 50), store.fetch("b", 0, 50), store.fetch_all(0, 50)
    store.put("a", 9, 2 * 3_600_000)
    assert [value for _, value in of_a] == [0, 10]
    assert [value for _, value in of_b] == [5, 15]
    assert [value for _, value in of_all] == [0, 5, 10, 15]
    assert list(store.fetch("a", 0, 50)) == []
    store.close()


def test_should_see_sessions_in_memory_that_are_put_later_and_go_on_over_expired_ones(tmp_path: Path) -> None:
    store = _opened(tmp_path, "session", "in_memory")
    hour = 3_600_000
    for key, start, end, value in (("a", 0, 0, 1), ("aa", 0, 10, 2), ("a", 10, 20, 3)):
        store.put(Windowed(key, SessionWindow(start, end)), value)
    entries = store.find_sessions_key_range("a", "b", 0, hour)
    store.put(Windowed("aa", SessionWindow(100, 2 * hour)), 4)
    assert {value for _, value in entries} == {1, 2, 3, 4}
    assert not entries.has_next()
    assert list(store.find_sessions_key_range("a", "b", 0, 20)) == []
    store.close()


def test_should_look_ahead_in_the_stores_of_the_test_driver() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).group_by_key().count(Materialized("counts", STRING, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_key_values([("a", ""), ("b", "")])
        entries = driver.get_key_value_store("counts").all()
        assert entries.has_next()
        assert entries.peek_next_key() == "a"
        assert list(entries) == [("a", 1), ("b", 1)]
        assert not entries.has_next()
        entries.close()
