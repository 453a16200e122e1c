"""Every key-value store, with and without its layers, against a plain dict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.restore import StoreRestorer
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.suppliers import (
    InMemoryKeyValueBytesStoreSupplier,
    LruMapBytesStoreSupplier,
    RocksDBKeyValueBytesStoreSupplier,
)
from penstock.state.value_formats import TIMESTAMPED
from tests.unit.state.contexts import FakeStoreContext

CHANGELOG = TopicPartition("app-store-changelog", 0)
SUPPLIERS: dict[str, Callable[[], Any]] = {
    "rocksdb": lambda: RocksDBKeyValueBytesStoreSupplier("store"),
    "rocksdb-timestamped": lambda: RocksDBKeyValueBytesStoreSupplier("store", TIMESTAMPED),
    "in-memory": lambda: InMemoryKeyValueBytesStoreSupplier("store"),
    "lru": lambda: LruMapBytesStoreSupplier("store", 1000),
}
KINDS = [
    (supplier, timestamped, caching)
    for supplier in SUPPLIERS
    for timestamped in (False, True)
    for caching in (False, True)
    if timestamped or supplier != "rocksdb-timestamped"
]

KEYS = st.binary(max_size=2) | st.binary(max_size=40)
VALUES = st.binary(max_size=3) | st.binary(max_size=200)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.none() | VALUES),
        st.tuples(st.just("put_if_absent"), KEYS, st.none() | VALUES),
        st.tuples(st.just("put_all"), st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=4), st.none()),
        st.tuples(st.just("delete"), KEYS, st.none()),
        st.tuples(st.just("get"), KEYS, st.none()),
        st.tuples(st.just("range"), st.none() | KEYS, st.none() | KEYS),
        st.tuples(st.just("reverse_range"), st.none() | KEYS, st.none() | KEYS),
        st.tuples(st.just("prefix_scan"), st.binary(max_size=2), st.none()),
        st.tuples(st.just("flush"), st.none(), st.none()),
        st.tuples(st.just("commit"), st.none(), st.none()),
    ),
    max_size=30,
)


class Model:
    """The same calls on a dict, with values as the store under test gives them."""

    def __init__(self, store: Any, timestamped: bool, keeps_timestamps: bool) -> None:
        self.store = store
        self.entries: dict[bytes, Any] = {}
        self._timestamped = timestamped
        self._keeps_timestamps = keeps_timestamps
        self._clock = 0

    def value(self, raw: bytes | None) -> Any:
        self._clock += 1
        if raw is None or not self._timestamped:
            return raw
        return ValueAndTimestamp(raw, self._clock if self._keeps_timestamps else -1)

    def put(self, key: bytes, value: Any) -> None:
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value

    def run(self, step: str, first: Any, second: Any) -> None:
        store, entries = self.store, self.entries
        if step == "put":
            value = self.value(second)
            store.put(first, value)
            self.put(first, value)
        elif step == "put_if_absent":
            value = self.value(second)
            assert store.put_if_absent(first, value) == entries.get(first)
            if first not in entries:
                self.put(first, value)
        elif step == "put_all":
            given = [(key, self.value(value)) for key, value in first]
            store.put_all(given)
            for key, value in given:
                self.put(key, value)
        elif step == "delete":
            assert store.delete(first) == entries.pop(first, None)
        elif step == "get":
            assert store.get(first) == entries.get(first)
        elif step == "prefix_scan":
            with store.prefix_scan(first, Serdes.bytes()) as found:
                assert list(found) == [(key, entries[key]) for key in sorted(entries) if key.startswith(first)]
        elif step in ("range", "reverse_range"):
            with getattr(store, step)(first, second) as found:
                assert list(found) == self._range(first, second, step == "reverse_range")
        elif step == "flush":
            store.flush_cache()
        elif step == "commit":
            store.flush_cache()
            store.commit({CHANGELOG: self._clock})

    def _range(self, low: bytes | None, high: bytes | None, backwards: bool) -> list[tuple[bytes, Any]]:
        keys = [key for key in self.entries if (low is None or key >= low) and (high is None or key <= high)]
        return [(key, self.entries[key]) for key in sorted(keys, reverse=backwards)]


def _builder(supplier: str, timestamped: bool, caching: bool) -> Any:
    kind = Stores.timestamped_key_value_store_builder if timestamped else KeyValueStoreBuilder
    builder = kind(SUPPLIERS[supplier](), Serdes.bytes(), Serdes.bytes())
    return builder.with_caching_enabled() if caching else builder


@pytest.mark.parametrize(("supplier", "timestamped", "caching"), KINDS)
@settings(max_examples=20, deadline=None)
@given(steps=STEPS, cache_size=st.sampled_from([0, 120, 1_000_000]))
def test_should_equal_a_dict(
    tmp_path_factory: pytest.TempPathFactory,
    supplier: str,
    timestamped: bool,
    caching: bool,
    steps: list[tuple[str, Any, Any]],
    cache_size: int,
) -> None:
    context = FakeStoreContext(tmp_path_factory.mktemp("task"), cache_size=cache_size)
    store = _builder(supplier, timestamped, caching).build()
    store.init(context, store)
    # A cache hides that a plain store forgets timestamps until the entry leaves it, so that pair is compared without cache.
    adapted = timestamped and supplier == "rocksdb"
    if adapted and caching:
        cache_size = 0
        context.cache.resize(0)
    model = Model(store, timestamped, keeps_timestamps=not adapted)
    try:
        for step, first, second in steps:
            model.run(step, first, second)
        assert list(store.all()) == sorted(model.entries.items(), key=lambda entry: entry[0])
        assert list(store.reverse_all()) == sorted(model.entries.items(), key=lambda entry: entry[0], reverse=True)
        store.flush_cache()
        _check_changelog(tmp_path_factory.mktemp("other"), context, model, _builder(supplier, timestamped, False))
    finally:
        store.close()


def _check_changelog(path: Path, context: FakeStoreContext, model: Model, builder: Any) -> None:
    rebuilt = builder.build()
    other = FakeStoreContext(path)
    rebuilt.init(other, rebuilt)
    StoreRestorer(rebuilt, other.restore_callbacks["store"], CHANGELOG).restore(context.changelog_records("store"))
    assert list(rebuilt.all()) == sorted(model.entries.items(), key=lambda entry: entry[0])
    rebuilt.close()


@pytest.mark.parametrize(("supplier", "timestamped", "caching"), KINDS)
def test_should_take_ten_thousand_random_keys_and_values(tmp_path: Path, supplier: str, timestamped: bool, caching: bool) -> None:
    import random

    random.seed(5)
    context = FakeStoreContext(tmp_path, cache_size=100_000)
    builder = _builder(supplier, timestamped, caching)
    store = builder.build()
    store.init(context, store)
    expected = {}
    count = 1000 if supplier == "lru" else 10_000
    for number in range(count):
        key, value = random.randbytes(random.randrange(20)), random.randbytes(random.randrange(50))
        store.put(key, ValueAndTimestamp(value, number) if timestamped else value)
        expected[key] = value
        if number % 1000 == 0:
            store.flush_cache()
            store.commit({})

    found = {key: value.value if timestamped else value for key, value in store.all()}

    assert found == expected
    store.close()


def test_should_use_the_least_recently_used_order_in_an_lru_map(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)
    store = KeyValueStoreBuilder(LruMapBytesStoreSupplier("store", 2), Serdes.string(), Serdes.string()).build()
    store.init(context, store)

    store.put("a", "1")
    store.put("b", "1")
    store.get("a")
    store.put("c", "1")
    assert list(store.all()) == [("a", "1"), ("c", "1")]
    list(store.reverse_all())
    store.put("a", "2")
    store.put("d", "1")

    assert list(store.all()) == [("a", "2"), ("d", "1")]
    assert store.approximate_num_entries() == 2
    assert [(change.key, change.value) for change in context.changes if change.value is None] == [(b"b", None), (b"c", None)]
    store.close()


def test_should_keep_nothing_in_an_lru_map_of_size_zero(tmp_path: Path) -> None:
    store = KeyValueStoreBuilder(LruMapBytesStoreSupplier("store", 0), Serdes.string(), Serdes.string()).build()
    store.init(FakeStoreContext(tmp_path), store)

    store.put("a", "1")

    assert store.get("a") is None
    store.close()


def test_should_skip_entries_deleted_during_an_iteration_in_memory(tmp_path: Path) -> None:
    store = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string()).build()
    store.init(FakeStoreContext(tmp_path), store)
    for key in "abcd":
        store.put(key, key)

    seen = []
    with store.all() as entries:
        for key, value in entries:
            seen.append((key, value))
            store.delete("b")
            store.put("c", "changed")
            store.put("e", "new")

    assert seen == [("a", "a"), ("c", "changed"), ("d", "d")]
    store.close()
