"""Every window store, with and without caching, against a plain model: contents, order, retention, commits, restore."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.store import ValueAndTimestamp
from penstock.windows import MAX_TIMESTAMP
from tests.unit.state.contexts import FakeStoreContext
from tests.unit.state.window_model import CHANGELOG, KINDS, NAME, Kind, ModelWithCache, plain, read, restored

KEYS = st.sampled_from([b"a", b"aa", b"a\x00", b"a\x00\x01", b"b", b"\x00", b"\xff", b"\xff\xff"])
VALUES = st.none() | st.binary(min_size=1, max_size=2)
TIMES = st.integers(0, 400)
PUT = st.tuples(st.just("put"), KEYS, VALUES, TIMES)
STEPS = st.lists(
    st.one_of(
        PUT,
        PUT,
        PUT,
        PUT,
        st.tuples(st.sampled_from(["flush", "commit", "reopen"])),
        st.tuples(st.just("check"), st.none() | KEYS, st.none() | KEYS, TIMES, TIMES),
    ),
    max_size=30,
)

kinds = pytest.mark.parametrize("kind", KINDS, ids=str)
caching = pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])


def check(store: Any, model: ModelWithCache, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int) -> None:
    kind = model.kind
    key = key_from if key_from is not None else b"a"
    assert plain([(0, store.fetch(key, time_from))]) == [(0, model.visible().get((key, time_from)))]
    of_key = model.of_key(key, time_from, time_to)
    assert plain(read(store.fetch_range(key, time_from, time_to))) == of_key
    assert plain(read(store.backward_fetch_range(key, time_from, time_to))) == of_key[::-1]
    inverted = key_from is not None and key_to is not None and key_from > key_to
    for forward, prefix in ((True, ""), (False, "backward_")):
        by_keys = [] if inverted else model.windows(key_from, key_to, time_from, time_to, kind.order_of_keys, forward)
        assert plain(read(getattr(store, prefix + "fetch_key_range")(key_from, key_to, time_from, time_to))) == by_keys
        in_time = model.windows(None, None, time_from, time_to, kind.order, forward)
        assert plain(read(getattr(store, prefix + "fetch_all")(time_from, time_to))) == in_time
        assert plain(read(getattr(store, prefix + "all")())) == model.windows(None, None, 0, MAX_TIMESTAMP, kind.order, forward)


@kinds
@caching
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, last=st.tuples(st.none() | KEYS, st.none() | KEYS, TIMES, TIMES), batch=st.integers(1, 10))
def test_should_hold_what_a_model_holds(kind: Kind, caching: bool, steps: list[Any], last: Any, batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = FakeStoreContext(Path(folder) / "live")
        store = kind.builder(caching).build()
        store.init(context, store)
        model = ModelWithCache(kind, caching)
        for offset, (step, *arguments) in enumerate(steps):
            if step == "put":
                key, value, start = arguments
                context.at(start)
                store.put(key, ValueAndTimestamp(value, start) if kind.timestamped and value is not None else value, start)
                model.put(key, value, start)
            elif step == "flush":
                store.flush_cache()
                model.flush()
            elif step == "commit":
                store.flush_cache()
                store.commit({CHANGELOG: offset})
                model.commit()
            elif step == "reopen" and kind.persistent:
                # Without a commit the log is ahead of the store: only the model without restore is compared here.
                store.close()
                store = kind.builder(caching).build()
                store.init(context, store)
                model.discard()
            elif step == "check":
                check(store, model, *arguments)
        check(store, model, *last)
        store.close()


@kinds
@caching
@settings(max_examples=12, deadline=None)
@given(
    puts=st.lists(PUT, max_size=25), last=st.tuples(st.none() | KEYS, st.none() | KEYS, TIMES, TIMES), batch=st.integers(1, 10)
)
def test_should_be_the_same_after_a_restore(kind: Kind, caching: bool, puts: list[Any], last: Any, batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = FakeStoreContext(Path(folder) / "live")
        store = kind.builder(caching).build()
        store.init(context, store)
        model = ModelWithCache(kind, caching=False)
        latest: dict[Any, Any] = {}
        for _, key, value, start in puts:
            context.at(start)
            store.put(key, ValueAndTimestamp(value, start) if kind.timestamped and value is not None else value, start)
            latest.pop((key, start), None)
            latest[key, start] = value
            if not caching:
                model.put(key, value, start)
        if caching:
            store.flush_cache()
            for (key, start), value in latest.items():
                model.put(key, value, start)
        copy, _ = restored(kind, context, Path(folder) / "copy", batch)
        check(copy, model, *last)
        store.close()
        copy.close()


@kinds
def test_should_count_and_drop_expired_puts(kind: Kind, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(b"k", b"new", 1000)
    engine.put(b"k", b"late", 10)
    assert engine.expired_records == 1
    assert engine.fetch(b"k", 10) is None
    assert engine.observed_stream_time == 1000


@kinds
def test_should_hide_what_is_older_than_the_retention(kind: Kind, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(b"k", b"v", 100)
    engine.put(b"other", b"v", 199)
    assert engine.fetch(b"k", 100) == b"v"
    engine.put(b"other", b"v", 200)
    # On-close stores show a window that is exactly as old as the retention: its result may be due just now.
    visible = kind.min_age == 0
    assert (engine.fetch(b"k", 100) == b"v") is visible
    assert (read(engine.fetch_range(b"k", 0, 200)) == [(100, b"v")]) is visible
    assert len(read(engine.all())) == (3 if visible else 2)
    engine.put(b"other", b"v", 201)
    assert engine.fetch(b"k", 100) is None
    assert read(engine.fetch_range(b"k", 0, 200)) == []


@kinds
def test_should_know_its_stream_time_after_it_was_reopened(kind: Kind, tmp_path: Path) -> None:
    if not kind.persistent:
        pytest.skip("memory is gone with close")
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(b"k", b"v", 10)
    engine.commit({CHANGELOG: 0})
    # The late put advances nothing in the store but its stream time.
    engine.put(b"k", None, 500)
    engine.commit({CHANGELOG: 1})
    engine.close()
    again = kind.supplier.get()
    again.init(context, again)
    assert again.observed_stream_time == 500
    assert again.committed_offset(CHANGELOG) == 1
    again.put(b"k", b"late", 10)
    assert again.expired_records == 1
    assert read(again.all()) == []


@kinds
def test_should_drop_whole_segments_from_disk_with_the_commit(kind: Kind, tmp_path: Path) -> None:
    if not kind.persistent:
        pytest.skip("nothing is on disk")
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    for start in range(0, 200, 10):
        engine.put(b"k", b"v", start)
    engine.commit({CHANGELOG: 0})
    segments = engine.wrapped.segments
    assert segments.ids == [2, 3, 4]
    engine.put(b"k", b"v", 1000)
    assert segments.ids == [25]
    engine.commit({CHANGELOG: 1})
    with engine.wrapped.rocksdb.scan(None, b"\x80") as entries:
        assert {int.from_bytes(key[:8], "big") for key, _ in entries} == {25}


@kinds
def test_should_bring_back_dropped_segments_when_a_commit_is_discarded(kind: Kind, tmp_path: Path) -> None:
    if not kind.persistent:
        pytest.skip("nothing is on disk")
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(b"k", b"v", 10)
    engine.commit({CHANGELOG: 0})
    engine.put(b"k", b"v", 1000)
    assert engine.fetch(b"k", 10) is None
    engine.close()
    again = kind.supplier.get()
    again.init(context, again)
    assert again.fetch(b"k", 10) == b"v"
    assert again.fetch(b"k", 1000) is None
    assert again.observed_stream_time == 10


@kinds
@caching
def test_should_refuse_none_as_a_key(kind: Kind, caching: bool, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = kind.builder(caching).build()
    store.init(context, store)
    for call in (
        lambda: store.put(None, b"v", 0),
        lambda: store.fetch(None, 0),
        lambda: store.fetch_range(None, 0, 1),
        lambda: store.backward_fetch_range(None, 0, 1),
    ):
        with pytest.raises(ValueError, match="key cannot be None in store windows"):
            call()


@kinds
@caching
def test_should_log_keys_values_and_timestamps_as_kafka_streams_does(kind: Kind, caching: bool, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = kind.builder(caching).build()
    store.init(context, store)
    context.at(60)
    store.put(b"key", ValueAndTimestamp(b"v", 55) if kind.timestamped else b"v", 50)
    store.flush_cache()
    context.at(70)
    store.put(b"key", None, 50)
    store.flush_cache()
    key = bytes.fromhex("6b6579 0000000000000032 00000000")
    assert [(change.key, change.value, change.timestamp) for change in context.changes] == [
        (key, b"v", 55 if kind.timestamped else 60),
        (key, None, 70),
    ]


def test_should_keep_iterating_while_the_store_changes(tmp_path: Path) -> None:
    for number, kind in enumerate(KINDS):
        context = FakeStoreContext(tmp_path / str(number))
        engine = kind.supplier.get()
        engine.init(context, engine)
        for start in range(5):
            engine.put(b"k", b"v", start)
        seen = []
        with engine.fetch_range(b"k", 0, 10) as entries:
            for start, _ in entries:
                seen.append(start)
                engine.put(b"k", None, start)
                engine.put(b"other", b"v", start)
        assert seen == [0, 1, 2, 3, 4]
        assert read(engine.fetch_range(b"k", 0, 10)) == []
        assert engine.name == NAME
