from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.change import Change
from penstock.errors import InvalidStateStoreError, SerializationError, StreamsError
from penstock.metrics.registry import STATE_GROUP, Metrics
from penstock.record import Record
from penstock.serdes.serde import Serdes
from penstock.state.builders import KeyValueStoreBuilder
from penstock.state.engines.memory import InMemoryKeyValueStore
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.layers.cached_key_value import CachingKeyValueStore
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore
from penstock.state.store import ValueAndTimestamp
from penstock.state.stores import Stores
from penstock.state.suppliers import (
    InMemoryKeyValueBytesStoreSupplier,
    KeyValueBytesStoreSupplier,
    LruMapBytesStoreSupplier,
    RocksDBKeyValueBytesStoreSupplier,
)
from penstock.state.value_formats import TIMESTAMPED
from tests.unit.state.contexts import FakeStoreContext, LoggedChange


def _plain(**_: Any) -> KeyValueStoreBuilder:
    return KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string())


def _timestamped() -> KeyValueStoreBuilder:
    return Stores.timestamped_key_value_store_builder(
        InMemoryKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string()
    )


def _opened(tmp_path: Path, builder: Any, **kwargs: Any) -> tuple[Any, FakeStoreContext]:
    context = FakeStoreContext(tmp_path, **kwargs)
    store = builder.build()
    store.init(context, store)
    return store, context


def test_should_stack_metered_over_caching_over_logged_over_engine() -> None:
    store = _plain().with_caching_enabled().build()

    assert type(store) is MeteredKeyValueStore
    assert type(store.wrapped) is CachingKeyValueStore
    assert type(store.wrapped.wrapped) is ChangeLoggingKeyValueStore
    assert type(store.wrapped.wrapped.wrapped) is InMemoryKeyValueStore
    assert store.find_inner(InMemoryKeyValueStore) is store.wrapped.wrapped.wrapped
    assert store.find_inner(RocksDBStore) is None
    assert store.name == "store"
    assert not store.persistent


def test_should_leave_out_layers_that_are_off() -> None:
    assert type(_plain().with_logging_disabled().build().wrapped) is InMemoryKeyValueStore
    assert type(_plain().with_caching_enabled().with_caching_disabled().build().wrapped) is ChangeLoggingKeyValueStore
    store = _timestamped().build()
    assert type(store) is MeteredKeyValueStore
    assert store.value_format is TIMESTAMPED
    assert type(store.wrapped) is ChangeLoggingKeyValueStore


def test_should_keep_the_topic_configuration_only_while_logging() -> None:
    builder = _plain()
    assert builder.logging_enabled
    assert not builder.caching_enabled
    assert builder.with_logging_enabled({"retention.ms": 5}) is builder
    assert builder.with_logging_enabled({"cleanup.policy": "compact"}).log_config == {
        "retention.ms": "5",
        "cleanup.policy": "compact",
    }
    assert builder.with_logging_disabled().log_config == {}
    assert not builder.logging_enabled
    assert builder.with_caching_enabled().caching_enabled


def test_should_pickle_builders(tmp_path: Path) -> None:
    for builder in (
        _timestamped().with_caching_enabled().with_logging_enabled({"a": "b"}),
        KeyValueStoreBuilder(RocksDBKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string()),
        KeyValueStoreBuilder(LruMapBytesStoreSupplier("store", 4), Serdes.string(), Serdes.string()),
    ):
        copy = pickle.loads(pickle.dumps(builder))
        assert copy.name == "store"
        store, _ = _opened(tmp_path, copy)
        assert store.get("a") is None
        store.close()


def test_should_log_every_write_at_the_time_of_the_record(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain())
    context.at(7, headers=(("h", b"1"),))

    store.put("a", "1")
    store.put("a", None)
    store.put_all([("b", "2"), ("c", None)])
    assert store.put_if_absent("b", "x") == "2"
    assert store.put_if_absent("d", "4") is None
    assert store.put_if_absent("e", None) is None
    assert store.delete("d") == "4"
    store.get("a")

    assert context.changes == [
        LoggedChange("store", b"a", b"1", 7),
        LoggedChange("store", b"a", None, 7),
        LoggedChange("store", b"b", b"2", 7),
        LoggedChange("store", b"c", None, 7),
        LoggedChange("store", b"d", b"4", 7),
        LoggedChange("store", b"e", None, 7),
        LoggedChange("store", b"d", None, 7),
    ]


