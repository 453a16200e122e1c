"""Every session store, with and without caching, against a plain model: contents, order, retention, commits, restore."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serdes.serde import Serdes
from penstock.state.builders import SessionStoreBuilder
from penstock.state.restore import StoreRestorer
from penstock.windows import MAX_TIMESTAMP, SessionWindow, Windowed
from tests.unit.state.contexts import FakeStoreContext
from tests.unit.state.session_model import CHANGELOG, KINDS, NAME, Kind, ModelWithCache
from tests.unit.state.window_model import read

KEYS = st.sampled_from([b"a", b"aa", b"a\x00", b"a\x00\x01", b"b", b"\x00", b"\xff", b"\xff\xff"])
VALUES = st.none() | st.binary(min_size=1, max_size=2)
TIMES = st.integers(0, 400)
SESSION = st.tuples(KEYS, TIMES, st.integers(0, 60)).map(lambda session: (session[0], session[1], session[1] + session[2]))
PUT = st.tuples(st.just("put"), SESSION, VALUES)
REMOVE = st.tuples(st.just("remove"), SESSION)
CHECK = (st.none() | KEYS, st.none() | KEYS, TIMES, TIMES)
STEPS = st.lists(
    st.one_of(
        PUT,
        PUT,
        PUT,
        REMOVE,
        st.tuples(st.sampled_from(["flush", "commit", "reopen"])),
        st.tuples(st.just("check"), *CHECK),
    ),
    max_size=30,
)

kinds = pytest.mark.parametrize("kind", KINDS, ids=str)
kinds_and_caching = pytest.mark.parametrize(
    ("kind", "caching"),
    [(kind, caching) for kind in KINDS for caching in (False, True) if kind.cacheable or not caching],
    ids=lambda value: {False: "uncached", True: "cached"}[value] if isinstance(value, bool) else str(value),
)


def windowed(session: tuple[bytes, int, int]) -> Windowed[bytes]:
    key, start, end = session
    return Windowed(key, SessionWindow(start, end))


def check(
    store: Any, model: ModelWithCache, key_from: bytes | None, key_to: bytes | None, earliest_end: int, latest_start: int
) -> None:
    kind = model.kind
    key = key_from if key_from is not None else b"a"
    for session, aggregate in model.visible().items():
        assert store.fetch_session(*session) == aggregate
    assert store.fetch_session(b"nobody", earliest_end, latest_start) is None
    inverted = key_from is not None and key_to is not None and key_from > key_to
    for forward, prefix in ((True, ""), (False, "backward_")):
        bounds = (earliest_end, latest_start)
        of_key = model.sessions(key, key, *bounds, kind.order, forward)
        assert read(getattr(store, prefix + "find_sessions")(key, *bounds)) == of_key
        assert read(getattr(store, prefix + "fetch")(key)) == model.sessions(key, key, 0, MAX_TIMESTAMP, kind.order, forward)
        in_range = [] if inverted else model.sessions(key_from, key_to, *bounds, kind.order, forward)
        assert read(getattr(store, prefix + "find_sessions_key_range")(key_from, key_to, *bounds)) == in_range
        everything = [] if inverted else model.sessions(key_from, key_to, 0, MAX_TIMESTAMP, kind.order, forward)
        assert read(getattr(store, prefix + "fetch_key_range")(key_from, key_to)) == everything
    if kind.order_by_end is not None and not model.caching:
        by_end = model.sessions(None, None, earliest_end, MAX_TIMESTAMP, kind.order_by_end, True)
        expected = [(session, value) for session, value in by_end if session.window.end <= latest_start]
        oldest = model.below.observed - 99
        found = read(store.find_sessions_by_end(earliest_end, latest_start))
        # What has expired may still be found by its end until its segment is dropped.
        assert [(session, value) for session, value in found if session.window.end >= oldest] == expected


@kinds_and_caching
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, last=st.tuples(*CHECK))
def test_should_hold_what_a_model_holds(kind: Kind, caching: bool, steps: list[Any], last: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = FakeStoreContext(Path(folder))
        store = kind.builder(caching).build()
        store.init(context, store)
        model = ModelWithCache(kind, caching)
        for offset, (step, *arguments) in enumerate(steps):
            if step == "put":
                session, value = arguments
                store.put(windowed(session), value)
                model.put(*session, value)
            elif step == "remove":
                store.remove(windowed(arguments[0]))
                model.remove(*arguments[0])
            elif step == "flush":
                store.flush_cache()
                model.flush()
            elif step == "commit":
                store.flush_cache()
                store.commit({CHANGELOG: offset})
                model.commit()
            elif step == "reopen" and kind.persistent:
                store.close()
                store = kind.builder(caching).build()
                store.init(context, store)
                model.discard()
            elif step == "check":
                check(store, model, *arguments)
        check(store, model, *last)
        store.close()


@kinds
@settings(max_examples=15, deadline=None)
@given(steps=st.lists(PUT | REMOVE, max_size=25), last=st.tuples(*CHECK), batch=st.integers(1, 10))
def test_should_be_the_same_after_a_restore(kind: Kind, steps: list[Any], last: Any, batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = FakeStoreContext(Path(folder) / "live")
        store = kind.builder(caching=False).build()
        store.init(context, store)
        model = ModelWithCache(kind, caching=False)
        for step, session, *value in steps:
            if step == "put":
                store.put(windowed(session), value[0])
                model.put(*session, value[0])
            else:
                store.remove(windowed(session))
                # The changelog does not tell a removal from a put of None, which moves stream time in every store.
                model.put(*session, None)
        fresh = FakeStoreContext(Path(folder) / "copy")
        copy = kind.builder(caching=False).build()
        copy.init(fresh, copy)
        restorer = StoreRestorer(copy, fresh.restore_callbacks[NAME], CHANGELOG)
        records = context.changelog_records(NAME)
        for at in range(0, len(records), batch):
            restorer.restore(records[at : at + batch])
        check(copy, model, *last)
        store.close()
        copy.close()


@kinds
def test_should_count_and_drop_expired_puts(kind: Kind, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(windowed((b"k", 990, 1000)), b"new")
    engine.put(windowed((b"k", 5, 10)), b"late")
    assert engine.expired_records == 1
    assert engine.fetch_session(b"k", 5, 10) is None
    assert engine.observed_stream_time == 1000


@kinds
def test_should_hide_sessions_whose_end_is_older_than_the_retention(kind: Kind, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(windowed((b"k", 50, 100)), b"v")
    engine.put(windowed((b"other", 0, 199)), b"v")
    assert engine.fetch_session(b"k", 50, 100) == b"v"
    engine.put(windowed((b"other", 0, 200)), b"v")
    assert engine.fetch_session(b"k", 50, 100) is None
    assert read(engine.fetch(b"k")) == []


@kinds
def test_should_find_the_sessions_that_a_record_falls_into(kind: Kind, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = kind.builder(caching=False).build()
    store.init(context, store)
    for session in ((b"k", 0, 10), (b"k", 20, 30), (b"k", 40, 50), (b"kk", 20, 30)):
        store.put(windowed(session), b"v")
    assert [session.window.start for session, _ in read(store.find_sessions(b"k", 15, 35))] == [20]
    assert [session.window.start for session, _ in read(store.find_sessions(b"k", 10, 40))] == [0, 20, 40]
    assert [session.window.start for session, _ in read(store.backward_find_sessions(b"k", 10, 40))] == [40, 20, 0]
    # A gap that reaches below zero is no special case.
    assert [session.window.start for session, _ in read(store.find_sessions(b"k", -20, 5))] == [0]


@kinds
def test_should_know_its_stream_time_after_it_was_reopened(kind: Kind, tmp_path: Path) -> None:
    if not kind.persistent:
        pytest.skip("memory is gone with close")
    context = FakeStoreContext(tmp_path)
    engine = kind.supplier.get()
    engine.init(context, engine)
    engine.put(windowed((b"k", 5, 10)), b"v")
    engine.remove(windowed((b"k", 400, 500)))
    engine.commit({CHANGELOG: 7})
    engine.close()
    again = kind.supplier.get()
    again.init(context, again)
    assert again.observed_stream_time == 500
    assert again.committed_offset(CHANGELOG) == 7
    again.put(windowed((b"k", 5, 10)), b"late")
    assert again.expired_records == 1


@kinds_and_caching
def test_should_log_keys_and_values_as_kafka_streams_does(kind: Kind, caching: bool, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = kind.builder(caching).build()
    store.init(context, store)
    context.at(120)
    store.put(windowed((b"key", 50, 100)), b"v")
    store.flush_cache()
    context.at(130)
    store.remove(windowed((b"key", 50, 100)))
    store.flush_cache()
    key = bytes.fromhex("6b6579 0000000000000064 0000000000000032")
    assert [(change.key, change.value, change.timestamp) for change in context.changes] == [(key, b"v", 120), (key, None, 130)]


@kinds_and_caching
def test_should_refuse_none_as_a_key(kind: Kind, caching: bool, tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = kind.builder(caching).build()
    store.init(context, store)
    for call in (
        lambda: store.put(None, b"v"),
        lambda: store.put(Windowed(None, SessionWindow(0, 1)), b"v"),
        lambda: store.remove(None),
        lambda: store.fetch(None),
        lambda: store.fetch_session(None, 0, 1),
        lambda: store.find_sessions(None, 0, 1),
    ):
        with pytest.raises(ValueError, match="cannot be None in store sessions"):
            call()


def test_should_say_why_sessions_cannot_be_found_by_their_end(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = SessionStoreBuilder(KINDS[0].supplier, Serdes.bytes(), Serdes.bytes()).build()
    store.init(context, store)
    with pytest.raises(NotImplementedError, match="not kept in the order of time"):
        store.find_sessions_by_end(0, 10)
