"""`query()` of every built-in store: the queries of Kafka Streams, with bounds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Consumed,
    FailureReason,
    KeyQuery,
    Materialized,
    MockProcessorContext,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    Processor,
    Query,
    QueryConfig,
    QueryResult,
    RangeQuery,
    Serdes,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    Topology,
    TopologyTestDriver,
    ValueAndTimestamp,
    VersionedKeyQuery,
    VersionedRecord,
    Window,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
)
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from tests.unit.state.contexts import FakeStoreContext

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
STRING, LONG = Serdes.string(), Serdes.long()
CONFIG, ANY = QueryConfig(), PositionBound.unbounded()

ENGINES = {
    "rocksdb": (
        Stores.persistent_timestamped_key_value_store("store"),
        Stores.persistent_timestamped_window_store("store", HOUR, MINUTE),
        Stores.persistent_session_store("store", HOUR),
    ),
    "in_memory": (
        Stores.in_memory_key_value_store("store"),
        Stores.in_memory_window_store("store", HOUR, MINUTE),
        Stores.in_memory_session_store("store", HOUR),
    ),
}


def _opened(tmp_path: Path, builder: Any) -> Any:
    store = builder.build()
    store.init(FakeStoreContext(tmp_path), store)
    return store


def _ask(store: Any, query: Query[Any], bound: PositionBound = ANY, config: QueryConfig = CONFIG) -> QueryResult[Any]:
    result: QueryResult[Any] = store.query(query, bound, config)
    return result


def _entries(result: QueryResult[Any]) -> list[Any]:
    with result.result as entries:
        return list(entries)


@pytest.fixture(params=ENGINES)
def engines(request: pytest.FixtureRequest) -> Any:
    return ENGINES[request.param]


def test_should_answer_queries_of_a_key_value_store(tmp_path: Path, engines: Any) -> None:
    store = _opened(tmp_path, Stores.key_value_store_builder(engines[0], STRING, LONG))
    store.put_all([("a", 1), ("b", 2), ("c", 3)])
    assert _ask(store, KeyQuery("b")).result == 2
    assert _ask(store, KeyQuery("x")).result is None
    assert _entries(_ask(store, RangeQuery())) == [("a", 1), ("b", 2), ("c", 3)]
    assert _entries(_ask(store, RangeQuery.with_lower_bound("b"))) == [("b", 2), ("c", 3)]
    assert _entries(_ask(store, RangeQuery("a", "b").with_descending_keys())) == [("b", 2), ("a", 1)]
    for query in (TimestampedKeyQuery("a"), TimestampedRangeQuery(), WindowKeyQuery("a", 0, 1), VersionedKeyQuery("a")):
        assert _ask(store, query).failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    store.close()


def test_should_answer_queries_of_a_timestamped_key_value_store(tmp_path: Path, engines: Any) -> None:
    store = _opened(tmp_path, Stores.timestamped_key_value_store_builder(engines[0], STRING, LONG))
    store.put_all([("a", ValueAndTimestamp(1, 10)), ("b", ValueAndTimestamp(2, 20))])
    assert _ask(store, KeyQuery("a")).result == 1
    assert _ask(store, TimestampedKeyQuery("a")).result == ValueAndTimestamp(1, 10)
    assert _ask(store, TimestampedKeyQuery("x")).result is None
    assert _entries(_ask(store, RangeQuery())) == [("a", 1), ("b", 2)]
    found = _entries(_ask(store, TimestampedRangeQuery().with_descending_keys()))
    assert found == [("b", ValueAndTimestamp(2, 20)), ("a", ValueAndTimestamp(1, 10))]
    store.close()


def test_should_answer_queries_of_a_window_store(tmp_path: Path, engines: Any) -> None:
    store = _opened(tmp_path, Stores.timestamped_window_store_builder(engines[1], STRING, LONG))
    store.put("a", ValueAndTimestamp(1, 5), 0)
    store.put("b", ValueAndTimestamp(2, 65_000), 60_000)
    assert _entries(_ask(store, WindowKeyQuery("a", 0, 60_000))) == [(0, ValueAndTimestamp(1, 5))]
    found = _entries(_ask(store, WindowRangeQuery.with_window_start_range(1, 60_000)))
    assert found == [(Windowed("b", Window(60_000, 120_000)), ValueAndTimestamp(2, 65_000))]
    refused = _ask(store, WindowRangeQuery.with_key("a"))
    assert refused.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "with_window_start_range" in refused.failure_message
    store.close()


def test_should_answer_queries_of_a_session_store(tmp_path: Path, engines: Any) -> None:
    store = _opened(tmp_path, Stores.session_store_builder(engines[2], STRING, LONG))
    store.put(Windowed("a", Window(0, 10)), 1)
    store.put(Windowed("b", Window(5, 10)), 2)
    assert [(key.key, value) for key, value in _entries(_ask(store, WindowRangeQuery.with_key("a")))] == [("a", 1)]
    refused = _ask(store, WindowRangeQuery.with_window_start_range(0, 10))
    assert refused.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "with_key" in refused.failure_message
    store.close()


def test_should_answer_queries_of_a_versioned_store(tmp_path: Path) -> None:
    supplier = Stores.persistent_versioned_key_value_store("store", HOUR)
    store = _opened(tmp_path, Stores.versioned_key_value_store_builder(supplier, STRING, LONG))
    store.put("a", 1, 10)
    store.put("a", 2, 20)
    first, second = VersionedRecord(1, 10, 20), VersionedRecord(2, 20)
    assert _ask(store, VersionedKeyQuery("a")).result == second
    assert _ask(store, VersionedKeyQuery("a").as_of(15)).result == first
    assert _ask(store, VersionedKeyQuery("x")).result is None
    versions = MultiVersionedKeyQuery("a")
    assert _entries(_ask(store, versions)) == [second, first]
    assert _entries(_ask(store, versions.with_ascending_timestamps())) == [first, second]
    assert _entries(_ask(store, versions.from_time(20))) == [second]
    store.close()


def test_should_not_support_queries_that_versioned_stores_may_answer_one_day(tmp_path: Path) -> None:
    supplier = Stores.persistent_versioned_key_value_store("store", HOUR)
    store = _opened(tmp_path, Stores.versioned_key_value_store_builder(supplier, STRING, LONG))
    with pytest.raises(NotImplementedError, match="Versioned stores do not support RangeQuery"):
        _ask(store, RangeQuery())
    with pytest.raises(NotImplementedError, match="Versioned stores do not support KeyQuery"):
        _ask(store, KeyQuery("a"))
    with pytest.raises(ValueError, match="from_time of a MultiVersionedKeyQuery is after its to_time: 5 > 4"):
        _ask(store, MultiVersionedKeyQuery("a").from_time(5).to_time(4))
    store.close()


def test_should_end_an_iterator_over_versions_with_close(tmp_path: Path) -> None:
    supplier = Stores.persistent_versioned_key_value_store("store", HOUR)
    store = _opened(tmp_path, Stores.versioned_key_value_store_builder(supplier, STRING, LONG))
    store.put("a", 1, 10)
    versions = _ask(store, MultiVersionedKeyQuery("a")).result
    assert versions.has_next()
    versions.close()
    assert not versions.has_next()
    store.close()


def test_should_show_windows_with_headers_as_values_with_timestamps(tmp_path: Path) -> None:
    builder = Stores.timestamped_window_store_with_headers_builder(ENGINES["in_memory"][1], STRING, LONG)
    store = _opened(tmp_path, builder)
    store.put("a", ValueTimestampHeaders(1, 5, (("h", b"x"),)), 0)
    assert _entries(_ask(store, WindowKeyQuery("a", 0, 0))) == [(0, ValueAndTimestamp(1, 5))]
    store.close()


def test_should_show_windows_with_headers_of_a_store_without_timestamps_as_plain_values(tmp_path: Path) -> None:
    plain = Stores.persistent_window_store("store", HOUR, MINUTE)
    store = _opened(tmp_path, Stores.timestamped_window_store_with_headers_builder(plain, STRING, LONG))
    store.put("a", ValueTimestampHeaders(1, 5, ()), 0)
    assert _entries(_ask(store, WindowKeyQuery("a", 0, 0))) == [(0, 1)]
    store.close()


class Unheard(Query[int]):
    """A query that no store knows."""


def test_should_not_know_a_query_of_another_kind(tmp_path: Path, engines: Any) -> None:
    store = _opened(tmp_path, Stores.key_value_store_builder(engines[0], STRING, LONG))
    result = _ask(store, Unheard())
    assert result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert result.position == Position()
    store.close()


def test_should_tell_how_the_result_came_about_if_asked(tmp_path: Path, engines: Any) -> None:
    store = _opened(tmp_path, Stores.key_value_store_builder(engines[0], STRING, LONG))
    assert _ask(store, KeyQuery("a")).execution_info == []
    (line,) = _ask(store, KeyQuery("a"), config=QueryConfig(True)).execution_info
    assert line.startswith("Handled in MeteredKeyValueStore in ")
    store.close()


def test_should_tell_the_error_of_a_closed_store(tmp_path: Path) -> None:
    store = _opened(tmp_path, Stores.key_value_store_builder(ENGINES["rocksdb"][0], STRING, LONG))
    store.close()
    assert _ask(store, KeyQuery("a")).failure_reason is FailureReason.STORE_EXCEPTION


def test_should_not_be_up_to_any_bound_before_it_is_open() -> None:
    store = Stores.key_value_store_builder(ENGINES["in_memory"][0], STRING, LONG).build()
    assert _ask(store, KeyQuery("a")).failure_reason is FailureReason.NOT_UP_TO_BOUND


def test_should_compare_the_bound_with_the_records_of_a_mock_context() -> None:
    context = MockProcessorContext()
    store = Stores.key_value_store_builder(ENGINES["in_memory"][0], STRING, LONG).build()
    store.init(context.get_state_store_context(), store)
    bound = PositionBound.at(Position({"input": {0: 4}}))
    context.set_record_metadata("input", 0, 3)
    store.put("a", 1)
    behind = _ask(store, KeyQuery("a"), bound)
    assert behind.failure_reason is FailureReason.NOT_UP_TO_BOUND
    assert behind.position == store.get_position() == Position({"input": {0: 3}})
    context.set_record_metadata("input", 0, 4)
    assert _ask(store, KeyQuery("a"), bound).result == 1


class Asking(Processor[str, int, str, Any]):
    """Puts each record and asks for it."""

    stores = (Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), STRING, LONG).with_caching_enabled(),)

    def process(self, record: Any) -> None:
        """Forward what was found, with and past the cache, and the position."""
        store = self.context.get_state_store("kept")
        store.put(record.key, record.value)
        found = _ask(store, KeyQuery(record.key))
        past_cache = _ask(store, KeyQuery(record.key).skip_cache()).result
        in_range = _entries(_ask(store, RangeQuery()))
        self.context.forward(record.with_value([found.result, past_cache, len(in_range), found.position.to_json()]))


def test_should_answer_a_processor_with_what_it_has_put() -> None:
    topology = Topology().add_source("in", "input", key_deserializer=STRING, value_deserializer=LONG)
    topology.add_processor("ask", Asking, "in").add_sink(
        "out", "output", "ask", key_serializer=STRING, value_serializer=Serdes.json()
    )
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("input", STRING, LONG)
        topic.pipe_input("a", 1)
        topic.pipe_input("a", 2)
        read = driver.create_output_topic("output", STRING, Serdes.json()).read_values()
        assert read == [[1, None, 0, '{"input": {"0": 0}}'], [2, 1, 1, '{"input": {"0": 1}}']]
        store = driver.get_key_value_store("kept")
        assert _ask(store, KeyQuery("a")).result == 2
        assert store.get_position() == Position({"input": {0: 1}})


def test_should_answer_queries_of_dsl_stores_in_the_test_driver() -> None:
    builder = StreamsBuilder()
    builder.stream("input", Consumed(STRING, STRING)).group_by_key().count(Materialized("counts", STRING, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("input", STRING, STRING).pipe_input("a", "x", timestamp=7)
        store = driver.get_key_value_store("counts")
        assert _ask(store, TimestampedKeyQuery("a")).result == ValueAndTimestamp(1, 7)
        behind = _ask(store, KeyQuery("a"), PositionBound.at(Position({"input": {0: 1}})))
        assert behind.failure_reason is FailureReason.NOT_UP_TO_BOUND