def test_should_log_timestamped_values_with_their_own_time(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _timestamped())
    context.at(7)

    store.put("a", ValueAndTimestamp("1", 3))
    store.put("b", None)
    store.put("b", ValueAndTimestamp(None, 4))
    store.put_all([("c", ValueAndTimestamp("2", 9))])
    store.put_if_absent("d", ValueAndTimestamp("3", 11))
    assert store.delete("a") == ValueAndTimestamp("1", 3)

    assert context.changes == [
        LoggedChange("store", b"a", b"1", 3),
        LoggedChange("store", b"b", None, 7),
        LoggedChange("store", b"b", None, 7),
        LoggedChange("store", b"c", b"2", 9),
        LoggedChange("store", b"d", b"3", 11),
        LoggedChange("store", b"a", None, 7),
    ]
    assert store.find_inner(InMemoryKeyValueStore).get(b"c") == bytes.fromhex("000000000000000932")


def test_should_log_at_wall_clock_time_outside_of_processing(tmp_path: Path) -> None:
    for builder in (_plain(), _plain().with_caching_enabled()):
        store, context = _opened(tmp_path, builder)
        context.set_record_context(None)
        context.wall_clock_ms = 99

        store.put("a", "1")
        store.flush_cache()

        assert context.changes == [LoggedChange("store", b"a", b"1", 99)]
        assert context.record_context is None
        store.close()


def test_should_log_nothing_without_logging(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain().with_logging_disabled())

    store.put("a", "1")
    store.delete("a")

    assert context.changes == []


def test_should_hold_writes_in_the_cache_until_a_flush(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain().with_caching_enabled())
    engine = store.find_inner(InMemoryKeyValueStore)

    context.at(1)
    store.put("a", "1")
    context.at(2)
    store.put("a", "2")
    store.put("b", "1")
    assert engine.get(b"a") is None
    assert store.get("a") == "2"
    assert context.changes == []

    context.at(9)
    store.flush_cache()

    assert engine.get(b"a") == b"2"
    assert context.changes == [LoggedChange("store", b"a", b"2", 2), LoggedChange("store", b"b", b"1", 2)]
    assert context.record_context is not None
    assert context.record_context.timestamp == 9


def test_should_tell_the_listener_of_flushed_changes(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _timestamped().with_caching_enabled())
    seen: list[tuple[Record[str, Change[Any]], int]] = []

    def listener(record: Record[str, Change[Any]]) -> None:
        assert context.record_context is not None
        seen.append((record, context.record_context.offset))

    assert store.set_flush_listener(listener, True)
    context.at(1, offset=11)
    store.put("a", ValueAndTimestamp("1", 1))
    store.flush_cache()
    context.at(2, offset=12, headers=(("h", b"x"),))
    store.put("a", ValueAndTimestamp("2", 2))
    context.at(3, offset=13)
    store.put("never", ValueAndTimestamp("2", 2))
    store.put("never", None)
    store.flush_cache()
    context.at(4, offset=14)
    store.delete("a")
    store.flush_cache()

    assert seen == [
        (Record("a", Change(ValueAndTimestamp("1", 1), None), 1), 11),
        (Record("a", Change(ValueAndTimestamp("2", 2), ValueAndTimestamp("1", 1)), 2, (("h", b"x"),)), 12),
        (Record("a", Change(None, ValueAndTimestamp("2", 2)), 4), 14),
    ]
    # what came and went between two flushes is not logged either
    assert [change.key for change in context.changes] == [b"a", b"a", b"a"]


def test_should_not_read_old_values_that_nobody_asked_for(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain().with_caching_enabled())
    seen: list[Record[str, Change[str]]] = []
    store.set_flush_listener(seen.append, False)

    context.at(1)
    store.put("a", "1")
    store.flush_cache()
    store.put("a", "2")
    store.flush_cache()
    store.put("a", None)
    store.flush_cache()

    assert [record.value for record in seen] == [Change("1", None), Change("2", None), Change(None, None)]


def test_should_say_that_there_is_no_cache_to_listen_to(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, _plain())

    assert not store.set_flush_listener(lambda record: None, True)
    store.flush_cache()
    store.clear_cache()


