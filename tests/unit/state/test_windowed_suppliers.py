"""Suppliers and builders of window, session and versioned stores: checks, defaults, layers, pickling."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.serdes.serde import Serdes
from penstock.state.builders import (
    ListValueStoreBuilder,
    SessionStoreBuilder,
    VersionedKeyValueStoreBuilder,
    WindowStoreBuilder,
)
from penstock.state.capabilities import is_versioned
from penstock.state.engines.session_time_ordered import RocksDBTimeOrderedSessionStore
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.engines.window_time_ordered import RocksDBTimeOrderedWindowStore
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.suppliers import InMemoryKeyValueBytesStoreSupplier
from penstock.state.value_formats import PLAIN, TIMESTAMPED, format_of
from penstock.state.windowed_suppliers import SessionSupplier, StoreLayout, WindowSupplier, persistent_versioned_key_value_store
from tests.unit.state.contexts import FakeStoreContext

WINDOW_FACTORIES: list[Any] = [
    Stores.persistent_window_store,
    Stores.persistent_timestamped_window_store,
    Stores.in_memory_window_store,
]
window_factories = pytest.mark.parametrize("factory", WINDOW_FACTORIES, ids=lambda factory: factory.__name__)
session_factories = pytest.mark.parametrize(
    "factory", [Stores.persistent_session_store, Stores.in_memory_session_store], ids=lambda factory: factory.__name__
)


@window_factories
def test_should_refuse_windows_that_do_not_fit(factory: Any) -> None:
    with pytest.raises(ValueError, match="retention_period cannot be negative"):
        factory("s", -1, 0)
    with pytest.raises(ValueError, match="window_size cannot be negative"):
        factory("s", 10, -1)
    with pytest.raises(
        ValueError,
        match=r"period of the window store s must be no smaller than its window size. Got size=\[11\], retention=\[10\]",
    ):
        factory("s", 10, 11)
    with pytest.raises(ValueError, match="name cannot be None"):
        factory(None, 10, 10)
    with pytest.raises(TypeError, match="retention_period must be a timedelta or an integer"):
        factory("s", "10", 10)


@session_factories
def test_should_refuse_sessions_that_do_not_fit(factory: Any) -> None:
    with pytest.raises(ValueError, match="retention_period cannot be negative"):
        factory("s", -1)
    with pytest.raises(ValueError, match="name cannot be None"):
        factory(None, 10)


def test_should_refuse_versions_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="history_retention cannot be negative"):
        persistent_versioned_key_value_store("s", -1)
    with pytest.raises(ValueError, match="segment_interval cannot be zero or negative"):
        persistent_versioned_key_value_store("s", 10, 0)
    with pytest.raises(ValueError, match="name cannot be None"):
        persistent_versioned_key_value_store(None, 10)  # type: ignore[arg-type]


def test_should_take_timedeltas() -> None:
    supplier = Stores.persistent_window_store("s", timedelta(hours=1), timedelta(minutes=1))
    assert (supplier.retention_period, supplier.window_size) == (3_600_000, 60_000)


@pytest.mark.parametrize(("retention", "interval"), [(0, 60_000), (120_000, 60_000), (120_002, 60_001), (86_400_000, 43_200_000)])
def test_should_cut_half_the_retention_into_a_segment_but_at_least_a_minute(retention: int, interval: int) -> None:
    assert Stores.persistent_window_store("s", retention, 0).segment_interval_ms == interval
    assert Stores.persistent_session_store("s", retention).segment_interval_ms == interval
    assert SessionSupplier("s", retention, StoreLayout.TIME_WITH_INDEX).segment_interval_ms == interval
    assert Stores.in_memory_window_store("s", retention, 0).segment_interval_ms == 1
    assert Stores.in_memory_session_store("s", retention).segment_interval_ms == 1


@pytest.mark.parametrize(
    ("retention", "interval"),
    [
        (0, 2_000),
        (60_000, 20_000),
        (60_001, 20_000),
        (300_000, 60_000),
        (3_600_000, 300_000),
        (3_600_001, 300_000),
        (86_400_000, 3_600_000),
    ],
)
def test_should_choose_segments_of_versions_as_kafka_streams_does(retention: int, interval: int) -> None:
    assert persistent_versioned_key_value_store("s", retention).segment_interval_ms == interval
    assert persistent_versioned_key_value_store("s", retention, 7).segment_interval_ms == 7


def test_should_make_the_engines_that_emit_at_window_close() -> None:
    windows = WindowSupplier.create("s", 1000, 10, layout=StoreLayout.TIME_WITH_INDEX).get()
    assert isinstance(windows, RocksDBTimeOrderedWindowStore)
    assert windows.has_index
    assert format_of(windows) is TIMESTAMPED
    sessions = SessionSupplier("s", 1000, StoreLayout.TIME_WITH_INDEX).get()
    assert isinstance(sessions, RocksDBTimeOrderedSessionStore)
    assert sessions.has_index


BUILDERS: list[Any] = [
    WindowStoreBuilder(Stores.persistent_window_store("s", 1000, 10), Serdes.string(), Serdes.string()),
    WindowStoreBuilder(Stores.in_memory_window_store("s", 1000, 10), Serdes.string(), Serdes.string()),
    Stores.timestamped_window_store_builder(
        Stores.persistent_timestamped_window_store("s", 1000, 10), Serdes.string(), Serdes.string()
    ),
    Stores.timestamped_window_store_builder(Stores.in_memory_window_store("s", 1000, 10), Serdes.string(), Serdes.string()),
    Stores.timestamped_window_store_builder(
        WindowSupplier.create("s", 1000, 10, layout=StoreLayout.TIME_WITH_INDEX), Serdes.string(), Serdes.string()
    ),
    SessionStoreBuilder(Stores.persistent_session_store("s", 1000), Serdes.string(), Serdes.string()),
    SessionStoreBuilder(Stores.in_memory_session_store("s", 1000), Serdes.string(), Serdes.string()),
    VersionedKeyValueStoreBuilder(persistent_versioned_key_value_store("s", 1000), Serdes.string(), Serdes.string()),
    ListValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("s"), Serdes.string(), Serdes.string()),
]


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: type(builder).__name__)
def test_should_pickle_and_build_a_new_store_each_time(builder: Any) -> None:
    copy = pickle.loads(pickle.dumps(builder))
    assert copy.name == "s"
    assert copy.supplier == builder.supplier
    first, second = copy.build(), copy.build()
    assert first is not second
    assert first.name == "s"
    assert not first.is_open
    assert is_versioned(first) is isinstance(builder, VersionedKeyValueStoreBuilder)
    assert format_of(first) is builder.value_format


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: type(builder).__name__)
def test_should_register_the_outermost_layer(builder: Any, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = builder.build()
    store.init(context, store)
    assert context.stores["s"] is store
    assert store.is_open
    store.close()
    assert not store.is_open


def test_should_stack_the_layers() -> None:
    def layers(store: Any) -> list[str]:
        names = []
        while hasattr(store, "wrapped"):
            names.append(type(store).__name__)
            store = store.wrapped
        return names

    builder = WindowStoreBuilder(Stores.in_memory_window_store("s", 1000, 10), None, None)
    assert layers(builder.with_caching_enabled().build()) == [
        "MeteredWindowStore",
        "CachingWindowStore",
        "ChangeLoggingWindowStore",
    ]
    assert layers(builder.with_caching_disabled().with_logging_disabled().build()) == ["MeteredWindowStore"]
    assert builder.retention_period == 1000


def test_should_keep_a_plain_store_plain_under_a_timestamped_builder(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = Stores.timestamped_window_store_builder(
        Stores.persistent_window_store("s", 1000, 10), Serdes.string(), Serdes.string()
    ).build()
    assert format_of(store) is PLAIN
    store.init(context, store)
    store.put("k", ValueAndTimestamp("v", 7), 0)
    assert store.fetch("k", 0) == ValueAndTimestamp("v", -1)
    assert list(store.fetch_range("k", 0, 5)) == list(store.backward_fetch_range("k", 0, 5)) == [(0, ValueAndTimestamp("v", -1))]
    for entries in (
        store.all(),
        store.backward_all(),
        store.fetch_all(0, 5),
        store.backward_fetch_all(0, 5),
        store.fetch_key_range("k", "k", 0, 5),
        store.backward_fetch_key_range("k", "k", 0, 5),
    ):
        assert [value for _, value in entries] == [ValueAndTimestamp("v", -1)]
    # The time is not lost to the changelog, as in Kafka Streams.
    assert [(change.value, change.timestamp) for change in context.changes] == [(b"v", 7)]


def test_should_refuse_to_build_from_nothing() -> None:
    for builder in (WindowStoreBuilder, SessionStoreBuilder, VersionedKeyValueStoreBuilder, ListValueStoreBuilder):
        with pytest.raises(ValueError, match="supplier cannot be None"):
            builder(None, None, None)  # type: ignore[arg-type]


def test_should_refuse_a_supplier_of_versions_that_gives_another_store() -> None:
    builder = VersionedKeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("s"), None, None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="gave a store that is not versioned"):
        builder.build()


def test_should_count_the_entries_of_a_store_in_memory(tmp_path: Path) -> None:
    store = Stores.in_memory_window_store("s", 1000, 10).get()
    assert isinstance(store, InMemoryWindowStore)
    store.init(FakeStoreContext(tmp_path), store)
    for start in range(5):
        store.put(b"k", b"v", start)
    assert store.num_entries() == 5
    store.put(b"k", b"v", 5000)
    assert store.num_entries() == 1
