"""Reading a running application: views, queries, positions, tables."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    FailureReason,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    KafkaStreams,
    KeyQuery,
    Position,
    PositionBound,
    QueryableStoreTypes,
    RangeQuery,
    StateQueryRequest,
    StoreQueryParameters,
    StreamsNotStartedError,
    StreamsStoppedError,
    TimestampedKeyQuery,
    UnknownStateStoreError,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import texts, topics
from tests.integration.query_topologies import HowMany, all_kinds, in_memory, names

Run = Callable[..., Any]
KEY_VALUE = QueryableStoreTypes.key_value_store()
NOW = 1_700_000_000_000 // 10_000 * 10_000


def records(*pairs: tuple[str, str]) -> list[Message]:
    return [Message(key.encode(), value.encode(), NOW + index) for index, (key, value) in enumerate(pairs)]


def ask(streams: KafkaStreams, store: str, query: Any) -> Any:
    result = streams.query(StateQueryRequest.in_store(store).with_query(query)).only_partition_result
    return None if result is None else result.result


def entries_of(streams: KafkaStreams, store: str, query: Any) -> list[Any]:
    results = streams.query(StateQueryRequest.in_store(store).with_query(query)).partition_results
    return [entry for result in results.values() for entry in result.result]


def test_should_read_every_kind_of_store(kafka: Kafka, run: Run, spark: Any) -> None:
    (source,) = topics(kafka, "in")
    kafka.feed(source, records(("a", "x"), ("b", "y"), ("a", "z"), ("c", "x")))
    streams = run(all_kinds(source), {"application.id": unique("kinds")})
    counts = streams.store(StoreQueryParameters("counts", KEY_VALUE))
    wait_until(lambda: counts.get("a") == 2 and counts.get("c") == 1, "all is counted")

    with counts.all() as entries:
        assert dict(entries) == {"a": 2, "b": 1, "c": 1}
    assert dict(counts.range("b", None)) == {"b": 1, "c": 1}
    assert counts.get("nobody") is None
    timestamped = streams.store(StoreQueryParameters("counts", QueryableStoreTypes.timestamped_key_value_store()))
    assert (timestamped.get("a").value, timestamped.get("a").timestamp) == (2, NOW + 2)

    windows = streams.store(StoreQueryParameters("windows", QueryableStoreTypes.window_store()))
    wait_until(lambda: windows.fetch("a", NOW) == 2, "windows are counted")
    assert list(windows.fetch_range("a", 0, NOW)) == [(NOW, 2)]
    assert {(w.key, w.window.start, value) for w, value in windows.all()} == {("a", NOW, 2), ("b", NOW, 1), ("c", NOW, 1)}

    sessions = streams.store(StoreQueryParameters("sessions", QueryableStoreTypes.session_store()))
    wait_until(lambda: [value for _, value in sessions.fetch("a")] == [2], "sessions are counted")
    assert [(w.window.start, w.window.end) for w, _ in sessions.fetch("a")] == [(NOW, NOW + 2)]

    assert ask(streams, "counts", KeyQuery("a")) == 2
    assert ask(streams, "counts", TimestampedKeyQuery("a")).timestamp == NOW + 2
    assert ask(streams, "versions", VersionedKeyQuery("a")).value == "z"
    assert ask(streams, "versions", VersionedKeyQuery("a").as_of(NOW + 1)).value == "x"
    assert [v.value for _, v in entries_of(streams, "windows", WindowKeyQuery("a", 0, NOW))] == [2]
    assert [value for _, value in entries_of(streams, "sessions", WindowRangeQuery.with_key("b"))] == [1]
    assert sorted(entries_of(streams, "counts", RangeQuery.with_range("a", "b"))) == [("a", 2), ("b", 1)]

    refused = streams.query(StateQueryRequest.in_store("windows").with_query(KeyQuery("a"))).partition_results[0]
    assert refused.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE

    # tables
    streams.create_temp_views()
    assert {(r.key, r.value) for r in spark.sql("select key, value from counts").collect()} == {("a", 2), ("b", 1), ("c", 1)}
    windowed = spark.sql("select key, value, window_start, window_end from windows where value > 1")
    assert [tuple(row) for row in windowed.collect()] == [("a", 2, NOW, NOW + 10_000)]
    assert {tuple(r) for r in streams.store_dataframe("versions").collect()} == {
        ("a", "z", NOW + 2),
        ("b", "y", NOW + 1),
        ("c", "x", NOW + 3),
    }
    assert streams.store_dataframe("sessions").columns == ["key", "window_start", "window_end", "value"]


def test_should_read_stores_in_memory_between_turns(kafka: Kafka, run: Run, spark: Any) -> None:
    (source,) = topics(kafka, "in")
    kafka.feed(source, texts(*((f"k{i:04}", "x") for i in range(2_500))))
    streams = run(in_memory(source), {"application.id": unique("memory")})
    counts = streams.store(StoreQueryParameters("counts", KEY_VALUE))
    wait_until(lambda: sum(1 for _ in counts.all()) == 2_500, "all is counted")
    assert counts.get("k0001") == 1
    assert [key for key, _ in counts.prefix_scan("k000", lambda _, text: text.encode())] != []
    with counts.all() as entries:
        next(entries)  # given up in the midst of it
    assert counts.approximate_num_entries() == 2_500
    assert ask(streams, "counts", KeyQuery("k0003")) == 1
    assert streams.store_dataframe("counts").count() == 2_500
    known = streams.query(StateQueryRequest.in_store("known").with_query(HowMany("k1"))).partition_results.values()
    assert sum(result.result for result in known) == 1_000
    with pytest.raises(InvalidStateStoreError, match="of a kind of its own"):
        streams.store(StoreQueryParameters("known", KEY_VALUE))


@pytest.mark.parametrize("store_type", ["rocksdb", "in_memory"])
def test_should_read_global_tables_also_while_there_is_nothing_to_process(kafka: Kafka, run: Run, store_type: str) -> None:
    source, table = topics(kafka, "in", "names")
    kafka.feed(table, texts(("a", "Ada")))
    config = {"application.id": unique("global"), "default.dsl.store": "rocksDB" if store_type == "rocksdb" else "in_memory"}
    streams = run(names(source, table), config)
    view = streams.store(StoreQueryParameters("names", KEY_VALUE))
    wait_until(lambda: view.get("a") == "Ada", "the table is read")
    kafka.feed(table, texts(("b", "Bob"), ("a", "Ida")))
    wait_until(lambda: dict(view.all()) == {"a": "Ida", "b": "Bob"}, "changes are seen")
    assert {row.value for row in streams.store_dataframe("names").collect()} == {"Ida", "Bob"}
    answer = streams.query(StateQueryRequest.in_store("names").with_query(KeyQuery("b"))).global_result
    assert answer is not None
    assert answer.result == "Bob"


def test_should_answer_when_it_reflects_the_input_that_is_asked_for(kafka: Kafka, run: Run) -> None:
    (source,) = topics(kafka, "in", partitions=2)
    streams = run(all_kinds(source), {"application.id": unique("bounds")})
    for number in range(1, 6):
        kafka.feed(source, records(("a", "x")))
        ends = kafka.ends(source)
        bound = Position.from_map({source: {p: end - 1 for p, end in ends.items() if end}})
        request = StateQueryRequest.in_store("counts").with_query(KeyQuery("a")).with_position_bound(PositionBound.at(bound))
        result = wait_until(lambda r=request: streams.query(r).only_partition_result, "the bound is reached")
        assert result.result == number
        assert result.position is not None
    far = PositionBound.at(Position.from_map({source: {0: 10**9, 1: 10**9}}))
    refused = streams.query(StateQueryRequest.in_store("counts").with_query(KeyQuery("a")).with_position_bound(far))
    assert {r.failure_reason for r in refused.partition_results.values()} == {FailureReason.NOT_UP_TO_BOUND}


def test_should_say_what_cannot_be_read_and_why(kafka: Kafka, run: Run, tmp_path: Any, spark: Any) -> None:
    from tests.conftest import application_config

    (source,) = topics(kafka, "in")
    config = application_config(kafka, tmp_path / "other", {"application.id": unique("never")})
    with pytest.raises(StreamsNotStartedError):
        KafkaStreams(all_kinds(source), config, spark=spark).store(StoreQueryParameters("counts", KEY_VALUE))
    streams = run(all_kinds(source), {"application.id": unique("errors")})
    with pytest.raises(UnknownStateStoreError, match=r"nothing.*counts"):
        streams.store(StoreQueryParameters("nothing", KEY_VALUE))
    with pytest.raises(InvalidStateStoreError, match="does not accept"):
        streams.store(StoreQueryParameters("windows", KEY_VALUE))
    with pytest.raises(InvalidStateStorePartitionError, match="partition 7"):
        streams.store(StoreQueryParameters("counts", KEY_VALUE, partition=7))
    missing = streams.query(StateQueryRequest.in_store("counts").with_query(KeyQuery("a")).with_partitions({0, 9}))
    assert missing.partition_results[9].failure_reason is FailureReason.DOES_NOT_EXIST
    view = streams.store(StoreQueryParameters("counts", KEY_VALUE, partition=0))
    assert view.get("a") is None
    streams.close()
    with pytest.raises(StreamsStoppedError):
        view.get("a")


def test_should_never_show_a_part_of_a_turn(kafka: Kafka, run: Run) -> None:
    """Each record adds one to all keys of a partition: whoever reads sees the same count everywhere."""
    from tests.integration.query_topologies import count_everywhere

    (source,) = topics(kafka, "in", partitions=1)
    streams = run(count_everywhere(source), {"application.id": unique("whole")})
    view = streams.store(StoreQueryParameters("all", KEY_VALUE))
    deadline, seen = time.monotonic() + 6, set()
    while time.monotonic() < deadline:
        kafka.feed(source, texts(("x", "x")))
        for _ in range(20):
            with view.all() as entries:
                values = {value for _, value in entries}
            assert len(values) <= 1
            seen |= values
    assert len(seen) > 3


def test_should_answer_over_http_for_every_key_of_two_instances(kafka: Kafka, run: Run, tmp_path: Any) -> None:
    from penstock_examples.accounts import report, topology

    if "transfers" not in kafka.topics():
        kafka.create("transfers", partitions=4)
    accounts = [f"account-{n:02}" for n in range(24)]
    kafka.feed("transfers", [Message(a.encode(), (100 + n).to_bytes(8, "big"), NOW) for n, a in enumerate(accounts)])
    config = {"application.id": unique("accounts"), "application.server": "localhost:0", "application.server.token": "secret"}
    first = run(topology(), {**config, "state.dir": str(tmp_path / "1")})
    get(first, "/api/app", token=None, status=401)
    wait_until(lambda: len(get(first, "/api/stores/balances/range")["entries"]) == 24, "all balances are there")

    customers = str(tmp_path / "customers.parquet")
    spark = first.store_dataframe("balances").sparkSession
    spark.createDataFrame([(accounts[0], "Ada"), (accounts[1], "Bob")], "account string, name string").write.parquet(customers)
    assert report(first, customers) == [("Ada", 100, 1), ("Bob", 101, 1)]

    table = first.store_dataframe("balances")
    ranges = Ranges(first)
    second = run(topology(), {**config, "state.dir": str(tmp_path / "2")})
    wait_until(lambda: {s.state.name for s in (first, second)} == {"RUNNING"}, "both run")
    wait_until(lambda: len({m.host_info for m in first.metadata_for_all_streams_clients()}) == 2, "each knows of the other")

    def all_found(streams: KafkaStreams) -> set[str]:
        try:
            found = [get(streams, f"/api/stores/balances/keys/{account}") for account in accounts]
        except AssertionError:
            return set()  # a moment's 503 while tasks move
        assert [entry["value"] for entry in found] == [100 + n for n in range(24)]
        return {entry["host"] for entry in found}

    for streams in (first, second):
        hosts = wait_until(lambda s=streams: all_found(s), "all keys are found")
        assert len(hosts) == 2
        assert [e["key"] for e in get(streams, "/api/stores/balances/range?limit=1000")["entries"]] == accounts
        where = get(streams, f"/api/stores/balances/metadata/{accounts[3]}")
        assert where["active"] == str(streams.query_metadata_for_key("balances", accounts[3]).active_host)
        windows = get(streams, f"/api/stores/movements/windows/{accounts[3]}?from=0&to={NOW}")["entries"]
        assert [(w["key"], w["value"]) for w in windows] == [(accounts[3], 1)]

    assert {row.key for row in table.collect()} == set(accounts)  # half of it is with the second now
    # Whoever writes may have partitioned otherwise: at most one of these is where its key belongs.
    for partition in range(4):
        kafka.feed("transfers", [Message(b"astray-%d" % partition, (7).to_bytes(8, "big"), NOW)], partition=partition)
    astray = {f"astray-{partition}" for partition in range(4)}

    def astray_found(streams: KafkaStreams) -> bool:
        try:
            found = [get(streams, f"/api/stores/balances/keys/astray-{partition}") for partition in range(4)]
            get(streams, "/api/stores/balances/keys/nobody", status=404)
        except AssertionError:
            return False  # not read yet
        return [entry["partition"] for entry in found] == [0, 1, 2, 3]

    for streams in (first, second):
        wait_until(lambda s=streams: astray_found(s), "keys are found where they do not belong")
    second.close()
    wait_until(lambda: all_found(first) == {str(first.server_host)}, "the first has all of it again")
    assert {row.key for row in table.collect()} == {*accounts, *astray}
    statuses, counts = ranges.stop()
    assert (statuses <= {200, 503}, 200 in statuses) == (True, True)
    assert min(counts) >= 24, "a range was of a part of the store"


class Ranges:
    """Reads all of a store again and again, whatever happens to it."""

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams
        self._statuses: set[int] = set()
        self._counts: set[int] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> tuple[set[int], set[int]]:
        """The statuses that came, and how many entries those with an answer had."""
        self._stopped.set()
        self._thread.join()
        return self._statuses, self._counts

    def _run(self) -> None:
        host = self._streams.server_host
        assert host is not None
        while not self._stopped.wait(0.02):
            connection = http.client.HTTPConnection(host.host, host.port, timeout=LIMIT)
            connection.request("GET", "/api/stores/balances/range?limit=1000", headers={"Authorization": "Bearer secret"})
            response = connection.getresponse()
            body = json.load(response)
            connection.close()
            self._statuses.add(response.status)
            if response.status == 200:
                self._counts.add(len(body["entries"]))


def get(streams: KafkaStreams, path: str, token: str | None = "secret", status: int = 200) -> Any:
    assert streams.server_host is not None
    connection = http.client.HTTPConnection(streams.server_host.host, streams.server_host.port, timeout=LIMIT)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        body = json.load(response)
    finally:
        connection.close()
    assert response.status == status, body
    return body