def test_should_forward_each_update_when_the_cache_has_no_room(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain().with_caching_enabled(), cache_size=0)
    seen: list[Change[str]] = []
    store.set_flush_listener(lambda record: seen.append(record.value), True)

    store.put("a", "1")
    store.put("a", "2")

    assert seen == [Change("1", None), Change("2", "1")]
    assert len(context.changes) == 2


def test_should_put_the_record_context_back_when_a_listener_fails(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain().with_caching_enabled())

    def fail(_: Any) -> None:
        raise LookupError("downstream")

    store.set_flush_listener(fail, False)
    context.at(1)
    store.put("a", "1")
    context.at(5)

    with pytest.raises(LookupError, match="downstream"):
        store.flush_cache()
    assert context.record_context is not None
    assert context.record_context.timestamp == 5


def test_should_forget_uncommitted_writes_in_the_cache_on_close(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(RocksDBKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string())
    store, context = _opened(tmp_path, builder.with_caching_enabled())
    store.put("a", "1")
    store.flush_cache()
    store.commit({})
    store.put("a", "2")
    store.put("b", "1")
    store.close()
    assert len(context.changes) == 1
    assert len(context.cache) == 0

    store, _ = _opened(tmp_path, builder)
    assert list(store.all()) == [("a", "1")]
    with store.all() as entries:
        assert entries.peek_next_key() == "a"
    store.close()


def test_should_clear_the_cache(tmp_path: Path) -> None:
    store, context = _opened(tmp_path, _plain().with_caching_enabled())
    store.put("a", "1")

    store.clear_cache()

    assert store.get("a") is None
    assert context.changes == []


def test_should_hide_cached_deletions_from_iterators_in_both_directions(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, _plain().with_caching_enabled())
    for key in "abc":
        store.put(key, "1")
    store.flush_cache()
    store.delete("a")
    store.put("d", "2")
    store.delete("e")

    assert [key for key, _ in store.all()] == ["b", "c", "d"]
    assert [key for key, _ in store.reverse_all()] == ["d", "c", "b"]


def test_should_give_an_empty_iterator_and_a_warning_for_an_inverted_range(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for builder in (_plain(), _plain().with_caching_enabled()):
        store, _ = _opened(tmp_path, builder)
        store.put("a", "1")
        caplog.clear()
        assert list(store.range("b", "a")) == []
        assert list(store.reverse_range("b", "a")) == []
        assert caplog.text.count("from > to") == 2
        store.close()


def test_should_refuse_null_keys(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, _plain())

    for call in (
        lambda: store.get(None),
        lambda: store.put(None, "1"),
        lambda: store.put_if_absent(None, "1"),
        lambda: store.put_all([("a", "1"), (None, "1")]),
        lambda: store.delete(None),
    ):
        with pytest.raises(ValueError, match="key cannot be None in store store"):
            call()
    with pytest.raises(ValueError, match="prefix cannot be None"):
        store.prefix_scan(None, Serdes.string())
    with pytest.raises(ValueError, match="prefix_serializer cannot be None"):
        store.prefix_scan("a", None)
    assert list(store.all()) == []


def test_should_name_store_and_topic_when_a_type_does_not_fit(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, _plain())

    with pytest.raises(SerializationError, match=r"a key of type int for store store \(topic app-store-changelog\)") as raised:
        store.get(5)
    assert raised.value.__cause__ is not None
    with pytest.raises(SerializationError, match=r"a value of type float for store store \(topic app-store-changelog\)"):
        store.put("a", 1.5)


def test_should_name_store_and_topic_when_bytes_do_not_fit(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.long())
    store, context = _opened(tmp_path, builder)
    store.find_inner(InMemoryKeyValueStore).put(b"a", b"xyz")

    with pytest.raises(SerializationError, match=r"a value of 3 bytes from store store \(topic app-store-changelog\)"):
        store.get("a")
    assert context.changes == []


def test_should_refuse_a_key_without_bytes(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(
        InMemoryKeyValueBytesStoreSupplier("store"), Serdes.serde(lambda t, v: None, lambda t, b: None), Serdes.string()
    )
    store, _ = _opened(tmp_path, builder)

    with pytest.raises(SerializationError, match="gave None"):
        store.put("a", "1")


def test_should_take_anything_bytes_like_from_a_serializer(tmp_path: Path) -> None:
    serde = Serdes.serde(lambda t, v: bytearray(v), lambda t, b: b)
    store, _ = _opened(tmp_path, KeyValueStoreBuilder(RocksDBKeyValueBytesStoreSupplier("store"), serde, serde))

    store.put(b"a", b"1")
    store.commit({})

    assert list(store.all()) == [(b"a", b"1")]
    store.close()


def test_should_treat_a_value_serialized_to_none_as_deleted(tmp_path: Path) -> None:
    serde = Serdes.serde(lambda t, v: v or None, lambda t, b: b)
    for kind, wrap in (
        (KeyValueStoreBuilder, lambda v: v),
        (Stores.timestamped_key_value_store_builder, lambda v: ValueAndTimestamp(v, 1)),
    ):
        store, _ = _opened(tmp_path, kind(InMemoryKeyValueBytesStoreSupplier("store"), Serdes.string(), serde))
        store.put("a", wrap(b"1"))
        store.put("a", wrap(b""))
        assert store.get("a") is None
        store.close()


def test_should_use_default_serdes(tmp_path: Path) -> None:
    builder = Stores.timestamped_key_value_store_builder(InMemoryKeyValueBytesStoreSupplier("store"), None, None)
    store, _ = _opened(tmp_path, builder, key_serde=Serdes.string(), value_serde=Serdes.long())

    store.put("a", ValueAndTimestamp(5, 1))

    assert store.find_inner(InMemoryKeyValueStore).get(b"a") == bytes(7) + b"\x01" + bytes(7) + b"\x05"


@pytest.mark.parametrize(
    ("which", "defaults"), [("key", {"value_serde": Serdes.long()}), ("value", {"key_serde": Serdes.long()})]
)
def test_should_say_which_serde_is_missing(tmp_path: Path, which: str, defaults: dict[str, Any]) -> None:
    builder = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), None, None)

    with pytest.raises(StreamsError, match=rf"Failed to initialize {which} serdes for store store.*default\.{which}\.serde"):
        _opened(tmp_path, builder, **defaults)


def test_should_name_the_changelog_topic_to_serdes_even_without_logging(tmp_path: Path) -> None:
    topics: list[str] = []

    def serialize(topic: str, value: Any) -> bytes:
        topics.append(topic)
        return b"x"

    serde = Serdes.serde(serialize, lambda topic, data: data)
    builder = KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier("store"), serde, serde).with_logging_disabled()
    store, _ = _opened(tmp_path, builder, logged=False)

    store.put("a", "1")

    assert topics == ["app-store-changelog", "app-store-changelog"]


