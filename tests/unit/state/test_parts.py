"""Stores in memory read in parts: the same entries as their iterators give, whatever the size of a part."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock import SessionWindow, Windowed
from penstock.state.engines import segment_parts
from penstock.state.engines.lru import LruKeyValueStore
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.engines.window_memory import InMemoryWindowStore
from penstock.state.reading import part_reader
from penstock.windows import MAX_TIMESTAMP


def in_parts(store: Any, method: str, *arguments: Any, budget: int = 3) -> list[Any]:
    reader = part_reader(store, method, arguments)
    assert reader is not None
    found: list[Any] = []
    while True:
        part = reader.read(budget)
        found += part.entries
        if part.ended:
            return found
        if part.to_do is not None:
            part.to_do()


def as_is(topic: str, value: Any) -> Any:
    return value


def alike(store: Any, method: str, *arguments: Any) -> None:
    expected = list(getattr(store, method)(*arguments))
    for budget in (1, 2, 7, 1000):
        assert in_parts(store, method, *arguments, budget=budget) == expected, (method, arguments, budget)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_parts, "_SMALL", 4)


def opened(store: Any) -> Any:
    store._open = True
    return store


@pytest.mark.parametrize("store", [InMemoryKeyValueStore("s"), LruKeyValueStore("s", 40)], ids=["map", "lru"])
def test_should_read_keys_in_parts(store: Any) -> None:
    opened(store)
    chance = random.Random(3)
    for round_ in range(20):
        for _ in range(15):
            key = b"%03d" % chance.randrange(60)
            store.put(key, None if chance.random() < 0.3 else b"v%d" % round_)
        alike(store, "all", True)
        alike(store, "all", False)
        alike(store, "range", b"010", b"040", True)
        alike(store, "range", None, b"040", True)
        alike(store, "range", b"010", None, False)
        alike(store, "range", b"040", b"010", True)
        alike(store, "prefix_scan", b"02", as_is)
    assert part_reader(store, "get", (b"a",)) is None


@pytest.mark.parametrize("duplicates", [False, True])
def test_should_read_windows_in_parts(duplicates: bool) -> None:
    store = opened(InMemoryWindowStore("s", 1_000, 10, duplicates))
    chance = random.Random(5)
    for round_ in range(12):
        for _ in range(25):
            key = b"%02d" % chance.randrange(12)
            store.put(key, None if chance.random() < 0.2 else b"v%d" % round_, 60 * round_ + chance.randrange(5))
        for forward in (True, False):
            alike(store, "fetch_all", 0, MAX_TIMESTAMP, forward)
            alike(store, "fetch_all", 100, 400, forward)
            alike(store, "fetch_key_range", b"03", b"08", 0, 10_000, forward)
            alike(store, "fetch_key_range", None, b"05", 60, 61, forward)
            alike(store, "fetch_key_range", b"08", b"03", 0, 10_000, forward)
            alike(store, "fetch_range", b"05", 0, 500, forward)
            alike(store, "fetch_range", b"nobody", 0, 500, forward)
    assert part_reader(store, "fetch", (b"a", 1)) is None


def test_should_read_sessions_in_parts() -> None:
    store = opened(InMemorySessionStore("s", 1_000))
    chance = random.Random(7)
    for round_ in range(12):
        for _ in range(25):
            start = 60 * round_ + chance.randrange(5)
            window = SessionWindow(start, start + chance.randrange(3))
            store.put(Windowed(b"%02d" % chance.randrange(12), window), None if chance.random() < 0.2 else b"v%d" % round_)
        for forward in (True, False):
            alike(store, "find_sessions", b"05", 0, MAX_TIMESTAMP, forward)
            alike(store, "find_sessions_key_range", b"03", b"08", 0, MAX_TIMESTAMP, forward)
            alike(store, "find_sessions", b"05", 100, 500, forward)
            alike(store, "find_sessions_key_range", None, None, 100, 500, forward)
            alike(store, "find_sessions_key_range", b"08", b"03", 100, 500, forward)
    assert part_reader(store, "fetch_session", (b"a", 1, 2)) is None


@pytest.mark.parametrize("forward", [True, False])
def test_should_find_what_stays_whatever_comes_and_goes_between_parts(forward: bool) -> None:
    """Between any two parts keys are added before and behind, values change, keys go."""
    chance = random.Random(11)
    for kind in ("key-value", "window", "session"):
        store, put, method, arguments = of_kind(kind, forward)
        staying = [b"s%03d" % n for n in range(50)]
        for key in staying:
            put(key, b"0")
        for number in range(30):
            put(b"x%03d" % number, b"0")
        reader = part_reader(store, method, arguments)
        assert reader is not None
        found, turn, ended = {}, 0, False
        while not ended:
            part = reader.read(4)
            for entry, value in part.entries:
                key = entry.key if isinstance(entry, Windowed) else entry
                assert key not in found, "twice"
                found[key] = value
                if key in staying:
                    assert value == b"%d" % turn
            ended = part.ended
            if part.to_do:
                part.to_do()
            turn += 1
            for key in staying:
                put(key, b"%d" % turn)
            put(b"x%03d" % chance.randrange(30), None)
            put(b"a%03d" % chance.randrange(100), b"new")
            put(b"y%03d" % chance.randrange(100), b"new")
        assert set(staying) <= set(found)


def of_kind(kind: str, forward: bool) -> Any:
    if kind == "key-value":
        key_value = opened(InMemoryKeyValueStore("s"))
        return key_value, key_value.put, "all", (forward,)
    if kind == "window":
        windows = opened(InMemoryWindowStore("s", 1_000, 10, False))
        return windows, lambda key, value: windows.put(key, value, 100), "fetch_all", (0, MAX_TIMESTAMP, forward)
    sessions = opened(InMemorySessionStore("s", 1_000))
    window = SessionWindow(5, 9)
    return (
        sessions,
        lambda key, value: sessions.put(Windowed(key, window), value),
        "find_sessions_key_range",
        (
            None,
            None,
            0,
            10_000,
            forward,
        ),
    )


def test_should_keep_no_order_of_what_is_gone() -> None:
    store = opened(InMemoryWindowStore("s", 100, 10, False))
    for number in range(10):
        store.put(b"%d" % number, b"v", 50)
    in_parts(store, "fetch_all", 0, MAX_TIMESTAMP, True)
    assert store._orders
    store.put(b"late", b"v", 500)
    assert not store._orders
    store.close()
