"""Window and session stores that keep the headers of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.restore import StoreRestorer
from penstock.state.stores import Stores
from penstock.state.value_formats import format_of
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.windows import SessionWindow, Windowed
from tests.unit.state.contexts import FakeStoreContext
from tests.unit.state.window_model import read

HEADERS = (("h", b"1"), ("none", None))
CHANGELOG = TopicPartition("app-s-changelog", 0)
WINDOWS = [
    Stores.persistent_timestamped_window_store_with_headers("s", 1000, 10),
    Stores.in_memory_window_store("s", 1000, 10),
]
SESSIONS = [Stores.persistent_session_store_with_headers("s", 1000), Stores.in_memory_session_store("s", 1000)]
SESSION = Windowed("k", SessionWindow(0, 5))

caching = pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])


def opened(builder: Any, folder: Path, caching: bool = False) -> tuple[Any, FakeStoreContext]:
    context = FakeStoreContext(folder)
    store = (builder.with_caching_enabled() if caching else builder.with_caching_disabled()).build()
    store.init(context, store)
    return store, context


def restored(builder: Any, context: FakeStoreContext, folder: Path) -> Any:
    copy, fresh = opened(builder, folder)
    StoreRestorer(copy, fresh.restore_callbacks["s"], CHANGELOG).restore(context.changelog_records("s"))
    return copy


@caching
@pytest.mark.parametrize("supplier", WINDOWS, ids=["rocksdb", "in-memory"])
def test_should_keep_timestamp_and_headers_of_windows(supplier: Any, caching: bool, tmp_path: Path) -> None:
    builder = Stores.timestamped_window_store_with_headers_builder(supplier, Serdes.string(), Serdes.string())
    store, context = opened(builder, tmp_path / "live", caching)
    assert format_of(store).keeps_headers
    value = ValueTimestampHeaders("v", 7, HEADERS)
    store.put("k", value, 0)
    assert store.fetch("k", 0) == value
    assert read(store.fetch_range("k", 0, 5)) == [(0, value)]
    store.flush_cache()
    assert read(restored(builder, context, tmp_path / "copy").fetch_range("k", 0, 5)) == [(0, value)]
    context.at(9, headers=(("deleted", b"by"),))
    store.put("k", None, 0)
    store.flush_cache()
    assert [(change.value, change.timestamp, change.headers) for change in context.changes] == [
        (b"v", 7, HEADERS),
        (None, 9, (("deleted", b"by"),)),
    ]


@caching
@pytest.mark.parametrize("supplier", SESSIONS, ids=["rocksdb", "in-memory"])
def test_should_keep_headers_of_sessions(supplier: Any, caching: bool, tmp_path: Path) -> None:
    builder = Stores.session_store_with_headers_builder(supplier, Serdes.string(), Serdes.string())
    store, context = opened(builder, tmp_path / "live", caching)
    assert format_of(store).keeps_headers
    value = AggregationWithHeaders("v", HEADERS)
    context.at(6)
    store.put(SESSION, value)
    assert store.fetch_session("k", 0, 5) == value
    assert read(store.fetch("k")) == [(SESSION, value)]
    store.flush_cache()
    assert read(restored(builder, context, tmp_path / "copy").fetch("k")) == [(SESSION, value)]
    context.at(9, headers=(("deleted", b"by"),))
    store.remove(SESSION)
    store.flush_cache()
    assert [(change.value, change.timestamp, change.headers) for change in context.changes] == [
        (b"v", 6, HEADERS),
        (None, 9, (("deleted", b"by"),)),
    ]


@pytest.mark.parametrize(
    ("supplier", "expected"),
    [
        (Stores.persistent_window_store("s", 1000, 10), ValueTimestampHeaders("v", -1)),
        (Stores.persistent_timestamped_window_store("s", 1000, 10), ValueTimestampHeaders("v", 7)),
    ],
    ids=["plain", "timestamped"],
)
def test_should_lose_what_a_simpler_window_store_cannot_keep(supplier: Any, expected: Any, tmp_path: Path) -> None:
    builder = Stores.timestamped_window_store_with_headers_builder(supplier, Serdes.string(), Serdes.string())
    store, context = opened(builder, tmp_path / "live")
    assert not format_of(store).keeps_headers
    store.put("k", ValueTimestampHeaders("v", 7, HEADERS), 0)
    assert store.fetch("k", 0) == expected
    assert [(change.value, change.timestamp, change.headers) for change in context.changes] == [(b"v", 7, HEADERS)]
    assert restored(builder, context, tmp_path / "copy").fetch("k", 0) == expected


def test_should_lose_what_a_simpler_session_store_cannot_keep(tmp_path: Path) -> None:
    supplier = Stores.persistent_session_store("s", 1000)
    builder = Stores.session_store_with_headers_builder(supplier, Serdes.string(), Serdes.string())
    store, context = opened(builder, tmp_path / "live")
    store.put(SESSION, AggregationWithHeaders("v", HEADERS))
    expected = [(SESSION, AggregationWithHeaders("v"))]
    for found in (
        store.fetch("k"),
        store.backward_fetch("k"),
        store.fetch_key_range("k", "k"),
        store.backward_fetch_key_range("k", "k"),
        store.find_sessions("k", 0, 5),
        store.backward_find_sessions("k", 0, 5),
        store.find_sessions_key_range("k", "k", 0, 5),
        store.backward_find_sessions_key_range("k", "k", 0, 5),
    ):
        assert read(found) == expected
    assert store.fetch_session("k", 0, 5) == AggregationWithHeaders("v")
    assert read(restored(builder, context, tmp_path / "copy").fetch("k")) == expected