def test_should_keep_values_without_timestamps_in_a_plain_persistent_store(tmp_path: Path) -> None:
    builder = Stores.timestamped_key_value_store_builder(
        RocksDBKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string()
    )
    store, context = _opened(tmp_path, builder)

    store.put("a", ValueAndTimestamp("1", 5))
    store.put_all([("b", ValueAndTimestamp("2", 6))])

    assert store.find_inner(RocksDBStore).get(b"a") == b"1"
    assert store.get("a") == ValueAndTimestamp("1", -1)
    assert list(store.range("a", None)) == [("a", ValueAndTimestamp("1", -1)), ("b", ValueAndTimestamp("2", -1))]
    assert [key for key, _ in store.reverse_all()] == ["b", "a"]
    assert [key for key, _ in store.reverse_range("a", "a")] == ["a"]
    assert [key for key, _ in store.prefix_scan("b", Serdes.string())] == ["b"]
    assert store.put_if_absent("a", ValueAndTimestamp("x", 7)) == ValueAndTimestamp("1", -1)
    assert store.delete("a") == ValueAndTimestamp("1", -1)
    assert context.changes[:2] == [LoggedChange("store", b"a", b"1", 5), LoggedChange("store", b"b", b"2", 6)]
    store.close()


class CustomSupplier(KeyValueBytesStoreSupplier):
    name = "store"
    metrics_scope = "custom"

    def get(self) -> Any:
        class Custom(InMemoryKeyValueStore):
            pass

        return Custom("store")


