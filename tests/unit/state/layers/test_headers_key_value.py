from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.change import Change
from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.restore import StoreRestorer
from penstock.state.stores import Stores
from penstock.state.value_timestamp_headers import ValueTimestampHeaders, serialize_headers, split_headers
from tests.unit.state.contexts import FakeStoreContext, LoggedChange

HEADERS = (("h", b"x"), ("n", None))
SUPPLIERS = {
    "headers": Stores.persistent_timestamped_key_value_store_with_headers("store"),
    "timestamped": Stores.persistent_timestamped_key_value_store("store"),
    "plain": Stores.persistent_key_value_store("store"),
    "in-memory": Stores.in_memory_key_value_store("store"),
    "lru": Stores.lru_map("store", 5),
}
KEPT = {
    "headers": ValueTimestampHeaders("v", 5, HEADERS),
    "timestamped": ValueTimestampHeaders("v", 5),
    "plain": ValueTimestampHeaders("v", -1),
    "in-memory": ValueTimestampHeaders("v", 5, HEADERS),
    "lru": ValueTimestampHeaders("v", 5, HEADERS),
}


def _builder(kind: str) -> Any:
    return Stores.timestamped_key_value_store_with_headers_builder(SUPPLIERS[kind], Serdes.string(), Serdes.string())


def _opened(tmp_path: Path, builder: Any) -> tuple[Any, FakeStoreContext]:
    context = FakeStoreContext(tmp_path)
    store = builder.build()
    store.init(context, store)
    return store, context


@pytest.mark.parametrize("kind", SUPPLIERS)
def test_should_keep_what_the_store_below_can_keep(tmp_path: Path, kind: str) -> None:
    store, context = _opened(tmp_path, _builder(kind))

    store.put("a", ValueTimestampHeaders("v", 5, HEADERS))
    store.put_all([("b", ValueTimestampHeaders("v", 5, HEADERS)), ("c", None)])

    assert store.get("a") == KEPT[kind]
    assert list(store.all()) == [("a", KEPT[kind]), ("b", KEPT[kind])]
    assert store.put_if_absent("a", ValueTimestampHeaders("w", 6)) == KEPT[kind]
    context.at(9, headers=(("t", b"1"),))
    assert store.delete("a") == KEPT[kind]
    assert context.changes == [
        LoggedChange("store", b"a", b"v", 5, HEADERS),
        LoggedChange("store", b"b", b"v", 5, HEADERS),
        LoggedChange("store", b"c", None, 0),
        LoggedChange("store", b"a", None, 9, (("t", b"1"),)),
    ]
    store.close()


@pytest.mark.parametrize("kind", SUPPLIERS)
def test_should_restore_headers_from_the_changelog(tmp_path: Path, kind: str) -> None:
    store, context = _opened(tmp_path / "first", _builder(kind))
    store.put("a", ValueTimestampHeaders("v", 5, HEADERS))
    store.put("b", ValueTimestampHeaders("v", 5))
    store.put("b", None)
    store.close()

    rebuilt, other = _opened(tmp_path / "second", _builder(kind))
    restorer = StoreRestorer(rebuilt, other.restore_callbacks["store"], TopicPartition("app-store-changelog", 0))
    restorer.restore(context.changelog_records("store"))

    assert list(rebuilt.all()) == [("a", KEPT[kind])]
    rebuilt.close()


def test_should_flush_headers_from_the_cache(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, _builder("in-memory").with_caching_enabled())
    seen: list[Change[Any]] = []
    store.set_flush_listener(lambda record: seen.append(record.value), True)

    store.put("a", ValueTimestampHeaders("v", 5, HEADERS))
    store.flush_cache()
    store.put("a", ValueTimestampHeaders("w", 6))
    store.flush_cache()

    assert seen == [
        Change(ValueTimestampHeaders("v", 5, HEADERS), None),
        Change(ValueTimestampHeaders("w", 6), ValueTimestampHeaders("v", 5, HEADERS)),
    ]


def test_should_keep_the_bytes_of_kafka_streams(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, _builder("headers"))
    store.put("a", ValueTimestampHeaders("v", 5, (("h", b"x"),)))
    store.put("b", ValueTimestampHeaders("v", 5))

    engine = store.find_inner(RocksDBStore)
    # size 5, one header, name of 1, value of 1, timestamp, value; lengths are zig-zag numbers
    assert engine.get(b"a").hex() == "0a" + "02" + "0268" + "0278" + "0000000000000005" + "76"
    assert engine.get(b"b").hex() == "00" + "0000000000000005" + "76"
    store.put("c", ValueTimestampHeaders(None, 5))
    assert engine.get(b"c") is None
    store.close()


@given(
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4), rest=st.binary(max_size=20)
)
def test_should_read_back_headers(headers: list[tuple[str, bytes | None]], rest: bytes) -> None:
    assert split_headers(serialize_headers(tuple(headers)) + rest) == (tuple(headers), rest)


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\x0a\x02", b"\xff\xff\xff\xff\xff\xff", b"\x04\x02\x40"])
def test_should_name_bytes_that_are_not_headers(raw: bytes) -> None:
    with pytest.raises(SerializationError, match="does not start with headers"):
        split_headers(raw)
