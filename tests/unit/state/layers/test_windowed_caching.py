"""The caching layers of window and session stores: what a flush writes and forwards, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.change import Change
from penstock.errors import InvalidStateStoreError
from penstock.record import Record
from penstock.serdes.serde import Serdes
from penstock.state.builders import SessionStoreBuilder, WindowStoreBuilder
from penstock.state.layers.cached_time_ordered_window import TimeOrderedCachingWindowStore
from penstock.state.layers.cached_window import CachingWindowStore
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.windowed_suppliers import StoreLayout, WindowSupplier
from penstock.windows import SessionWindow, TimeWindow, Windowed
from tests.unit.state.contexts import FakeStoreContext
from tests.unit.state.window_model import read

WINDOW_SUPPLIERS = {
    "rocksdb": Stores.persistent_window_store("windows", 1000, 10),
    "in-memory": Stores.in_memory_window_store("windows", 1000, 10),
}
windows = pytest.mark.parametrize("supplier", WINDOW_SUPPLIERS.values(), ids=WINDOW_SUPPLIERS.keys())
TIME_ORDERED = {
    name: WindowSupplier.create("windows", 1000, 10, layout=layout)
    for name, layout in (("base", StoreLayout.TIME), ("index", StoreLayout.TIME_WITH_INDEX))
}
time_ordered = pytest.mark.parametrize("supplier", TIME_ORDERED.values(), ids=TIME_ORDERED.keys())


def opened(builder: Any, folder: Path, cache_size: int = 10_000_000) -> tuple[Any, FakeStoreContext, list[Record[Any, Any]]]:
    context = FakeStoreContext(folder, cache_size=cache_size)
    store = builder.with_caching_enabled().build()
    store.init(context, store)
    forwarded: list[Record[Any, Any]] = []
    assert store.set_flush_listener(forwarded.append, True)
    return store, context, forwarded


def window_store(supplier: Any, folder: Path, **options: Any) -> tuple[Any, FakeStoreContext, list[Record[Any, Any]]]:
    return opened(WindowStoreBuilder(supplier, Serdes.string(), Serdes.string()), folder, **options)


@windows
def test_should_forward_one_change_per_window_and_flush(supplier: Any, tmp_path: Path) -> None:
    store, context, forwarded = window_store(supplier, tmp_path)
    headers = (("h", b"1"),)
    context.at(1)
    store.put("k", "v1", 0)
    context.at(2, headers=headers)
    store.put("k", "v2", 0)
    store.flush_cache()
    key = Windowed("k", TimeWindow(0, 10))
    assert forwarded == [Record(key, Change("v2", None), 2, headers)]
    context.at(3)
    store.put("k", "v3", 0)
    store.flush_cache()
    assert forwarded[1:] == [Record(key, Change("v3", "v2"), 3)]
    assert [change.value for change in context.changes] == [b"v2", b"v3"]


@windows
def test_should_not_forward_what_came_and_went_between_two_flushes(supplier: Any, tmp_path: Path) -> None:
    store, context, forwarded = window_store(supplier, tmp_path)
    store.put("k", "v1", 0)
    store.put("k", None, 0)
    store.flush_cache()
    assert forwarded == []
    assert context.changes == []
    store.put("k", "v2", 0)
    store.flush_cache()
    store.put("k", None, 0)
    store.flush_cache()
    assert [record.value for record in forwarded] == [Change("v2", None), Change(None, "v2")]


@windows
def test_should_bring_back_the_context_of_each_entry(supplier: Any, tmp_path: Path) -> None:
    store, context, _ = window_store(supplier, tmp_path)
    seen: list[int] = []

    def listener(record: Record[Any, Any]) -> None:
        assert context.record_context is not None
        seen.append(context.record_context.timestamp)

    store.set_flush_listener(listener, False)
    context.at(1)
    store.put("a", "v", 0)
    context.at(2)
    store.put("b", "v", 0)
    now = context.at(3).record_context
    store.flush_cache()
    assert seen == [1, 2]
    assert context.record_context is now
    assert [change.timestamp for change in context.changes] == [1, 2]


@windows
def test_should_not_send_old_values_unless_asked(supplier: Any, tmp_path: Path) -> None:
    store, _, forwarded = window_store(supplier, tmp_path)
    store.set_flush_listener(forwarded.append, False)
    for value in ("v1", "v2"):
        store.put("k", value, 0)
        store.flush_cache()
    assert [record.value for record in forwarded] == [Change("v1", None), Change("v2", None)]


@windows
def test_should_flush_when_the_cache_is_full(supplier: Any, tmp_path: Path) -> None:
    store, _, forwarded = window_store(supplier, tmp_path, cache_size=300)
    store.put("k0", "v", 0)
    assert forwarded == []
    for number in range(1, 20):
        store.put(f"k{number}", "v", number)
    assert forwarded[0].key == Windowed("k0", TimeWindow(0, 10))
    assert {windowed.key for windowed, _ in read(store.all())} == {f"k{number}" for number in range(20)}


@windows
def test_should_lose_the_cache_with_close_and_refuse_to_go_on(supplier: Any, tmp_path: Path) -> None:
    store, context, _ = window_store(supplier, tmp_path)
    store.put("k", "v", 0)
    store.close()
    assert len(context.cache) == 0
    with pytest.raises(InvalidStateStoreError, match="Store windows is currently closed"):
        store.put("k", "v", 0)
    with pytest.raises(InvalidStateStoreError, match="Store windows is currently closed"):
        store.fetch("k", 0)
    again = WindowStoreBuilder(supplier, Serdes.string(), Serdes.string()).with_caching_enabled().build()
    again.init(context, again)
    assert again.fetch("k", 0) is None


@windows
def test_should_clear_the_cache(supplier: Any, tmp_path: Path) -> None:
    store, _, forwarded = window_store(supplier, tmp_path)
    store.put("k", "v", 0)
    store.clear_cache()
    store.flush_cache()
    assert forwarded == []
    assert store.fetch("k", 0) is None


def test_should_merge_far_apart_segments_without_walking_through_all_between(tmp_path: Path) -> None:
    store, _, _ = window_store(Stores.persistent_window_store("windows", 10**13, 10), tmp_path)
    times = [0, 10**6, 10**12, 10**12 + 1]
    for time in times:
        store.put("k", "v", time)
    # Kafka Streams would step through 16 million segments here; a minute each.
    assert [time for time, _ in read(store.fetch_range("k", 0, 2**63 - 1))] == times
    assert [time for time, _ in read(store.backward_fetch_range("k", 0, 2**63 - 1))] == times[::-1]


def test_should_remember_only_segments_the_cache_has(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    below = Stores.persistent_window_store("windows", 10**13, 10).get()
    store = CachingWindowStore(below, 10, 60_000)
    store.init(context, store)
    for number in range(500):
        store.put(b"k", b"v", number * 60_000)
        if number % 10 == 0:
            store.flush_cache()
            store.clear_cache()
    assert len(read(store.fetch_range(b"k", 0, 10**12))) == 500
    assert store._segment_ids is not None
    assert len(store._segment_ids) <= 64


def time_ordered_store(supplier: Any, folder: Path, **options: Any) -> tuple[Any, FakeStoreContext, list[Record[Any, Any]]]:
    return opened(Stores.timestamped_window_store_builder(supplier, Serdes.string(), Serdes.string()), folder, **options)


@time_ordered
def test_should_forward_each_window_once_with_or_without_an_index(supplier: Any, tmp_path: Path) -> None:
    store, context, forwarded = time_ordered_store(supplier, tmp_path)
    assert isinstance(store.wrapped, TimeOrderedCachingWindowStore)
    context.at(7)
    store.put("k", ValueAndTimestamp("v1", 5), 0)
    store.put("k", ValueAndTimestamp("v2", 6), 0)
    store.flush_cache()
    assert forwarded == [Record(Windowed("k", TimeWindow(0, 10)), Change(ValueAndTimestamp("v2", 6), None), 7)]
    assert [(change.key, change.value, change.timestamp) for change in context.changes] == [(b"k" + bytes(12), b"v2", 6)]
    store.put("k", None, 0)
    store.flush_cache()
    assert forwarded[1].value == Change(None, ValueAndTimestamp("v2", 6))
    assert read(store.all()) == []
    assert read(store.fetch_range("k", 0, 10)) == []


@time_ordered
@settings(max_examples=20, deadline=None)
@given(
    puts=st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from(["x", "yy"]), st.integers(0, 30)), max_size=40),
    cache_size=st.integers(0, 600),
)
def test_should_hold_the_same_however_small_the_cache(
    supplier: Any, tmp_path_factory: pytest.TempPathFactory, puts: list[Any], cache_size: int
) -> None:
    store, _, _ = time_ordered_store(supplier, tmp_path_factory.mktemp("state"), cache_size=cache_size)
    expected: dict[tuple[int, str], str] = {}
    for key, value, time in puts:
        store.put(key, None if value is None else ValueAndTimestamp(value, time), time)
        if value is None:
            expected.pop((time, key), None)
        else:
            expected[time, key] = value
        assert [(start, found.value) for start, found in read(store.fetch_range(key, 0, 30))] == [
            (at, text) for (at, other), text in sorted(expected.items()) if other == key
        ]
    assert {(windowed.window.start, windowed.key): found.value for windowed, found in read(store.all())} == expected
    in_range = read(store.fetch_key_range("a", "b", 0, 30))
    assert {(windowed.window.start, windowed.key) for windowed, _ in in_range} == {at for at in expected if at[1] in "ab"}
    store.close()


def test_should_refuse_another_engine_under_the_time_ordered_cache() -> None:
    with pytest.raises(ValueError, match="only supports RocksDBTimeOrderedWindowStore"):
        TimeOrderedCachingWindowStore(WINDOW_SUPPLIERS["rocksdb"].get(), 10, 60_000)


@pytest.mark.parametrize(
    "supplier", [Stores.persistent_session_store("sessions", 1000), Stores.in_memory_session_store("sessions", 1000)]
)
def test_should_forward_sessions_with_their_changes(supplier: Any, tmp_path: Path) -> None:
    store, context, forwarded = opened(SessionStoreBuilder(supplier, Serdes.string(), Serdes.string()), tmp_path)
    first, merged = Windowed("k", SessionWindow(0, 5)), Windowed("k", SessionWindow(0, 9))
    context.at(5)
    store.put(first, "v1")
    store.flush_cache()
    context.at(9)
    store.remove(first)
    store.put(merged, "v2")
    assert read(store.fetch("k")) == [(merged, "v2")]
    assert store.fetch_session("k", 0, 5) is None
    store.flush_cache()
    assert forwarded == [
        Record(first, Change("v1", None), 5),
        Record(first, Change(None, "v1"), 9),
        Record(merged, Change("v2", None), 9),
    ]
    assert [change.value for change in context.changes] == [b"v1", None, b"v2"]


def test_should_not_take_a_flush_listener_without_a_cache(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    for builder in (
        WindowStoreBuilder(WINDOW_SUPPLIERS["rocksdb"], Serdes.string(), Serdes.string()),
        SessionStoreBuilder(Stores.in_memory_session_store("sessions", 1000), Serdes.string(), Serdes.string()),
    ):
        store = builder.build()
        store.init(context, store)
        assert store.set_flush_listener(print, True) is False