def test_should_take_a_store_of_the_users_own(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path, Stores.timestamped_key_value_store_builder(CustomSupplier(), Serdes.string(), Serdes.string()))

    store.put("a", ValueAndTimestamp("1", 5))
    store.put_all([("b", ValueAndTimestamp("1", 6))])
    store.put_if_absent("c", ValueAndTimestamp("1", 7))

    assert [key for key, _ in store.all()] == ["a", "b", "c"]
    assert [key for key, _ in store.reverse_range("a", "b")] == ["b", "a"]
    assert [key for key, _ in store.range("b", "c")] == ["b", "c"]
    assert [key for key, _ in store.reverse_all()] == ["c", "b", "a"]
    assert [key for key, _ in store.prefix_scan("a", Serdes.string())] == ["a"]
    assert store.delete("a") == ValueAndTimestamp("1", 5)
    assert store.approximate_num_entries() == 2


def test_should_count_open_iterators(tmp_path: Path) -> None:
    metrics = Metrics()
    store, context = _opened(tmp_path, _plain(), metrics=metrics)
    store.put("a", "1")
    context.wall_clock_ms = 42
    tags = {"task-id": "0_0", "in-memory-state-id": "store"}

    with store.all() as entries:
        assert metrics.value("num-open-iterators", STATE_GROUP, tags) == 1
        assert metrics.value("oldest-iterator-open-since-ms", STATE_GROUP, tags) == 42
        assert entries.peek_next_key() == "a"
        other = store.range(None, None)
        assert metrics.value("num-open-iterators", STATE_GROUP, tags) == 2
        assert list(other) == [("a", "1")]
        assert metrics.value("num-open-iterators", STATE_GROUP, tags) == 1
    assert metrics.value("num-open-iterators", STATE_GROUP, tags) == 0
    assert metrics.value("oldest-iterator-open-since-ms", STATE_GROUP, tags) == 0
    assert metrics.value("num-keys", STATE_GROUP, tags) == 1

    store.close()
    assert metrics.metrics() == {}


def test_should_measure_calls_at_debug_only(tmp_path: Path) -> None:
    metrics = Metrics("DEBUG")
    store, _ = _opened(tmp_path, _plain().with_caching_enabled(), metrics=metrics)
    store.put("a", "1")
    store.put("b", "1")
    store.get("a")
    with store.all():
        pass
    tags = {"task-id": "0_0", "in-memory-state-id": "store"}

    assert metrics.value("put-rate", STATE_GROUP, tags) > metrics.value("get-rate", STATE_GROUP, tags) > 0
    assert metrics.value("put-latency-avg", STATE_GROUP, tags) > 0
    assert metrics.value("all-latency-max", STATE_GROUP, tags) > 0
    assert metrics.value("iterator-duration-avg", STATE_GROUP, tags) > 0
    assert metrics.value("hit-ratio-avg", "stream-record-cache-metrics") == 1
    store.close()

    quiet = Metrics()
    store, _ = _opened(tmp_path, _plain(), metrics=quiet)
    assert "put" not in vars(store)
    with pytest.raises(KeyError):
        quiet.value("put-rate", STATE_GROUP)
    store.close()


def test_should_refuse_use_of_a_cached_store_after_close(tmp_path: Path) -> None:
    builder = KeyValueStoreBuilder(RocksDBKeyValueBytesStoreSupplier("store"), Serdes.string(), Serdes.string())
    store, _ = _opened(tmp_path, builder.with_caching_enabled())
    assert store.is_open
    assert store.persistent
    store.close()

    assert not store.is_open
    for call in (
        lambda: store.get("a"),
        lambda: store.put("a", "1"),
        lambda: store.all(),
        lambda: store.flush_cache(),
        lambda: store.approximate_num_entries(),
    ):
        with pytest.raises(InvalidStateStoreError, match="is currently closed"):
            call()


def test_should_check_what_a_supplier_gives() -> None:
    with pytest.raises(ValueError, match="supplier cannot be None"):
        KeyValueStoreBuilder(None, None, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name cannot be None"):
        KeyValueStoreBuilder(InMemoryKeyValueBytesStoreSupplier(None), None, None)  # type: ignore[arg-type]

    class NoScope(CustomSupplier):
        metrics_scope = None  # type: ignore[assignment]

    with pytest.raises(ValueError, match="metrics_scope cannot be None"):
        KeyValueStoreBuilder(NoScope(), None, None)
