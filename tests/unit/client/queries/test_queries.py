"""Views and queries over real stores on disk, written by one hand and read by another."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    FailureReason,
    HostInfo,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    KeyQuery,
    Materialized,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    QueryableStoreTypes,
    RangeQuery,
    Serdes,
    SessionWindow,
    State,
    StateQueryRequest,
    StateStoreMigratedError,
    StateStoreNotAvailableError,
    StoreQueryParameters,
    StreamsNotStartedError,
    StreamsRebalancingError,
    StreamsStoppedError,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    UnknownStateStoreError,
    ValueAndTimestamp,
    VersionedKeyQuery,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
)
from tests.unit.client.queries.world import PARTITIONS, World

KEY_VALUE = QueryableStoreTypes.key_value_store()
KEYS = [f"k{n:02}" for n in range(30)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.open_all()
    for number, key in enumerate(KEYS):
        world.home_of("counts", key).put(key, ValueAndTimestamp(number, 1000 + number))
        world.home_of("windows", key).put(key, ValueAndTimestamp(number, 1000), 1000)
        world.home_of("windows", key).put(key, ValueAndTimestamp(number + 1, 2000), 2000)
        world.home_of("sessions", key).put(Windowed(key, SessionWindow(1000, 1500)), number)
        world.home_of("versions", key).put(key, f"old-{key}", 1000)
        world.home_of("versions", key).put(key, f"new-{key}", 2000)
    world.commit()
    yield world
    world.close()


def view(world: World, name: str, kind: Any = KEY_VALUE, **options: Any) -> Any:
    return world.queries.store(StoreQueryParameters(name, kind, **options))


def ask(world: World, name: str, query: Any) -> Any:
    found = world.queries.query(StateQueryRequest.in_store(name).with_query(query)).only_partition_result
    return None if found is None else found.result


# -- views


def test_should_take_a_materialized_for_key_value_stores_only(world: World) -> None:
    with pytest.raises(InvalidStateStoreError, match=r'it is a window store.* Use store\("windows"\)'):
        world.queries.store(Materialized("windows", str, int))
    with pytest.raises(ValueError, match="with the name of its store"):
        world.queries.store(Materialized(key_serde=str))


def test_should_read_all_partitions_as_one_store(world: World) -> None:
    counts = view(world, "counts")
    assert [counts.get(key) for key in KEYS] == list(range(30))
    assert counts.get("nobody") is None
    assert dict(counts.all()) == dict(zip(KEYS, range(30)))
    assert dict(counts.range("k05", "k07")) == {"k05": 5, "k06": 6, "k07": 7}
    assert dict(counts.range(None, "k01")) == {"k00": 0, "k01": 1}
    assert sorted(key for key, _ in counts.prefix_scan("k1", Serdes.string())) == KEYS[10:20]
    assert counts.approximate_num_entries() == 30


def test_should_know_the_kind_of_a_store_by_its_name(world: World) -> None:
    assert world.queries.store("counts").get("k03") == 3
    assert world.queries.store(Materialized("counts", str, int)).get("k03") == 3
    assert world.queries.store("windows").fetch("k03", 1000) == 3
    assert world.queries.store("sessions").fetch_session("k07", 1000, 1500) == 7
    assert world.queries.store("versions").get("k01").value == "new-k01"
    with pytest.raises(TypeError, match=r"takes a name, a Materialized or StoreQueryParameters\(name, type\), not 5"):
        world.queries.store(5)  # type: ignore[arg-type]


def test_should_read_a_key_value_store_as_a_dict(world: World) -> None:
    counts = world.queries.store("counts")
    assert counts["k03"] == 3
    assert "k03" in counts
    assert "nobody" not in counts
    assert dict(counts.items()) == dict(zip(KEYS, range(30)))
    with pytest.raises(KeyError, match="nobody"):
        counts["nobody"]


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_should_read_one_partition_in_order_and_backwards(world: World, partition: int) -> None:
    counts = view(world, "counts", partition=partition)
    keys = [key for key, _ in counts.all()]
    assert keys
    assert keys == sorted(keys)
    assert [key for key, _ in counts.reverse_all()] == keys[::-1]
    assert [key for key, _ in counts.reverse_range("k10", None)] == [key for key in keys[::-1] if key >= "k10"]


def test_should_show_timestamps_to_those_who_ask_for_them(world: World) -> None:
    assert view(world, "counts", QueryableStoreTypes.timestamped_key_value_store()).get("k03") == ValueAndTimestamp(3, 1003)
    windows = view(world, "windows", QueryableStoreTypes.timestamped_window_store())
    assert windows.fetch("k03", 2000) == ValueAndTimestamp(4, 2000)


def test_should_read_windows(world: World) -> None:
    windows = view(world, "windows", QueryableStoreTypes.window_store())
    assert windows.fetch("k03", 1000) == 3
    assert windows.fetch("k03", 1500) is None
    assert list(windows.fetch_range("k03", 0, 5000)) == [(1000, 3), (2000, 4)]
    assert list(windows.backward_fetch_range("k03", 0, 5000)) == [(2000, 4), (1000, 3)]
    assert list(windows.fetch_range("nobody", 0, 5000)) == []
    assert len(list(windows.all())) == 60
    assert {(w.key, w.window.start, w.window.end) for w, _ in windows.fetch_all(2000, 2000)} == {(k, 2000, 3000) for k in KEYS}
    assert {w.key for w, _ in windows.fetch_key_range("k00", "k02", 0, 1000)} == {"k00", "k01", "k02"}


def test_should_read_sessions(world: World) -> None:
    sessions = view(world, "sessions", QueryableStoreTypes.session_store())
    assert [(w.window.start, w.window.end, value) for w, value in sessions.fetch("k07")] == [(1000, 1500, 7)]
    assert sessions.fetch_session("k07", 1000, 1500) == 7
    assert sessions.fetch_session("k07", 1000, 1501) is None
    assert len(list(sessions.fetch_key_range("k00", "k09"))) == 10
    assert list(sessions.find_sessions("k07", 1501, 9999)) == []


def test_should_read_versions(world: World) -> None:
    versions = view(world, "versions", QueryableStoreTypes.versioned_key_value_store())
    assert versions.get("k01").value == "new-k01"
    assert versions.get("k01", 1500).value == "old-k01"
    assert [v.value for v in versions.get_versions("k01")] == ["new-k01", "old-k01"]


def test_should_show_what_is_committed_and_nothing_else(world: World) -> None:
    counts, store = view(world, "counts"), world.home_of("counts", "k00")
    store.put("k00", ValueAndTimestamp(100, 1))
    assert counts.get("k00") == 0
    world.commit()
    assert counts.get("k00") == 100


def test_should_iterate_over_one_commit_while_others_come(world: World) -> None:
    counts = view(world, "counts")
    with counts.all() as entries:
        seen = dict([next(entries)])
        for key in KEYS:
            world.home_of("counts", key).put(key, ValueAndTimestamp(-1, 1))
        world.commit()
        seen |= dict(entries)
    assert seen == dict(zip(KEYS, range(30)))
    assert set(dict(counts.all()).values()) == {-1}


def test_should_see_segments_that_came_or_expired_after_it_was_opened(world: World) -> None:
    windows = view(world, "windows", QueryableStoreTypes.window_store())
    assert windows.fetch("k00", 1000) == 0
    far = 1000 * 60 * 60 * 24 * 365
    world.home_of("windows", "k00").put("k00", ValueAndTimestamp(9, far), far)
    world.commit()
    assert windows.fetch("k00", far) == 9
    assert windows.fetch("k00", 1000) is None


def test_should_let_many_read_at_once(world: World) -> None:
    counts, failures = view(world, "counts"), []

    def read() -> None:
        try:
            for _ in range(50):
                assert counts.get("k05") == 5
                assert len(list(counts.all())) == 30
        except BaseException as exc:  # noqa: BLE001 - told below
            failures.append(exc)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_should_read_on_after_a_store_was_wiped_and_written_anew(world: World) -> None:
    counts = view(world, "counts")
    assert counts.get("k00") == 0
    store = world.home_of("counts", "k00")
    partition = next(p for (name, p), s in world._written.items() if s is store)
    task = next(t for t in world.plan.tasks() if t.partition == partition and "counts" in world.stores_of(t))
    del world._written["counts", partition]
    store.close()
    shutil.rmtree(world.directory.folder_of_task(task) / "rocksdb" / "counts")
    with pytest.raises(StateStoreNotAvailableError, match="counts"):
        counts.get("k00")
    world.home_of("counts", "k00").put("k00", ValueAndTimestamp(55, 1))
    world.commit()
    assert counts.get("k00") == 55


# -- what cannot be read


def test_should_refuse_unknown_stores_and_wrong_kinds(world: World) -> None:
    with pytest.raises(UnknownStateStoreError, match="windows"):
        view(world, "nothing")
    with pytest.raises(InvalidStateStoreError, match="window store"):
        view(world, "windows")
    with pytest.raises(InvalidStateStoreError, match=r"timestamped_key_value_store\(\)"):
        view(world, "numbers", QueryableStoreTypes.timestamped_key_value_store())
    with pytest.raises(TypeError, match="QueryableStoreTypes"):
        StoreQueryParameters("counts", "key-value")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (State.CREATED, StreamsNotStartedError),
        (State.REBALANCING, StreamsRebalancingError),
        (State.PENDING_SHUTDOWN, StreamsStoppedError),
        (State.ERROR, StreamsStoppedError),
    ],
)
def test_should_refuse_while_the_application_does_not_run(world: World, state: State, error: type[Exception]) -> None:
    counts = view(world, "counts")
    world.state = state
    with pytest.raises(error):
        counts.get("k00")
    with pytest.raises(error):
        view(world, "counts")


def test_should_read_stale_stores_of_those_who_ask_for_them(world: World) -> None:
    world.state, world.loop.is_open = State.REBALANCING, False
    assert view(world, "counts", stale_stores=True).get("k03") == 3


def test_should_read_standbys_only_of_those_who_ask_for_stale_stores(world: World) -> None:
    standby = [t for t in world.loop.owners if t.partition == 1]
    for task in standby:
        del world.loop.owners[task]
        world.loop.standby_hosts[task] = ""
    with pytest.raises(InvalidStateStorePartitionError, match=r"partition 1 .*0, 1, 2"):
        view(world, "counts", partition=1)
    assert list(view(world, "counts", partition=1, stale_stores=True).all())
    request = StateQueryRequest.in_store("counts").with_query(RangeQuery()).require_active()
    assert world.queries.query(request).partition_results[1].failure_reason is FailureReason.NOT_ACTIVE


def test_should_say_that_a_store_has_moved_away(world: World) -> None:
    world.loop.owners.clear()
    with pytest.raises(StateStoreMigratedError, match="another instance"):
        view(world, "counts")


def test_should_refuse_more_open_iterators_than_there_are_readers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.queries.secondary._WAIT_SECONDS", 0.05)
    counts = view(world, "counts", partition=0)
    opened = [counts.all() for _ in range(8)]
    with pytest.raises(InvalidStateStoreError, match="close"):
        counts.all()
    for entries in opened:
        entries.close()
    assert list(counts.all())


# -- queries


def test_should_lease_at_once_only_what_needs_no_waiting(world: World) -> None:
    world.write("counts", 0).put("a", ValueAndTimestamp(1, 1))
    world.commit()
    reader = next(local.reader for local in world.stores.partitions("counts") if local.partition == 0)
    assert reader.lease_at_once() is None, "it has to be opened"
    reader.lease().close()
    world.write("counts", 0).put("a", ValueAndTimestamp(2, 2))
    world.commit()
    lease = reader.lease_at_once()
    assert lease is not None
    assert lease.store.get("a").value == 2
    assert reader.lease_at_once() is None, "the only one is taken"
    lease.close()
    for number in range(100):
        world.write("counts", 0).put(f"{number}", ValueAndTimestamp(number, 2))
        world.write("counts", 0).put("large" * 1_000, ValueAndTimestamp(number, 2))
        world.commit()
    assert reader.lease_at_once() is None, "there is much to catch up with"
    reader.lease().close()
    lease = reader.lease_at_once()
    assert lease is not None
    lease.close()


def test_should_find_a_key_that_a_partitioner_of_the_user_has_put_elsewhere(world: World) -> None:
    home = world.locations.task_of_key("counts", "a", world.stores.store("counts").key_serde).partition
    world.write("counts", (home + 1) % 3).put("a", ValueAndTimestamp(7, 1))
    world.commit()
    assert view(world, "counts", QueryableStoreTypes.key_value_store()).get("a") == 7


def test_should_answer_every_query_of_its_kind(world: World) -> None:
    assert ask(world, "counts", KeyQuery("k02")) == 2
    assert ask(world, "counts", KeyQuery("nobody")) is None
    assert ask(world, "counts", TimestampedKeyQuery("k02")) == ValueAndTimestamp(2, 1002)
    assert ask(world, "versions", VersionedKeyQuery("k02")).value == "new-k02"
    assert ask(world, "versions", VersionedKeyQuery("k02").as_of(1001)).value == "old-k02"
    sessions = world.queries.query(StateQueryRequest.in_store("sessions").with_query(WindowRangeQuery.with_key("k02")))
    assert [value for r in sessions.partition_results.values() for _, value in r.result] == [2]
    windows = world.queries.query(StateQueryRequest.in_store("windows").with_query(WindowKeyQuery("k02", 0, 9999)))
    assert [e for r in windows.partition_results.values() for e in r.result] == [
        (1000, ValueAndTimestamp(2, 1000)),
        (2000, ValueAndTimestamp(3, 2000)),
    ]
    starts = world.queries.query(
        StateQueryRequest.in_store("windows").with_query(WindowRangeQuery.with_window_start_range(2000, 2000))
    )
    assert sum(len(list(r.result)) for r in starts.partition_results.values()) == 30


def test_should_answer_ranges_partition_by_partition(world: World) -> None:
    request = StateQueryRequest.in_store("counts").with_query(RangeQuery.with_range("k00", "k09").with_descending_keys())
    found = [list(result.result) for result in world.queries.query(request).partition_results.values()]
    assert all(entries == sorted(entries, reverse=True) for entries in found)
    assert sorted(e for entries in found for e in entries) == list(zip(KEYS, range(10)))
    timestamped = StateQueryRequest.in_store("counts").with_query(TimestampedRangeQuery.with_lower_bound("k29"))
    assert [e for r in world.queries.query(timestamped).partition_results.values() for e in r.result] == [
        ("k29", ValueAndTimestamp(29, 1029))
    ]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (MultiVersionedKeyQuery("k02"), ["new-k02", "old-k02"]),
        (MultiVersionedKeyQuery("k02").with_ascending_timestamps(), ["old-k02", "new-k02"]),
        (MultiVersionedKeyQuery("k02").from_time(2000), ["new-k02"]),
        (MultiVersionedKeyQuery("k02").to_time(1999), ["old-k02"]),
    ],
)
def test_should_answer_with_all_versions(world: World, query: Any, values: list[str]) -> None:
    results = world.queries.query(StateQueryRequest.in_store("versions").with_query(query)).partition_results
    assert [version.value for result in results.values() for version in result.result] == values


@pytest.mark.parametrize(
    ("store", "query"),
    [
        ("windows", KeyQuery("a")),
        ("counts", WindowKeyQuery("a", 0, 1)),
        ("numbers", TimestampedKeyQuery(1)),
        ("windows", WindowRangeQuery.with_key("a")),
        ("sessions", WindowRangeQuery.with_window_start_range(0, 1)),
        ("counts", VersionedKeyQuery("a")),
    ],
)
def test_should_not_know_queries_of_other_kinds(world: World, store: str, query: Any) -> None:
    results = world.queries.query(StateQueryRequest.in_store(store).with_query(query)).partition_results
    assert {result.failure_reason for result in results.values()} == {FailureReason.UNKNOWN_QUERY_TYPE}
    with pytest.raises(ValueError, match="Cannot get result"):
        _ = results[0].result


def test_should_tell_of_a_key_that_does_not_fit(world: World) -> None:
    result = world.queries.query(StateQueryRequest.in_store("counts").with_query(KeyQuery(5))).partition_results[0]
    assert result.failure_reason is FailureReason.STORE_EXCEPTION
    assert "counts" in result.failure_message


def test_should_answer_up_to_the_bound_or_not_at_all(world: World) -> None:
    world.commit(Position({"in": {0: 10, 1: 10, 2: 10}}).to_json().encode())
    request = StateQueryRequest.in_store("counts").with_query(KeyQuery("k02")).enable_execution_info()
    within = world.queries.query(request.with_position_bound(PositionBound.at(Position({"in": {0: 10, 1: 9}}))))
    assert within.only_partition_result is not None
    assert within.only_partition_result.result == 2
    assert within.position == Position({"in": {0: 10, 1: 10, 2: 10}})
    assert "Handled in" in within.partition_results[0].execution_info[0]
    beyond = request.with_position_bound(PositionBound.at(Position({"in": {0: 11}})))
    assert world.queries.query(beyond).partition_results[0].failure_reason is FailureReason.NOT_UP_TO_BOUND
    assert world.queries.query(beyond.require_active()).partition_results[0].is_success


def test_should_tell_of_partitions_that_are_elsewhere_or_nowhere(tmp_path: Path) -> None:
    world = World(tmp_path, own=[0])
    world.open_all()
    results = world.queries.query(
        StateQueryRequest.in_store("counts").with_query(KeyQuery("a")).with_partitions([0, 1, 77])
    ).partition_results
    assert results[0].is_success
    assert results[1].failure_reason is FailureReason.NOT_PRESENT
    assert results[77].failure_reason is FailureReason.DOES_NOT_EXIST
    world.close()


# -- where


def test_should_tell_where_keys_stores_and_instances_are(tmp_path: Path) -> None:
    world = World(tmp_path, own=[0], hosts={0: "a:1", 1: "b:2", 2: "b:2"})
    everything = world.queries.metadata_for_all()
    assert [m.host_info for m in everything] == [HostInfo("a", 1), HostInfo("b", 2)]
    assert "counts" in everything[0].state_store_names
    assert {p.partition for p in everything[1].topic_partitions} == {1, 2}
    assert world.queries.metadata_for_store("counts") == everything
    for key in KEYS:
        found = world.queries.metadata_for_key("counts", key, Serdes.string())
        assert found.active_host == (HostInfo("a", 1) if found.partition == 0 else HostInfo("b", 2))
    chosen = world.queries.metadata_for_key("counts", "x", Serdes.string(), lambda topic, key, value, count: 2)
    assert chosen.partition == 2
    with pytest.raises(UnknownStateStoreError):
        world.queries.metadata_for_store("nothing")
    world.close()
