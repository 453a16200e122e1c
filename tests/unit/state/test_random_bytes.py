"""Ten thousand random byte strings through every windowed kind of store: what goes in comes out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Serdes, Stores, ValueAndTimestamp, Windowed
from penstock.windows import SessionWindow
from tests.unit.state.contexts import FakeStoreContext

COUNT, TIMES, RETENTION = 10_000, 300_000, 600_000
BYTES = Serdes.bytes()

WINDOWS = {
    "rocksdb": Stores.window_store_builder(Stores.persistent_window_store("s", RETENTION, 10), BYTES, BYTES),
    "in-memory": Stores.window_store_builder(Stores.in_memory_window_store("s", RETENTION, 10), BYTES, BYTES),
    "timestamped": Stores.timestamped_window_store_builder(
        Stores.persistent_timestamped_window_store("s", RETENTION, 10), BYTES, BYTES
    ),
}
SESSIONS = {
    "rocksdb": Stores.session_store_builder(Stores.persistent_session_store("s", RETENTION), BYTES, BYTES),
    "in-memory": Stores.session_store_builder(Stores.in_memory_session_store("s", RETENTION), BYTES, BYTES),
}


def strings() -> Iterator[tuple[bytes, bytes, int]]:
    drawn = random.Random(11)
    for _ in range(COUNT):
        yield drawn.randbytes(drawn.randrange(20)), drawn.randbytes(drawn.randrange(50)), drawn.randrange(TIMES)


def opened(builder: Any, folder: Path, caching: bool) -> Any:
    store = (builder.with_caching_enabled() if caching else builder.with_caching_disabled()).build()
    store.init(FakeStoreContext(folder, cache_size=100_000), store)
    return store


@pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_should_keep_random_windows(tmp_path: Path, kind: str, caching: bool) -> None:
    store = opened(WINDOWS[kind], tmp_path, caching)
    expected = {}
    for key, value, start in strings():
        stored: Any = ValueAndTimestamp(value, start) if kind == "timestamped" else value
        store.put(key, stored, start)
        expected[key, start] = stored

    assert {(windowed.key, windowed.window.start): value for windowed, value in store.all()} == expected
    assert all(store.fetch(key, start) == value for (key, start), value in expected.items())
    store.close()


@pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("kind", SESSIONS)
def test_should_keep_random_sessions(tmp_path: Path, kind: str, caching: bool) -> None:
    store = opened(SESSIONS[kind], tmp_path, caching)
    expected = {}
    for key, value, start in strings():
        store.put(Windowed(key, SessionWindow(start, start + 5)), value)
        expected[key, start] = value

    assert all(store.fetch_session(key, start, start + 5) == value for (key, start), value in expected.items())
    store.close()


def test_should_keep_random_versions(tmp_path: Path) -> None:
    supplier = Stores.persistent_versioned_key_value_store("s", RETENTION)
    store = Stores.versioned_key_value_store_builder(supplier, BYTES, BYTES).build()
    store.init(FakeStoreContext(tmp_path), store)
    expected = {}
    for key, value, time in strings():
        store.put(key, value, time)
        expected[key, time] = value

    for (key, time), value in expected.items():
        found = store.get(key, time)
        assert (found.value, found.timestamp) == (value, time)
    store.close()
