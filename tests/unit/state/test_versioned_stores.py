"""Versioned stores: return codes, out-of-order puts, deletes, lookups in the past, history retention, restore."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.ids import TopicPartition
from penstock.serdes.serde import Serdes
from penstock.state.builders import VersionedKeyValueStoreBuilder
from penstock.state.restore import StoreRestorer
from penstock.state.store import PUT_RETURN_CODE_NOT_PUT, PUT_RETURN_CODE_VALID_TO_UNDEFINED, VersionedRecord
from penstock.state.windowed_suppliers import RocksDbVersionedKeyValueBytesStoreSupplier
from tests.unit.state.contexts import FakeStoreContext

NAME = "versions"
RETENTION = 300
SEGMENT_INTERVAL = 60
CHANGELOG = TopicPartition(f"app-{NAME}-changelog", 0)


def new_store(folder: Path, logging: bool = True) -> tuple[Any, FakeStoreContext]:
    context = FakeStoreContext(folder)
    builder = VersionedKeyValueStoreBuilder(
        RocksDbVersionedKeyValueBytesStoreSupplier(NAME, RETENTION, SEGMENT_INTERVAL), Serdes.string(), Serdes.string()
    )
    store = (builder if logging else builder.with_logging_disabled()).build()
    store.init(context, store)
    return store, context


@pytest.fixture
def store(tmp_path: Path) -> Any:
    return new_store(tmp_path)[0]


def test_should_give_the_latest_version(store: Any) -> None:
    assert store.put("k", "v1", 10) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.put("k", "v2", 20) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.get("k") == VersionedRecord("v2", 20)
    assert store.get("nobody") is None


def test_should_give_the_version_that_was_valid_at_a_time(store: Any) -> None:
    store.put("k", "v1", 10)
    store.put("k", "v2", 20)
    assert store.get("k", 9) is None
    assert store.get("k", 10) == VersionedRecord("v1", 10, 20)
    assert store.get("k", 19) == VersionedRecord("v1", 10, 20)
    assert store.get("k", 20) == VersionedRecord("v2", 20)
    assert store.get("k", 1000) == VersionedRecord("v2", 20)


def test_should_put_between_older_versions_and_say_how_long_each_is_valid(store: Any) -> None:
    store.put("k", "v30", 30)
    assert store.put("k", "v10", 10) == 30
    assert store.put("k", "v20", 20) == 30
    assert store.get("k", 15) == VersionedRecord("v10", 10, 20)
    assert store.get("k", 25) == VersionedRecord("v20", 20, 30)
    assert store.get("k") == VersionedRecord("v30", 30)


def test_should_replace_a_version_of_the_same_time(store: Any) -> None:
    store.put("k", "old", 10)
    store.put("k", "v20", 20)
    assert store.put("k", "new", 10) == 20
    assert store.put("k", "newest", 20) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.get("k", 10) == VersionedRecord("new", 10, 20)
    assert store.get("k") == VersionedRecord("newest", 20)


def test_should_delete_with_a_tombstone_and_return_what_was_valid(store: Any) -> None:
    store.put("k", "v1", 10)
    assert store.delete("k", 20) == VersionedRecord("v1", 10)
    assert store.get("k") is None
    assert store.get("k", 15) == VersionedRecord("v1", 10, 20)
    assert store.get("k", 20) is None
    assert store.delete("k", 30) is None


def test_should_end_a_late_version_at_a_tombstone_of_an_unknown_key(store: Any) -> None:
    assert store.put("k", None, 100) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.put("k", "v", 50) == 100
    assert store.get("k", 60) == VersionedRecord("v", 50, 100)
    assert store.get("k", 100) is None
    assert store.get("k") is None


def test_should_split_a_version_by_a_tombstone_in_the_past(store: Any) -> None:
    store.put("k", "v1", 10)
    store.put("k", "v2", 100)
    assert store.put("k", None, 50) == 100
    assert store.get("k", 49) == VersionedRecord("v1", 10, 50)
    assert store.get("k", 50) is None
    assert store.get("k", 99) is None
    assert store.get("k", 100) == VersionedRecord("v2", 100)


def test_should_move_versions_to_the_segment_they_end_in(store: Any) -> None:
    store.put("k", "v1", 5)
    store.put("k", "v2", 290)
    # The version of 5 ended in the segment of 290; now it ends in an older one.
    assert store.put("k", "v3", 70) == 290
    assert store.get("k", 6) == VersionedRecord("v1", 5, 70)
    assert store.get("k", 71) == VersionedRecord("v3", 70, 290)
    assert store.get("k", 290) == VersionedRecord("v2", 290)


def test_should_not_put_what_is_older_than_the_history_retention(store: Any) -> None:
    store.put("other", "v", 1000)
    assert store.put("k", "late", 699) == PUT_RETURN_CODE_NOT_PUT
    assert store.get("k") is None
    assert store.delete("k", 699) is None
    assert store.put("k", "just in time", 700) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.get("k") == VersionedRecord("just in time", 700)
    assert store.find_inner(type(store.wrapped.wrapped)).expired_records == 2


def test_should_not_look_further_back_than_the_history_retention(store: Any) -> None:
    store.put("k", "v1", 10)
    store.put("k", "v2", 200)
    store.put("other", "v", 480)
    assert store.get("k", 180) == VersionedRecord("v1", 10, 200)
    assert store.get("k", 179) is None
    store.put("other", "v", 5000)
    # The latest version never expires.
    assert store.get("k", 200) == VersionedRecord("v2", 200)
    assert store.get("k") == VersionedRecord("v2", 200)
    assert store.get("k", 199) is None


def test_should_keep_empty_values_and_tombstones_apart(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.put("k", "", 10)
    store.put("k", None, 20)
    store.put("k", "v", 30)
    assert store.get("k", 10) == VersionedRecord("", 10, 20)
    assert store.get("k", 20) is None


def test_should_list_the_versions_of_a_key(store: Any) -> None:
    store.put("k", "v1", 10)
    store.put("k", None, 100)
    store.put("k", "v2", 150)
    store.put("k", "v3", 200)
    newest_first = [VersionedRecord("v3", 200), VersionedRecord("v2", 150, 200), VersionedRecord("v1", 10, 100)]
    assert list(store.get_versions("k")) == newest_first
    assert list(store.get_versions("k", ascending=True)) == newest_first[::-1]
    assert list(store.get_versions("k", 120, 199)) == [VersionedRecord("v2", 150, 200)]
    assert list(store.get_versions("k", 50, 60)) == [VersionedRecord("v1", 10, 100)]


def test_should_log_every_put_with_its_own_timestamp(tmp_path: Path) -> None:
    store, context = new_store(tmp_path)
    context.at(999)
    store.put("k", "v1", 10)
    store.delete("k", 20)
    store.put("k", None, 30)
    assert [(change.key, change.value, change.timestamp) for change in context.changes] == [
        (b"k", b"v1", 10),
        (b"k", None, 20),
        (b"k", None, 30),
    ]


def test_should_discard_what_was_not_committed(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.put("k", "v1", 10)
    store.commit({CHANGELOG: 3})
    store.put("k", "v2", 1000)
    store.close()
    again, _ = new_store(tmp_path)
    assert again.get("k") == VersionedRecord("v1", 10)
    assert again.committed_offset(CHANGELOG) == 3
    # Stream time is back at 10 too.
    assert again.put("k", "v0", 5) == 10


def test_should_know_its_history_and_stream_time_after_it_was_reopened(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.put("k", "v1", 10)
    store.put("k", "v2", 100)
    store.put("other", "v", 350)
    store.commit({CHANGELOG: 3})
    store.close()
    again, _ = new_store(tmp_path)
    assert again.get("k", 60) == VersionedRecord("v1", 10, 100)
    assert again.get("k", 49) is None
    assert again.put("k", "late", 49) == PUT_RETURN_CODE_NOT_PUT


def test_should_refuse_caching_and_none_as_a_key(store: Any) -> None:
    builder = VersionedKeyValueStoreBuilder(
        RocksDbVersionedKeyValueBytesStoreSupplier(NAME, RETENTION, SEGMENT_INTERVAL), Serdes.string(), Serdes.string()
    )
    with pytest.raises(RuntimeError, match="do not support caching"):
        builder.with_caching_enabled()
    for call in (lambda: store.put(None, "v", 0), lambda: store.get(None), lambda: store.delete(None, 0)):
        with pytest.raises(ValueError, match="key cannot be None"):
            call()


def test_should_forget_a_first_version_that_is_deleted_at_its_own_time_as_kafka_streams_does(store: Any) -> None:
    store.put("k", "v", 10)
    assert store.put("k", None, 10) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.get("k") is None
    # Nothing is left that would end an older version.
    assert store.put("k", "older", 5) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.get("k") == VersionedRecord("older", 5)


def test_should_not_bring_a_deleted_version_back_to_life_by_a_restore(tmp_path: Path) -> None:
    store, context = new_store(tmp_path / "live")
    store.put("k", None, 1)
    store.put("k", "late and deleted", 0)
    store.put("other", "v", 360)
    assert store.get("k") is None
    copy, fresh = new_store(tmp_path / "copy")
    restorer = StoreRestorer(copy, fresh.restore_callbacks[NAME], CHANGELOG)
    records = context.changelog_records(NAME)
    restorer.restore(records[:1])
    restorer.restore(records[1:])
    assert copy.get("k") is None


class Model:
    """All versions that were taken, without any expiry but that of late puts and lookups."""

    def __init__(self) -> None:
        self.versions: dict[str, list[tuple[int, str | None]]] = {}
        self.ends: set[tuple[str, int]] = set()
        self.observed = -1

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        if timestamp < self.observed - RETENTION:
            return PUT_RETURN_CODE_NOT_PUT
        self.observed = max(self.observed, timestamp)
        known = self.versions.get(key, [])
        versions = [version for version in known if version[0] != timestamp]
        deletes_latest = value is None and bool(known) and known[-1][0] == timestamp and known[-1][1] is not None
        if deletes_latest and (key, timestamp) not in self.ends:
            # A quirk of Kafka Streams: a latest value deleted at its own time leaves no trace unless an older one ends there.
            self.versions[key] = versions
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED
        at = bisect_right([version[0] for version in versions], timestamp)
        versions.insert(at, (timestamp, value))
        self.versions[key] = versions
        if at + 1 < len(versions):
            self.ends.add((key, versions[at + 1][0]))
            return versions[at + 1][0]
        if value is None or (at > 0 and versions[at - 1][1] is not None):
            self.ends.add((key, timestamp))
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def get(self, key: str, as_of: int | None) -> VersionedRecord[str] | None:
        versions = self.versions.get(key, [])
        at = len(versions) - 1 if as_of is None else bisect_right([version[0] for version in versions], as_of) - 1
        if at < 0:
            return None
        timestamp, value = versions[at]
        latest = at == len(versions) - 1
        if value is None or (as_of is not None and as_of < self.observed - RETENTION and not latest):
            return None
        return VersionedRecord(value, timestamp, None if latest else versions[at + 1][0])


TIMES = st.integers(0, 900) | st.integers(0, 10)
PUTS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from(["x", "y", ""]), TIMES), max_size=30)


def check(store: Any, model: Model, times: list[int]) -> None:
    for key in "abc":
        assert store.get(key) == model.get(key, None)
        for as_of in times:
            assert store.get(key, as_of) == model.get(key, as_of)


@settings(max_examples=60, deadline=None)
@given(puts=PUTS, times=st.lists(TIMES, max_size=10), reopen_at=st.integers(0, 30))
@example(puts=[("a", "x", 1), ("a", None, 0), ("a", None, 1), ("a", None, 0)], times=[], reopen_at=0)
def test_should_hold_what_a_model_holds(puts: list[Any], times: list[int], reopen_at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, _ = new_store(Path(folder))
        model = Model()
        for number, (key, value, timestamp) in enumerate(puts):
            assert store.put(key, value, timestamp) == model.put(key, value, timestamp)
            if number == reopen_at:
                store.commit({})
                store.close()
                store, _ = new_store(Path(folder))
        check(store, model, times + [timestamp for _, _, timestamp in puts])
        store.close()


@settings(max_examples=40, deadline=None)
@given(puts=PUTS, times=st.lists(TIMES, max_size=10), batch=st.integers(1, 31))
def test_should_be_the_same_after_a_restore(puts: list[Any], times: list[int], batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, context = new_store(Path(folder) / "live")
        model = Model()
        for key, value, timestamp in puts:
            store.put(key, value, timestamp)
            model.put(key, value, timestamp)
        copy, fresh = new_store(Path(folder) / "copy")
        restorer = StoreRestorer(copy, fresh.restore_callbacks[NAME], CHANGELOG)
        records = context.changelog_records(NAME)
        for at in range(0, len(records), batch):
            restorer.restore(records[at : at + batch])
        check(copy, model, times + [timestamp for _, _, timestamp in puts])
        store.close()
        copy.close()
